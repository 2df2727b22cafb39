package client

import (
	"testing"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() *cobra.Command { return cli.Program("test", Commands()...) }, nil)
}

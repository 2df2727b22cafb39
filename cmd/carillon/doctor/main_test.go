package doctor

import (
	"context"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func program() *cobra.Command { return cli.Program("test", Command("test")) }

func TestMain(m *testing.M) {
	clitest.Main(m, program, func() { os.Exit(cli.Execute(context.Background(), program(), os.Stderr)) })
}

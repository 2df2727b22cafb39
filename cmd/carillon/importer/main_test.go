package importer

import (
	"context"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestMain(m *testing.M) {
	root := func() *cobra.Command { return cli.Program("test", Command()) }
	clitest.Main(m, root, func() { os.Exit(cli.Execute(context.Background(), root(), os.Stderr)) })
}

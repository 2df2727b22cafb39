// Command carillon is the whole system: a node of a cluster, a system in one process for development, and the client of
// both. Each subcommand is one file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "carillon: %v\n", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "carillon",
		Short:         "Start very large numbers of jobs on time",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(serveCommand(), devCommand(), migrateCommand(), versionCommand())
	return cmd
}

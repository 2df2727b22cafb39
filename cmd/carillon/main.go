// Command carillon is the whole system: a node of a cluster, a system in one process for development, and the client of
// both. Each subcommand is one file.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	code := execute(ctx, root(), os.Stderr)
	stop()
	os.Exit(code)
}

// endings are the signals that end a command in order. That of a terminal that closes is one of them, unless whoever
// started the command had it ignored, as nohup does.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// execute runs a command and returns the exit code: 1 for what went wrong, 2 for a command line that makes no sense.
func execute(ctx context.Context, cmd *cobra.Command, stderr io.Writer) int {
	began := false
	cmd.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	report(stderr, err)
	var usage *usageError
	if !began || errors.As(err, &usage) {
		return 2
	}
	return 1
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "carillon",
		Short:         "Start very large numbers of jobs on time",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetFlagErrorFunc(badFlag)
	cmd.AddCommand(serveCommand(), devCommand(), migrateCommand(), cursorCommand(), jobCommand(), taskCommand(), runCommand(), scheduleCommand(), operationCommand(), deadLetterCommand(), importCommand(), keyCommand(), signingCommand(), targetCommand(), tenantCommand(), auditCommand(), statsCommand(), openapiCommand(), capacityCommand(), versionCommand())
	return cmd
}

// Command peers measures other schedulers by the protocols of `carillon-load bench`, each on servers of its own, and
// Carillon between them if it is told how. See the README for what is compared and what is not.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil && !errors.Is(err, errIncomplete) { // what is incomplete has been told
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "peers",
		Short:         "Measure other schedulers as Carillon is measured",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(compareCommand(), measureCommand(), tableCommand())
	return root
}

func newLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

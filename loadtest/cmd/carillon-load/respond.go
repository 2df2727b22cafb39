package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/bench"
)

func newRespond() *cobra.Command {
	var url, subject string
	cmd := &cobra.Command{
		Use:   "respond",
		Short: "Answer NATS requests at once with nothing, as the quickest of workers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Respond(cmd.Context(), url, subject, func() {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "worker listens on %s\n", subject)
			})
		},
	}
	cmd.Flags().StringVar(&url, "nats", "nats://127.0.0.1:4222", "server")
	cmd.Flags().StringVar(&subject, "subject", "bench.noop", "what to listen on")
	return cmd
}

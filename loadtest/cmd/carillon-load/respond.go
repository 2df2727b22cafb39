package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/loadtest/nats"
)

func newRespond() *cobra.Command {
	var url, subject string
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "respond",
		Short: "Answer NATS requests with nothing, as the quickest of workers, or later",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return nats.Respond(cmd.Context(), url, subject, delay, func() {
				_, _ = fmt.Fprintf(cmd.OutOrStdout(), "worker listens on %s\n", subject)
			})
		},
	}
	cmd.Flags().StringVar(&url, "nats", "nats://127.0.0.1:4222", "server")
	cmd.Flags().DurationVar(&delay, "delay", 0, "how long after the request")
	cmd.Flags().StringVar(&subject, "subject", "bench.noop", "what to listen on")
	return cmd
}

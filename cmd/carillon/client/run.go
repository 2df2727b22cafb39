package client

import (
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func runCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "run",
		Short: "Show runs, their output and log, run them again, cancel them",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(runGetCommand(r), runListCommand(r), runOutputCommand(r), runLogsCommand(r), runRetryCommand(r), runCancelCommand(r))
	return cmd
}

func runGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show a run, its attempts, and the head of their output; of a workflow run its steps",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			run, err := client.Run(cmd.Context(), id)
			if err != nil {
				return fmt.Errorf("get run: %w", err)
			}
			return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
		}),
	}
}

func runRetryCommand(r *cli.Remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run a run that has ended again, as a new run",
		Long: "Run a run that has ended again, now, as a new run whose origin it is.\n\n" +
			"A dead letter that it has goes on waiting. carillon dead-letter replay ID runs what failed again and settles its dead letter; carillon dead-letter discard ID settles it alone.",
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		run, err := client.RetryRun(cmd.Context(), id, keyOr(key))
		if err != nil {
			return fmt.Errorf("retry run: %w", err)
		}
		adviseOnLetter(cmd, client, id)
		return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
	})
	return cmd
}

// adviseOnLetter says so if a run that was asked for again has a dead letter, which waits on.
func adviseOnLetter(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) {
	if run, err := client.Run(cmd.Context(), id); err == nil && run.DeadLetter {
		cli.Advise(cmd, "The dead letter of %s waits on, and a replay would run this again: carillon dead-letter discard %s settles it.", id, id)
	}
}

func runCancelCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a run that has not ended; of a workflow run all that is open",
		Long:  "Cancel a run that has not ended. Of a workflow run all steps that are open are cancelled, and only those that are for always start. Cancelling twice is the same as once.",
		Args:  cobra.ExactArgs(1),
		RunE: r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
			run, err := client.CancelRun(cmd.Context(), id)
			if err != nil {
				return fmt.Errorf("cancel run: %w", err)
			}
			return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
		}),
	}
}

// keyOr returns the idempotency key, or a random one.
func keyOr(key string) string {
	if key == "" {
		return uuid.NewString()
	}
	return key
}

package client

import (
	"fmt"
	"io"
	"time"

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

func runListCommand(r *cli.Remote) *cobra.Command {
	var from, to, state string
	var q httpapi.RunQuery
	var limit int
	var stuck bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs by due time, or those that are stuck",
		Long: "List the runs that are due from --from up to --to, in order of due time. Each is a time (RFC 3339) or a span from now.\n\n" +
			"With --stuck, list the runs that wait for other jobs beyond their deadline, whenever they are due, in the order in which their chains began. " +
			"Such a run still starts if those jobs end; carillon run cancel ends it.\n\n" +
			"With -o json there is one run a line, attempts and payload included.",
		Example: "  carillon run list --state failed --from -1h --to 0s\n" +
			"  carillon run list --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z --task send-email --limit 0 -o json\n" +
			"  carillon run list --stuck",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&from, "from", "-10m", "due at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "50m", "due before this `time`")
	cmd.Flags().StringVar(&state, "state", "", "only runs that are pending, running, retrying, succeeded, failed, cancelled, missed or skipped")
	cmd.Flags().StringVar(&q.Task, "task", "", "only runs of the task of this `name`")
	cmd.Flags().StringVar(&q.Job, "job", "", "only runs of the job of this `id` or name; of a recurring one the latest of an hour first")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cmd.Flags().BoolVar(&stuck, "stuck", false, "only runs that wait for other jobs beyond their deadline")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) (err error) {
		if stuck {
			for _, flag := range []string{"from", "to", "state", "task", "job"} {
				if cmd.Flags().Changed(flag) {
					return cli.Usagef("--%s does not go with --stuck", flag)
				}
			}
			return cli.List(cmd, r, "list stuck runs", client.Stuck(cmd.Context(), cli.PageOf(limit)), limit, stuckHead, stuckRow)
		}
		if q.From, q.To, err = cli.Window(from, to, time.Now()); err != nil {
			return err
		}
		q.State, q.Limit = schema.State(state), cli.PageOf(limit)
		return cli.List(cmd, r, "list runs", client.Runs(cmd.Context(), q), limit, runHead, runRow)
	})
	return cmd
}

func runRetryCommand(r *cli.Remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Run a run that has ended again, as a new run",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.RunE = r.WithRun(func(cmd *cobra.Command, client *httpapi.Client, id schema.RunID) error {
		run, err := client.RetryRun(cmd.Context(), id, keyOr(key))
		if err != nil {
			return fmt.Errorf("retry run: %w", err)
		}
		return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
	})
	return cmd
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

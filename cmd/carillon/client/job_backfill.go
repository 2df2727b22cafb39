package client

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
)

func jobBackfillCommand(r *cli.Remote) *cobra.Command {
	var from, to, key string
	var most int
	var wait, dryRun, missing bool
	cmd := &cobra.Command{
		Use:   "backfill ID|NAME --from TIME [--to TIME]",
		Short: "Run a stretch of a recurring job's past again",
		Long: "Ask for a run for each time from --from up to --to that the job's schedule, as it is now, names, whether that ran or not. " +
			"At most --max-concurrent of them are unfinished at a time; they have the lowest priority.\n\n" +
			"With --missing, only for times that have no run, such as those of a pause; a run that was missed counts as none, and so does one that never started because its job was paused or changed. One that somebody cancelled counts as a run. --from must lie within the retention of the tenant, 7 days by default: of what is older nothing is known. Times before the job was made have no run, so use --from to leave them out. " +
			"Runs from before a retention was raised, the tenant's or the cluster's, leave after the shorter one as ever: older ones look missing, and would run again. " +
			"So after a raise let --from lie after it, or within the shorter retention.\n\n" +
			"With --dry-run, say how many runs there would be, of how many times, and start nothing.\n\n" +
			"It is worked off in the background, and goes on if this command or a node ends; carillon operation cancel ID ends it.",
		Example: "  carillon job backfill nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z\n" +
			"  carillon job backfill nightly-report --from yesterday --to today --dry-run\n" +
			"  carillon job backfill nightly-report --from 2026-11-01T00:00:00Z --missing --dry-run\n" +
			"  carillon job backfill poll --from -6h --max-concurrent 20 --wait=false",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the first `time`: "+cli.Times)
	flags.StringVar(&to, "to", "", "times before this `time` (default: now)")
	flags.IntVar(&most, "max-concurrent", 5, "the most runs that are unfinished at a time")
	flags.BoolVar(&missing, "missing", false, "only times that have no run")
	flags.BoolVar(&wait, "wait", true, "wait until all runs have ended; it goes on without")
	flags.BoolVar(&dryRun, "dry-run", false, "say how many runs there would be, and start none")
	flags.StringVar(&key, "idempotency-key", "", "the same key and stretch make one operation (default: drawn)")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		if from == "" {
			return cli.Usagef("state --from: the first time that is run again")
		}
		asked := request.BackfillRequest{MaxConcurrent: most, Missing: missing}
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &asked.From), cli.NewTimeFlag("to", to, &asked.To)); err != nil {
			return err
		}
		ctx := cmd.Context()
		if dryRun {
			return showBackfilled(cmd, r, client, args[0], asked)
		}
		op, err := client.Backfill(ctx, args[0], asked, keyOr(key))
		if err != nil {
			return fmt.Errorf("backfill job: %w", err)
		}
		stderr := cmd.ErrOrStderr()
		_, _ = fmt.Fprintf(stderr, "operation %s: %d runs\n", op.ID, op.Matched)
		for _, note := range op.Backfill.Notes {
			_, _ = fmt.Fprintf(stderr, "note: %s\n", cli.Clean(note))
		}
		if wait {
			watch := operationWatch{w: stderr, live: cli.IsTerminal(stderr)}
			op, err = client.AwaitOperation(ctx, op.ID, watch.show)
			watch.end()
		}
		if err != nil {
			return fmt.Errorf("look at operation %s, which goes on: %w", op.ID, err)
		}
		return showOperation(cmd, r, &op)
	})
	return cmd
}

// showBackfilled shows what a backfill would run.
func showBackfilled(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, id string, asked request.BackfillRequest) error {
	p, err := client.PreviewBackfill(cmd.Context(), id, asked)
	if err != nil {
		return fmt.Errorf("preview backfill: %w", err)
	}
	for _, note := range p.Notes {
		cli.Advise(cmd, "note: %s", cli.Clean(note))
	}
	return r.Show(cmd, p, func(w io.Writer) error {
		return cli.Table(w, [][]string{{"RUNS", "TIMES", "FIRST", "LAST"}, {fmt.Sprint(p.Matched), fmt.Sprint(p.Times), cli.ShowTime(p.First), cli.ShowTime(p.Last)}})
	})
}

// operationWatch shows the progress of an operation: on a terminal in one line that changes,
// elsewhere in a new line every few seconds.
type operationWatch struct {
	w     io.Writer
	live  bool
	shown time.Time
}

// show shows the operation as it is now.
func (o *operationWatch) show(op httpapi.Operation) {
	line := fmt.Sprintf("%d of %d asked for, %d unfinished, %d failed", op.Changed, op.Matched, op.Running, op.Failed)
	switch now := time.Now(); {
	case o.live:
		ended := float64(op.Changed-int64(op.Running)) / float64(max(op.Matched, 1))
		_, _ = fmt.Fprintf(o.w, "\r\x1b[2K%s %s", cli.Bar(ended), line)
	case now.Sub(o.shown) >= cli.PrintEvery:
		o.shown = now
		_, _ = fmt.Fprintln(o.w, line)
	}
}

// end erases the line on a terminal.
func (o *operationWatch) end() {
	if o.live {
		_, _ = fmt.Fprint(o.w, "\r\x1b[2K")
	}
}

// writeBackfill shows a backfill.
func writeBackfill(w io.Writer, op *httpapi.Operation) error {
	b := op.Backfill
	err := cli.Table(w, [][]string{
		{"ID", "ACTION", "JOB", "FROM", "TO", "STATE", "MATCHED", "ASKED", "UNFINISHED", "FAILED"},
		{
			op.ID.String(), op.Action, cmp.Or(b.JobName, b.JobID.String()), cli.ShowTime(b.From), cli.ShowTime(b.To), op.State,
			fmt.Sprint(op.Matched), fmt.Sprint(op.Changed), fmt.Sprint(op.Running), fmt.Sprint(op.Failed),
		},
	})
	return writeFaults(w, op, err)
}

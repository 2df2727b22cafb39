package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
			"With --missing, only for times that have no run, such as those of a pause; a run that was missed counts as none. " +
			"Runs from before a retention was raised, the tenant's or the cluster's, leave after the shorter one as ever: older ones look missing, and would run again. " +
			"So after a raise let --from lie after it, or within the shorter retention.\n\n" +
			"With --dry-run, say how many times that are, and start nothing; a cron with H may have other times.\n\n" +
			"It is worked off in the background, and goes on if this command or a node ends; carillon operation cancel ID ends it.",
		Example: "  carillon job backfill nightly-report --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z\n" +
			"  carillon job backfill nightly-report --from yesterday --to today --dry-run\n" +
			"  carillon job backfill nightly-report --from 2026-11-01T00:00:00Z --missing\n" +
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
		if missing && dryRun {
			return cli.Usagef("--dry-run counts all times, and not those that are missing: leave --missing or --dry-run out")
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

// maxBackfill is the most times that a backfill may have, and previewPage how many a preview shows.
const (
	maxBackfill = 100_000
	previewPage = 100
)

// backfillPreview is what a backfill would run.
type backfillPreview struct {
	Matched int          `json:"matched"`
	First   httpapi.Time `json:"first,omitzero"`
	Last    httpapi.Time `json:"last,omitzero"`
}

// showBackfilled shows how many runs a backfill would have, and the times of the first and the
// last.
func showBackfilled(cmd *cobra.Command, r *cli.Remote, client *httpapi.Client, id string, asked request.BackfillRequest) error {
	job, err := client.Job(cmd.Context(), id)
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	found, err := countTimes(cmd.Context(), client, &job, asked.From, cmp.Or(asked.To, time.Now()))
	if err != nil {
		return fmt.Errorf("preview backfill: %w", err)
	}
	if found.Matched > maxBackfill {
		return fmt.Errorf("preview backfill: there are more than %d times, the most that one backfill may have: state a shorter stretch", maxBackfill)
	}
	return r.Show(cmd, found, func(w io.Writer) error {
		return cli.Table(w, [][]string{{"RUNS", "FIRST", "LAST"}, {fmt.Sprint(found.Matched), cli.ShowTime(found.First), cli.ShowTime(found.Last)}})
	})
}

// countTimes counts the times of a job's schedule, from ≤ time < to, as far as one more than a
// backfill may have.
func countTimes(ctx context.Context, client *httpapi.Client, job *httpapi.Job, from, to time.Time) (found backfillPreview, err error) {
	ask, err := previewOf(job)
	if err != nil {
		return found, err
	}
	ask.Count, ask.From = previewPage, from.Add(-time.Millisecond) // the times of a preview come after it
	for found.Matched <= maxBackfill {
		page, err := client.PreviewSchedule(ctx, ask)
		if err != nil {
			return found, err
		}
		for _, t := range page.Times {
			if !t.Before(to) {
				return found, nil
			}
			if found.Matched++; found.First.IsZero() {
				found.First = t
			}
			found.Last = t
		}
		if len(page.Times) < previewPage {
			return found, nil
		}
		ask.From = found.Last.Time
	}
	return found, nil
}

// previewOf asks for the times of a job's schedule.
func previewOf(job *httpapi.Job) (ask request.PreviewRequest, err error) {
	if job.Schedule.Cron == "" && job.Schedule.Every == 0 && len(job.Schedules) == 0 {
		return ask, errors.New("the job has no schedule with cron or every, and so no times")
	}
	says := map[string]any{"start": job.Start, "end": job.End, "jitter": job.Jitter}
	for name, t := range map[string]httpapi.Time{"start": job.Start, "end": job.End} {
		if t.IsZero() {
			delete(says, name)
		}
	}
	if says["schedule"] = job.Schedule; len(job.Schedules) > 0 {
		delete(says, "schedule")
		says["schedules"] = job.Schedules
	}
	text, err := json.Marshal(says)
	if err != nil {
		return ask, fmt.Errorf("encode the schedule: %w", err)
	}
	if err := json.Unmarshal(text, &ask); err != nil {
		return ask, fmt.Errorf("decode the schedule: %w", err)
	}
	return ask, nil
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

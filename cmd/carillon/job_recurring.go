package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// recurringFlags is what only recurring jobs have, as the command line states it.
type recurringFlags struct {
	schedule         scheduleFlags
	name             string
	maxRuns          int
	misfire, onLimit string
	deadline         time.Duration
	concurrency      int
}

func (f *recurringFlags) flags(cmd *cobra.Command) {
	f.schedule.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`name` of a recurring job, unique in the tenant")
	flags.IntVar(&f.maxRuns, "max-runs", 0, "end after the time of this number, missed ones included")
	flags.StringVar(&f.misfire, "misfire", "", "what becomes of runs that could not start in time: run_all, run_latest or skip")
	flags.DurationVar(&f.deadline, "misfire-deadline", 0, "a run that is later than this is missed")
	flags.IntVar(&f.concurrency, "concurrency", 0, "runs of the job under way at once")
	flags.StringVar(&f.onLimit, "on-limit", "", "what becomes of a run beyond --concurrency: queue, skip or cancel_oldest")
	for flag, values := range map[string][]string{
		"misfire": {"run_all", "run_latest", "skip"}, "on-limit": {"queue", "skip", "cancel_oldest"}, "priority": {"critical", "high", "normal", "low"},
	} {
		completeFlag(cmd, flag, values...)
	}
}

// state adds what was stated to a job.
func (f *recurringFlags) state(cmd *cobra.Command, job *request.JobRequest) error {
	given := cmd.Flags().Changed
	if given("misfire") || given("misfire-deadline") {
		job.Misfire = &schema.Misfire{Policy: f.misfire, Deadline: schema.Duration(f.deadline)}
	}
	stated, err := f.schedule.state(cmd)
	switch {
	case err != nil:
		return err
	case stated == nil:
		for _, flag := range []string{"name", "max-runs", "concurrency", "on-limit"} {
			if given(flag) {
				return usagef("--%s goes with --cron or --every", flag)
			}
		}
		return nil
	case job.Schedule != nil:
		return usagef("state a time (--at, --in) or a schedule (--cron, --every), not both")
	case given("max-runs") && f.maxRuns < 1:
		return usagef("--max-runs: %d is below 1", f.maxRuns)
	case given("concurrency") && f.concurrency < 1:
		return usagef("--concurrency: %d is below 1", f.concurrency)
	case given("on-limit") && !given("concurrency"):
		return usagef("--on-limit goes with --concurrency")
	}
	job.Name, job.MaxRuns = f.name, f.maxRuns
	job.Schedule, job.Start, job.End, job.Jitter = &stated.Schedule, stated.Start, stated.End, stated.Jitter
	if given("concurrency") {
		job.Concurrency = &schema.Concurrency{Limit: f.concurrency, OnLimit: f.onLimit}
	}
	return nil
}

func jobListCommand(r *remote) *cobra.Command {
	var q httpapi.JobQuery
	var state string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the jobs that can have many runs, newest first",
		Long:  "List the jobs that can have many runs, newest first. One-off jobs are runs: carillon run list.\n\nWith -o json there is one job a line.",
		Example: "  carillon job list --state paused\n" +
			"  carillon job list --label team=billing --name-prefix nightly- -o json",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&state, "state", "", "only jobs that are active, paused, cancelled or finished")
	cmd.Flags().StringVar(&q.Label, "label", "", "only jobs with this label, as `name=value`")
	cmd.Flags().StringVar(&q.NamePrefix, "name-prefix", "", "only jobs whose name begins so")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	completeFlag(cmd, "state", "active", "paused", "cancelled", "finished")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		if limit < 0 {
			return usagef("--limit: %d is negative", limit)
		}
		q.State, q.Limit = schema.JobState(state), pageOf(limit)
		return list(cmd, r, "list jobs", client.Jobs(cmd.Context(), q), limit, jobHead, jobRow)
	})
	return cmd
}

func jobRunsCommand(r *remote) *cobra.Command {
	var q httpapi.JobRunQuery
	var from, to, state string
	var limit int
	cmd := &cobra.Command{
		Use:   "runs ID|NAME",
		Short: "List the runs of a job, newest first",
		Long: "List the runs of a job, newest first, due from --from up to --to. Each is a time (RFC 3339) or a span from now.\n" +
			"The first is the next one. Those under way and those that wait stand at their due times, among those that have ended.\n\n" +
			"With -o json there is one run a line, attempts and payload included.",
		Example:           "  carillon job runs nightly-report --state failed --from -168h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().StringVar(&from, "from", "", "due at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "", "due before this `time`")
	cmd.Flags().StringVar(&state, "state", "", "only runs that are pending, running, retrying, succeeded, failed, cancelled or missed")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	completeFlag(cmd, "state", "pending", "running", "retrying", "succeeded", "failed", "cancelled", "missed")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		now := time.Now()
		for _, end := range []struct {
			flag, text string
			into       *time.Time
		}{{"from", from, &q.From}, {"to", to, &q.To}} {
			if end.text == "" {
				continue
			}
			at, err := instant(end.flag, end.text, now)
			if err != nil {
				return err
			}
			*end.into = at
		}
		if limit < 0 {
			return usagef("--limit: %d is negative", limit)
		}
		q.State, q.Limit = schema.State(state), pageOf(limit)
		return list(cmd, r, "list runs of job", client.JobRuns(cmd.Context(), args[0], q), limit, runHead, runRow)
	})
	return cmd
}

func jobUpcomingCommand(r *remote) *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use:               "upcoming ID|NAME",
		Short:             "Show the next runs of a job, if it stays as it is",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().IntVar(&count, "count", 10, "show so many, at most 100")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		next, err := client.Upcoming(cmd.Context(), args[0], count)
		if err != nil {
			return fmt.Errorf("list upcoming runs: %w", err)
		}
		if r.json() {
			return document(cmd.OutOrStdout(), next)
		}
		rows := [][]string{{"RUN", "NOMINAL", "DUE"}}
		for _, n := range next {
			rows = append(rows, []string{n.ID.String(), showTime(n.NominalAt), showTime(n.DueAt)})
		}
		return table(cmd.OutOrStdout(), rows)
	})
	return cmd
}

func jobTriggerCommand(r *remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:               "trigger ID|NAME",
		Short:             "Run a recurring job now, besides its schedule",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.RunE = r.asks(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		run, err := client.TriggerJob(cmd.Context(), args[0], keyOr(key))
		if err != nil {
			return fmt.Errorf("trigger job: %w", err)
		}
		if r.json() {
			return document(cmd.OutOrStdout(), run)
		}
		return writeRun(cmd.OutOrStdout(), &run)
	})
	return cmd
}

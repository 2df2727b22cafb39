package client

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

// recurringFlags are the flags that only jobs have that can have many runs, and those of what starts
// them.
type recurringFlags struct {
	schedule         scheduleFlags
	starts           startFlags
	name             string
	maxRuns          int
	misfire, onLimit string
	durability       string
	deadline         time.Duration
	concurrency      int
	concurrencyKey   string
	pauseAfter       int
}

func (f *recurringFlags) flags(cmd *cobra.Command) {
	f.schedule.flags(cmd)
	f.starts.flags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`name` of a job that can have many runs, unique in the tenant")
	flags.StringVar(&f.durability, "durability", "", "when it is acknowledged, where there are regions: home or everywhere (default as the tenant states)")
	cli.CompleteFlag(cmd, "durability", schema.Durabilities...)
	f.limits(cmd)
}

// limits adds the flags of what bounds the runs of a job.
func (f *recurringFlags) limits(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.maxRuns, "max-runs", 0, "end after the time of this number, missed ones included")
	flags.StringVar(&f.misfire, "misfire", "", "what becomes of runs that are more than a minute late: run_all starts each, run_latest only the last one (as recurring jobs do by default), skip none")
	flags.DurationVar(&f.deadline, "misfire-deadline", 0, "with any policy: a run that is later than this does not start and is missed; with skip a minute at most")
	flags.IntVar(&f.concurrency, "concurrency", 0, "runs of the job under way at once; one that waits for its next attempt is not")
	flags.StringVar(&f.concurrencyKey, "concurrency-key", "", "a JSON `pointer` into the payload, such as /customer/id: --concurrency counts for each value there")
	flags.IntVar(&f.pauseAfter, "pause-after", 0, "pause the job when so many of its runs in a row have failed for good")
	flags.StringVar(&f.onLimit, "on-limit", "", "what becomes of a run beyond --concurrency: queue, skip or cancel_oldest")
	for flag, values := range map[string][]string{
		"misfire": {"run_all", "run_latest", "skip"}, "on-limit": {"queue", "skip", "cancel_oldest"}, "priority": {"critical", "high", "normal", "low"},
	} {
		cli.CompleteFlag(cmd, flag, values...)
	}
}

// state adds the flags that were given to a job.
func (f *recurringFlags) state(cmd *cobra.Command, job *request.JobRequest, now time.Time) error {
	given := cmd.Flags().Changed
	job.Durability = schema.Durability(f.durability)
	if given("misfire") || given("misfire-deadline") {
		job.Misfire = &schema.Misfire{Policy: f.misfire, Deadline: schema.Duration(f.deadline)}
	}
	stated, err := f.schedule.state(cmd, now)
	if err == nil {
		err = f.starts.state(cmd, job)
	}
	ways := 0
	for _, way := range []bool{job.Schedule != nil, stated != nil, job.On != nil, job.After != nil} {
		if way {
			ways++
		}
	}
	switch {
	case err != nil:
		return err
	case ways > 1:
		return cli.Usagef("state only one of a time (--at, --in), a schedule (--cron, --every), --on and --after")
	case job.Schedule != nil, ways == 0 && !given("name"):
		for _, flag := range []string{"name", "max-runs", "concurrency", "concurrency-key", "on-limit", "pause-after"} {
			if given(flag) {
				return cli.Usagef("--%s goes with --cron, --every, --on or --after, or with --name alone: a job that is only triggered", flag)
			}
		}
		return nil
	case stated == nil && given("max-runs"):
		return cli.Usagef("--max-runs goes with --cron or --every")
	case given("max-runs") && f.maxRuns < 1:
		return cli.Usagef("--max-runs: %d is below 1", f.maxRuns)
	case given("concurrency") && f.concurrency < 1:
		return cli.Usagef("--concurrency: %d is below 1", f.concurrency)
	case given("pause-after") && f.pauseAfter < 1:
		return cli.Usagef("--pause-after: %d is below 1", f.pauseAfter)
	case given("on-limit") && !given("concurrency"):
		return cli.Usagef("--on-limit goes with --concurrency")
	case given("concurrency-key") && !given("concurrency"):
		return cli.Usagef("--concurrency-key goes with --concurrency")
	}
	job.Name, job.MaxRuns = f.name, f.maxRuns
	if stated != nil {
		job.Schedule, job.Schedules = stated.Schedule, stated.Schedules
		job.Start, job.End, job.Jitter = stated.Start, stated.End, stated.Jitter
	}
	if given("pause-after") {
		job.PauseOnFailure = &request.PauseOnFailure{After: f.pauseAfter}
	}
	if given("concurrency") {
		job.Concurrency = &schema.Concurrency{Limit: f.concurrency, OnLimit: f.onLimit, Key: f.concurrencyKey}
	}
	return nil
}

func jobListCommand(r *cli.Remote) *cobra.Command {
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
	cli.CompleteFlag(cmd, "state", "active", "paused", "cancelled", "finished")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		q.State, q.Limit = schema.JobState(state), cli.PageOf(limit)
		return cli.List(cmd, r, "list jobs", client.Jobs(cmd.Context(), q), limit, jobHead, jobRow)
	})
	return cmd
}

func jobRunsCommand(r *cli.Remote) *cobra.Command {
	var q httpapi.JobRunQuery
	var from, to, state string
	var limit int
	cmd := &cobra.Command{
		Use:   "runs ID|NAME",
		Short: "List the runs of a job, newest first",
		Long: "List the runs of a job, newest first, due from --from up to --to. Each is " + cli.Times + ".\n" +
			"NOMINAL is the time for which a run is, where it was due at another one, as a backfill is.\n" +
			"Replays of its dead letters and retries of its runs are among them, each a run of its own: carillon run get names its origin.\n" +
			"The first is the next one. Those under way and those that wait stand at their due times, among those that have ended.\n\n" +
			"With -o json there is one run a line, attempts and payload included.",
		Example:           "  carillon job runs nightly-report --state failed --from -168h",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().StringVar(&from, "from", "", "due at this `time` or later")
	cmd.Flags().StringVar(&to, "to", "", "due before this `time`")
	cmd.Flags().StringVar(&state, "state", "", "only runs that are pending, running, retrying, succeeded, failed, cancelled, missed or skipped")
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most so many; 0 = all")
	cli.CompleteFlag(cmd, "state", "pending", "running", "retrying", "succeeded", "failed", "cancelled", "missed", "skipped")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &q.From), cli.NewTimeFlag("to", to, &q.To)); err != nil {
			return err
		}
		q.State, q.Limit = schema.State(state), cli.PageOf(limit)
		return cli.List(cmd, r, "list runs of job", client.JobRuns(cmd.Context(), args[0], q), limit, jobRunHead, jobRunRow, waitsColumn)
	})
	return cmd
}

func jobUpcomingCommand(r *cli.Remote) *cobra.Command {
	var from string
	var count int
	cmd := &cobra.Command{
		Use:   "upcoming ID|NAME",
		Short: "Show the next runs of a job, if it stays as it is",
		Example: "  carillon job upcoming nightly-report\n" +
			"  carillon job upcoming nightly-report --from 2026-12-24T00:00:00+01:00 --count 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().StringVar(&from, "from", "", "the runs that are due after this `time` (default now)")
	cmd.Flags().IntVar(&count, "count", 10, "show so many, at most 100")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		var after time.Time
		if err := cli.Instants(time.Now(), cli.NewTimeFlag("from", from, &after)); err != nil {
			return err
		}
		next, err := client.Upcoming(cmd.Context(), args[0], after, count)
		if err != nil {
			return fmt.Errorf("list upcoming runs: %w", err)
		}
		if r.JSON() {
			return cli.Document(cmd.OutOrStdout(), next)
		}
		job, err := client.Job(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("get job: %w", err)
		}
		local := localColumn(zoneOf(&job))
		rows := [][]string{local(httpapi.Time{}, "RUN", "NOMINAL", "DUE")}
		for _, n := range next {
			rows = append(rows, local(n.NominalAt, n.ID.String(), cli.ShowTime(n.NominalAt), cli.ShowTime(n.DueAt)))
		}
		return cli.Table(cmd.OutOrStdout(), rows)
	})
	return cmd
}

// zoneOf returns the time zone of a job's schedules, "" if these have none, or not all the same.
func zoneOf(job *httpapi.Job) string {
	zone := job.Schedule.Timezone
	for i := range job.Schedules {
		if z := job.Schedules[i].Timezone; i == 0 {
			zone = z
		} else if z != zone {
			return ""
		}
	}
	return zone
}

func jobTriggerCommand(r *cli.Remote) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:               "trigger ID|NAME",
		Short:             "Run a recurring job now, besides its schedule",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "the same key makes one run (default: drawn)")
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		run, err := client.TriggerJob(cmd.Context(), args[0], keyOr(key))
		if err != nil {
			return fmt.Errorf("trigger job: %w", err)
		}
		return r.Show(cmd, run, func(w io.Writer) error { return writeRun(w, &run) })
	})
	return cmd
}

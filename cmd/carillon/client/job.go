package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/cmd/carillon/cli"
	"carillon.dev/carillon/schema"
)

func jobCommand() *cobra.Command {
	r := &cli.Remote{}
	cmd := cli.Group(&cobra.Command{
		Use:   "job",
		Short: "Create, show, change and run jobs",
	})
	r.AddFlags(cmd)
	cmd.AddCommand(
		jobCreateCommand(r), jobChangeCommand(r), jobApplyCommand(r), jobGetCommand(r), jobListCommand(r), jobRunsCommand(r), jobUpcomingCommand(r),
		jobPauseCommand(r), jobResumeCommand(r), jobTriggerCommand(r), jobBackfillCommand(r), jobCancelCommand(r), crontabCommand(r),
	)
	return cmd
}

// jobFlags is a job as the command line states it.
type jobFlags struct {
	url, method, subject, task string
	headers, labels            []string
	at                         string
	in, timeout                time.Duration
	payload, priority, key     string
	region                     string
	requireRegion              bool
	uniqueBy                   []string
	uniqueWindow               time.Duration
	retry                      retryFlags
	recurring                  recurringFlags
	auth                       authFlags
}

func jobCreateCommand(r *cli.Remote) *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "create (--url URL | --subject SUBJECT | --function NAME | --message JSON | --task NAME) [flags]",
		Short: "Create a job: one-off, recurring (--cron, --every), on events (--on), after other jobs (--after), or only triggered (--name)",
		Long: "Create a job that calls a URL, asks a NATS subject, invokes a function of AWS Lambda, sends a message, or runs a task: once, now or at an instant, again and again, on events, after other jobs, or when it is triggered.\n\n" +
			"With --after the job runs once for each run with which the chain of those jobs begins. If they are one-off jobs, so is this one.\n\n" +
			"Without --idempotency-key one is drawn, so that it is safe to try again while the API is in trouble. With one, the same command again shows the job\n" +
			"that it made before, for 24 h; a command that asks for another job with the same key is refused.",
		Example: "  carillon job create --url http://127.0.0.1:8080/healthz --method GET --in 5s\n" +
			"  carillon job create --task send-email --at 2026-11-21T10:00:00+01:00 --payload '{\"to\": \"a@example.com\"}'\n" +
			"  carillon job create --task send-email --at 'friday 10:00' --timezone Europe/Berlin\n" +
			"  carillon job create --task sync --payload '{\"customer\": 7}' --unique-window 10m --unique-by payload/customer\n" +
			"  carillon job create --subject work.report --payload @report.json --label team=billing\n" +
			"  carillon job create --url http://127.0.0.1:9000/sync --in 1m --max-attempts 8 --retry-initial 5s --retry-max 15m  # waits of 0 to 5s, 0 to 10s …\n" +
			"  carillon job create --url http://127.0.0.1:9000/sync --every 5m --concurrency 1 --on-limit skip --max-attempts 6 --retry-initial 10s --retry-max 5m --retry-jitter none  # waits of 10s, 20s …\n" +
			"  carillon job create --name nightly-report --task report --cron '0 2 * * *' --timezone Europe/Berlin\n" +
			"  carillon job create --url http://127.0.0.1:9000/poll --every 15m --misfire skip\n" +
			"  carillon job create --name open --task open --cron '0 9 * * MON-FRI' --cron '0 10 * * SAT' --timezone Europe/Berlin --exclude 2026-12-25\n" +
			"  carillon job create --message '{\"sqs\": {\"queue_url\": \"https://sqs.eu-central-1.amazonaws.com/123456789012/jobs\", \"region\": \"eu-central-1\", \"credentials\": \"aws-queues\"}}'\n" +
			"  carillon job create --name rebuild --task rebuild  # then: carillon job trigger rebuild\n" +
			"  carillon job create --task ingest --on file.uploaded --filter \"event.region == 'eu'\" --delay 30s\n" +
			"  carillon job create --name load --task load --after extract --after clean --when all_done --after-deadline 6h",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "`URL` to call")
	flags.StringVar(&f.method, "method", "", "method of the call (default POST)")
	flags.StringArrayVar(&f.headers, "header", nil, "`name:value` of the call; may be repeated")
	flags.StringVar(&f.subject, "subject", "", "NATS `subject` to ask")
	flags.StringVar(&f.task, "task", "", "`name` of the task to run")
	flags.StringVar(&f.at, "at", "", "due `time` (default now), RFC 3339 with an offset, or a day and time of day of --timezone, such as \"tomorrow 10:00\", \"friday 10:00\" (the next one) or \"2026-11-21 10:00\"; an RFC 3339 time that is past starts the job at once")
	flags.DurationVar(&f.in, "in", 0, "due so long from now, which is not negative")
	flags.StringVar(&f.payload, "payload", "", "payload: `JSON`, @file, or - for standard input")
	flags.StringVar(&f.priority, "priority", "", "critical, high, normal or low")
	flags.StringArrayVar(&f.labels, "label", nil, "`name=value`; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "of one attempt")
	f.retry.flags(cmd, " (default the API's)")
	flags.StringVar(&f.key, "idempotency-key", "", "the same key and job make one job; --in of the same key counts from the first time")
	flags.StringVar(&f.region, "region", "", "`home` at which a one-off job is to lie, where there are regions (default as its task, the routes or its tenant say)")
	flags.BoolVar(&f.requireRegion, "require-region", false, "only the region of its home runs a one-off job: after a fail-over it waits")
	flags.DurationVar(&f.uniqueWindow, "unique-window", 0, "create a one-off job only if none of the same key was created for so long; else show that one")
	flags.StringSliceVar(&f.uniqueBy, "unique-by", nil, "`parts` of its key besides the task: task (nothing else), payload, payload/POINTER, labels, labels/NAME (default payload)")
	f.recurring.flags(cmd)
	f.auth.flags(cmd)
	cmd.RunE = r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, _ []string) error {
		now := time.Now()
		job, err := f.request(cmd, now)
		if err != nil {
			return err
		}
		made, err := client.CreateJob(cmd.Context(), job)
		if err != nil && cmd.Flags().Changed("in") {
			made, err = madeBefore(cmd, client, job, f.in, err)
		}
		if err != nil {
			return fmt.Errorf("create job: %w", err)
		}
		if job.Schedule != nil && !job.Schedule.At.IsZero() && job.Schedule.At.Before(now) {
			cli.Advise(cmd, "The time of --at is past: the job starts at once.")
		}
		if made.Existing {
			cli.Advise(cmd, "A job of the same unique key was there: nothing was created.")
		}
		return r.Show(cmd, made, func(w io.Writer) error { return writeJobs(w, made) })
	})
	return cmd
}

// sameIn is how far two clocks, and the time that a request takes, may put apart what --in states
// of one job.
const sameIn = time.Minute

// madeBefore returns the job that the key of job made before, if the API refused job since its body
// is another one: the instant of --in is another one each time. If job differs in more, as far as
// that can be told, it says in what, and returns the refusal.
func madeBefore(cmd *cobra.Command, client *httpapi.Client, job request.JobRequest, in time.Duration, refusal error) (httpapi.Job, error) {
	var p *httpapi.Problem
	if !errors.As(refusal, &p) || p.Kind() != "key-reused" {
		return httpapi.Job{}, refusal
	}
	run, found, err := client.RunOfKey(cmd.Context(), job.Key, time.Time{})
	if err != nil || !found {
		return httpapi.Job{}, refusal // which says more than why the job was not found
	}
	is, err := client.Job(cmd.Context(), run.ID.String())
	if err != nil {
		return httpapi.Job{}, refusal
	}
	other, err := differsIn(&is, job, in)
	switch {
	case err != nil:
		return httpapi.Job{}, err
	case other != "":
		cli.Advise(cmd, "The key made the job %s before, which has another %s.", is.ID, other)
		return httpapi.Job{}, refusal
	}
	cli.Advise(cmd, "The key made this job before: no other one was made, and --in counts from then.")
	return is, nil
}

// differsIn returns the field in which a one-off job that was made before differs from what is
// asked for; "" if none is known. What has a default can differ unseen, as can the instant of a job
// that has been changed or has run.
func differsIn(is *httpapi.Job, job request.JobRequest, in time.Duration) (string, error) {
	shown, err := encoded(is)
	if err != nil {
		return "", err
	}
	job.Key, job.Schedule = "", nil
	asked, err := encoded(job)
	if err != nil {
		return "", err
	}
	was, now := shown.(map[string]any), asked.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !says(was[name], now[name]) {
			return name, nil
		}
	}
	for _, name := range []string{"labels", "payload"} { // they have no default
		if !reflect.DeepEqual(was[name], now[name]) {
			return name, nil
		}
	}
	untouched := !is.CreatedAt.IsZero() && is.UpdatedAt.Equal(is.CreatedAt.Time)
	if apart := is.Schedule.At.Sub(is.CreatedAt.Time) - in; untouched && apart.Abs() > sameIn {
		return "--in", nil
	}
	return "", nil
}

// request makes the job of the flags. now is the time from which --in counts, and days.
func (f *jobFlags) request(cmd *cobra.Command, now time.Time) (request.JobRequest, error) {
	job := request.JobRequest{Key: f.key, Task: f.task, Priority: schema.Priority(f.priority), Region: schema.RegionChoice{Name: f.region, Require: f.requireRegion}}
	given := cmd.Flags().Changed
	targets := 0
	for _, target := range []struct{ flag, value string }{{"url", f.url}, {"subject", f.subject}, {"function", f.auth.function}, {"message", f.auth.message}, {"task", f.task}} {
		if !given(target.flag) {
			continue
		}
		if targets++; target.value == "" {
			return job, cli.Usagef("--%s is empty", target.flag)
		}
	}
	switch {
	case targets != 1:
		return job, cli.Usagef("state exactly one of --url, --subject, --function, --message and --task")
	case given("at") && given("in"):
		return job, cli.Usagef("state --at or --in, not both")
	case f.in < 0:
		return job, cli.Usagef("--in: %v is negative", f.in)
	case given("region") && f.region == "":
		return job, cli.Usagef("--region is empty")
	case given("unique-by") && !given("unique-window"):
		return job, cli.Usagef("--unique-by goes with --unique-window")
	case f.url == "" && (given("method") || given("header")):
		return job, cli.Usagef("--method and --header go with --url")
	}
	if f.url != "" {
		headers, err := pairs("header", f.headers, ":")
		if err != nil {
			return job, err
		}
		job.HTTP = &schema.HTTPTarget{URL: f.url, Method: f.method, Headers: headers}
	}
	if f.subject != "" {
		job.NATS = &schema.NATSTarget{Subject: f.subject}
	}
	if f.auth.function != "" {
		job.Lambda = &schema.LambdaTarget{Function: f.auth.function}
	}
	if f.auth.message != "" {
		var err error
		if job.Work, err = f.auth.sends(cmd); err != nil {
			return job, err
		}
	}
	if err := f.auth.state(cmd, &job.Work); err != nil {
		return job, err
	}
	if given("unique-window") {
		job.Unique = &request.UniqueRequest{By: f.uniqueBy, Window: schema.Duration(f.uniqueWindow)}
	}
	job.Timeout = schema.Duration(f.timeout)
	var err error
	if job.Retry, err = f.retry.state(cmd, job.Retry); err != nil {
		return job, err
	}
	if given("at") {
		at, err := f.recurring.schedule.readAt(f.at, now)
		if err != nil {
			return job, err
		}
		job.Schedule = &request.Schedule{At: at}
	}
	if given("in") {
		job.Schedule = &request.Schedule{At: now.Add(f.in)}
	}
	if err := f.recurring.state(cmd, &job, now); err != nil {
		return job, err
	}
	if job.Labels, err = pairs("label", f.labels, "="); err != nil {
		return job, err
	}
	if given("payload") {
		if job.Payload, err = readJSON("--payload", f.payload, cmd.InOrStdin()); err != nil {
			return job, err
		}
	}
	if job.Key == "" {
		job.Key = uuid.NewString()
	}
	return job, nil
}

// pairs reads name and value of repeated flags.
func pairs(flag string, texts []string, separator string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, separator)
		name = strings.TrimSpace(name)
		if _, twice := m[name]; !ok || name == "" || twice {
			return nil, cli.Usagef("--%s: %q is not a name, %q and a value, each name once", flag, text, separator)
		}
		m[name] = strings.TrimSpace(value)
	}
	return m, nil
}

// readJSON returns what a flag or an argument of that name states: JSON, @file, or - for in.
func readJSON(name, text string, in io.Reader) (json.RawMessage, error) {
	stated := []byte(text)
	var err error
	file, isFile := strings.CutPrefix(text, "@")
	switch {
	case text == "-":
		// One byte more than is allowed makes the API refuse it.
		stated, err = io.ReadAll(io.LimitReader(in, request.MaxBody+1))
	case isFile:
		stated, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !json.Valid(stated) {
		return nil, cli.Usagef("%s: %.60q is not JSON (a text needs its quotes: '\"text\"')", name, stated)
	}
	return stated, nil
}

func jobGetCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "get ID|NAME",
		Short:             "Show a job",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
		RunE: r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
			job, err := client.Job(cmd.Context(), args[0])
			if err != nil {
				return fmt.Errorf("get job: %w", err)
			}
			return r.Show(cmd, job, func(w io.Writer) error {
				if err := writeJobs(w, job); err != nil {
					return err
				}
				return writeJobFacts(w, &job)
			})
		}),
	}
}

// showJob makes the RunE of a command that reads or changes one job, and shows it.
func showJob(r *cli.Remote, act string, ask func(*httpapi.Client, context.Context, string) (httpapi.Job, error)) func(*cobra.Command, []string) error {
	return r.WithClient(func(cmd *cobra.Command, client *httpapi.Client, args []string) error {
		job, err := ask(client, cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		return r.Show(cmd, job, func(w io.Writer) error { return writeJobs(w, job) })
	})
}

func jobCancelCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID|NAME",
		Short: "Cancel a job that has not ended",
		Long: "Cancel a job that has not ended: nothing of it starts later than two seconds after the answer. Cancelling twice is the same as once.\n" +
			"To stop a recurring job for a while there is carillon job pause.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
		RunE:              showJob(r, "cancel job", (*httpapi.Client).CancelJob),
	}
}

func jobPauseCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "pause ID|NAME",
		Short:             "Pause a recurring job",
		Long:              "Pause a recurring job: nothing of it starts later than two seconds after the answer, until it is resumed.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
		RunE:              showJob(r, "pause job", (*httpapi.Client).PauseJob),
	}
}

func jobResumeCommand(r *cli.Remote) *cobra.Command {
	return &cobra.Command{
		Use:               "resume ID|NAME",
		Short:             "Resume a recurring job that was paused",
		Long:              "Resume a recurring job that was paused. It goes on with the next time of its schedule; what lay in the pause is not made up for.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeJobs(r),
		RunE:              showJob(r, "resume job", (*httpapi.Client).ResumeJob),
	}
}

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/process"
	"carillon.dev/carillon/loadtest/wait"
	"carillon.dev/carillon/loadtest/workload"
)

const (
	// limitedTenant has the jobs with limits, the default tenant those of tasks. So each judge sees
	// a whole tenant.
	limitedTenant = "limited"
	limitedSource = "limited"
	// One of limitedPart jobs is a recurring one with a limit.
	limitedPart = 40
	minLimited  = 400
	// tasksLead is how long before the first due instant the tasks must exist: dispatchers look for
	// rates every 5 s.
	tasksLead = 8 * time.Second
	// deferralsLead is how long before its kill a node is asked for its deferrals.
	deferralsLead = 200 * time.Millisecond
)

// limitsDefaults are those of Limits.
const (
	limitsJobs = 6000
	limitsSpan = 90 * time.Second
	limitsWarm = time.Minute
	// warmRate is the runs a second that warm the cluster up.
	warmRate = 50
)

// limitedShapes are the jobs with limits. Of each on_limit some are due more often than they may
// run, and one is not. The receiver works for less than check.SlotHeld, so that its work ends
// before the slot of a dead executor is free.
func limitedShapes() []workload.LimitedShape {
	const second = time.Second
	shapes := []workload.LimitedShape{
		{Every: 4 * second, Work: 5 * second, Limit: 1, OnLimit: "queue"},
		{Every: 3 * second, Work: 5 * second, Limit: 1, OnLimit: "skip"},
		{Every: 3 * second, Work: 6 * second, Limit: 1, OnLimit: "cancel_oldest"},
		{Every: 2 * second, Work: 5 * second, Limit: 2, OnLimit: "queue"},
		{Every: 2 * second, Work: 5 * second, Limit: 2, OnLimit: "skip"},
		{Every: 2 * second, Work: 6 * second, Limit: 2, OnLimit: "cancel_oldest"},
		{Every: 2 * second, Work: second / 10, Limit: 1, OnLimit: "queue"},
		{Every: 5 * second, Work: second / 5, Limit: 1, OnLimit: "skip"},
		{Every: 4 * second, Work: second / 5, Limit: 1, OnLimit: "cancel_oldest"},
	}
	all := slices.Clone(shapes)
	for _, g := range []check.Guarantee{check.AtLeastOnce, check.EffectivelyOnce} {
		for _, s := range shapes {
			s.Guarantee = string(g)
			all = append(all, s)
		}
	}
	return all
}

// A limitsCourse is the course of Limits.
type limitsCourse struct{ *run }

// A limitedTask is a task with a rate or max_concurrent, and its runs: how many, over which span.
type limitedTask struct {
	name   string
	rate   string // "" = none
	most   int    // its max_concurrent; 0 = none
	manner string // how the receiver answers
	jobs   int
	over   time.Duration
}

// source names the jobs of the task.
func (t limitedTask) source() string { return "task-" + t.name }

// body is the body of the task's PUT.
func (t limitedTask) body(target string) []byte {
	if t.manner != "" {
		target += "/" + t.manner
	}
	limits := ""
	if t.rate != "" {
		limits += fmt.Sprintf(`,"rate":%q`, t.rate)
	}
	if t.most > 0 {
		limits += fmt.Sprintf(`,"max_concurrent":%d`, t.most)
	}
	return fmt.Appendf(nil, `{"http":{"url":"%s/%s/calls"},"timeout":"15s","retry":{"initial":"500ms","max":"5s"}%s}`, target, t.source(), limits)
}

const (
	// crewWork and pairWork are how long the receiver works on calls of tasks with max_concurrent:
	// less than check.SlotHeld, so that the work ends before the slot of a dead executor is free.
	crewWork, pairWork = 600 * time.Millisecond, 300 * time.Millisecond
	// pairMost is below the number of executors in a cluster of three, and divides evenly by two.
	pairMost = 2
)

// limitedTasks divides jobs among tasks:
//
//	brisk  rate             more than may start, for most of the span
//	herd   rate             all at one instant
//	shaky  rate             all fail once, so each takes two reservations
//	ample  rate             never reached
//	crew   max_concurrent   takes half of the span for what is due in its first third
//	pair   max_concurrent   2, and runs come three times as fast as they may start
func limitedTasks(jobs int, span time.Duration) []limitedTask {
	// within returns the rate at which these starts take a part of the span.
	within := func(starts int, part float64, unit string, per time.Duration) string {
		return fmt.Sprintf("%d/%s", max(int(float64(starts)*per.Seconds()/(part*span.Seconds())), 1), unit)
	}
	// atOnce returns how many runs at once take a part of the span for all of them.
	atOnce := func(runs int, work time.Duration, part float64) int {
		return max(int(float64(runs)*work.Seconds()/(part*span.Seconds())), 1)
	}
	herd, shaky, ample, crew, pair := jobs/5, jobs/20, jobs*3/20, jobs/4, jobs/20
	brisk := jobs - herd - shaky - ample - crew - pair
	return []limitedTask{
		{name: "brisk", rate: within(brisk, 0.8, "s", time.Second), jobs: brisk, over: span / 3},
		{name: "herd", rate: within(herd, 0.9, "m", time.Minute), jobs: herd},
		{name: "shaky", rate: within(2*shaky, 0.7, "s", time.Second), manner: "fail-1", jobs: shaky, over: span / 2},
		{name: "ample", rate: within(ample, 0.05, "s", time.Second), jobs: ample, over: span},
		{name: "crew", most: atOnce(crew, crewWork, 0.5), manner: "work-" + crewWork.String(), jobs: crew, over: span / 3},
		{name: "pair", most: pairMost, manner: "work-" + pairWork.String(), jobs: pair, over: time.Duration(pair) * pairWork / (3 * pairMost)},
	}
}

func (r limitsCourse) tasksFile() string { return filepath.Join(r.cfg.Dir, "tasks.ndjson") }

// play is a run of Limits, from the idle cluster to the last arrival.
func (r limitsCourse) play(ctx context.Context) (err error) {
	events, err := createNew(r.eventsFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.Close()) }()

	begin, start, t0, err := r.idle(ctx)
	if err != nil {
		return err
	}
	end := t0.Add(r.cfg.Span)
	r.keepDue(end.Add(mostJitter))
	tasks := limitedTasks(r.cfg.Jobs, r.cfg.Span)
	if err := r.putTasks(ctx, tasks); err != nil {
		return err
	}
	known := time.Now()
	if known.After(t0.Add(-tasksLead)) {
		return fmt.Errorf("tasks were made %s before the first due instant, want at least %s: a longer lead is needed", t0.Sub(known), tasksLead)
	}
	if err := r.warm(ctx, t0, guaranteeKinds(defaultMix), warmRate); err != nil {
		return err
	}
	res := &RecurringResult{Start: t0, End: end}
	r.report.Recurring = res
	shapes := limitedShapes()
	spec := workload.Limited{N: r.cfg.Jobs / limitedPart, Start: t0, End: end, Shapes: shapes, Source: limitedSource, Target: r.second.URL}
	a := &asker{urls: r.client.URLs, http: r.http, out: events, tenant: limitedTenant}
	if _, err := recurringCourse(r).create(ctx, a, spec.Source, spec.N, spec.Body, &res.Creating); err != nil {
		return err
	}
	for _, t := range tasks {
		spec := r.jobs(t.source(), t.jobs, t0, t.over)
		spec.Kinds = []workload.Kind{{Task: t.name}}
		if err := r.importJobs(ctx, spec); err != nil {
			return err
		}
	}
	ready := r.mark()
	if late := ready.at.Sub(t0); late > 0 {
		res.LateSeconds = late.Seconds()
		r.log.Warn("not all jobs were there at the first due instant", "late", late)
	}
	faults := killOnce(r.cfg.Span)
	if err := wait.Until(ctx, t0.Add(faults[0].at-deferralsLead)); err != nil {
		return err
	}
	r.keepDeferrals(ctx, faults[0].member) // they end with its process
	if err := r.take(ctx, t0, faults); err != nil {
		return err
	}
	if err := wait.Until(ctx, end); err != nil {
		return err
	}
	ran := r.mark()
	if err := r.untilQuiet(ctx); err != nil {
		return err
	}
	r.keepDeferrals(ctx, "")
	r.report.Phases = []Phase{
		phase("idle", begin, start), phase("intake", start, ready), phase("runs", ready, ran), phase("end", ran, r.mark()),
	}
	return nil
}

// startSink starts the sink of the jobs with limits, which the caller must end.
func (r limitsCourse) startSink(ctx context.Context) (err error) {
	folder := filepath.Join(r.cfg.Dir, limitedSource)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	r.second, err = process.StartSink(ctx, r.cfg.Program, folder)
	return err
}

// putTasks makes the tasks and writes down how the API shows them.
func (r limitsCourse) putTasks(ctx context.Context, tasks []limitedTask) (err error) {
	f, err := createNew(r.tasksFile())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, t := range tasks {
		shown, err := r.putTask(ctx, t)
		if err != nil {
			return fmt.Errorf("make task %s: %w", t.name, err)
		}
		if shown.Name != t.name || shown.Rate.String() != t.rate || shown.MaxConcurrent != t.most {
			return fmt.Errorf("make task %s: asked for the rate %q and %d at once, got %q with %q and %d", t.name, t.rate, t.most, shown.Name, shown.Rate, shown.MaxConcurrent)
		}
		if err := journal.WriteLine(f, shown); err != nil {
			return err
		}
	}
	return nil
}

// putTask makes a task and returns how the API shows it.
func (r limitsCourse) putTask(ctx context.Context, t limitedTask) (shown check.Task, err error) {
	o, err := askUntil(ctx, r.http, r.client.URLs, api.Request{
		Method: http.MethodPut, URL: "/v1/tasks/" + url.PathEscape(t.name), Type: "application/json", Body: t.body(r.sink.URL), Timeout: askTimeout,
	}, 0, askPatient)
	if err == nil && o.acked.IsZero() {
		err = errors.New("no node has said that it is there")
	}
	if err != nil {
		return shown, err
	}
	err = json.Unmarshal(o.body, &shown)
	return shown, err
}

// deferralCounter counts the starts that a node has deferred because a task's limit was reached.
const deferralCounter = `carillon_executor_deferred_total{reason="limit"}`

// keepDeferrals adds a node's deferrals ("" = all nodes') to the report. It leaves out a node that
// does not answer: no verdict needs the figure.
func (r limitsCourse) keepDeferrals(ctx context.Context, member string) {
	for _, n := range r.cluster().Status().Carillon {
		if member != "" && n.Name != member {
			continue
		}
		count, err := r.counter(ctx, n.API, deferralCounter)
		if err != nil {
			r.log.Warn("the deferrals of a node are not known", "node", n.Name, "err", err)
			continue
		}
		r.record(func(rep *Report) { rep.Deferrals += int(count) })
	}
}

// judge has both parts judged, each by a judge that sees its tenant and its sink alone.
func (r limitsCourse) judge(ctx context.Context, out io.Writer) error {
	args := []string{"--tasks", r.tasksFile(), "--states", r.statesFile()}
	for _, source := range r.sources() {
		args = append(args, "--asked", r.askedFile(source), "--acks", r.acksFile(source))
	}
	if err := judging(r).by(ctx, "check", r.sink, args, out, &r.report.Check); err != nil {
		return err
	}
	args = append(judging(r).recurringArgs(), "--tenant", limitedTenant)
	return judging(r).by(ctx, "check-limited", r.second, args, out, &r.report.Recurring.Check)
}

// limitsFaults names what must have happened in Limits, and did not.
func (r *Report) limitsFaults() []string {
	if r.Scenario != Limits || !r.Judged {
		return nil
	}
	var faults []string
	var deferred, stood, waited, skipped, cancelled int
	for _, c := range r.Check.Rates {
		deferred += c.Deferred
	}
	for _, c := range r.Check.Limits {
		stood += c.Waited
	}
	if r.Recurring != nil {
		for _, c := range r.Recurring.Check.Limits {
			waited, skipped, cancelled = waited+c.Waited, skipped+c.Skipped, cancelled+c.Cancelled
		}
	}
	for _, n := range []struct {
		n    int
		what string
	}{{deferred, "was deferred by a rate"}, {stood, "waited for others of its task"}, {waited, "waited for a slot"}, {skipped, "was skipped"}, {cancelled, "was cancelled by a limit"}} {
		if n.n == 0 {
			faults = append(faults, "no run "+n.what)
		}
	}
	if !slices.ContainsFunc(r.Events, func(e Event) bool { return e.Act == ActKill }) {
		faults = append(faults, "no node was killed")
	}
	return faults
}

// limitsRows are of Limits.
var limitsRows = []row{
	{"jobs", func(r *Report) string {
		s := r.Settings
		return fmt.Sprintf("%d one-off jobs of tasks with limits, %d recurring jobs with limits; for %g s", s.Jobs, s.Jobs/limitedPart, s.SpanSeconds)
	}},
	{"tasks: asked, acknowledged, done; missed, early, unexpected", func(r *Report) string {
		c := &r.Check
		return fmt.Sprintf("%d, %d, %d; %d, %d, %d", c.Asked, c.Acknowledged, c.Done, c.Missed, c.Early, c.Unexpected)
	}},
	{"starts by rate: runs, starts, deferred; starts a second, fullest span above the rate; beyond the rate", func(r *Report) string {
		return lines(r.Check.Rates, func(c check.RateCount) string {
			return fmt.Sprintf("%s %s: %d, %d, %d; %.1f, %.1f; %d", c.Task, c.Rate, c.Runs, c.Starts, c.Deferred, c.PerSecond(), c.Burst, c.Over)
		})
	}},
	{"at once by max_concurrent: runs, calls (doubled, outlived), most; waited; beyond the limit", func(r *Report) string {
		return lines(r.Check.Limits, func(c check.SlotCount) string {
			return fmt.Sprintf("%s %d: %d, %d (%d, %d), %d; %d; %d", c.Of, c.Limit, c.Runs, c.Calls, c.Doubled, c.Outlived, c.Most, c.Waited, c.Over)
		})
	}},
	{"starts deferred by max_concurrent", func(r *Report) string { return fmt.Sprint(r.Deferrals) }},
	{"limits: targets, done, given up by policy; missed, early, unexpected", of(func(_ *Report, res *RecurringResult) string {
		c := &res.Check
		return fmt.Sprintf("%d, %d, %d (%s); %d, %d, %d", c.Targets, c.Done, c.MissedByPolicy, c.Reasons(), c.Missed, c.Early, c.Unexpected)
	})},
	{"at once by limit: runs, calls, most; waited, skipped, cancelled, outlived; beyond the limit, beside themselves", of(func(_ *Report, res *RecurringResult) string {
		return lines(res.Check.Limits, func(c check.SlotCount) string {
			return fmt.Sprintf("%s %d: %d, %d, %d; %d, %d, %d, %d; %d, %d", c.Of, c.Limit, c.Runs, c.Calls, c.Most, c.Waited, c.Skipped, c.Cancelled, c.Outlived, c.Over, c.Twice)
		})
	})},
	{"duplicate outcomes, duplicate executions (tasks; jobs)", of(func(r *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d, %d; %d, %d", r.Check.DuplicateOutcomes, r.Check.DuplicateExecutions, res.Check.DuplicateOutcomes, res.Check.DuplicateExecutions)
	})},
	{"unfinished, unreadable (tasks; jobs)", of(func(r *Report, res *RecurringResult) string {
		return fmt.Sprintf("%d, %d; %d, %d", r.Check.Unfinished, r.Check.Unreadable+r.Check.UnreadableOthers+r.Check.Unlisted, res.Check.Unfinished, res.Check.Unreadable)
	})},
	{"CPU idle, s/s", coresIn("idle")},
	{"CPU while they run, s/s", coresIn("runs")},
}

// lines makes a line of a cell of each.
func lines[T any](all []T, line func(T) string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = line(all[i])
	}
	return strings.Join(texts, "<br>")
}

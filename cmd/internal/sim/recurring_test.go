package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	recurringjobs "carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

const (
	// recurringSource is the source in the address that recurring jobs call.
	recurringSource = "recurring"
	// askTries bounds how often something is asked for about a recurring job, askPause is the time
	// between two tries.
	askTries = 30
	askPause = 2 * time.Second
)

// recurring is a recurring job with the changes that were asked for. One goroutine at a time uses
// it.
type recurring struct {
	ref    check.Ref
	spec   schema.JobSpec
	id     schema.JobID
	events []check.JobEvent
	closed []string // the dates of its calendar; nil if it has none
}

// askRecurring creates recurring jobs and changes some of them, for as long as Span.
func (w *world) askRecurring(ctx context.Context, wg *sync.WaitGroup) {
	for line := 1; line <= w.s.Recurring; line++ {
		rng := rand.New(rand.NewPCG(w.s.Seed, uint64(line)<<8|3)) // #nosec G404,G115 -- drawn from the seed, and small
		r := &recurring{ref: check.Ref{Source: recurringSource, Line: line}, spec: someSpec(line, w.s.Guarantees, rng)}
		w.recurring = append(w.recurring, r)
		wg.Go(func() {
			time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 4))
			if w.s.Calendars && line%2 == 0 && !w.useCalendar(ctx, r, rng) {
				return
			}
			if !w.createRecurring(ctx, r) || !w.s.Changes {
				return
			}
			for range rng.IntN(4) {
				time.Sleep(time.Duration(rng.Float64() * float64(w.s.Span) / 4))
				if r.closed != nil && rng.IntN(3) > 0 {
					w.changeCalendar(ctx, r)
				} else {
					w.changeRecurring(ctx, r, rng)
				}
			}
		})
	}
}

// misfires are the policies that jobs state in turn. The first is the default.
var misfires = []*schema.Misfire{
	nil,
	{Policy: schema.RunAll},
	{Policy: schema.Skip},
	{Policy: schema.RunAll, Deadline: schema.Duration(2 * time.Minute)},
	{Policy: schema.RunLatest, Deadline: schema.Duration(20 * time.Second)},
	{Policy: schema.Skip, Deadline: schema.Duration(10 * time.Second)},
}

// crons are expressions that some jobs state instead of an interval. The judge computes their times
// by itself (loadtest/check/cron.go).
var crons = []struct{ expression, zone string }{
	{"*/5 * * * * *", ""},
	{"3-59/9 * * * * *", "Europe/Berlin"},
	{"0,1,30 * * * * *", "Asia/Kathmandu"},
	{"* * * * *", "America/New_York"},
}

// guarantees are those that jobs ask for in turn.
var guarantees = []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce}

// someSpec draws the spec of a job; if guarded, with one of the guarantees.
func someSpec(line int, guarded bool, rng *rand.Rand) schema.JobSpec {
	every := time.Duration(1+rng.IntN(20)) * time.Second
	rule := &schema.Schedule{Every: schema.Duration(every)}
	if rng.IntN(3) == 0 {
		c := crons[rng.IntN(len(crons))]
		rule = &schema.Schedule{Cron: c.expression, Timezone: c.zone}
	}
	spec := schema.JobSpec{
		Tenant: "default", Name: fmt.Sprintf("job-%d", line), Schedule: rule, Misfire: misfires[line%len(misfires)],
		Work: &schema.Work{
			HTTP:    &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", recurringSource, line)},
			Timeout: schema.Duration(15 * time.Second),
		},
	}
	if guarded {
		spec.Work.Guarantee = guarantees[line/len(misfires)%len(guarantees)]
	}
	if line%4 == 3 { // two schedules, which have some instants in common
		first := *rule
		*rule = schema.Schedule{Listed: true, Any: []schema.Schedule{first, {Every: 3 * first.Every}}}
		if first.Cron != "" {
			rule.Any[1].Every = schema.Duration(7 * time.Second)
		}
	}
	if rng.IntN(2) == 0 {
		spec.JitterStated, rule.Jitter = true, schema.Duration(every/5)
	}
	return spec
}

// createRecurring creates a job under a key, and retries until it is acknowledged. It reports
// whether it was.
func (w *world) createRecurring(ctx context.Context, r *recurring) bool {
	key := fmt.Sprintf("recurring-%d", r.ref.Line)
	return w.alter(r, check.JobCreated, func(b *engine.Engine) (schema.Job, error) {
		job, _, err := b.CreateJob(ctx, r.spec, key, key)
		return job, err
	})
}

// changeRecurring changes, pauses, resumes or cancels a job.
func (w *world) changeRecurring(ctx context.Context, r *recurring, rng *rand.Rand) {
	kind, every := rng.IntN(9), schema.Duration(time.Duration(1+rng.IntN(20))*time.Second)
	switch {
	case kind == 0:
		w.alter(r, check.JobCancelled, func(b *engine.Engine) (schema.Job, error) {
			return b.CancelJob(ctx, "default", r.id, 0)
		})
	case kind <= 2:
		w.pauseRecurring(ctx, r)
	case kind <= 4:
		w.alter(r, check.JobResumed, func(b *engine.Engine) (schema.Job, error) {
			return b.ResumeJob(ctx, "default", r.id, 0)
		})
	default:
		w.alter(r, check.JobUpdated, func(b *engine.Engine) (schema.Job, error) {
			return b.ChangeJob(ctx, "default", r.id, 0, func(s *schema.JobSpec) error {
				rule := *s.Schedule
				if r.closed != nil {
					rule.Any = []schema.Schedule{{Every: every, Calendar: rule.Any[0].Calendar}}
				} else {
					rule.Cron, rule.Timezone, rule.Every, rule.Any, rule.Listed = "", "", every, nil, false
				}
				s.Schedule = &rule
				return nil
			})
		})
	}
}

func (w *world) pauseRecurring(ctx context.Context, r *recurring) bool {
	return w.alter(r, check.JobPaused, func(b *engine.Engine) (schema.Job, error) {
		return b.PauseJob(ctx, "default", r.id, 0)
	})
}

// alter asks one node after the other until one answers, records the event, and reports whether one
// did: it is done, or the job has finished. Asking twice is harmless.
func (w *world) alter(r *recurring, kind check.JobEventKind, ask func(b *engine.Engine) (schema.Job, error)) bool {
	off := w.off()
	e := check.JobEvent{Ref: r.ref, Kind: kind, Requested: time.Now().Add(-off)}
	defer func() { r.events = append(r.events, e) }()
	doubt := false // an earlier try may have been applied
	for range askTries {
		if b := w.someNode(); b != nil {
			job, err := ask(b)
			switch {
			case err == nil:
				r.id, e.Acked = job.ID, time.Now().Add(off)
				e.Job = shown(b, &job)
				return true
			case errors.Is(err, bucketer.ErrFinished):
				e.Refused = !doubt
				return true
			}
			doubt = true
		}
		time.Sleep(askPause)
	}
	return false
}

func ruleOf(s *schema.Schedule) check.Rule {
	r := check.Rule{Cron: s.Cron, Timezone: s.Timezone, Every: check.Span(s.Every), Anchor: s.Anchor}
	if s.Calendar != nil {
		r.Exclude = s.Calendar.Dates
	}
	return r
}

// shown returns the job as the API shows it.
func shown(b *engine.Engine, job *schema.Job) check.JobView {
	s := &job.Current.Spec
	v := check.JobView{
		ID: job.ID.String(), State: string(job.Current.State), Generation: job.Current.Number,
		Start: s.Schedule.Start, End: s.Schedule.End, Jitter: check.Span(s.Schedule.Jitter),
	}
	v.Schedule = ruleOf(s.Schedule)
	for i := range s.Schedule.Any {
		v.Schedules = append(v.Schedules, ruleOf(&s.Schedule.Any[i]))
	}
	v.Misfire.Policy = schema.RunLatest
	if s.Work != nil {
		v.Guarantee = check.Guarantee(s.Work.Guarantee)
	}
	if m := s.Misfire; m != nil {
		v.Misfire.Policy, v.Misfire.Deadline = m.Policy, check.Span(m.Deadline)
	}
	if next, ok := b.NextRun(*job, time.Now()); ok {
		v.NextRun = &check.NextRun{ID: next.ID.String(), NominalAt: next.Nominal, DueAt: next.Due}
	}
	return v
}

// pauseRecurringJobs pauses every recurring job after the last fault, so that no new runs start
// while everything ends.
func (w *world) pauseRecurringJobs(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var awake []string
	for _, r := range w.recurring {
		if r.id.IsZero() {
			continue
		}
		wg.Go(func() {
			if !w.pauseRecurring(ctx, r) {
				mu.Lock()
				defer mu.Unlock()
				awake = append(awake, r.ref.String())
			}
		})
	}
	wg.Wait()
	if len(awake) > 0 {
		return fmt.Errorf("could not be paused, and nothing goes wrong any more: %s", strings.Join(awake, ", "))
	}
	return nil
}

// outage kills every node in the middle, and starts them again after a while.
func (w *world) outage(wg *sync.WaitGroup) {
	if w.s.Outage == 0 {
		return
	}
	wg.Go(func() {
		time.Sleep(w.s.Span / 2)
		for _, n := range w.c.nodes {
			n.Kill()
		}
		stop := check.Stop{From: time.Now()}
		time.Sleep(w.s.Outage)
		stop.To = time.Now()
		w.stops = append(w.stops, stop)
		for _, n := range w.c.nodes {
			if err := n.Start(); err != nil {
				panic(err)
			}
		}
	})
}

// judgeRecurring judges the recurring jobs by loadtest/check. seen are their calls.
func (w *world) judgeRecurring(ctx context.Context, b *engine.Engine, seen []check.Sighting, kills []check.Kill) error {
	w.judgeImported()
	if w.s.Recurring+w.s.Imported == 0 {
		return nil
	}
	h := check.RecurringHistory{Seen: seen, SeenAll: true, Late: w.s.boundRecurring(w.c.away), Doubles: w.s.doublesRecurring(), StreamLosses: w.streamLosses, End: w.pausedAt, Stops: w.stops, Kills: kills, Off: w.off()}
	for _, r := range w.recurring {
		h.Events = append(h.Events, r.events...)
		if r.id.IsZero() {
			continue
		}
		read := check.JobHistory{ID: r.id.String()}
		for _, into := range []*check.JobReading{&read.First, &read.Second} {
			past, err := w.history(ctx, b, r.id)
			if err != nil {
				return err
			}
			*into = check.JobReading{Status: check.Found, At: time.Now(), Runs: past}
			time.Sleep(time.Second)
		}
		h.Jobs = append(h.Jobs, read)
	}
	var err error
	w.out.Recurring, err = check.JudgeRecurring(h)
	for _, r := range w.recurring {
		if slices.ContainsFunc(w.out.Recurring.Faults, func(f check.Fault) bool { return f.Job == r.ref.String() && f.Kind != check.FaultDuplicateExecution }) {
			w.c.fault("%v%s", r, w.planTrace(ctx, r.id))
		}
	}
	return err
}

// history reads the runs of a job that have ended.
func (w *world) history(ctx context.Context, b *engine.Engine, id schema.JobID) (all []check.JobRun, err error) {
	for pos := (&runs.Position{}); pos != nil; {
		var page []runs.Run
		if page, pos, err = b.JobRuns(ctx, "default", id, recurringjobs.JobRunFilter{}, *pos, 500); err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].State.Terminal() { // the others are judged once they have ended
				all = append(all, jobRun(&page[i]))
			}
		}
	}
	return all, nil
}

// jobRun returns the run of a job as the API shows it.
func jobRun(r *runs.Run) check.JobRun {
	out := check.JobRun{Run: view(*r), NominalAt: r.Entry.Spec.Nominal, Trigger: string(r.Entry.Spec.Trigger)}
	out.DueAt = r.Entry.Due()
	for i := range r.Attempts {
		rec := r.Attempts[i].Record
		if rec != nil && rec.Outcome == schema.Cancelled && r.State == schema.StateCancelled {
			out.FinishedAt = rec.Finished
		}
		if rec == nil || rec.Outcome != schema.Missed || r.State != schema.StateMissed {
			continue
		}
		missed := check.Stretch{From: out.NominalAt, To: out.NominalAt, Count: 1, Reason: rec.Reason}
		if m := rec.Missed; m != nil {
			missed = check.Stretch{From: m.From, To: m.To, Count: int(m.Count), Reason: m.Reason}
		}
		// the one that stands for more, if two owners said what became of it
		if out.Missed == nil || missed.To.After(out.Missed.To) {
			out.Missed, out.FinishedAt = &missed, rec.Finished
		}
	}
	if c := r.Entry.Marks.Cancelled; c != nil && r.State == schema.StateCancelled && out.FinishedAt.IsZero() {
		out.FinishedAt = c.At
	}
	return out
}

// String tells what was asked about the job, for who looks at a seed.
func (r *recurring) String() string {
	var b strings.Builder
	for i := range r.events {
		e := &r.events[i]
		fmt.Fprintf(&b, "\n%s %s asked %s, acknowledged %s, refused %t: generation %d %s %s%v of %s, jitter %v, next %v", r.ref, e.Kind,
			e.Requested.Format(clockTime), e.Acked.Format(clockTime), e.Refused, e.Job.Generation, e.Job.State,
			e.Job.Schedule.Cron, time.Duration(e.Job.Schedule.Every), e.Job.Schedule.Anchor.Format(clockTime), time.Duration(e.Job.Jitter), e.Job.NextRun)
	}
	return b.String()
}

const clockTime = "15:04:05.000"

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Jobs that run on events call addresses of eventSource.
const (
	eventSource    = "event"
	listenerSource = "listener"
	// eventLate bounds how late the run of an event starts: as that of any job, and the planning of
	// the event before.
	eventLate = 4 * time.Minute
)

// simEvents are the jobs and the workflow that run on events, and the events that were published.
type simEvents struct {
	mu    sync.Mutex
	jobs  []*simSubscriber
	waits []*simWait
	// listens is when the listener was acknowledged; zero: it was not.
	listens time.Time
	events  []*simEvent
	// unsure: something was not acknowledged, and may be there all the same.
	unsure bool
}

// doubt notes that something was asked for, and not acknowledged.
func (v *simEvents) doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unsure = true
}

// simSubscriber is a job that runs on an event whose n is even, or on all.
type simSubscriber struct {
	id       schema.JobID
	name     string
	evenOnly bool
	asked    time.Time // when it was first asked for
	acked    time.Time // when it was acknowledged
}

// simWait is a workflow run whose one step waits for the event of its number.
type simWait struct {
	run   schema.RunID
	n     int
	acked time.Time
}

// simEvent is an event that was acknowledged.
type simEvent struct {
	id    schema.EntryID
	n     int
	asked time.Time
	acked time.Time
}

// listener is the job that runs on the failures of all others.
const listener = "on-failures"

// askEvents makes jobs that run on an event, some while it is published, and workflow runs that wait
// for it.
func (w *world) askEvents(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Events == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 50)) // #nosec G404 -- drawn from the seed
	began := time.Now()
	for i := range 6 {
		at := time.Duration(rng.Float64() * float64(w.s.Span) / 2)
		if i < 3 {
			at = 0
		}
		wg.Go(func() {
			time.Sleep(at)
			w.askSubscriber(ctx, i)
		})
	}
	wg.Go(func() { w.askListener(ctx) })
	for n := range w.s.Events {
		at, waits := w.s.Span/10+time.Duration(rng.Float64()*float64(w.s.Span)*0.8), n%3 == 0
		wg.Go(func() {
			if waits {
				w.askWait(ctx, n, began.Add(w.s.Span))
			}
			time.Sleep(time.Until(began.Add(at)))
			w.askEvent(ctx, n)
		})
	}
}

// askListener makes the job that runs on failures.
func (w *world) askListener(ctx context.Context) {
	spec := schema.JobSpec{
		Tenant: "default", Name: listener, On: &schema.EventTrigger{Event: schema.EventRunFailed},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/" + listenerSource + "/1"}, Timeout: schema.Duration(15 * time.Second)},
	}
	if err := w.retry(func(b *engine.Engine) error {
		_, _, err := b.CreateJob(ctx, spec, listener, listener)
		return err
	}); err != nil {
		w.events.doubt()
		return
	}
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	w.events.listens = time.Now()
}

func (w *world) askSubscriber(ctx context.Context, i int) {
	s := &simSubscriber{name: fmt.Sprintf("on-event-%d", i), evenOnly: i%2 == 1, asked: time.Now()}
	on := schema.EventTrigger{Event: "sim"}
	if s.evenOnly {
		on.Filter = "event.n % 2 == 0"
	}
	spec := schema.JobSpec{
		Tenant: "default", Name: s.name, On: &on,
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", eventSource, i+1)}, Timeout: schema.Duration(15 * time.Second)},
	}
	if err := w.retry(func(b *engine.Engine) error {
		job, _, err := b.CreateJob(ctx, spec, s.name, s.name)
		s.id = job.ID
		return err
	}); err != nil {
		w.events.doubt()
		return
	}
	s.acked = time.Now()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	w.events.jobs = append(w.events.jobs, s)
}

// askWait begins a workflow run that waits for event n. It is not looked at for longer than until.
func (w *world) askWait(ctx context.Context, n int, until time.Time) {
	d := workflow.Definition{Steps: []workflow.Step{{
		Name: "wait", Wait: &workflow.Wait{Event: "sim", Filter: "event.n == input.n", Deadline: schema.Duration(time.Hour)},
	}}}
	stored, err := orchestration.NewJobWorkflow(&d)
	if err != nil {
		w.c.fault("workflow: %v", err)
		return
	}
	s, name := &simWait{n: n}, fmt.Sprintf("waits-%d", n)
	if err := w.retry(func(b *engine.Engine) error {
		job, _, err := b.PutJob(ctx, "default", name, 0, schema.JobSpec{Workflow: stored})
		if err != nil {
			return err
		}
		r, err := b.TriggerJob(ctx, "default", job.ID, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), name, name)
		s.run = r.Run
		return err
	}); err != nil {
		return
	}
	// It waits once its step is shown.
	step := schema.MakeStepID(s.run, 0, 0)
	for time.Now().Before(until) {
		if w.retry(func(b *engine.Engine) error { _, err := b.Run(ctx, "default", step); return err }) == nil {
			s.acked = time.Now()
			break
		}
		time.Sleep(time.Second)
	}
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	w.events.waits = append(w.events.waits, s)
}

func (w *world) askEvent(ctx context.Context, n int) {
	e, key := &simEvent{n: n, asked: time.Now()}, fmt.Sprintf("event-%d", n)
	if err := w.retry(func(b *engine.Engine) error {
		r, err := b.Publish(ctx, "default", "sim", json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), key, key)
		e.id = r.Run
		return err
	}); err != nil {
		w.events.doubt()
		return
	}
	e.acked = time.Now()
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	w.events.events = append(w.events.events, e)
}

// judgeEvents judges the runs of events: of each event that was acknowledged, each job that was
// acknowledged before runs once, and each step that waited has heard of it. Others may.
func (w *world) judgeEvents(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	v := &w.events
	first := make(map[string]time.Time) // by run: its first call
	for _, s := range seen {
		if at, ok := first[s.Run]; !ok || s.At.Before(at) {
			first[s.Run] = s.At
		}
	}
	for _, e := range v.events {
		list, more, err := b.RunsOf(ctx, "default", e.id, 0, 100)
		if err != nil {
			return fmt.Errorf("runs of event %s: %w", e.id, err)
		}
		if more {
			w.c.fault("event %d has more than 100 runs", e.n)
		}
		of := make(map[schema.JobID]int)
		for i := range list {
			r := &list[i]
			of[r.Entry.Spec.Job]++
			if r.State != schema.StateSucceeded && r.State != schema.StateFailed {
				w.c.fault("run %s of event %d is %s in the end", r.ID, e.n, r.State)
			}
			at, called := first[r.ID.String()]
			delete(first, r.ID.String())
			switch {
			case !called:
				w.c.fault("run %s of event %d was never called", r.ID, e.n)
			case at.Before(e.asked):
				w.c.fault("run %s of event %d was called before the event", r.ID, e.n)
			case at.After(e.acked.Add(eventLate)):
				w.c.fault("run %s of event %d was called %v after it", r.ID, e.n, at.Sub(e.acked))
			}
		}
		for _, s := range v.jobs {
			wants, n := !s.evenOnly || e.n%2 == 0, of[s.id]
			delete(of, s.id)
			switch {
			case n > 1, n == 1 && !wants:
				w.c.fault("job %s has %d runs of event %d", s.name, n, e.n)
			case n == 0 && wants && s.acked.Before(e.asked.Add(-w.unseenFor())):
				w.c.fault("job %s, acknowledged %v before event %d, has no run of it", s.name, e.asked.Sub(s.acked), e.n)
			}
		}
		for id := range of {
			if v.unsure {
				continue
			}
			w.c.fault("a job %s that was not acknowledged has a run of event %d", id, e.n)
		}
	}
	for id := range first {
		if v.unsure {
			continue
		}
		w.c.fault("run %s was called, and is of no event that was acknowledged", id)
	}
	if err := w.judgeFailures(ctx, b); err != nil {
		return err
	}
	return w.judgeWaits(ctx, b)
}

// judgeFailures judges the events of the system: each run that has failed since the listener listened
// was announced, and of each announcement the listener has one run.
func (w *world) judgeFailures(ctx context.Context, b *engine.Engine) error {
	if w.events.listens.IsZero() || w.s.Events == 0 {
		return nil
	}
	window := runs.Window{Tenant: "default", From: w.events.listens.Add(-time.Hour), To: time.Now().Add(time.Hour)}
	announced := make(map[schema.RunID]bool)
	for pos := new(runs.Position); pos != nil; {
		var page []schema.Entry
		var err error
		if page, pos, err = b.Events(ctx, window, schema.EventRunFailed, *pos, 500); err != nil {
			return fmt.Errorf("events of failures: %w", err)
		}
		for i := range page {
			var body struct {
				RunID schema.RunID `json:"run_id"`
			}
			if err := json.Unmarshal(page[i].Payload, &body); err != nil {
				return err
			}
			announced[body.RunID] = true
			if page[i].ID.Time().Before(w.events.listens) {
				continue // its tenant was noted, and the listener not made yet
			}
			list, _, err := b.RunsOf(ctx, "default", page[i].ID, 0, 10)
			if err != nil {
				return fmt.Errorf("runs of event %s: %w", page[i].ID, err)
			}
			if len(list) != 1 {
				w.c.fault("the listener has %d runs of the failure of %s", len(list), body.RunID)
			}
		}
	}
	window.States = []schema.State{schema.StateFailed}
	for pos := new(runs.Position); pos != nil; {
		var page []runs.Run
		var err error
		if page, pos, err = b.Runs(ctx, window, *pos, 500); err != nil {
			return fmt.Errorf("runs that have failed: %w", err)
		}
		for i := range page {
			r := &page[i]
			last := r.Attempts[len(r.Attempts)-1].Record
			if last == nil || last.Finished.Before(w.events.listens.Add(listensAfter)) || announced[r.ID] {
				continue
			}
			w.c.fault("run %s has failed at %v, attempts %d, and that was not announced", r.ID, last.Finished, len(r.Attempts))
		}
	}
	return nil
}

// listensAfter is how long after its acknowledgement a subscription to events of the system is in
// force on all nodes, and on one that has just started or was frozen.
const listensAfter = 5 * time.Second

func (w *world) judgeWaits(ctx context.Context, b *engine.Engine) error {
	byNumber := make(map[int]*simEvent)
	for _, e := range w.events.events {
		byNumber[e.n] = e
	}
	for _, s := range w.events.waits {
		e := byNumber[s.n]
		if e == nil || s.acked.IsZero() || !s.acked.Before(e.asked) {
			continue
		}
		r, err := b.Run(ctx, "default", s.run)
		if err != nil {
			return fmt.Errorf("run that waits: %w", err)
		}
		step, err := b.Run(ctx, "default", schema.MakeStepID(s.run, 0, 0))
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return fmt.Errorf("step that waits: %w", err)
		}
		if r.State != schema.StateSucceeded || len(step.Attempts) != 1 || step.Attempts[0].Record.Output != fmt.Sprintf(`{"n":%d}`, s.n) {
			w.c.fault("run %s that waited for event %d is %s in the end, its step %s, attempts %d", s.run, s.n, r.State, step.State, len(step.Attempts))
		}
	}
	return nil
}

// unseenFor is how long a region that takes a home over may not see a job that was acknowledged: a
// home may move while conditional writes are not answered, of which deploy/REGIONS.md warns.
func (w *world) unseenFor() time.Duration {
	if w.s.Regions == nil || w.s.Regions.Unanswered == 0 {
		return 0
	}
	return unansweredTakes
}

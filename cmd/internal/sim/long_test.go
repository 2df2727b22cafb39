package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs that wait for longer than rows stay call addresses of longSource. The line says what happens
// there.
const (
	longSource = "kept"
	longTask   = "kept"

	longOnce   = 1 // answers at once
	longLasts  = 2 // answers after longTook
	longAgain  = 3 // asks at first to come again after longTook
	longRefuse = 4 // refuses the first attempt for good

	// longTook is longer than longRetention.
	longRetention = 50 * time.Minute
	longTook      = 80 * time.Minute
	// longWithin is how long all of it takes at most: four runs one after the other, and twice that
	// where nodes die.
	longWithin = 8 * time.Hour
)

// longRun is a run that waits, or lasts, for longer than rows stay.
type longRun struct {
	kind  string
	run   schema.RunID
	may   []schema.State // what it may end as
	ended time.Time      // when its end was first seen
	state schema.State
	gone  bool // it was missing when it should have been there
	// leaves: it was asked for while the tenant had a retention
	leaves bool
}

// longWork is work with an address of longSource.
func longWork(line int) *schema.Work {
	w := &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/%s/%d", longSource, line)}, Timeout: schema.Duration(15 * time.Second)}
	if line == longLasts {
		w.Timeout = schema.Duration(longTook + time.Minute)
	}
	return w
}

// askLong asks for a run of each kind that waits for longer than its rows stay, looks at each every
// minute, and returns when all have ended.
func (w *world) askLong(ctx context.Context, wg *sync.WaitGroup) {
	if !w.s.Waiting {
		return
	}
	wg.Go(func() {
		if err := w.submitLong(ctx); err != nil {
			w.c.fault("what is to wait could not be asked for: %v", err)
			return
		}
		reader, err := w.reader(ctx)
		if err != nil {
			w.c.fault("reader: %v", err)
			return
		}
		for began := time.Now(); time.Since(began) < longWithin; time.Sleep(time.Minute) {
			open := false
			for _, k := range w.long {
				open = w.check(ctx, reader, k) || open
			}
			if !open {
				break
			}
		}
		for _, k := range w.long {
			if k.ended.IsZero() {
				w.c.fault("%s: run %s is %q in the end:\n%s", k.kind, k.run, k.state, w.trace(ctx, k.run))
			}
		}
		if err := w.judgeLeft(ctx); err != nil {
			w.c.fault("whether what was to leave has left could not be read: %v", err)
		}
	})
}

// longHop bounds the time between two entries of a run under way, each with half a retention left.
const longHop = 5 * time.Minute

// check reads a run, and reports whether it has not ended yet. The run must be readable until its
// end, and half a retention less longHop after that.
func (w *world) check(ctx context.Context, b *engine.Engine, k *longRun) (open bool) {
	run, err := b.Run(ctx, "default", k.run)
	over := !k.ended.IsZero()
	switch {
	case errors.Is(err, schema.ErrNotFound) && over && time.Since(k.ended) > longRetention/2-longHop, k.gone:
	case err != nil:
		w.c.fault("%s: run %s, %v after its due time, was %q: %v\n%s", k.kind, k.run, time.Since(k.run.Time()), k.state, err, w.trace(ctx, k.run))
		k.gone, k.ended = true, time.Now()
	case over && run.State != k.state:
		w.c.fault("%s: run %s was %s and is %s, %v after its end:\n%s", k.kind, k.run, k.state, run.State, time.Since(k.ended), w.trace(ctx, k.run))
	case run.State.Terminal() && !over:
		k.ended = time.Now()
		if !slices.Contains(k.may, run.State) {
			w.c.fault("%s: run %s has %s:\n%s", k.kind, k.run, run.State, w.trace(ctx, k.run))
		}
	}
	if err == nil {
		k.state = run.State
	}
	return k.ended.IsZero()
}

// expectLong notes a run that waits.
func (w *world) expectLong(kind string, run schema.RunID, may ...schema.State) {
	w.long = append(w.long, &longRun{kind: kind, run: run, may: append(may, schema.StateSucceeded)})
}

// submitLong asks for one thing after the other.
func (w *world) submitLong(ctx context.Context) error {
	var may []schema.State // of what nobody does twice
	if w.s.Kills > 0 {
		may = append(may, schema.StateFailed)
	}
	// Runs of jobs with a limit of one. The first lasts for longer than its rows stay, so the
	// others wait longer than that.
	for _, name := range []string{"queued", "paused", "guarded"} {
		spec := schema.JobSpec{Tenant: "default", Name: name, Work: longWork(longLasts), Concurrency: &schema.Concurrency{Limit: 1}}
		if name == "guarded" {
			spec.Work.Guarantee = schema.AtMostOnce
		}
		var job schema.Job
		if err := w.retry(func(b *engine.Engine) (err error) {
			job, _, err = b.CreateJob(ctx, spec, name, name)
			return err
		}); err != nil {
			return err
		}
		for n := range 3 {
			if err := w.retry(func(b *engine.Engine) error {
				key := fmt.Sprintf("%s-%d", name, n)
				r, err := b.TriggerJob(ctx, "default", job.ID, nil, key, key)
				if err == nil && name == "guarded" {
					w.expectLong("limit of a "+name+" job", r.Run, may...)
				} else if err == nil {
					w.expectLong("limit of a "+name+" job", r.Run)
				}
				return err
			}); err != nil {
				return err
			}
		}
		if name == "paused" {
			time.Sleep(20 * time.Second)
			if err := w.retry(func(b *engine.Engine) error {
				_, err := b.PauseJob(ctx, "default", job.ID, 0)
				return err
			}); err != nil {
				return err
			}
		}
	}
	// Runs of tasks of which one may start, or be under way, in that time: they are deferred,
	// minutes at a time.
	tasks := []schema.Task{
		{Tenant: "default", Name: longTask + "-rate", Rate: schema.Rate{Count: 1, Per: time.Hour}.String(), Work: *longWork(longOnce)},
		{Tenant: "default", Name: longTask + "-limit", MaxConcurrent: 1, Work: *longWork(longLasts)},
	}
	for _, task := range tasks {
		if err := w.retry(func(b *engine.Engine) error {
			_, _, err := b.PutTask(ctx, task)
			return err
		}); err != nil {
			return err
		}
	}
	time.Sleep(20 * time.Second) // until every node knows
	for _, task := range tasks {
		for n := range 3 {
			job := bucketer.Job{Tenant: "default", Task: task.Name}
			id, err := w.submitLongRun(ctx, job, fmt.Sprintf("%s-%d", task.Name, n))
			if err != nil {
				return err
			}
			w.expectLong("task "+task.Name, id)
			if n < 2 {
				continue
			}
			at := time.Now().Add(2 * time.Minute).Truncate(time.Millisecond)
			if err := w.retry(func(b *engine.Engine) error {
				_, err := b.Reschedule(ctx, "default", id, runs.Change{At: &at})
				if errors.Is(err, bucketer.ErrFinished) {
					return nil // it has begun
				}
				return err
			}); err != nil {
				return err
			}
		}
	}
	// Attempts long after the one before, and requests repeated after the rows have expired.
	again, err := w.submitLongRun(ctx, bucketer.Job{Tenant: "default", Work: longWork(longAgain)}, "again")
	if err != nil {
		return err
	}
	w.expectLong("a retry after Retry-After", again)
	refused := longWork(longRefuse)
	refused.Retry = &schema.Retry{MaxAttempts: 1}
	letter, err := w.submitLongRun(ctx, bucketer.Job{Tenant: "default", Work: refused}, "letter")
	if err != nil {
		return err
	}
	w.expectLong("a dead letter", letter, schema.StateFailed)
	keyed := bucketer.Job{Tenant: "default", Work: longWork(longOnce)}
	once, err := w.submitLongRun(ctx, keyed, "once")
	if err != nil {
		return err
	}
	w.expectLong("a key", once)

	return w.later(ctx, letter, once, keyed)
}

// later repeats requests after the rows of the first ones have expired.
func (w *world) later(ctx context.Context, letter, once schema.RunID, keyed bucketer.Job) error {
	reader, err := w.reader(ctx)
	if err != nil {
		return err
	}
	if w.s.Retained {
		if err := w.takeRetentionBack(ctx); err != nil {
			return err
		}
	}
	for until := time.Now().Add(2 * longRetention); time.Now().Before(until); time.Sleep(time.Minute) {
		for _, k := range w.long {
			w.check(ctx, reader, k)
		}
	}
	again, err := w.submitLongRun(ctx, keyed, "once")
	if err != nil {
		return err
	}
	if again != once {
		w.c.fault("the key of %s was taken for a new one, %v later: %s", once, time.Since(once.Time()), again)
	}
	return w.retry(func(b *engine.Engine) error {
		r, err := b.Replay(ctx, "default", letter, "sim")
		if err == nil {
			w.expectLong("the replay of a dead letter", r.Run, schema.StateFailed)
		}
		return err
	})
}

// submitLongRun asks for a run under a key, until it is acknowledged.
func (w *world) submitLongRun(ctx context.Context, job bucketer.Job, key string) (id schema.RunID, err error) {
	job.Key, job.BodyHash = key, key
	err = w.retry(func(b *engine.Engine) error {
		r, err := b.Submit(ctx, job)
		id = r.Run
		return err
	})
	return id, err
}

// isLong reports whether a run is one of those that wait for longer than rows stay.
func (w *world) isLong(id schema.RunID) bool {
	return slices.ContainsFunc(w.long, func(k *longRun) bool { return k.run == id })
}

// judgeLong judges that nothing that a key or a mark forbids was called again.
func (w *world) judgeLong(seen []check.Sighting) {
	calls := make(map[string]int)
	for _, s := range seen {
		calls[s.Run]++
	}
	for _, k := range w.long {
		n := calls[k.run.String()]
		most := 1
		if k.kind == "a retry after Retry-After" {
			most = 2
		}
		if n == 0 || n > most && w.s.Kills == 0 && w.s.Faults == (Faults{}) {
			w.c.fault("%s: run %s was called %d times, want 1 to %d", k.kind, k.run, n, most)
		}
	}
}

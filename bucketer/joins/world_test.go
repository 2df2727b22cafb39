package joins_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Engine on a store in memory. The test stands for dispatchers and executors.
type world struct {
	*bucketertest.World
	e *engine.Engine
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4})}
		w.open()
		f(t, w)
	})
}

// open makes the Engine anew, as a process that has just started.
func (w *world) open() {
	w.T.Helper()
	var err error
	if w.e, err = engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w}); err != nil {
		w.T.Fatal(err)
	}
	if err := w.e.Refresh(context.Background()); err != nil {
		w.T.Fatal(err)
	}
}

func work() *schema.Work { return &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}} }

// after says after which jobs a job runs.
func after(when string, deadline time.Duration, names ...string) *schema.After {
	a := &schema.After{When: when, Deadline: schema.Duration(deadline)}
	for _, n := range names {
		a.Jobs = append(a.Jobs, schema.Upstream{Name: n})
	}
	return a
}

// job makes a job that can have many runs; a == nil: one that runs every hour.
func (w *world) job(name string, a *schema.After) schema.Job {
	w.T.Helper()
	job, _, err := w.tryJob(name, a)
	if err != nil {
		w.T.Fatalf("CreateJob(%s) = %v", name, err)
	}
	return job
}

func (w *world) tryJob(name string, a *schema.After) (schema.Job, bool, error) {
	spec := schema.JobSpec{Tenant: "t", Name: name, Work: work(), After: a}
	if a == nil {
		spec.Schedule = &schema.Schedule{Every: schema.Duration(time.Hour)}
	}
	return w.e.CreateJob(context.Background(), spec, "", "")
}

// submit makes a one-off job; names are ids.
func (w *world) submit(a *schema.After) schema.RunID {
	w.T.Helper()
	b := bucketer.Job{Tenant: "t", Work: work()}
	if a != nil {
		_, _, err := w.tryJob("", a)
		var one *recurring.OneOffUpstreams
		if !errors.As(err, &one) {
			w.T.Fatalf("CreateJob = %v, want one-off upstreams", err)
		}
		b.After = &one.After
	} else {
		b.At = time.Now().Add(time.Minute)
	}
	r, err := w.e.Submit(context.Background(), b)
	if err != nil {
		w.T.Fatalf("Submit = %v", err)
	}
	return r.Run
}

// trigger has a job run now, and returns the run.
func (w *world) trigger(job *schema.Job) schema.RunID {
	w.T.Helper()
	r, err := w.e.TriggerJob(context.Background(), "t", job.ID, nil, "", "")
	if err != nil {
		w.T.Fatalf("trigger = %v", err)
	}
	return r.Run
}

func (w *world) run(id schema.RunID) runs.Run {
	w.T.Helper()
	var r runs.Run
	again(w, func() (err error) {
		r, err = w.e.Run(context.Background(), "t", id)
		return err
	})
	return r
}

// end records the end of a run, and does what follows from it, again until that succeeds.
func (w *world) end(id schema.RunID, rec schema.Record) {
	w.T.Helper()
	r := w.run(id)
	now := time.Now()
	rec.Entry, rec.Started, rec.Finished, rec.Announce = r.Current.ID, now.UTC(), now.UTC(), w.e.Announces("t")
	row := schema.Attempt{Run: id, Number: 1, Fence: schema.MakeFence(now), Record: &rec, Written: now.UnixMicro(), Expires: now.Add(48 * time.Hour)}
	again(w, func() error { return w.e.Record(context.Background(), []schema.Attempt{row}) })
	again(w, func() (err error) {
		w.e.FollowUp(context.Background(), []bucketer.Finished{{Entry: r.Current, Attempt: row}}, func(_ int, e error) { err = e })
		return err
	})
}

func (w *world) succeed(id schema.RunID) {
	w.T.Helper()
	w.end(id, schema.Record{Outcome: schema.Succeeded})
}

func (w *world) fail(id schema.RunID) {
	w.T.Helper()
	w.end(id, schema.Record{Outcome: schema.Failed, Final: true})
}

// again does something until it succeeds.
func again(w *world, f func() error) {
	w.T.Helper()
	var err error
	for range 20 {
		if err = f(); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	w.T.Fatalf("it keeps failing: %v", err)
}

// plan plans every entry that is due and open, until there is none.
func (w *world) plan() {
	w.T.Helper()
	for {
		n := 0
		for _, e := range w.Entries(72 * time.Hour) {
			if !e.Spec.Kind.Plans() || e.Due().After(time.Now()) || w.isOver(&e) {
				continue
			}
			n++
			again(w, func() error { return w.e.PlanEvent(context.Background(), &e) })
		}
		if n == 0 {
			return
		}
	}
}

func (w *world) isOver(e *schema.Entry) bool {
	w.T.Helper()
	of, err := w.Counts.Attempts(context.Background(), e.Run().Partition(), []schema.RunID{e.Run()})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, a := range of {
		if a.Number == 0 && a.Record != nil && a.Record.Entry == e.ID {
			return true
		}
	}
	return false
}

// joins returns the runs of a job that joins, oldest first.
func (w *world) joins(job *schema.Job) []runs.Run {
	w.T.Helper()
	var list []runs.Run
	for _, e := range w.Entries(72 * time.Hour) {
		if e.Spec.Kind == schema.KindJoin && e.Spec.Of == e.ID && e.Spec.Job == job.ID {
			list = append(list, w.run(e.ID))
		}
	}
	return list
}

// starts counts the entries that start a run.
func (w *world) starts(id schema.RunID) (n int) {
	w.T.Helper()
	r := w.run(id)
	for _, e := range w.Entries(72 * time.Hour) {
		if e.Run() == id && !e.Spec.Kind.Plans() && r.Entry.Marks.MovedTo == e.ID {
			n++
		}
	}
	return n
}

func (w *world) calm() {
	w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
}

package joins_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// pager makes a job that runs when a run is stuck.
func (w *world) pager() {
	w.T.Helper()
	if _, _, err := w.e.CreateJob(context.Background(), schema.JobSpec{
		Tenant: "t", Name: "pager", Work: work(), On: &schema.EventTrigger{Event: schema.EventWorkflowStuck},
	}, "", ""); err != nil {
		w.T.Fatal(err)
	}
	w.listen()
}

// listen has the engine know who listens to what.
func (w *world) listen() {
	w.T.Helper()
	if err := w.e.RefreshListening(context.Background()); err != nil {
		w.T.Fatal(err)
	}
}

// stuck counts the runs that are listed as stuck.
func (w *world) stuck() int {
	w.T.Helper()
	list, next, err := w.e.Stuck(context.Background(), "t", schema.RunID{}, 10)
	if err != nil || !next.IsZero() {
		w.T.Fatalf("Stuck = %v, %v", next, err)
	}
	return len(list)
}

// stuckEvents counts the events which say that a run is stuck.
func (w *world) stuckEvents() (n int) {
	w.T.Helper()
	for _, e := range w.Entries(2 * time.Hour) {
		if e.Spec.Kind == schema.KindEvent && e.Spec.Of == e.ID && e.Spec.Event.Name == schema.EventWorkflowStuck {
			n++
		}
	}
	return n
}

// A dispatcher plans what is due a little early: a deadline that was planned then is not lost.
func TestDeadlineIsPlannedEarly(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.submit(after("", time.Hour, w.submit(nil).String()))
		w.plan()
		r := w.run(id)
		until := r.Entry.Spec.Join.Until
		time.Sleep(time.Until(until) - 250*time.Millisecond)
		for _, e := range w.Entries(72 * time.Hour) {
			if e.ID == schema.JoinDeadlineID(id, until) {
				if err := w.e.PlanEvent(t.Context(), &e); err != nil {
					t.Fatal(err)
				}
			}
		}
		list, _, err := w.e.Stuck(t.Context(), "t", schema.RunID{}, 10)
		if r = w.run(id); err != nil || len(list) != 1 || !schema.IsStuck(&r.Entry, r.Entry.Marks, r.Attempts) {
			t.Errorf("Stuck = %v, %v; want the run, which is stuck", list, err)
		}
	})
}

// A run is stuck once its deadline has passed, and starts all the same when the jobs end.
func TestStuck(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.pager()
		a := w.submit(nil)
		id := w.submit(after("", time.Hour, a.String()))
		w.plan()
		time.Sleep(59 * time.Minute)
		w.plan()
		if r := w.run(id); w.stuck() != 0 || schema.IsStuck(&r.Entry, r.Entry.Marks, r.Attempts) {
			t.Error("stuck before its deadline")
		}
		time.Sleep(2 * time.Minute)
		w.plan()
		w.plan()
		if r := w.run(id); w.stuck() != 1 || !schema.IsStuck(&r.Entry, r.Entry.Marks, r.Attempts) || r.State != schema.StatePending {
			t.Errorf("%d stuck, run %s, want it among them", w.stuck(), r.State)
		}
		if n := w.stuckEvents(); n != 1 {
			t.Errorf("%d events that it is stuck, want one", n)
		}
		w.succeed(a)
		w.plan()
		if w.starts(id) != 1 || w.stuck() != 0 {
			t.Errorf("it starts %d times, %d stuck, want once and none", w.starts(id), w.stuck())
		}
	})
}

// Whatever call of the store fails at the deadline, is torn, comes late or loses its answer, and
// whether or not the process dies there: the run is listed and announced once, and starts when the
// other job ends.
func TestFaultsAtTheDeadline(t *testing.T) {
	for _, f := range []struct {
		name string
		schematest.Fault
		dies bool
	}{
		{"fails", schematest.Fault{Fail: true}, false},
		{"loses its answer", schematest.Fault{Lose: true}, false},
		{"is torn", schematest.Fault{Tear: true}, false},
		{"is done late", schematest.Fault{Late: time.Minute}, false},
		{"is the first that is not made", schematest.Fault{Fail: true}, true},
		{"is the last", schematest.Fault{Lose: true}, true},
		{"is half of the last", schematest.Fault{Tear: true}, true},
	} {
		for n := 1; ; n++ {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				w.pager()
				a := w.submit(nil)
				id := w.submit(after("", time.Hour, a.String()))
				w.plan()
				deadline := schema.JoinDeadlineID(id, w.run(id).Entry.Spec.Join.Until)
				time.Sleep(time.Hour)
				var calls atomic.Int64
				w.Befall(func(context.Context, string) (none schematest.Fault) {
					switch at := calls.Add(1); {
					case at == int64(n):
						return f.Fault
					case at > int64(n) && f.dies:
						return schematest.Fault{Fail: true}
					}
					return none
				})
				for _, e := range w.Entries(2 * time.Hour) {
					if e.ID == deadline {
						_ = w.e.PlanEvent(t.Context(), &e) // another one plans it again
					}
				}
				reached = calls.Load() >= int64(n)
				time.Sleep(2 * time.Minute) // what comes late has come
				w.calm()
				w.open()
				w.listen()
				w.plan()
				w.plan()
				if w.stuck() != 1 || w.stuckEvents() != 1 || w.starts(id) != 0 {
					t.Errorf("call %d %s: listed %d times, announced %d times, started %d times, want 1, 1 and 0", n, f.name, w.stuck(), w.stuckEvents(), w.starts(id))
				}
				w.succeed(a)
				w.plan()
				if w.stuck() != 0 || w.starts(id) != 1 {
					t.Errorf("call %d %s: after the other job's end it is listed %d times and starts %d times, want 0 and 1", n, f.name, w.stuck(), w.starts(id))
				}
			})
			if !reached {
				if n < 4 {
					t.Errorf("only %d calls at a deadline: the test shows nothing", n-1)
				}
				break
			}
			if t.Failed() {
				return
			}
		}
	}
}

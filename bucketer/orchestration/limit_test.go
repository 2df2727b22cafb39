package orchestration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// limited makes a workflow of one step, of which one run may be under way at once.
func (w *world) limited(onLimit string) schema.Job {
	w.T.Helper()
	d, err := workflow.Decode([]byte(steps(work("only", ""))))
	if err != nil {
		w.T.Fatal(err)
	}
	stored, err := NewJobWorkflow(d)
	if err != nil {
		w.T.Fatal(err)
	}
	job, _, err := w.jobs.PutJob(context.Background(), "t", "limited", 0, schema.JobSpec{
		Workflow: stored, Concurrency: &schema.Concurrency{Limit: 1, OnLimit: onLimit},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return job
}

// openEntry returns the latest entry of a run that is due and open; false: there is none.
func (w *world) openEntry(run schema.RunID) (latest schema.Entry, ok bool) {
	w.T.Helper()
	attempts, err := w.Counts.Attempts(context.Background(), run.Partition(), []schema.RunID{run})
	if err != nil {
		w.T.Fatal(err)
	}
	closed := make(map[schema.EntryID]bool)
	for _, a := range attempts {
		if a.Record != nil && a.Record.Outcome != schema.Began {
			closed[a.Record.Entry] = true
		}
	}
	for _, e := range w.Entries(2 * time.Hour) {
		if e.Run() == run && e.Spec.Step == nil && e.Spec.Kind != schema.KindDefinition && !e.Due().After(time.Now()) && !closed[e.ID] {
			latest, ok = e, true
		}
	}
	return latest, ok
}

// own advances a run as the owner of its shard does, and calls what it starts. It returns how many
// steps began; -1: nothing of the run is open.
func (w *world) own(run schema.RunID, ended ...StepEnd) int {
	w.T.Helper()
	e, ok := w.openEntry(run)
	if !ok {
		return -1
	}
	t := &Turn{Run: run, Entry: e.ID, State: w.states[run], Ended: ended}
	w.o.Advance(context.Background(), []*Turn{t}, 1000)
	w.states[run] = t.State
	if t.Err != nil || t.Over {
		delete(w.states, run)
	}
	return len(t.Start) + len(t.Inspect)
}

// succeed ends the only step of a run, and advances the run past it.
func (w *world) succeed(run schema.RunID) {
	w.T.Helper()
	step := schema.MakeStepID(run, 0, 0)
	row, ok := w.Row(step)
	if !ok {
		w.T.Fatalf("step of %s was not started", run)
	}
	w.Recorded(row, 1, schema.Record{Outcome: schema.Succeeded, Started: time.Now()})
	w.own(run, StepEnd{Run: step, Succeeded: true})
}

// ended reports whether a run has ended, by its rows.
func (w *world) ended(run schema.RunID) bool {
	w.T.Helper()
	row, _ := w.Row(run)
	attempts, err := w.Counts.Attempts(context.Background(), run.Partition(), []schema.RunID{run})
	if err != nil {
		w.T.Fatal(err)
	}
	return schema.Fold(row.Marks, attempts, noSession).Terminal()
}

func TestLimits(t *testing.T) {
	t.Run("queue", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.limited(schema.OnLimitQueue)
			a := w.trigger(job, "")
			time.Sleep(time.Second)
			b := w.trigger(job, "")
			time.Sleep(time.Second)
			c := w.trigger(job, "")
			if n := w.own(a); n != 1 {
				t.Fatalf("the first run starts %d steps, want 1", n)
			}
			for _, run := range []schema.RunID{c, b} {
				if n, again := w.own(run), w.own(run); n != 0 || again != -1 || w.state(run) != schema.StatePending {
					t.Errorf("a run that is held back starts %d steps, then %d, and is %s; want none, its entry closed, pending", n, again, w.state(run))
				}
			}
			w.succeed(a)
			time.Sleep(time.Second)
			if n := w.own(c); n != -1 {
				t.Errorf("the third run starts %d steps before the second", n)
			}
			if n := w.own(b); n != 1 {
				t.Errorf("the second run starts %d steps when the first has ended, want 1", n)
			}
			w.succeed(b)
			time.Sleep(time.Second)
			if n := w.own(c); n != 1 {
				t.Errorf("the third run starts %d steps when the second has ended, want 1", n)
			}
			w.succeed(c)
			for _, run := range []schema.RunID{a, b, c} {
				if got := w.state(run); got != schema.StateSucceeded {
					t.Errorf("a run is %s in the end", got)
				}
			}
		})
	})
	t.Run("queue, and a run whose turn was missed waits again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.limited(schema.OnLimitQueue)
			a := w.trigger(job, "")
			time.Sleep(time.Second)
			b := w.trigger(job, "")
			w.own(a)
			w.own(b)
			w.succeed(a)
			time.Sleep(time.Minute) // nobody advances b: no slot is kept for it any more
			c := w.trigger(job, "")
			if n := w.own(c); n != 1 {
				t.Fatalf("the third run starts %d steps, want 1", n)
			}
			if n, again := w.own(b), w.own(b); n != 0 || again != -1 {
				t.Errorf("the second run starts %d steps beside the third, then %d; want none, its entry closed", n, again)
			}
			w.succeed(c)
			time.Sleep(time.Second)
			if n := w.own(b); n != 1 {
				t.Errorf("the second run starts %d steps when the third has ended, want 1", n)
			}
		})
	})
	t.Run("skip", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.limited(schema.OnLimitSkip)
			a, b := w.trigger(job, ""), w.trigger(job, "")
			w.own(a)
			w.own(b)
			r, err := w.runs.Run(t.Context(), "t", b)
			if err != nil || r.State != schema.StateMissed || !strings.Contains(r.Attempts[0].Record.Reason, "skipped: a run of the job was under way") {
				t.Errorf("the second run is %s, %+v, %v; want missed, with the reason", r.State, r.Attempts, err)
			}
			if n := w.missed.Load(); n != 1 {
				t.Errorf("%d runs count as missed, want 1", n)
			}
			w.succeed(a)
			if n := w.own(w.trigger(job, "")); n != 1 {
				t.Errorf("a run after the end of the first starts %d steps, want 1", n)
			}
		})
	})
	t.Run("cancel_oldest", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			job := w.limited(schema.OnLimitCancelOldest)
			a := w.trigger(job, "")
			w.own(a)
			time.Sleep(time.Second)
			b := w.trigger(job, "")
			if n := w.own(b); n != 0 {
				t.Errorf("the second run starts %d steps beside the first", n)
			}
			delete(w.states, a)
			w.own(a)
			time.Sleep(time.Minute) // the step of a is not called any more
			w.own(a)
			time.Sleep(time.Second)
			if got := w.state(a); got != schema.StateCancelled {
				t.Errorf("the first run is %s, want cancelled", got)
			}
			if n := w.own(b); n != 1 {
				t.Errorf("the second run starts %d steps when the first was cancelled, want 1", n)
			}
		})
	})
}

// TestTwoOwnersAndALimit: one owner finds no slot for a run and puts it into the wait list.
// Meanwhile another owner gets the slot, and perhaps begins the run, and dies. The run goes on all
// the same.
func TestTwoOwnersAndALimit(t *testing.T) {
	for _, begun := range []bool{true, false} {
		t.Run(fmt.Sprintf("begun=%v", begun), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.limited(schema.OnLimitQueue)
				run := w.trigger(job, "")
				key := schema.JobLimit(job.ID)
				e, ok := w.Row(run)
				if !ok {
					t.Fatal("the run has no row")
				}
				if err := w.limits.AddToWaitList(t.Context(), key, &e); err != nil {
					t.Fatal(err)
				}
				if begun {
					if n := w.own(run); n != 1 {
						t.Fatalf("the run starts %d steps, want 1", n)
					}
				} else if has, err := w.limits.Acquire(t.Context(), key, run, 1, w.o.live); err != nil || !has {
					t.Fatalf("Acquire = %v, %v", has, err)
				}
				w.Recorded(e, 0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job is under way"})
				w.open() // the second owner dies
				if n := w.own(run); n != -1 {
					t.Fatalf("the run starts %d steps by an entry that is over", n)
				}

				wake := func() {
					for shard := range schema.Shard(4) {
						if _, err := w.limits.WakeShard(t.Context(), shard, "", w.o.live); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(time.Second)
				}
				wake()
				w.own(run)
				w.succeed(run)
				if got := w.state(run); got != schema.StateSucceeded {
					t.Errorf("the run is %s in the end, want succeeded", got)
				}
				wake()
				if waiting, err := w.limits.WakeWaiters(t.Context(), key, w.o.live); err != nil || waiting != 0 {
					t.Errorf("in the end %d runs wait, %v; want none", waiting, err)
				}
				if n := w.own(w.trigger(job, "")); n != 1 {
					t.Errorf("the next run starts %d steps, want 1: the slot is free", n)
				}
			})
		})
	}
}

// TestARunGetsOneTurn: also if another run waits, and the slot of one that has ended is found
// meanwhile.
func TestARunGetsOneTurn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.limited(schema.OnLimitQueue)
		key := schema.JobLimit(job.ID)
		over, has, waits := w.trigger(job, ""), w.trigger(job, ""), w.trigger(job, "")
		for _, run := range []schema.RunID{over, has} {
			if ok, err := w.limits.Acquire(t.Context(), key, run, 2, w.o.live); err != nil || !ok {
				t.Fatalf("Acquire = %v, %v", ok, err)
			}
		}
		for _, run := range []schema.RunID{has, waits} {
			e, _ := w.Row(run)
			if err := w.limits.AddToWaitList(t.Context(), key, &e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.runs.Cancel(t.Context(), "t", over, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.limits.WakeWaiters(t.Context(), key, w.o.live); err != nil {
			t.Fatal(err)
		}
		turns := 0
		for _, e := range w.Entries(2 * time.Hour) {
			if e.Run() == has && e.Spec.Kind == schema.KindFromWaitList {
				turns++
			}
		}
		if turns != 1 {
			t.Errorf("the run that has a slot gets %d entries, want one", turns)
		}
	})
}

// Whatever call of the store fails, is torn, comes late or loses its answer, and whether the owner
// dies of it: no two runs are under way at once, and each runs.
func TestLimitsWhateverFails(t *testing.T) {
	for _, f := range []struct {
		name string
		schematest.Fault
		dies bool
		step int // every so many calls
	}{
		{"fails", schematest.Fault{Fail: true}, false, 1},
		{"loses its answer", schematest.Fault{Lose: true}, false, 4},
		{"is torn", schematest.Fault{Tear: true}, false, 4},
		{"is done late", schematest.Fault{Late: 20 * time.Second}, false, 4},
		{"is the first that is not made", schematest.Fault{Fail: true}, true, 2},
		{"is the last", schematest.Fault{Lose: true}, true, 4},
	} {
		if testing.Short() {
			f.step *= 4
		}
		for n := 1; ; n += f.step {
			reached := false
			inWorld(t, func(t *testing.T, w *world) {
				job := w.limited(schema.OnLimitQueue)
				a := w.trigger(job, "")
				time.Sleep(time.Second)
				b := w.trigger(job, "")
				all := []schema.RunID{a, b}
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
				for range 16 {
					under := 0
					for _, run := range all {
						w.own(run)
						if _, ok := w.Row(schema.MakeStepID(run, 0, 0)); ok && !w.ended(run) {
							under++
						}
					}
					if under > 1 {
						t.Fatalf("call %d %s: %d runs are under way", n, f.name, under)
					}
					if at := calls.Load(); at >= int64(n) {
						reached = true
					}
					if reached && f.dies {
						w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
						w.open()
					}
					for _, run := range all {
						if _, ok := w.Row(schema.MakeStepID(run, 0, 0)); ok && !w.ended(run) {
							w.succeed(run)
						}
					}
					time.Sleep(5 * time.Second)
					for shard := range schema.Shard(4) {
						_, _ = w.limits.WakeShard(context.Background(), shard, "", w.o.live) // again in 5 s
					}
				}
				w.Befall(func(context.Context, string) (none schematest.Fault) { return none })
				for _, run := range all {
					if got := w.state(run); got != schema.StateSucceeded {
						t.Errorf("call %d %s: a run is %s in the end", n, f.name, got)
					}
				}
			})
			if t.Failed() {
				return
			}
			if !reached {
				if n < 20 {
					t.Errorf("only %d calls: the test shows nothing", n-1)
				}
				break
			}
		}
	}
}

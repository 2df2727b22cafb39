package runs

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// What can be cancelled and changed follows from the state alone.
func TestCancelAndRescheduleByState(t *testing.T) {
	retry := schema.MakeEntryID(time.Now().Add(time.Hour), 1, 1)
	for name, row := range map[string]struct {
		do         func(w *world, e schema.Entry)
		cancel     error
		cancelled  schema.State // after Cancel
		reschedule error
	}{
		"pending":  {nil, nil, schema.StateCancelled, nil},
		"moved":    {func(w *world, e schema.Entry) { w.move(e.ID, time.Now().Add(2*time.Hour)) }, nil, schema.StateCancelled, nil},
		"running":  {func(w *world, e schema.Entry) { w.Running(e, 1) }, nil, schema.StateRunning, bucketer.ErrFinished},
		"retrying": {func(w *world, e schema.Entry) { w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: retry}) }, nil, schema.StateCancelled, bucketer.ErrFinished},
		"replaced, not started": {
			func(w *world, e schema.Entry) { w.Recorded(e, 0, schema.Record{Outcome: schema.Replaced, To: retry}) },
			nil, schema.StateCancelled, nil,
		},
		"noted, and given up before it started": {
			func(w *world, e schema.Entry) {
				w.Recorded(e, 1, schema.Record{Outcome: schema.Lost, Unstarted: true})
			},
			nil, schema.StateCancelled, nil,
		},
		"given up before it started, over the cell of a session that stands": {
			func(w *world, e schema.Entry) { w.LeaveUnstarted(w.Running(e, 1)) },
			nil, schema.StateCancelled, nil,
		},
		"given up before it started, and lost at its next start": {
			func(w *world, e schema.Entry) {
				w.Recorded(e, 1, schema.Record{Outcome: schema.Lost, Unstarted: true})
				time.Sleep(time.Second)
				w.Recorded(e, 1, schema.Record{Outcome: schema.Lost})
			},
			nil, schema.StateCancelled, bucketer.ErrFinished,
		},
		"lost, before its next start": {
			func(w *world, e schema.Entry) { w.Recorded(e, 1, schema.Record{Outcome: schema.Lost}) },
			nil, schema.StateCancelled, bucketer.ErrFinished,
		},
		"succeeded": {func(w *world, e schema.Entry) { w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded}) }, bucketer.ErrFinished, schema.StateSucceeded, bucketer.ErrFinished},
		"failed": {
			func(w *world, e schema.Entry) { w.Recorded(e, 5, schema.Record{Outcome: schema.Failed, Final: true}) },
			bucketer.ErrFinished, schema.StateFailed, bucketer.ErrFinished,
		},
		"missed":    {func(w *world, e schema.Entry) { w.Recorded(e, 0, schema.Record{Outcome: schema.Missed}) }, bucketer.ErrFinished, schema.StateMissed, bucketer.ErrFinished},
		"cancelled": {func(w *world, e schema.Entry) { w.cancel(e.ID) }, nil, schema.StateCancelled, bucketer.ErrFinished},
		"cancelled, and yet succeeded": {func(w *world, e schema.Entry) {
			w.cancel(e.ID)
			w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
		}, bucketer.ErrFinished, schema.StateSucceeded, bucketer.ErrFinished},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				prepare := func() (*world, schema.RunID) {
					w := newWorld(t, schema.Settings{})
					id := w.submit(callTo(time.Now().Add(time.Hour)))
					if row.do != nil {
						e, _ := w.Row(id)
						row.do(w, e)
					}
					w.Sent = nil
					return w, id
				}
				w, id := prepare()
				for range 2 { // cancelling twice answers the same as once
					run, err := w.Cancel(t.Context(), "t", id, "me")
					if !errors.Is(err, row.cancel) || run.State != row.cancelled {
						t.Errorf("Cancel = %s, %v; want %s, %v", run.State, err, row.cancelled, row.cancel)
					}
				}
				if told := slices.Contains(w.Sent, "cancel:"+id.String()); told != (row.cancel == nil) {
					t.Errorf("signals = %q, want the run's: %v", w.Sent, row.cancel == nil)
				}
				w, id = prepare()
				before := w.mustRun(id)
				at := time.Now().Add(30 * time.Minute)
				run, err := w.Reschedule(t.Context(), "t", id, Change{At: &at})
				if !errors.Is(err, row.reschedule) {
					t.Errorf("Reschedule = %v, want %v", err, row.reschedule)
				}
				if err == nil && !run.Current.Due().Equal(at) || err != nil && run.Current.ID != before.Current.ID {
					t.Errorf("after Reschedule = %v the run is due %v", err, run.Current.Due())
				}
			})
		})
	}
}

func TestChangesOfStrangersAndOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		moved := w.move(id, time.Now().Add(2*time.Hour)).Current.ID
		for name, row := range map[string]struct {
			tenant string
			id     schema.RunID
		}{
			"another tenant":          {"u", id},
			"no such run":             {"t", schema.MakeEntryID(time.Now(), 1, 1)},
			"an entry that is no run": {"t", moved},
		} {
			if _, err := w.Cancel(t.Context(), row.tenant, row.id, "me"); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("Cancel of %s = %v, want ErrNotFound", name, err)
			}
			if _, err := w.Reschedule(t.Context(), row.tenant, row.id, Change{}); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("Reschedule of %s = %v, want ErrNotFound", name, err)
			}
		}
		w.Stopped.Store(true)
		if _, err := w.Cancel(t.Context(), "t", id, "me"); !errors.Is(err, bucketer.ErrNotReady) {
			t.Errorf("Cancel while halted = %v, want ErrNotReady", err)
		}
		if _, err := w.Reschedule(t.Context(), "t", id, Change{}); !errors.Is(err, bucketer.ErrNotReady) {
			t.Errorf("Reschedule while halted = %v, want ErrNotReady", err)
		}
	})
}

// A mark of unknown outcome is found out about, not answered with.
func TestMarkOfUnknownOutcome(t *testing.T) {
	for _, op := range []string{"CancelRun", "MoveRun"} {
		for name, f := range map[string]schematest.Fault{"answer lost": {Lose: true}, "late": {Late: time.Second}} {
			t.Run(op+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, schema.Settings{})
					id := w.submit(callTo(time.Now().Add(time.Hour)))
					w.BefallFirst(1, op, f)
					if op == "CancelRun" {
						w.cancel(id)
						if run := w.mustRun(id); run.State != schema.StateCancelled {
							t.Errorf("state = %s, want cancelled", run.State)
						}
						return
					}
					at := time.Now().Add(2 * time.Hour)
					w.move(id, at)
					if run := w.mustRun(id); !run.Current.Due().Equal(at) {
						t.Errorf("due %v, want %v", run.Current.Due(), at)
					}
					if k := bucketertest.Kinds(w.Entries(3 * time.Hour)); k[schema.KindReschedule] != 1 {
						t.Errorf("kinds = %v, want one reschedule entry", k)
					}
				})
			})
			t.Run(op+" always "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, schema.Settings{})
					id := w.submit(callTo(time.Now().Add(time.Hour)))
					w.BefallFirst(1000, op, schematest.Fault{Fail: true})
					_, err := w.Cancel(t.Context(), "t", id, "me")
					if op == "MoveRun" {
						_, err = w.Reschedule(t.Context(), "t", id, Change{At: &time.Time{}})
					} else if run := w.mustRun(id); run.State != schema.StatePending {
						t.Errorf("state = %s, want pending", run.State)
					}
					if op == "CancelRun" && !errors.Is(err, schema.ErrUnavailable) || op == "MoveRun" && err == nil {
						t.Errorf("= %v, want an error", err)
					}
				})
			})
		}
	}
}

// leaving is a store of a region that loses its home while a change is made: of the marks and
// leases that are written from number `from` on it says that it does not serve it. Those before are
// of unknown outcome, and stand.
type leaving struct {
	bucketer.Store
	from, n int
}

func (l *leaving) write(set func() (schema.Marks, error)) (schema.Marks, error) {
	if l.n++; l.n > l.from {
		return schema.Marks{}, &schema.NotServedError{Home: "eu", Asked: "eu"}
	}
	if _, err := set(); err != nil {
		return schema.Marks{}, err
	}
	return schema.Marks{}, schema.ErrUnknown
}

func (l *leaving) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (schema.Marks, error) {
	return l.write(func() (schema.Marks, error) { return l.Store.CancelRun(ctx, id, asRead, mark, expires) })
}

func (l *leaving) MoveRun(ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time) (schema.Marks, error) {
	return l.write(func() (schema.Marks, error) { return l.Store.MoveRun(ctx, id, asRead, to, expires) })
}

func (l *leaving) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	return schema.Lease{}, &schema.NotServedError{Home: "eu", Asked: "eu"}
}

// TestAChangeThatMayStandIsNotRefused: a region that loses the home in the middle of a change says
// that it does not serve it, which alone means that nothing was done. It is so only where nothing
// can have been.
func TestAChangeThatMayStandIsNotRefused(t *testing.T) {
	for _, from := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, schema.Settings{})
			job := callTo(time.Now().Add(time.Hour))
			job.Work.Guarantee = schema.EffectivelyOnce
			cancelled, moved := w.submit(job), w.submit(job)
			for _, change := range []func() error{
				func() error { _, err := w.Cancel(t.Context(), "t", cancelled, "me"); return err },
				func() error {
					at := time.Now().Add(2 * time.Hour)
					_, err := w.Reschedule(t.Context(), "t", moved, Change{At: &at})
					return err
				},
			} {
				w.use(&leaving{Store: w.Store(), from: from})
				if err := change(); !errors.Is(err, schema.ErrNotServed) || errors.Is(err, schema.ErrUnknown) != (from > 0) {
					t.Errorf("after %d writes: %v, want that it is not served, and unknown if something was written", from, err)
				}
			}
		})
	}
}

// Of a cancel and a change that race each other exactly one order happened, and both answers tell
// which: a run whose cancel was answered is not moved after it.
func TestCancelRacesReschedule(t *testing.T) {
	for range 150 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, schema.Settings{})
			id := w.submit(callTo(time.Now().Add(time.Hour)))
			w.Befall(schematest.Seeded(seed, schematest.Odds{Delay: 0.8, Lose: 0.1, Fail: 0.02, MaxDelay: 100 * time.Millisecond}))
			var wg sync.WaitGroup
			var mu sync.Mutex
			var moves []schema.EntryID
			var cancelled []Run
			var afterCancel []time.Time
			draw := rand.New(rand.NewPCG(seed, 2))
			for i := range 4 {
				wait := time.Duration(draw.IntN(int(300 * time.Millisecond)))
				wg.Go(func() {
					time.Sleep(wait)
					begin := time.Now()
					if i == 0 {
						if run, err := w.Cancel(t.Context(), "t", id, "me"); err == nil {
							mu.Lock()
							cancelled, afterCancel = append(cancelled, run), append(afterCancel, time.Now())
							mu.Unlock()
						}
						return
					}
					at := time.Now().Add(time.Duration(i) * time.Hour)
					run, err := w.Reschedule(t.Context(), "t", id, Change{At: &at})
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						return
					}
					moves = append(moves, run.Entry.Marks.MovedTo)
					for _, c := range afterCancel {
						if begin.After(c) {
							t.Errorf("seed %d: a change begun after a cancel's answer was taken", seed)
						}
					}
				})
			}
			wg.Wait()
			w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
			run := w.mustRun(id)
			if len(cancelled) > 0 && (run.State != schema.StateCancelled || run.Entry.Marks.MovedTo != cancelled[0].Entry.Marks.MovedTo) {
				t.Errorf("seed %d: cancelled while moved to %s, now %s and moved to %s", seed,
					cancelled[0].Entry.Marks.MovedTo, run.State, run.Entry.Marks.MovedTo)
			}
			if len(moves) > 0 && run.Entry.Marks.MovedTo.IsZero() {
				t.Errorf("seed %d: %d changes were taken, and the run was not moved", seed, len(moves))
			}
			if to := run.Entry.Marks.MovedTo; !to.IsZero() && run.Current.ID != to {
				t.Errorf("seed %d: moved to %s, which is not there", seed, to)
			}
		})
	}
}

// Another writer that is always faster ends a change with an error, not with a loop.
func TestChangeGivesUpOnARunThatKeepsChanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		steps := 0
		w.Befall(func(ctx context.Context, op string) schematest.Fault {
			if op == "MoveRun" || op == "CancelRun" {
				steps++
				marks, _ := w.Counts.Marks(ctx, id)
				other := schema.MakeEntryID(time.Now().Add(time.Duration(steps)*time.Minute), 1, schema.RandomHash())
				if _, err := w.Counts.MoveRun(ctx, id, marks.MovedTo, other, time.Now().Add(time.Hour)); err != nil {
					t.Errorf("the other writer = %v", err)
				}
			}
			return schematest.Fault{}
		})
		if _, err := w.Reschedule(t.Context(), "t", id, Change{At: &time.Time{}}); !errors.Is(err, schema.ErrUnavailable) || steps != markTries {
			t.Errorf("Reschedule = %v after %d tries, want ErrUnavailable after %d", err, steps, markTries)
		}
		steps = 0
		if _, err := w.Cancel(t.Context(), "t", id, "me"); err == nil || steps != markTries {
			t.Errorf("Cancel = %v after %d tries, want an error after %d", err, steps, markTries)
		}
	})
}

// A change that was made up to one entry does not fall on another: whoever made it up looks again.
func TestChangeOfAnEntryThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{})
		id := w.submit(callTo(time.Now().Add(time.Hour)))
		run, err := w.Reschedule(t.Context(), "t", id, Change{Of: id, Priority: bucketertest.Pointer(schema.High)})
		if err != nil {
			t.Fatalf("a change of the entry that starts the run = %v", err)
		}
		if _, err := w.Reschedule(t.Context(), "t", id, Change{Of: id, Priority: bucketertest.Pointer(schema.Low)}); !errors.Is(err, schema.ErrConflict) {
			t.Errorf("a change of the entry before = %v, want ErrConflict", err)
		}
		again, err := w.Run(t.Context(), "t", id)
		if err != nil || again.Current.ID != run.Current.ID || again.Current.Spec.Priority != schema.High {
			t.Errorf("after it the run is %+v, %v; want it as it was", again.Current, err)
		}
	})
}

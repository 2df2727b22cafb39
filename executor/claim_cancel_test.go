package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestCancelOfAGuardedRunEndsItsClaim: an executor that does not hear of the cancel changes
// nothing.
func TestCancelOfAGuardedRunEndsItsClaim(t *testing.T) {
	for _, g := range guarantees {
		for _, hears := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hears of it: %v", g, hears), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					x := w.begin("x1")
					w.answer(func(ctx context.Context, _ target.Call) target.Result {
						select {
						case <-time.After(20 * time.Second):
							return target.Result{Outcome: schema.Succeeded}
						case <-ctx.Done():
							return target.Result{Outcome: schema.Cancelled}
						}
					})
					b := w.bucketer()
					e := w.entry(inAWhile(time.Second), guarded(g))
					w.publish(e, time.Now())
					time.Sleep(3 * time.Second)
					before, _ := w.lease(e.ID)
					if hears {
						unsubscribe, err := w.conn.SubscribeSignal("cancel", func([]byte) { x.Cancel(e.ID) })
						if err != nil {
							t.Fatalf("SubscribeSignal: %v", err)
						}
						defer unsubscribe()
					}
					run, err := b.Cancel(t.Context(), "t", e.ID, "me")
					if err != nil || run.State != schema.StateCancelled {
						t.Fatalf("Cancel = %s, %v; want cancelled", run.State, err)
					}
					after, _ := w.lease(e.ID)
					if after.Holder != nil || !hears && after.Fence <= before.Fence {
						t.Errorf("lease = %+v, want one above fence %d that nobody holds", after, before.Fence)
					}
					time.Sleep(time.Minute)
					w.ends(e.ID, schema.StateCancelled, "1 cancelled")
					if w.open() != 0 || x.Running() != 0 {
						t.Errorf("%d messages are left, %d in hand; want none", w.open(), x.Running())
					}
					if again, err := b.Cancel(t.Context(), "t", e.ID, "you"); err != nil || again.State != schema.StateCancelled {
						t.Errorf("Cancel again = %s, %v; want cancelled", again.State, err)
					}
				})
			})
		}
	}
}

// TestCancelOfAPendingGuardedRunIsExact: also an envelope that is still fresh starts nothing.
func TestCancelOfAPendingGuardedRunIsExact(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.publish(e, time.Now())
		if _, err := w.bucketer().Cancel(t.Context(), "t", e.ID, "me"); err != nil {
			t.Fatalf("Cancel = %v", err)
		}
		time.Sleep(10 * time.Second)
		if got := len(w.started()); got != 0 || w.state(e.ID) != schema.StateCancelled || w.open() != 0 {
			t.Errorf("%d starts, the run is %s, %d messages left; want none, cancelled, none", got, w.state(e.ID), w.open())
		}
	})
}

// TestCancelOfARunThatEndedInItsLease: what the lease says stands, also where nobody has written it
// down.
func TestCancelOfARunThatEndedInItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("x1")
		w.breakDown("PutAttempts")
		e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.publish(e, time.Now())
		time.Sleep(3 * time.Second)
		b := w.bucketer()
		var once sync.Once
		w.befall(func(_ context.Context, op string) (f schematest.Fault) {
			if op == "PutAttempts" { // the executor tries again and again; the cancel is to be first
				once.Do(func() { f.Fail = true })
			}
			return f
		})
		run, err := b.Cancel(t.Context(), "t", e.ID, "me")
		for range 3 {
			if !errors.Is(err, schema.ErrUnavailable) {
				break
			}
			run, err = b.Cancel(t.Context(), "t", e.ID, "me")
		}
		if !errors.Is(err, bucketer.ErrFinished) || run.State != schema.StateSucceeded {
			t.Errorf("Cancel = %s, %v; want succeeded, %v", run.State, err, bucketer.ErrFinished)
		}
		time.Sleep(10 * time.Second)
		w.ends(e.ID, schema.StateSucceeded, "1 succeeded")
	})
}

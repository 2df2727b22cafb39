package executor

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestWhatOthersWaitForBeginsEarlyInASession: a claim or a slot is taken over 2 s after the
// session's expiry, and the target of an executor that crashed may work on for as long as was
// promised to whoever reads of it; so neither is begun late in a session, as what nobody waits for
// is.
func TestWhatOthersWaitForBeginsEarlyInASession(t *testing.T) {
	for _, tt := range []struct {
		name  string
		entry func(w *world) schema.Entry
		waits bool
	}{
		{"at_least_once", func(w *world) schema.Entry { return w.entry(inAWhile(4500 * time.Millisecond)) }, false},
		{"at_most_once", func(w *world) schema.Entry {
			return w.entry(inAWhile(4500*time.Millisecond), guarded(schema.AtMostOnce))
		}, true},
		{"effectively_once", func(w *world) schema.Entry {
			return w.entry(inAWhile(4500*time.Millisecond), guarded(schema.EffectivelyOnce))
		}, true},
		{"of a limited job", func(w *world) schema.Entry {
			return w.entry(inAWhile(4500*time.Millisecond), ofLimited(w.limited(1, schema.OnLimitQueue)))
		}, true},
		{"of a task with max_concurrent", func(w *world) schema.Entry {
			w.limit(1)
			return w.entry(inAWhile(4500*time.Millisecond), ofTaskA)
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				time.Sleep(time.Second)
				var fails atomic.Bool
				fails.Store(true)
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == "SwapSession" && fails.Load() {
						return schematest.Fault{Fail: true}
					}
					return schematest.Fault{}
				})
				e := tt.entry(w)
				w.publish(e, time.Now())
				time.Sleep(6 * time.Second)
				if got, want := len(w.started()), 1; tt.waits && got != 0 || !tt.waits && got != want {
					t.Errorf("started with 3 to 5.5 s of the session left: got %d, want it to wait: %v", got, tt.waits)
				}
				if n := strings.Count(w.happened(), "return"); n > 6 || tt.waits && n == 0 {
					t.Errorf("it went back %d times in 2.5 s, want it to wait %v each time", n, postponeFor)
				}
				fails.Store(false)
				time.Sleep(3 * time.Second)
				if got := len(w.started()); got != 1 {
					t.Errorf("started after the session was renewed: got %d, want 1", got)
				}
			})
		})
	}
}

// TestRenewalsAreCountedFromOneToTheNext: however long each takes, or there would be less left of a
// session than it takes to begin.
func TestRenewalsAreCountedFromOneToTheNext(t *testing.T) {
	inSession(t, func(t *testing.T, s *troubled, k *sessionKeeper) {
		s.delay = 900 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.run(ctx) }()
		defer func() { cancel(); <-done }()
		time.Sleep(2 * time.Second)
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			if _, ample := k.currentWithReserve(time.Now()); !ample {
				t.Fatalf("with renewals that take %v less than %v of the session was left", s.delay, sessionReserve)
			}
		}
	})
}

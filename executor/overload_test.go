package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// serving delays each statement about leases as a store would that serves so many at a time.
func serving(atOnce int, each time.Duration) schematest.Plan {
	var mu sync.Mutex
	free := make([]time.Time, atOnce)
	return func(_ context.Context, op string) schematest.Fault {
		if op != "SwapLease" && op != "Lease" {
			return schematest.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		first, now := 0, time.Now()
		for i := range free {
			if free[i].Before(free[first]) {
				first = i
			}
		}
		if free[first].Before(now) {
			free[first] = now
		}
		free[first] = free[first].Add(each)
		return schematest.Fault{Delay: free[first].Sub(now)}
	}
}

// TestMoreClaimsThanTheStoreCarriesWait: were all asked for at once, each would be answered too
// late for a start to rest on it, given up by another statement, and asked for again: nothing would
// start, for as long as runs come.
func TestMoreClaimsThanTheStoreCarriesWait(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				const runs, atOnce, each = 1500, 16, 25 * time.Millisecond // 640 statements a second: 4.7 s for all
				w.begin("x")
				w.befall(serving(atOnce, each))
				before := w.counts.Tally("SwapLease").Calls
				at := inAWhile(time.Second)
				for range runs {
					w.publish(w.entry(at, guarded(g)), time.Now())
				}
				time.Sleep(8 * time.Second)
				if got := len(w.started()); got != runs {
					t.Errorf("started within 8 s: got %d, want all %d", got, runs)
				}
				if got, want := w.counts.Tally("SwapLease").Calls-before, 2*runs; got != want {
					t.Errorf("swaps of leases: got %d, want %d, two for each run", got, want)
				}
			})
		})
	}
}

// TestAgeAloneReadsNoLease: a run that waited for its turn costs its two swaps, as one on time
// does, if the message is the first of it; and where there is a claim after all, the swap finds it.
func TestAgeAloneReadsNoLease(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("x")
				w.counts.Reset()
				late := w.entry(inAWhile(-10*time.Second), guarded(g))
				w.publish(late, time.Now().Add(-5*time.Second))
				time.Sleep(3 * time.Second)
				w.ends(late.ID, schema.StateSucceeded, "1 succeeded")
				if reads, swaps := w.counts.Tally("Lease").Calls, w.counts.Tally("SwapLease").Calls; reads != 0 || swaps != 2 {
					t.Errorf("a late run: got %d reads and %d swaps of its lease, want 0 and 2", reads, swaps)
				}

				claimed := w.entry(inAWhile(-10*time.Second), guarded(g))
				is, err := schema.Lease{}.Claimed(1, schema.EffectivelyOnce, *w.session(claimed, "other", time.Now().Add(time.Hour)), time.Now())
				if err == nil {
					is.Key = schema.RunLease(claimed.ID)
					_, err = w.inner.SwapLease(t.Context(), schema.Lease{}, is, time.Time{})
				}
				if err != nil {
					t.Fatalf("claim: %v", err)
				}
				w.publish(claimed, time.Now().Add(-5*time.Second))
				time.Sleep(3 * time.Second)
				if got := len(w.started()); got != 1 {
					t.Errorf("%d starts, want none of a run that another has claimed", got-1)
				}
				if got := w.state(claimed.ID); got != schema.StateRunning {
					t.Errorf("the run is %s, want running: its claim stands", got)
				}
			})
		})
	}
}

package executor

import (
	"context"
	"sync"
	"testing"
	"time"

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

// TestMoreClaimsThanTheStoreCarriesWait: were all asked for at once, each would be answered too late for a start to rest on it, given up
// by another statement, and asked for again: nothing would start, for as long as runs come.
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

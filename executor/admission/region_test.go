package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// TestRunsThatWaitForTheirRegionAreTriedSoon: within 45 s, however long they wait, so they run soon
// after their region serves their home again. Of very many no more come back than are bounded.
func TestRunsThatWaitForTheirRegionAreTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		for n, least := range map[int]time.Duration{0: DeferFirst, 2: 4 * DeferFirst, 3: regionMost, 40: regionMost} {
			d := g.DeferForRegion(n)
			if d.Defer < least || d.Defer > least*3/2 || d.Reason != ReasonRegion || d.Cause != schema.CauseRegion {
				t.Errorf("a run that was deferred %d times: %+v, want %v, or up to half more", n, d, least)
			}
		}
		time.Sleep(time.Minute)
		const many = 100_000
		var soon int // in the first 40 s
		for range many {
			d := g.DeferForRegion(9)
			if d.Defer > deferMost*3/2 {
				t.Fatalf("of %d runs one is deferred by %v, want at most %v", many, d.Defer, deferMost*3/2)
			}
			if d.Defer <= 40*time.Second {
				soon++
			}
		}
		if most := 40 * regionsPerSecond; soon == 0 || soon > most {
			t.Errorf("%d of %d runs come back within 40 s, want some, and at most %d", soon, many, most)
		}
		time.Sleep(2 * deferMost)
		if d := g.DeferForRegion(9); d.Defer > regionMost*3/2 {
			t.Errorf("once they are gone a run is deferred by %v, want at most %v", d.Defer, regionMost*3/2)
		}
	})
}

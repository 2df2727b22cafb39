package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		again := func(n int, h target.Health) {
			t.Helper()
			for range n {
				passes, _, _ := beginAll(g, w, 1)
				if len(passes) != 1 {
					t.Fatalf("an attempt did not begin, want it before the breaker opens")
				}
				endAll(passes, h)
			}
		}
		again(100, target.Healthy)
		if g.loads[w.target].breaker != nil {
			t.Error("a target that never failed has a breaker")
		}
		again(BreakerAttempts-1, target.Unhealthy)
		again(10, target.UnknownHealth)
		if got := counted(t, g.metrics.open); got != 0 {
			t.Errorf("%v targets are broken after %d failures, want 0", got, BreakerAttempts-1)
		}
		again(1, target.Unhealthy)
		v, _ := g.Admit(w, nil)
		if v.Admitted || v.Defer < DeferFirst || v.Defer > 2*DeferFirst || counted(t, g.metrics.open) != 1 {
			t.Errorf("after %d failures: %+v, want it put off by %s or a little more", BreakerAttempts, v, DeferFirst)
		}
		later := w
		later.Deferrals = 3
		if v, _ := g.Admit(later, nil); v.Defer < 8*DeferFirst {
			t.Errorf("what was put off three times is put off by %s, want at least %s", v.Defer, 8*DeferFirst)
		}
		later.Deferrals = 9
		if v, _ := g.Admit(later, nil); v.Defer < deferMost || v.Defer > deferMost*3/2 {
			t.Errorf("what was put off nine times is put off by %s, want %s or a little more", v.Defer, deferMost)
		}
		later.Deferrals = maxDeferrals
		if passes, _, _ := beginAll(g, later, 1); len(passes) != 1 {
			t.Errorf("what was put off %d times is put off, want that it begins", maxDeferrals)
		} else {
			endAll(passes, target.Unhealthy)
		}
		if passes, _, _ := beginAll(g, hostWish("b", "http://h"), 1); len(passes) != 1 {
			t.Error("another tenant's call to the same host does not begin")
		}
		if passes, _, _ := beginAll(g, hostWish("a", "http://other"), 1); len(passes) != 1 {
			t.Error("a call to another host does not begin")
		}
		time.Sleep(breakerDelay)
		probes, _, putOff := beginAll(g, w, 10)
		if len(probes) != breakerProbes || putOff != 10-breakerProbes {
			t.Errorf("after the delay %d begin and %d are put off, want %d probes", len(probes), putOff, breakerProbes)
		}
		endAll(probes[:1], target.Unhealthy)
		endAll(probes[1:], target.UnknownHealth)
		if passes, _, _ := beginAll(g, w, 1); len(passes) != 0 {
			t.Error("an attempt begins after a probe failed")
		}
		time.Sleep(2*breakerDelay - time.Millisecond)
		if passes, _, _ := beginAll(g, w, 1); len(passes) != 0 {
			t.Error("an attempt begins before twice the delay has passed")
		}
		time.Sleep(time.Millisecond)
		probes, _, _ = beginAll(g, w, 10)
		if len(probes) != breakerProbes {
			t.Errorf("after twice the delay %d begin, want %d probes", len(probes), breakerProbes)
		}
		endAll(probes, target.Healthy)
		if passes, _, _ := beginAll(g, w, 10); len(passes) != 10 || counted(t, g.metrics.open) != 0 {
			t.Errorf("after the probes succeeded %d of 10 begin, and %v targets are broken; want all, and none", len(passes), counted(t, g.metrics.open))
		}
	})
}

// Of a target that hangs what was begun before the breaker opened ends while it is probed: it is no
// probe.
func TestBreakerHearsOnlyWhatBeganSinceItOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		forced := w
		forced.Deferrals = maxDeferrals
		broken := func(when string, want float64) {
			t.Helper()
			if got := counted(t, g.metrics.open); got != want {
				t.Errorf("%s %v targets are broken, want %v", when, got, want)
			}
		}
		slow, _, _ := beginAll(g, w, BreakerAttempts+20)
		endAll(slow[:BreakerAttempts], target.Unhealthy)
		slow = slow[BreakerAttempts:]
		broken("after failures enough", 1)

		time.Sleep(breakerDelay)
		probes, _, _ := beginAll(g, w, breakerProbes)
		others, _, _ := beginAll(g, forced, 2)
		endAll(slow[:10], target.Healthy)
		endAll(others[:1], target.Healthy)
		broken("while it is probed, and others ended well,", 1)
		endAll(slow[10:], target.Unhealthy)
		endAll(others[1:], target.Unhealthy)
		if more, _, _ := beginAll(g, w, 1); len(more) != 0 {
			t.Error("one more than the probes begins since others ended")
		}
		endAll(probes, target.UnknownHealth)
		if probes, _, _ = beginAll(g, w, 2*breakerProbes); len(probes) != breakerProbes {
			t.Errorf("after probes that tell nothing %d begin, want %d", len(probes), breakerProbes)
		}
		endAll(probes, target.Healthy)
		broken("after the probes succeeded", 0)

		passes, _, _ := beginAll(g, forced, BreakerAttempts)
		endAll(passes, target.Unhealthy)
		broken("after failures of what has been put off often", 1)
	})
}

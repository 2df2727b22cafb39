package admission

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// one returns what is told of the only target of a tenant.
func (g *Controller) one(t *testing.T, tenant string) TargetState {
	t.Helper()
	states := g.TargetStates(tenant, time.Now().UTC())
	if len(states) != 1 {
		t.Fatalf("%d targets of %s: %+v; want one", len(states), tenant, states)
	}
	return states[0]
}

func TestWhatIsToldOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		script := Request{target: targetKey{"a", "script report"}, targetLimit: 2}
		if _, _, deferred := beginAll(g, script, 1); deferred != 0 {
			t.Fatal("a script is deferred")
		}
		passes, _, _ := beginAll(g, w, BreakerAttempts)
		if got, want := g.one(t, "a"), (TargetState{Target: "http://h", Circuit: CircuitClosed, Running: BreakerAttempts}); got != want {
			t.Errorf("while calls go on: %+v, want %+v", got, want)
		}
		if got := g.TargetStates("b", time.Now()); len(got) != 0 {
			t.Errorf("another tenant is told of %+v", got)
		}
		endAll(passes, target.Unhealthy)
		opened := time.Now().UTC()
		time.Sleep(time.Second)
		beginAll(g, w, 7)
		want := TargetState{Target: "http://h", Circuit: CircuitOpen, Since: opened, NextProbe: opened.Add(breakerDelay), Failures: BreakerAttempts, Deferrals: 7}
		if got := g.one(t, "a"); got != want {
			t.Errorf("after failures: %+v, want %+v", got, want)
		}
		time.Sleep(breakerDelay)
		if got := g.one(t, "a"); got.Circuit != CircuitHalfOpen || !got.Since.Equal(opened) {
			t.Errorf("after its delay: %+v, want it half open since %v", got, opened)
		}
		probes, _, _ := beginAll(g, w, 1)
		endAll(probes, target.Unhealthy)
		reopened := time.Now().UTC()
		want = TargetState{Target: "http://h", Circuit: CircuitOpen, Since: opened, NextProbe: reopened.Add(2 * breakerDelay), Failures: BreakerAttempts + 1, Deferrals: 7}
		if got := g.one(t, "a"); got != want {
			t.Errorf("after a probe that failed: %+v, want %+v", got, want)
		}
		time.Sleep(2 * breakerDelay)
		probes, _, _ = beginAll(g, w, breakerProbes)
		endAll(probes, target.Healthy)
		if got, want := g.one(t, "a"), (TargetState{Target: "http://h", Circuit: CircuitClosed}); got != want {
			t.Errorf("after it worked again: %+v, want %+v", got, want)
		}
	})
}

func TestAResetClosesACircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w, other := hostWish("a", "http://h"), hostWish("b", "http://h")
		slow, _, _ := beginAll(g, w, 2*BreakerAttempts)
		endAll(slow[:BreakerAttempts], target.Unhealthy)
		passes, _, _ := beginAll(g, other, BreakerAttempts)
		endAll(passes, target.Unhealthy)
		for _, k := range []targetKey{{"a", "http://other"}, {"c", "http://h"}, {"a", ""}} {
			if g.ResetTarget(k.tenant, k.name) {
				t.Errorf("reset of %v, of which nothing is known, = true", k)
			}
		}
		if passes, _, _ = beginAll(g, w, 1); len(passes) != 0 {
			t.Fatal("an attempt begins though the circuit is open")
		}
		time.Sleep(breakerDelay)
		probes, _, _ := beginAll(g, w, breakerProbes)
		if len(probes) != breakerProbes {
			t.Fatalf("%d probes, want %d", len(probes), breakerProbes)
		}
		if !g.ResetTarget(w.target.tenant, w.target.name) || g.ResetTarget(w.target.tenant, w.target.name) {
			t.Error("reset, twice, is not true and then false")
		}
		endAll(slow[BreakerAttempts:], target.Unhealthy) // begun before: they tell nothing
		endAll(probes, target.Unhealthy)
		if passes, _, _ = beginAll(g, w, 30); len(passes) != 30 {
			t.Errorf("%d of 30 begin after the reset, want all", len(passes))
		}
		if got := g.one(t, "a"); got.Circuit != CircuitClosed || got.Failures != 0 || !got.Since.IsZero() || got.Deferrals != 0 {
			t.Errorf("after the reset: %+v, want it closed, and nothing counted", got)
		}
		if got := g.one(t, "b"); got.Circuit == CircuitClosed {
			t.Errorf("of another tenant: %+v, want it not closed still", got)
		}
		if n := counted(t, g.metrics.open); n != 1 {
			t.Errorf("%v targets are broken, want one", n)
		}
		endAll(passes[:BreakerAttempts], target.Unhealthy)
		if got := g.one(t, "a"); got.Circuit != CircuitOpen {
			t.Errorf("after failures since the reset: %+v, want it open again", got)
		}
	})
}

func TestWhyAStartIsDeferred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		passes, _, _ := beginAll(g, w, BreakerAttempts)
		endAll(passes, target.Unhealthy)
		if v, _ := g.Admit(w, nil); v.Cause != schema.CauseBreaker {
			t.Errorf("where the circuit is open: %+v, want the cause breaker", v)
		}
		deferred := func(wishes ...Request) (cause schema.Cause) {
			g := gateOf(64)
			for range 200 {
				for _, w := range wishes {
					if v, _ := g.Admit(w, nil); v.Defer > 0 {
						return v.Cause
					}
				}
				time.Sleep(slowAfter / 10)
			}
			return ""
		}
		if got := deferred(hostWish("a", "http://h")); got != schema.CauseTargetShare {
			t.Errorf("one slow target: %q, want target_share", got)
		}
		var many []Request
		for i := range 20 {
			many = append(many, hostWish("a", "http://h"+string(rune('a'+i))))
		}
		if got := deferred(many...); got != schema.CauseTenantShare {
			t.Errorf("many slow targets of one tenant: %q, want tenant_share", got)
		}
	})
}

// TestTheErrorOfATarget: what a broken target said last is told, in short, until it works again.
func TestTheErrorOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		end := func(passes []Permit, h target.Health, text string) {
			for _, p := range passes {
				p.EndWith(&h, &text)
			}
		}
		said := func(what, text string, at time.Time) {
			t.Helper()
			if got := g.one(t, "a"); got.LastError != text || !got.LastFailed.Equal(at) {
				t.Errorf("%s: %q of %v, want %q of %v", what, got.LastError, got.LastFailed, text, at)
			}
		}
		passes, _, _ := beginAll(g, w, 2)
		end(passes[:1], target.Healthy, "refused: 404") // an answer of a target that is well
		said("a target that refuses a run", "", time.Time{})
		end(passes[1:], target.Unhealthy, "connection refused")
		first := time.Now()
		said("one failure", "connection refused", first)
		time.Sleep(time.Second)
		passes, _, _ = beginAll(g, w, BreakerAttempts)
		end(passes, target.Unhealthy, "no answer before the time-out "+strings.Repeat("é", MaxTargetError))
		opened := time.Now()
		got := g.one(t, "a")
		if got.Circuit != CircuitOpen || !strings.HasPrefix(got.LastError, "no answer") || len(got.LastError) > MaxTargetError || !utf8.ValidString(got.LastError) {
			t.Errorf("a broken target: %+v, want at most %d bytes of its error", got, MaxTargetError)
		}
		time.Sleep(breakerDelay)
		probes, _, _ := beginAll(g, w, breakerProbes)
		end(probes[:1], target.UnknownHealth, "cancelled")
		said("after an attempt that tells nothing", got.LastError, opened)
		end(probes[1:], target.Healthy, "")
		probes, _, _ = beginAll(g, w, 1)
		end(probes, target.Healthy, "")
		said("a target that works again", "", time.Time{})
	})
}

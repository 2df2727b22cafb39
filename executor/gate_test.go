package executor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

func gateOf(slots int) *gate {
	return newGate(slots, slog.New(slog.DiscardHandler), newGateMetrics(prometheus.NewRegistry()))
}

func hostWish(tenant, host string) wish {
	return wish{target: targetKey{tenant, host}, breaks: true}
}

// begin asks n times and returns the passes, and how many wishes parked and were put off.
func beginAll(g *gate, w wish, n int) (passes []pass, parked, putOff int) {
	for range n {
		switch v, at := g.ask(w, nil); {
		case v.ok:
			passes = append(passes, v.pass)
		case at != nil:
			parked++
		default:
			putOff++
		}
	}
	return passes, parked, putOff
}

func endAll(passes []pass, h health) {
	for _, p := range passes {
		p.end(&h)
	}
}

func TestGateSharesSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		hung := hostWish("a", "h")
		passes, parked, putOff := beginAll(g, hung, 100)
		if len(passes) != 56 || parked != 44 || putOff != 0 {
			t.Errorf("100 at once: %d began, %d wait, %d were put off; want seven eighths of 64 to begin and the others to wait", len(passes), parked, putOff)
		}
		if other, _, _ := beginAll(g, hostWish("b", "h"), 1); len(other) != 1 {
			t.Error("another tenant finds no slot beside one that has all it may have")
		} else {
			endAll(other, well)
		}
		time.Sleep(2 * stuckAfter)
		if _, parked, putOff := beginAll(g, hung, 10); parked != 0 || putOff != 10 {
			t.Errorf("10 more once they are slow: %d wait, %d were put off; want all put off, since enough wait", parked, putOff)
		}
		endAll(passes[:24], well)
		if more, _, _ := beginAll(g, hung, 10); len(more) != 0 {
			t.Errorf("with 32 of a slow target under way %d of 10 began, want none: with another tenant about it has half", len(more))
		}
		endAll(passes[24:25], well)
		if more, _, _ := beginAll(g, hung, 1); len(more) != 1 {
			t.Error("with 31 of a slow target under way none began, want that it has half")
		}
	})
}

func TestGateGivesHalfToWhoIsSlowWhenOthersAreAbout(t *testing.T) {
	for name, c := range map[string]struct {
		other wish
		want  int
	}{
		"alone":                   {hostWish("a", "h"), 56},
		"another host":            {hostWish("a", "other"), 32},
		"another tenant":          {hostWish("b", "h"), 32},
		"another tenant, by NATS": {hostWish("b", "work.email"), 32},
		"another, of no target":   {wish{target: targetKey{tenant: "b"}}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := gateOf(64)
				began := 0
				for range 60 { // one a second, and none ends
					passes, _, _ := beginAll(g, hostWish("a", "h"), 1)
					began += len(passes)
					time.Sleep(500 * time.Millisecond)
					other, _, _ := beginAll(g, c.other, 1)
					if c.other == hostWish("a", "h") {
						began += len(other)
					} else {
						endAll(other, well)
					}
					time.Sleep(500 * time.Millisecond)
				}
				if began < c.want || began > c.want+2 { // those of the last second or two do not count as slow yet
					t.Errorf("%d began, want %d", began, c.want)
				}
			})
		})
	}
}

func TestGateHoldsUpNobodyWhoIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "h")
		all := 0
		began := time.Now()
		for all < 10_000 {
			passes, _, putOff := beginAll(g, w, 56)
			if putOff > 0 || len(passes) != 56 {
				t.Fatalf("after %d: %d began and %d were put off, want none of who is quick", all, len(passes), putOff)
			}
			if _, parked, putOff := beginAll(g, w, 100); parked != 100 || putOff > 0 {
				t.Fatalf("after %d: %d wait and %d were put off, want none of who is quick", all, parked, putOff)
			}
			g.loads[w.target].parked, g.loads[w.target].waits = 0, [4]waiters{}
			time.Sleep(100 * time.Millisecond)
			endAll(passes, well)
			all += len(passes)
		}
		t.Logf("%d in %s", all, time.Since(began))
	})
}

// TestGateWakesByPriority: of those who wait for the same target each priority is woken by its weight, and none is forgotten.
func TestGateWakesByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "h")
		passes, _, _ := beginAll(g, w, 56)
		woken := make([]int, 4)
		var waits [4]<-chan struct{}
		for class := range waits {
			w.class = class
			for range 100 {
				v, at := g.ask(w, nil)
				if at == nil {
					t.Fatalf("one more than seven eighths: %+v, want that it waits", v)
				}
				waits[class] = v.wait
			}
		}
		var at *load
		for range 150 { // ten rounds
			passes[0].end(new(health))
			passes = passes[1:]
			class := slices.IndexFunc(waits[:], func(c <-chan struct{}) bool { return len(c) > 0 })
			if class < 0 {
				t.Fatal("nobody was woken when one had ended")
			}
			<-waits[class]
			woken[class]++
			w.class, at = class, g.loads[w.target]
			v, _ := g.ask(w, at)
			if !v.ok {
				t.Fatalf("who was woken: %+v, want that it begins", v)
			}
			passes = append(passes, v.pass)
		}
		if want := []int{80, 40, 20, 10}; !slices.Equal(woken, want) {
			t.Errorf("woken by priority: %v, want %v", woken, want)
		}
		for class := range waits { // all but one of low give up
			for n := range 100 - woken[class] {
				if class < 3 || n > 0 {
					g.unpark(at, class)
				}
			}
		}
		for _, c := range waits[:3] {
			for len(c) > 0 {
				<-c
			}
		}
		if passes[0].end(new(health)); len(waits[3]) != 1 {
			t.Error("the last who waits was not woken")
		}
	})
}

func TestGateLimitsScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := wish{target: targetKey{"a", "script report"}, limit: 2}
		passes, parked, _ := beginAll(g, w, 5)
		if len(passes) != 2 || parked != 3 {
			t.Errorf("of a script that may run twice at once %d began and %d wait, want 2 and 3", len(passes), parked)
		}
		endAll(passes[:1], sick)
		if more, _, _ := beginAll(g, w, 5); len(more) != 1 {
			t.Errorf("after one ended %d began, want 1", len(more))
		}
		if g.loads[w.target].breaker != nil {
			t.Error("a script that fails has a breaker, want none")
		}
	})
}

func TestGatePutsRunsOffToTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "h")
		passes, _, _ := beginAll(g, w, 100)
		time.Sleep(10 * time.Second)
		endAll(passes, well) // so an attempt takes 10 s
		beginAll(g, w, 100)
		time.Sleep(2 * stuckAfter)
		var waits []time.Duration
		for range 560 {
			v, _ := g.ask(w, nil)
			waits = append(waits, v.putOff)
		}
		slices.Sort(waits)
		// 56 at once, 10 s each: 560 need 100 s. Each wait has up to half of it on top.
		if first, last := waits[0], waits[len(waits)-1]; first < time.Second || last < 80*time.Second || last > 160*time.Second {
			t.Errorf("560 were put off by %s to %s, want about as long as they need, 100 s", first, last)
		}
	})
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "http://h")
		again := func(n int, h health) {
			t.Helper()
			for range n {
				passes, _, _ := beginAll(g, w, 1)
				if len(passes) != 1 {
					t.Fatalf("an attempt did not begin, want it before the breaker opens")
				}
				endAll(passes, h)
			}
		}
		again(100, well)
		if g.loads[w.target].breaker != nil {
			t.Error("a target that never failed has a breaker")
		}
		again(breakerAttempts-1, sick)
		again(10, unknownHealth)
		if got := counted(t, g.metrics.broken); got != 0 {
			t.Errorf("%v targets are broken after %d failures, want 0", got, breakerAttempts-1)
		}
		again(1, sick)
		v, _ := g.ask(w, nil)
		if v.ok || v.putOff < putOffFirst || v.putOff > 2*putOffFirst || counted(t, g.metrics.broken) != 1 {
			t.Errorf("after %d failures: %+v, want it put off by %s or a little more", breakerAttempts, v, putOffFirst)
		}
		later := w
		later.putOffs = 3
		if v, _ := g.ask(later, nil); v.putOff < 8*putOffFirst {
			t.Errorf("what was put off three times is put off by %s, want at least %s", v.putOff, 8*putOffFirst)
		}
		later.putOffs = 9
		if v, _ := g.ask(later, nil); v.putOff < putOffMost || v.putOff > putOffMost*3/2 {
			t.Errorf("what was put off nine times is put off by %s, want %s or a little more", v.putOff, putOffMost)
		}
		later.putOffs = maxPutOffs
		if passes, _, _ := beginAll(g, later, 1); len(passes) != 1 {
			t.Errorf("what was put off %d times is put off, want that it begins", maxPutOffs)
		} else {
			endAll(passes, sick)
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
		endAll(probes[:1], sick)
		endAll(probes[1:], unknownHealth)
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
		endAll(probes, well)
		if passes, _, _ := beginAll(g, w, 10); len(passes) != 10 || counted(t, g.metrics.broken) != 0 {
			t.Errorf("after the probes succeeded %d of 10 begin, and %v targets are broken; want all, and none", len(passes), counted(t, g.metrics.broken))
		}
	})
}

func TestHealthOf(t *testing.T) {
	for name, c := range map[string]struct {
		res  Result
		want health
	}{
		"success":          {Result{Outcome: schema.Succeeded, Status: 200}, well},
		"500":              {Result{Outcome: schema.Failed, Status: 500}, sick},
		"503":              {Result{Outcome: schema.Failed, Status: 503}, sick},
		"429":              {Result{Outcome: schema.Failed, Status: 429}, sick},
		"404":              {Result{Outcome: schema.Failed, Status: 404, Final: true}, well},
		"408":              {Result{Outcome: schema.Failed, Status: 408}, well},
		"not reached":      {Result{Outcome: schema.Failed, Error: "connection refused"}, sick},
		"time-out":         {Result{Outcome: schema.TimedOut}, sick},
		"broken off":       {Result{Outcome: schema.TimedOut, Status: 200}, sick},
		"denied":           {Result{Outcome: schema.Failed, Final: true}, unknownHealth},
		"cancelled":        {Result{Outcome: schema.Cancelled}, unknownHealth},
		"we were stopped":  {Result{Outcome: schema.Failed, Stopped: true}, unknownHealth},
		"nothing was done": {Result{}, unknownHealth},
	} {
		if got := healthOf(&c.res); got != c.want {
			t.Errorf("%s: healthOf(%+v): got %d, want %d", name, c.res, got, c.want)
		}
	}
}

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://a.test/x?y#z": "http://a.test", "https://A.test:8443": "https://a.test:8443", "http://a.test?u=http://b.test": "http://a.test", "http://[::1]:80/": "http://[::1]:80", "x": "x", "": "",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("hostOf(%q): got %q, want %q", url, got, want)
		}
	}
}

func TestGateRemembersABoundedNumberOfTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		for i := range 2 * maxTargets {
			w := hostWish(fmt.Sprint("t", i%1000), fmt.Sprint("http://h", i))
			n := 1
			if i < 3 {
				n = breakerAttempts // these break
			}
			for range n {
				passes, _, _ := beginAll(g, w, 1)
				endAll(passes, sick)
			}
		}
		if len(g.loads) > maxTargets || g.order.Len() != len(g.loads) {
			t.Errorf("%d targets are remembered, %d in order; want at most %d", len(g.loads), g.order.Len(), maxTargets)
		}
		if got := counted(t, g.metrics.broken); got != 0 {
			t.Errorf("%v targets count as broken that are forgotten, want 0", got)
		}
	})
}

func TestGateDoesNotAllocate(t *testing.T) {
	g := gateOf(64)
	url := "http://a.test:8080/hook"
	x := &Executor{gate: g}
	work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
	ok := well
	if n := testing.AllocsPerRun(1000, func() {
		v, _ := g.ask(x.wishOf("t", &work), nil)
		v.pass.end(&ok)
	}); n > 0 {
		t.Errorf("a pass allocates %v times, want none", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := gateOf(2048)
	w := hostWish("t", "http://a.test")
	ok := well
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			v, _ := g.ask(w, nil)
			v.pass.end(&ok)
		}
	})
}

// deferrals returns the entries that stand in for e, oldest first.
func (w *world) deferrals(e schema.Entry) (all []schema.Entry) {
	w.t.Helper()
	for _, a := range w.attempts(e.Run()) {
		if a.Number != 0 || a.Record == nil || a.Record.Outcome != schema.HandedOn {
			continue
		}
		rows, err := w.inner.EntriesByID(w.t.Context(), a.Record.To.Partition(), []schema.EntryID{a.Record.To})
		if err != nil || len(rows) != 1 {
			w.t.Fatalf("entry %s: %d, %v", a.Record.To, len(rows), err)
		}
		all = append(all, rows[0])
	}
	return all
}

// A target that fails again and again has the runs after that put off: no attempt is used up, and they start when it works again.
func TestRunsOfABrokenTargetArePutOff(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var broken atomic.Bool
		broken.Store(true)
		w.begin("e-1")
		w.answerHosts(func(c Call) Result {
			if broken.Load() {
				return Result{Outcome: schema.Failed, Error: "no"}
			}
			return Result{Outcome: schema.Succeeded}
		})
		for range breakerAttempts {
			w.publish(w.entry(inAWhile(time.Second)), time.Now())
		}
		time.Sleep(2 * time.Second)
		w.happened()
		e := w.entry(inAWhile(100 * time.Millisecond))
		w.publish(e, time.Now())
		time.Sleep(time.Second)
		all := w.deferrals(e)
		if len(all) != 1 || all[0].Spec.Kind != schema.KindDeferral || all[0].Spec.AttemptNumber() != 1 || all[0].Spec.PutOff != 1 || all[0].Spec.For != e.ID || all[0].Run() != e.ID {
			t.Fatalf("entries that stand in: %+v, want one for the first attempt", all)
		}
		if wait := all[0].Due().Sub(e.Due()); wait < putOffFirst || wait > 2*putOffFirst {
			t.Errorf("it was put off by %s, want %s or a little more", wait, putOffFirst)
		}
		w.want("put off", "entry deferral, record 0 handed_on, notice, ack")
		if got := w.state(e.Run()); got != schema.StatePending {
			t.Errorf("the run is %s, want pending", got)
		}
		if n := w.open(); n != 0 {
			t.Errorf("the stream holds %d messages, want none", n)
		}
		broken.Store(false)
		d := all[0]
		time.Sleep(time.Until(d.Due()) - 100*time.Millisecond)
		w.publish(d, time.Now())
		time.Sleep(time.Second)
		starts := w.started()
		if last := starts[len(starts)-1]; len(starts) != breakerAttempts+1 || last.Run != e.ID || last.Number != 1 {
			t.Errorf("%d starts, the last %+v; want the run's first attempt", len(starts), last)
		}
		if got := w.state(e.Run()); got != schema.StateSucceeded {
			t.Errorf("the run is %s, want succeeded", got)
		}
		// The message of the entry that was put off comes once more: nothing starts from it.
		w.publish(e, time.Now(), redispatched)
		time.Sleep(2 * time.Second)
		if n := len(w.started()); n != breakerAttempts+1 {
			t.Errorf("%d starts after the first message came again, want %d", n, breakerAttempts+1)
		}
	})
}

// What cannot be put off, because the store fails, goes back and is put off later.
func TestAPutOffThatCannotBeWrittenIsRepeated(t *testing.T) {
	for _, op := range []string{"PutEntries", "PutAttempts"} {
		t.Run(op, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("e-1")
				w.answerHosts(func(Call) Result { return Result{Outcome: schema.Failed, Error: "no"} })
				for range breakerAttempts {
					w.publish(w.entry(inAWhile(time.Second)), time.Now())
				}
				time.Sleep(2 * time.Second)
				e := w.entry(inAWhile(100 * time.Millisecond))
				w.breakDown(op)
				w.publish(e, time.Now())
				time.Sleep(time.Second)
				if all := w.deferrals(e); len(all) != 0 {
					t.Fatalf("%d entries stand in while the store fails", len(all))
				}
				w.breakDown()
				time.Sleep(3 * time.Second)
				if all := w.deferrals(e); len(all) != 1 {
					t.Errorf("%d entries stand in, want one once the store works again", len(all))
				}
				for _, s := range w.started() {
					if s.Run == e.ID {
						t.Error("the run started though its target is broken")
					}
				}
			})
		})
	}
}

// One tenant's target hangs, and its runs come by the hundred: another tenant's run starts when it is due.
func TestAHungTargetHarmsNoOtherTenant(t *testing.T) {
	for name, work := range map[string]schema.Work{
		"host":    {HTTP: &schema.HTTPTarget{URL: "http://hung"}},
		"subject": {NATS: &schema.NATSTarget{Subject: "hung"}},
	} {
		t.Run(name, func(t *testing.T) { hangs(t, work) })
	}
}

func hangs(t *testing.T, work schema.Work) {
	work.Timeout = schema.Duration(time.Hour)
	inWorld(t, func(t *testing.T, w *world) {
		w.begin("e-1", func(c *Config) { c.Slots = 64 })
		release := make(chan struct{})
		w.answerHosts(func(c Call) Result {
			if c.Work.NATS != nil || strings.Contains(c.Work.HTTP.URL, "hung") {
				<-release
			}
			return Result{Outcome: schema.Succeeded}
		})
		hung := func(s *schema.Spec) { s.Tenant, s.Work = "a", &work }
		var hanging []schema.Entry
		for range 400 {
			e := w.entry(inAWhile(time.Second), hung)
			hanging = append(hanging, e)
			w.publish(e, time.Now())
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			w.publish(w.entry(inAWhile(200*time.Millisecond), hung), time.Now())
			e := w.entry(inAWhile(200*time.Millisecond), func(s *schema.Spec) { s.Tenant = "b" })
			w.publish(e, time.Now())
			time.Sleep(time.Second)
			starts := w.started()
			if last := starts[len(starts)-1]; last.Run != e.ID || last.at.Sub(e.Due()) > 50*time.Millisecond {
				t.Fatalf("the last start is of %s, %s after %s was due; want it at once", last.Run, last.at.Sub(e.Due()), e.ID)
			}
		}
		started, putOff := 0, 0
		for _, e := range hanging {
			if all := w.deferrals(e); len(all) > 0 {
				putOff++
			} else if len(w.attempts(e.Run())) > 0 {
				started++
			}
		}
		if started != 56 || putOff < 300 {
			t.Errorf("of 400 runs of the target that hangs %d started and %d were put off, want seven eighths of 64 slots and nearly all others", started, putOff)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

// answerHosts sets what the callee does.
func (w *world) answerHosts(f func(c Call) Result) {
	w.answer(func(_ context.Context, c Call) Result { return f(c) })
}

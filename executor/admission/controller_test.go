package admission

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

func gateOf(slots int) *Controller {
	return NewController(slots, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func hostWish(tenant, host string) Request {
	return Request{target: targetKey{tenant, host}, hasBreaker: true}
}

// begin asks n times and returns the passes, and how many wishes parked and were put off.
func beginAll(g *Controller, w Request, n int) (passes []Permit, parked, putOff int) {
	for range n {
		switch v, at := g.Admit(w, nil); {
		case v.Admitted:
			passes = append(passes, v.Permit)
		case at != nil:
			parked++
		default:
			putOff++
		}
	}
	return passes, parked, putOff
}

func endAll(passes []Permit, h target.Health) {
	for _, p := range passes {
		p.End(&h)
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
			endAll(other, target.Healthy)
		}
		time.Sleep(2 * slowAfter)
		if _, parked, putOff := beginAll(g, hung, 10); parked != 0 || putOff != 10 {
			t.Errorf("10 more once they are slow: %d wait, %d were put off; want all put off, since enough wait", parked, putOff)
		}
		endAll(passes[:24], target.Healthy)
		if more, _, _ := beginAll(g, hung, 10); len(more) != 0 {
			t.Errorf("with 32 of a slow target under way %d of 10 began, want none: with another tenant about it has half", len(more))
		}
		endAll(passes[24:25], target.Healthy)
		if more, _, _ := beginAll(g, hung, 1); len(more) != 1 {
			t.Error("with 31 of a slow target under way none began, want that it has half")
		}
	})
}

func TestGateGivesHalfToWhoIsSlowWhenOthersAreAbout(t *testing.T) {
	for name, c := range map[string]struct {
		other Request
		want  int
	}{
		"alone":                   {hostWish("a", "h"), 56},
		"another host":            {hostWish("a", "other"), 32},
		"another tenant":          {hostWish("b", "h"), 32},
		"another tenant, by NATS": {hostWish("b", "work.email"), 32},
		"another, of no target":   {Request{target: targetKey{tenant: "b"}}, 32},
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
						endAll(other, target.Healthy)
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
			g.loads[w.target].waiting, g.loads[w.target].waits = 0, [4]waiters{}
			time.Sleep(100 * time.Millisecond)
			endAll(passes, target.Healthy)
			all += len(passes)
		}
		t.Logf("%d in %s", all, time.Since(began))
	})
}

// TestGateWakesByPriority: of those who wait for the same target each priority is woken by its
// weight, and none is forgotten.
func TestGateWakesByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "h")
		passes, _, _ := beginAll(g, w, 56)
		woken := make([]int, 4)
		var waits [4]<-chan struct{}
		for class := range waits {
			w.Rank = class
			for range 100 {
				v, at := g.Admit(w, nil)
				if at == nil {
					t.Fatalf("one more than seven eighths: %+v, want that it waits", v)
				}
				waits[class] = v.Wait
			}
		}
		var at *Load
		for range 150 { // ten rounds
			passes[0].End(new(target.Health))
			passes = passes[1:]
			class := slices.IndexFunc(waits[:], func(c <-chan struct{}) bool { return len(c) > 0 })
			if class < 0 {
				t.Fatal("nobody was woken when one had ended")
			}
			<-waits[class]
			woken[class]++
			w.Rank, at = class, g.loads[w.target]
			v, _ := g.Admit(w, at)
			if !v.Admitted {
				t.Fatalf("who was woken: %+v, want that it begins", v)
			}
			passes = append(passes, v.Permit)
		}
		if want := []int{80, 40, 20, 10}; !slices.Equal(woken, want) {
			t.Errorf("woken by priority: %v, want %v", woken, want)
		}
		for class := range waits { // all but one of low give up
			for n := range 100 - woken[class] {
				if class < 3 || n > 0 {
					g.Leave(at, class)
				}
			}
		}
		for _, c := range waits[:3] {
			for len(c) > 0 {
				<-c
			}
		}
		if passes[0].End(new(target.Health)); len(waits[3]) != 1 {
			t.Error("the last who waits was not woken")
		}
	})
}

func TestGateLimitsScripts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := Request{target: targetKey{"a", "script report"}, targetLimit: 2}
		passes, parked, _ := beginAll(g, w, 5)
		if len(passes) != 2 || parked != 3 {
			t.Errorf("of a script that may run twice at once %d began and %d wait, want 2 and 3", len(passes), parked)
		}
		endAll(passes[:1], target.Unhealthy)
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
		endAll(passes, target.Healthy) // so an attempt takes 10 s
		beginAll(g, w, 100)
		time.Sleep(2 * slowAfter)
		var waits []time.Duration
		for range 560 {
			v, _ := g.Admit(w, nil)
			waits = append(waits, v.Defer)
		}
		slices.Sort(waits)
		// 56 at once, 10 s each: 560 need 100 s. Each wait has up to half of it on top.
		if first, last := waits[0], waits[len(waits)-1]; first < time.Second || last < 80*time.Second || last > 160*time.Second {
			t.Errorf("560 were put off by %s to %s, want about as long as they need, 100 s", first, last)
		}
	})
}

// TestManyBehindABreakerComeBackInALine: those that were put off came back every 5, 10, 20 s each,
// and cost others' runs more than if their target had been well.
func TestManyBehindABreakerComeBackInALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := hostWish("a", "h")
		passes, _, _ := beginAll(g, w, BreakerAttempts)
		endAll(passes, target.Unhealthy)
		putOff := func() time.Duration {
			v, _ := g.Admit(w, nil)
			if v.Defer == 0 {
				t.Fatalf("asked of a target that fails: got %+v, want it put off", v)
			}
			return v.Defer
		}
		if got := putOff(); got < breakerDelay || got > breakerDelay*3/2 {
			t.Errorf("the first is put off by %s, want the delay of the breaker and up to half of it", got)
		}
		const seconds = 60
		var back [4 * seconds]int // in each second
		for range seconds * deferredPerSecond {
			back[int(putOff().Seconds())]++
		}
		// The first ones wait for the breaker, all at once; what comes after them stands in the
		// line.
		const first = 10
		all := 0
		for s, n := range back {
			if all += n; s >= first && n > deferredPerSecond*3/2 || s == first && all > (first+1)*deferredPerSecond {
				t.Errorf("%d come back in second %d, %d until then, want about %d in each at most", n, s, all, deferredPerSecond)
			}
		}
	})
}

func TestGateRemembersABoundedNumberOfTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		for i := range 2 * maxTargets {
			w := hostWish(fmt.Sprint("t", i%1000), fmt.Sprint("http://h", i))
			n := 1
			if i < 3 {
				n = BreakerAttempts // these break
			}
			for range n {
				passes, _, _ := beginAll(g, w, 1)
				endAll(passes, target.Unhealthy)
			}
		}
		if len(g.loads) > maxTargets+len(Permit{}.loads) || g.idle.all.Len() != len(g.loads) {
			t.Errorf("%d targets are remembered, %d in shares; want at most %d", len(g.loads), g.idle.all.Len(), maxTargets)
		}
		if got := counted(t, g.metrics.open); got != 0 {
			t.Errorf("%v targets count as broken that are forgotten, want 0", got)
		}
	})
}

// TestLongCallsKeepNothingElseRemembered: once a few targets with long calls were those used
// longest ago, no target was forgotten any more.
func TestLongCallsKeepNothingElseRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		const long = 20 // of each kind
		var passes []Permit
		var waits []*Load
		for i := range long {
			began, _, _ := beginAll(g, hostWish("a", fmt.Sprint("http://long", i)), 1)
			passes = append(passes, began...)
			w := Request{target: targetKey{"b", fmt.Sprint("script ", i)}, targetLimit: 1}
			began, _, _ = beginAll(g, w, 1)
			passes = append(passes, began...)
			for _, w := range []Request{w, {target: targetKey{tenant: "l"}, Task: fmt.Sprint("k", i), TaskLimit: 1}} {
				if v, at := g.Admit(w, nil); at == nil {
					t.Fatalf("one more than its limit: %+v, want that it waits", v)
				} else {
					waits = append(waits, at)
				}
			}
		}
		others := func() {
			for i := range 3 * maxTargets {
				began, _, _ := beginAll(g, hostWish("c", fmt.Sprint("http://h", i)), 1)
				endAll(began, target.Healthy)
			}
		}
		others()
		if got, most := len(g.loads), maxTargets+len(Permit{}.loads)+len(passes)+len(waits)+2; len(passes) != 2*long || got > most {
			t.Errorf("%d targets are remembered beside %d attempts under way, want at most %d", got, len(passes), most)
		}
		for _, p := range passes {
			if l := p.loads[ofHost]; g.loads[l.key] != l {
				t.Fatalf("%v is forgotten though an attempt is under way", l.key)
			}
		}
		for _, l := range waits {
			if g.loads[l.key] != l {
				t.Fatalf("%v is forgotten though an attempt waits", l.key)
			}
		}
		endAll(passes, target.Healthy)
		for i, l := range waits {
			if i%4 < 2 {
				g.Leave(l, 0)
			} else if v, at := g.Admit(hostWish("a", "http://now"), l); at != nil {
				t.Fatalf("who waited asks for another target: %+v, want that it begins", v)
			} else {
				v.Permit.End(new(target.Health))
			}
		}
		others()
		k := &QuotaAllocator{controller: g, QuotaConfig: QuotaConfig{Session: func(time.Time) (string, bool) { return "", false }}}
		for l := range g.limited {
			if g.loads[l.key] != l {
				t.Fatalf("%v is forgotten though its block is looked after", l.key)
			}
			l.block.absent = true
			if _, done := k.begin(l, l.block, time.Now()); !done {
				t.Fatalf("the block of %v is needed, want it let go", l.key)
			}
		}
		others()
		if got := len(g.loads); got > maxTargets+len(Permit{}.loads) {
			t.Errorf("%d targets are remembered once nothing is under way, want at most %d", got, maxTargets)
		}
	})
}

// TestGateKeepsNoURLs: a name that was cut from a URL of 2 KiB kept all of it in memory.
func TestGateKeepsNoURLs(t *testing.T) {
	g := gateOf(64)
	url := "http://a.test/" + strings.Repeat("x", 2000)
	work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
	beginAll(g, NewRequest("t", &work, target.Set{}), 1)
	for k, l := range g.loads {
		for _, name := range []string{k.name, l.key.name} {
			if name != "" && unsafe.StringData(name) == unsafe.StringData(url) { // #nosec G103 -- compared alone
				t.Errorf("%q is remembered as a part of its URL, want a copy", name)
			}
		}
	}
}

func TestGateDoesNotAllocate(t *testing.T) {
	g := gateOf(64)
	url := "http://a.test:8080/hook"
	work := schema.Work{HTTP: &schema.HTTPTarget{URL: url}}
	ok := target.Healthy
	if n := testing.AllocsPerRun(1000, func() {
		v, _ := g.Admit(NewRequest("t", &work, target.Set{}), nil)
		v.Permit.End(&ok)
	}); n > 0 {
		t.Errorf("a pass allocates %v times, want none", n)
	}
}

func BenchmarkGate(b *testing.B) {
	g := gateOf(2048)
	w := hostWish("t", "http://a.test")
	ok := target.Healthy
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			v, _ := g.Admit(w, nil)
			v.Permit.End(&ok)
		}
	})
}

// TestWhatLingeredMayBeForgotten: so is the place that a script kept which could not be ended, once
// it has ended.
func TestWhatLingeredMayBeForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		k, gone := targetKey{name: "script stuck"}, make(chan struct{})
		g.Linger(Request{target: k, targetLimit: 1}, gone)
		for i := range maxTargets + 10 { // of the same share
			began, _, _ := beginAll(g, hostWish("", fmt.Sprint("http://h", i)), 1)
			endAll(began, target.Healthy)
		}
		l := g.loads[k]
		if l == nil || l.inTenant != nil {
			t.Fatalf("a script that goes on: %+v, want that it is remembered, and out of turn", l)
		}
		close(gone)
		synctest.Wait()
		if l.busy != 0 || l.inTenant == nil {
			t.Errorf("a script that has ended keeps %d places, and may be forgotten: %t; want none, and that it may", l.busy, l.inTenant != nil)
		}
	})
}

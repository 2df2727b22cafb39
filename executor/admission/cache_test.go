package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
)

// TestManyTargetsOfOneTenantMakeNoOtherForget: a tenant that called new hosts all the time had the
// open breakers of all others forgotten.
func TestManyTargetsOfOneTenantMakeNoOtherForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		var failing []Request
		for i := range 100 {
			failing = append(failing, hostWish("a", fmt.Sprint("http://h", i)), hostWish(fmt.Sprint("b", i), "http://h"))
		}
		for _, w := range failing {
			for range BreakerAttempts {
				passes, _, _ := beginAll(g, w, 1)
				endAll(passes, target.Unhealthy)
			}
		}
		for i := range 3 * maxTargets {
			passes, _, _ := beginAll(g, hostWish("c", fmt.Sprint("http://h", i)), 1)
			endAll(passes, target.Healthy)
		}
		for _, w := range failing {
			if v, _ := g.Admit(w, nil); v.Reason != "breaker" {
				t.Fatalf("asked for %v, whose breaker is open: %+v, want it put off", w.target, v)
			}
		}
		if got := len(g.loads); got < maxTargets || counted(t, g.metrics.open) != float64(len(failing)) {
			t.Errorf("%d targets are remembered, %v of them broken; want %d and %d", got, counted(t, g.metrics.open), maxTargets, len(failing))
		}
		if first, last := (targetKey{"c", "http://h0"}), (targetKey{"c", fmt.Sprint("http://h", 3*maxTargets-1)}); g.loads[first] != nil || g.loads[last] == nil {
			t.Errorf("of who called most the first is remembered: %t, the last: %t; want the last alone", g.loads[first] != nil, g.loads[last] != nil)
		}
	})
}

// TestWhoHasMostForgetsFirst puts loads in and takes them out at random: each that is taken is the
// oldest of a tenant that has most.
func TestWhoHasMostForgetsFirst(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := loadCache{byTenant: make(map[string]*tenantLoads)}
	held := make(map[string][]*Load) // oldest first
	now := time.Now()
	n := 0
	for i := range 20_000 {
		if n == 0 || r.IntN(10) < 6-i/10_000*2 { // it grows at first, and shrinks then
			l := &Load{key: targetKey{tenant: fmt.Sprint("t", r.IntN(1+r.IntN(30)))}}
			held[l.key.tenant] = append(held[l.key.tenant], l)
			s.put(l, now)
			n++
			continue
		}
		most := 0
		for _, loads := range held {
			most = max(most, len(loads))
		}
		l := s.evict(now)
		if mine := held[l.key.tenant]; len(mine) != most || mine[0] != l {
			t.Fatalf("step %d: one of %d of tenant %s was taken, want the oldest of one who has most, %d", i, len(mine), l.key.tenant, most)
		}
		if held[l.key.tenant] = held[l.key.tenant][1:]; len(held[l.key.tenant]) == 0 {
			delete(held, l.key.tenant)
		}
		if n--; s.all.Len() != n || len(s.byTenant) != len(held) || len(s.largest) != len(held) {
			t.Fatalf("step %d: %d loads of %d tenants, want %d of %d", i, s.all.Len(), len(s.byTenant), n, len(held))
		}
	}
}

// TestWhatIsStaleIsForgottenFirst: tenants of which each had made one call, long ago, left no room
// to one that has two targets.
func TestWhatIsStaleIsForgottenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		for i := range maxTargets {
			passes, _, _ := beginAll(g, hostWish(fmt.Sprint("t", i), "http://h"), 1)
			endAll(passes, target.Healthy)
		}
		time.Sleep(staleAfter)
		w := hostWish("a", "http://h")
		for range BreakerAttempts {
			passes, _, _ := beginAll(g, w, 1)
			endAll(passes, target.Unhealthy)
		}
		for i := range 1000 { // others come and go
			passes, _, _ := beginAll(g, hostWish(fmt.Sprint("u", i), "http://h"), 1)
			endAll(passes, target.Healthy)
		}
		if v, _ := g.Admit(w, nil); v.Reason != "breaker" {
			t.Errorf("a run whose target's breaker is open: %+v, want it put off", v)
		}
		if got := g.idle.all.Len(); got > maxTargets+len(Permit{}.loads) {
			t.Errorf("%d targets are remembered, want at most %d", got, maxTargets)
		}
	})
}

package admission

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestFewWaitInMemoryForALimit: of a burst a few wait, whatever the number of tasks; all others are
// put off, and later ones further than earlier ones.
func TestFewWaitInMemoryForALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		wishOf := func(task int, again bool) Request {
			return Request{target: targetKey{"t", "h"}, Task: fmt.Sprint("task ", task), TaskLimit: 1, Deferred: again}
		}
		if passes, parked, putOff := beginAll(g, wishOf(0, false), 100); len(passes) != 0 || parked != 6 || putOff != 94 {
			t.Errorf("100 runs without a slot: %d began, %d wait, %d are put off; want 6 to wait and the others put off", len(passes), parked, putOff)
		}
		if _, parked, _ := beginAll(g, wishOf(0, true), 100); parked != 2 {
			t.Errorf("of 100 that were put off before %d wait, want 2 more", parked)
		}
		all := 8
		for task := range 100 {
			_, parked, _ := beginAll(g, wishOf(task, true), 10)
			all += parked
		}
		if all != 32 {
			t.Errorf("%d runs of 100 tasks wait in memory, want half as many as there are slots", all)
		}
		time.Sleep(unknownSpeedFor)
		var waits []time.Duration
		for range 2000 {
			v, at := g.Admit(wishOf(0, true), nil)
			if v.Defer == 0 || v.Reason != "limit" {
				t.Fatalf("ask = %+v, %v; want it put off for its limit", v, at)
			}
			waits = append(waits, v.Defer)
		}
		if first, last := waits[0], waits[len(waits)-1]; first > 3*time.Second || last < 10*time.Minute || last > 12*time.Minute {
			t.Errorf("the first is put off by %s and the last one by %s, want a second or two, and ten minutes", first, last)
		}
	})
}

// TestATenantHasAQuota: runs of all tasks of a tenant, and those of none, share its slots; other
// tenants have their own. A run takes a slot of its task and one of its tenant, or none.
func TestATenantHasAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		plain := Request{target: targetKey{"t", "http://h"}, TenantLimit: 3}
		task := Request{target: targetKey{"t", "http://g"}, Task: "a", TaskLimit: 2, TenantLimit: 3}
		give := func(k targetKey, n int, session string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			b := g.loads[k].block
			b.held, b.usable, b.session = n, n, session
		}
		_, at := g.Admit(plain, nil)
		if at == nil || at.block.key != "tenant/t" {
			t.Fatalf("a run without a slot waits at %+v, want at its tenant's quota", at)
		}
		g.Leave(at, 0)
		give(quotaKey("t"), 3, "s")
		_, at = g.Admit(task, nil)
		if at == nil || at.block.key != "task/t/a" {
			t.Fatalf("a run without a slot of its task waits at %+v, want at its task's limit", at)
		}
		g.Leave(at, 0)
		give(taskKey("t", "a"), 2, "former")
		if v, _ := g.Admit(task, nil); v.Admitted {
			t.Error("a run starts with slots of two sessions")
		}
		give(taskKey("t", "a"), 2, "s")
		first, _, _ := beginAll(g, task, 1)
		others, _, _ := beginAll(g, plain, 4)
		if len(first) != 1 || len(others) != 2 {
			t.Fatalf("with 3 slots of the tenant %d runs of a task and %d others began, want 1 and 2", len(first), len(others))
		}
		if n, _ := g.UnderWay("t", ofTasks+"a"); n != 1 {
			t.Errorf("%d slots of the task are in use, want 1", n)
		}
		if more, _, _ := beginAll(g, task, 1); len(more) != 0 {
			t.Error("a fourth run of the tenant began")
		}
		if v, at := g.Admit(Request{target: targetKey{"u", "http://h"}}, nil); !v.Admitted {
			t.Errorf("a run of another tenant = %+v, %v; want it admitted", v, at)
		}
		time.Sleep(unknownSpeedFor)
		for range 100 {
			if v, _ := g.Admit(plain, nil); v.Defer > 0 && (v.Reason != ReasonLimit || v.Cause != schema.CauseQuota) {
				t.Fatalf("a deferral = %+v, want it for the quota", v)
			}
		}
		endAll(slices.Concat(first, others), target.Healthy)
		if _, busy := heldAndBusy(g); busy != 0 {
			t.Errorf("%d slots are in use in the end, want none", busy)
		}
		for _, s := range g.TargetStates("t", time.Now()) {
			if s.Target == ofTenants {
				t.Error("the quota is told of as a target")
			}
		}
	})
}

// TestALimitWithoutTarget: a task whose target has no name has its limit too.
func TestALimitWithoutTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		w := Request{target: targetKey{tenant: "t"}, Task: "a", TaskLimit: 3}
		_, at := g.Admit(w, nil)
		if at == nil || at.block.key != "task/t/a" {
			t.Fatalf("a run without a slot waits at %+v, want at its task's limit", at)
		}
		g.mu.Lock()
		at.block.held, at.block.usable, at.block.session = 2, 2, "s"
		g.mu.Unlock()
		g.Leave(at, 0)
		passes, parked, _ := beginAll(g, w, 4)
		if len(passes) != 2 || parked != 2 || passes[0].Session != "s" {
			t.Errorf("with 2 slots %d of 4 began and %d wait, want 2 and 2", len(passes), parked)
		}
		endAll(passes, target.Healthy)
		if held, busy := heldAndBusy(g); held != 2 || busy != 0 || g.inMemory != 2 {
			t.Errorf("%d slots held, %d busy, %d wait; want 2, none and 2", held, busy, g.inMemory)
		}
	})
}

// heldAndBusy returns how many slots of limits the blocks of a gate have, and how many of them are
// in use.
func heldAndBusy(g *Controller) (held, busy int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.limited {
		held += l.block.held
		busy += l.busy
	}
	return held, busy
}

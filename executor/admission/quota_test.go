package admission

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
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

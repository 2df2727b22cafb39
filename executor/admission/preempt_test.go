package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestAPlaceForACriticalAttempt: who finds no room at a target or tenant learns where one attempt
// less would be enough. The place of one that is stopped for that goes to a critical attempt. One
// for which an attempt is stopped waits, even where others are deferred.
func TestAPlaceForACriticalAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ok := gateOf(8), target.Healthy
		low := hostWish("t", "http://a.test")
		low.Rank = schema.Low.Rank()
		critical := low
		critical.Rank = schema.Critical.Rank()
		var held []Permit
		for range 7 {
			d, _ := g.Admit(low, nil)
			if !d.Admitted || d.Full != nil {
				t.Fatalf("Admit = %+v, want a permit", d)
			}
			held = append(held, d.Permit)
		}
		time.Sleep(3 * slowAfter)
		var waits []Decision
		for range waitingLeast {
			d, _ := g.Admit(low, nil)
			waits = append(waits, d)
		}
		if d, _ := g.Admit(critical, nil); d.Defer == 0 || d.Full == nil || !held[0].Holds(d.Full) {
			t.Errorf("Admit = %+v, want a deferral, and where there is no room", d)
		}
		critical.Waits = true
		d, at := g.Admit(critical, nil)
		if d.Wait == nil || d.Full != at || !held[0].Holds(at) {
			t.Fatalf("Admit while an attempt is stopped for it = %+v, want that it waits", d)
		}
		held[0].Preempted = true
		held[0].End(&ok)
		select {
		case <-d.Wait:
		default:
			t.Error("the place of an attempt that was stopped did not go to the critical one")
		}
		select {
		case <-waits[0].Wait:
			t.Error("it went to one of low priority as well")
		default:
		}
		if d, _ := g.Admit(critical, at); !d.Admitted {
			t.Errorf("Admit with room = %+v, want a permit", d)
		}
	})
}

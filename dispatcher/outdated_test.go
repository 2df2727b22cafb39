package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
)

// TestARowThatWasHeldLateIsLookedAt: a key that was claimed and sent again had its row written 7 s
// after its due time, and a late entry beside it. The scan took the row for new, and both were
// started.
func TestARowThatWasHeldLateIsLookedAt(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(finish))
		r.start("d1")
		time.Sleep(8*time.Second + 100*time.Millisecond)
		late, soon := r.run(time.Now().Add(-lateEntryAfter-time.Second), 0), r.run(time.Now().Add(-time.Second), 0)
		time.Sleep(progress.ScanEvery + time.Second)
		for _, row := range []struct {
			name  string
			seen  []sight
			looks bool
		}{{"held too late", h.sights(late.ID), true}, {"held in time, its hint lost", h.sights(soon.ID), false}} {
			if len(row.seen) != 1 || row.seen[0].env.Redispatch != row.looks {
				t.Errorf("%s: published %s, want once, as a redispatch: %t", row.name, describe(row.seen), row.looks)
			}
		}
	})
}

// TestAShardActsOnNothingFromBeforeAStop: what the process remembered when it was stopped was acted
// on between the moment when the stop was noted and that when the shard was started anew.
func TestAShardActsOnNothingFromBeforeAStop(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(finish))
		d := r.idle()
		var stopped atomic.Int64
		d.halt = bucketer.NewHalt(func() time.Time { return time.Now().Add(time.Duration(stopped.Load())) })
		go func() { _ = d.halt.Run(t.Context()) }() // always nil
		s := r.shardOf(d, 0)
		go s.run(t.Context())
		before, after := r.run(time.Now().Add(3*time.Second), 0), r.run(time.Now().Add(8*time.Second), 0)
		time.Sleep(5 * time.Second)
		stopped.Store(int64(10 * time.Second))
		time.Sleep(10 * time.Second)
		if d.halt.Halted() || d.halt.Halts() != 1 {
			t.Fatalf("halted %t, %d times, want that it was noted once", d.halt.Halted(), d.halt.Halts())
		}
		if seen := h.sights(before.ID); len(seen) != 1 {
			t.Errorf("published %s before the stop, want once", describe(seen))
		}
		if seen := h.sights(after.ID); len(seen) != 0 {
			t.Errorf("published %s by a shard from before the stop, want that nobody does", describe(seen))
		}
	})
}

// TestAChangedTaskWaitsForNoReadThatHangs: who asks for the rates to be taken in gives up when its
// time is up.
func TestAChangedTaskWaitsForNoReadThatHangs(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		d.readingRates <- struct{}{} // a read is under way, and does not end
		began := time.Now()
		if err := d.readRates(t.Context()); err == nil || time.Since(began) != storeTimeout {
			t.Errorf("readRates() = %v after %v, want an error after %v", err, time.Since(began), storeTimeout)
		}
	})
}

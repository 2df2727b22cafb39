package dispatcher

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// TestATakeOverLeavesToTheStreamWhatItHolds: everything of the last 20 s that had no outcome was published again at
// once. What the owner before had published lay in the stream, or ran without a trace, and was started twice.
func TestATakeOverLeavesToTheStreamWhatItHolds(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(always(keep))
		n := r.start("d1")
		due := time.Now().Add(10 * time.Second).Truncate(time.Millisecond)
		ends, stays := r.run(due, 0), r.run(due, 0)
		time.Sleep(time.Until(due.Add(100 * time.Millisecond)))
		n.stop()
		missed := r.run(time.Now().Add(-time.Second), 0) // nobody has published it
		h.change(func(env *queue.Envelope) fate {
			if env.Entry.ID == ends.ID {
				return finish
			}
			return keep
		})
		took := time.Now()
		r.start("d1")
		time.Sleep(queue.AckWait) // it was delivered again by then
		for _, e := range []schema.Entry{ends, stays, missed} {
			want := 1
			if e.ID == missed.ID {
				want = 0
			}
			if seen := h.sights(e.ID); len(seen) != want {
				t.Errorf("%v after the take-over: published %s, want %d times", time.Since(took), describe(seen), want)
			}
		}
		time.Sleep(time.Until(took.Add(takeoverWait + scanEvery + clearEvery)))
		if seen := h.sights(ends.ID); len(seen) != 1 {
			t.Errorf("what ended was published %s, want once", describe(seen))
		}
		for _, e := range []schema.Entry{stays, missed} {
			if seen := h.sights(e.ID); len(seen) == 0 || !seen[len(seen)-1].env.Redispatch {
				t.Errorf("published %s, want a redispatch, since the stream does not let go", describe(seen))
			}
		}
	})
}

// TestATakeOverWaitsNoLongerThanTheStream: an owner that finds an empty stream publishes at once, and one that does not
// when what it found has gone, whatever came since.
func TestATakeOverWaitsNoLongerThanTheStream(t *testing.T) {
	took := time.Now()
	later := took.Add(lossNoticed)
	full := func(first, last uint64) queue.Front { return queue.Front{Stream: "1", Sequence: first, Last: last} }
	for _, tc := range []struct {
		name   string
		fronts []queue.Front
		at     []time.Time
		want   bool
	}{
		{"empty at once", []queue.Front{{Stream: "1", Empty: true, Last: 9}}, []time.Time{took}, true},
		{"not empty", []queue.Front{full(5, 9)}, []time.Time{took}, false},
		{"it may have published since", []queue.Front{full(5, 9), full(10, 11)}, []time.Time{took, later}, false},
		{"what was there is there", []queue.Front{full(5, 9), full(9, 20)}, []time.Time{later, later}, false},
		{"what was there has gone", []queue.Front{full(5, 9), full(10, 20)}, []time.Time{later, later}, true},
		{"made anew", []queue.Front{full(5, 9), {Stream: "2", Sequence: 1, Last: 1}}, []time.Time{later, later}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c clearing
			for i, f := range tc.fronts {
				c.saw(f, took, tc.at[i])
			}
			if c.gone != tc.want {
				t.Errorf("gone = %v, want %v", c.gone, tc.want)
			}
		})
	}
}

// TestWhoLosesAShardPublishesNothingLate: both owners did, for 3 s, under ids of their own.
func TestWhoLosesAShardPublishesNothingLate(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		d := r.idle()
		s := r.shardOf(d, 0)
		s.leaving.Store(true)
		now := time.Now()
		for _, tc := range []struct {
			name string
			due  time.Duration
			late bool
		}{{"due soon", time.Second, false}, {"due", 0, true}, {"behind", -time.Second, true}} {
			o := s.book.add(&queue.Envelope{Entry: r.run(now.Add(tc.due), 0), CheckedAt: now})
			s.book.take(o)
			s.publish(t.Context(), o, now)
			synctest.Wait()
			if left := o.phase == watching; left != tc.late {
				t.Errorf("%s: left to the next owner: %v, want %v", tc.name, left, tc.late)
			}
		}
	})
}

package dispatcher

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/schema"
)

// TestShardsFollowTheirHome: only shards of homes that our region serves are dispatched. One whose home
// is lost is given up at once; when it is served again, in another epoch, what was left is found.
func TestShardsFollowTheirHome(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		var eu, us atomic.Int64 // epochs in which shard 0 and 1 are served; 0: they are not
		eu.Store(1)
		r.served = func(shard schema.Shard) (int64, error) {
			epoch := []*atomic.Int64{&eu, &us}[shard].Load()
			if epoch == 0 {
				return 0, schema.ErrNotServed
			}
			return epoch, nil
		}
		h := r.hand(nil)
		d := r.start("d1")
		synctest.Wait()
		if got := d.Owned(); got != 1 {
			t.Errorf("Owned = %d, want 1 of the home that is served", got)
		}
		ours, theirs := r.run(time.Now().Add(3*time.Second), 0), r.run(time.Now().Add(3*time.Second), 1)
		time.Sleep(20 * time.Minute)
		if seen := h.sights(ours.ID); len(seen) != 1 || seen[0].env.Epoch != 1 {
			t.Errorf("ours was published %s, want once, in epoch 1", describe(seen))
		}
		if n := len(h.sights(theirs.ID)); n != 0 {
			t.Errorf("that of a home which is served elsewhere was published %d times, want never", n)
		}
		was := r.cursor(0)

		// Of a second, so that some are published before the dispatcher looks at homes and ring again.
		lost := time.Now().Add(10 * time.Second)
		var after []schema.Entry
		for i := range 20 {
			after = append(after, r.run(lost.Add(depth.Lead+depth.LeadMost+time.Duration(i)*50*time.Millisecond), 0))
		}
		time.Sleep(time.Until(lost))
		eu.Store(0) // they are in memory, and about to be published
		time.Sleep(time.Second)
		if got := d.Owned(); got != 0 {
			t.Errorf("Owned = %d a second after the home was lost, want 0", got)
		}
		time.Sleep(time.Minute)
		for i := range after {
			if n := len(h.sights(after[i].ID)); n != 0 {
				t.Errorf("published %d times without the home, want never", n)
			}
		}
		if is := r.cursor(0); is.Epoch != was.Epoch {
			t.Errorf("cursor = %+v without the home, want it in epoch %d", is, was.Epoch)
		}

		eu.Store(3)
		us.Store(2)
		time.Sleep(3 * time.Minute)
		for _, e := range append(after, theirs) {
			want := map[schema.Shard]int64{0: 3, 1: 2}[e.ID.Shard()]
			if seen := h.sights(e.ID); len(seen) != 1 || seen[0].env.Epoch != want {
				t.Errorf("published %s, want once, in epoch %d", describe(seen), want)
			}
		}
		if n := len(h.sights(ours.ID)); n != 1 {
			t.Errorf("what is done was published %d times, want once", n)
		}
		if is := r.cursor(0); is.Epoch/1000 != 3 || was.Epoch/1000 != 1 {
			t.Errorf("cursors of epochs %d and then %d, want those of epochs 1 and 3 of the home", was.Epoch, is.Epoch)
		}
	})
}

// TestAnotherEpochOfOurHomeStartsShardsAnew: also where our region goes on to serve it.
func TestAnotherEpochOfOurHomeStartsShardsAnew(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		var epoch atomic.Int64
		epoch.Store(1)
		r.served = func(schema.Shard) (int64, error) { return epoch.Load(), nil }
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(time.Minute)
		epoch.Store(2)
		e := r.run(time.Now().Add(10*time.Second), 0)
		time.Sleep(time.Minute)
		if seen := h.sights(e.ID); len(seen) != 1 || seen[0].env.Epoch != 2 {
			t.Errorf("published %s, want once, in epoch 2", describe(seen))
		}
		if got := counted(t, d.metrics.takeovers); got != 2 {
			t.Errorf("the shard was taken over %v times, want once in each epoch", got)
		}
	})
}

package dispatcher

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// raise moves the cursor of shard 0 to a bucket, in the epoch that it has.
func (r *rig) raise(to schema.Bucket) {
	r.t.Helper()
	c := r.cursor(0)
	c.Dispatched, c.Settled = to, to
	if err := r.inner.AdvanceCursor(context.Background(), c); err != nil {
		r.t.Fatal(err)
	}
}

// TestACursorFromTheFuture: whatever the cursor says, what is due now is published on time, by
// every owner, and what was due before is found as well.
func TestACursorFromTheFuture(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		time.Sleep(30 * time.Minute)
		r.raise(schema.BucketOf(time.Now().Add(10 * time.Minute)))
		h := r.hand(nil)
		before := r.run(time.Now().Add(-20*time.Minute), 0)
		near := r.run(time.Now().Add(2*time.Second), 0)
		within := r.run(time.Now().Add(5*time.Minute), 0)
		after := r.run(time.Now().Add(15*time.Minute), 0)
		d := r.start("d1")
		time.Sleep(time.Minute)
		hinted := r.entry(time.Now(), 0, schema.Spec{})
		r.put(hinted)
		r.conn.Near(0, []schema.Entry{hinted})
		time.Sleep(time.Second)
		if n := len(h.sights(hinted.ID)); n != 1 {
			t.Errorf("a hinted run was published %d times a second later, want once", n)
		}
		time.Sleep(7 * time.Minute)
		d.stop()
		second := r.start("d1")
		time.Sleep(30 * time.Minute)
		for _, e := range []*schema.Entry{&near, &within, &after} {
			h.only(e)
		}
		if seen := h.sights(before.ID); len(seen) != 1 || !seen[0].env.Redispatch {
			t.Errorf("the run due before the cursor was published %s, want once, as a redispatch", describe(seen))
		}
		if lag := r.lag(0); lag < 1 || lag > 2 {
			t.Errorf("settled lags by %d buckets, want 1 or 2", lag)
		}
		if got, then := counted(t, d.metrics.ahead), counted(t, second.metrics.ahead); got != 1 || then != 0 {
			t.Errorf("%v cursors from the future, and %v at the next owner, want 1 and 0", got, then)
		}
	})
}

// TestACursorThatIsAheadByAClock: an owner whose clock is ahead of ours has swept a bucket that is
// not over by ours. That is no fault, and what is due in that bucket is taken all the same.
func TestACursorThatIsAheadByAClock(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		// Two seconds before a bucket's end has been over for the grace.
		end := schema.BucketOf(time.Now()).End().Add(time.Minute)
		time.Sleep(time.Until(end.Add(8 * time.Second)))
		r.raise(schema.BucketOf(end) - 1)
		d := r.start("d1")
		time.Sleep(100 * time.Millisecond)
		late := r.entry(end.Add(-100*time.Millisecond), 0, schema.Spec{})
		r.put(late)
		r.conn.Near(0, []schema.Entry{late})
		time.Sleep(time.Second)
		if n := len(h.sights(late.ID)); n != 1 {
			t.Errorf("a run due less than the grace ago was published %d times, want once", n)
		}
		if got, epoch := counted(t, d.metrics.ahead), r.cursor(0).Epoch; got != 0 || epoch != 1 {
			t.Errorf("%v cursors from the future, epoch %d, want none in epoch 1", got, epoch)
		}
	})
}

// TestTheCursorIsReplaced: an owner takes up what was due after the cursor that another has put in
// place of its own, and notices when its own was moved into the future.
func TestTheCursorIsReplaced(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		h := r.hand(nil)
		d := r.start("d1")
		time.Sleep(40 * time.Minute)
		missed := r.run(time.Now().Add(-30*time.Minute), 0) // behind the sweep
		time.Sleep(20 * time.Minute)
		if n := len(h.sights(missed.ID)); n != 0 {
			t.Fatalf("a run that appeared behind the sweep was published %d times", n)
		}
		c := r.cursor(0)
		from := schema.BucketOf(time.Now().Add(-time.Hour))
		if err := r.inner.AdvanceCursor(context.Background(), schema.Cursor{Shard: 0, Epoch: c.Epoch + 1, Dispatched: from, Settled: from}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if n := len(h.sights(missed.ID)); n != 1 {
			t.Errorf("a run due after the new cursor was published %d times, want once", n)
		}
		if lag := r.lag(0); lag > 2 {
			t.Errorf("settled lags by %d buckets in the new epoch, want 2", lag)
		}
		r.raise(schema.BucketOf(time.Now().Add(time.Hour)))
		time.Sleep(3 * time.Minute)
		if got, lag := counted(t, d.metrics.ahead), r.lag(0); got != 1 || lag < 1 || lag > 2 {
			t.Errorf("%v cursors from the future, lag %d, want 1 and 1 or 2", got, lag)
		}
	})
}

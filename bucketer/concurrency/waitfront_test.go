package concurrency

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// dearly is a store in which a wait list costs what it does in Cassandra: a read passes over what
// was taken out of its range, and answers nothing if that is too much.
type dearly struct {
	bucketer.Store
	gone   []schema.RunID // taken out, in order
	reads  int
	passed int // over how many such rows reads went
}

const (
	deadRow  = 12 * time.Microsecond
	deadMost = 100_000
)

func (d *dearly) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	if i, had := slices.BinarySearchFunc(d.gone, w.Run, schema.RunID.Compare); !had {
		d.gone = slices.Insert(d.gone, i, w.Run)
	}
	return d.Store.DeleteWaiter(ctx, w)
}

func (d *dearly) Waiters(ctx context.Context, key schema.LimitKey, r schema.IDRange, limit int) ([]schema.Waiter, error) {
	rows, err := d.Store.Waiters(ctx, key, r, limit)
	if len(rows) == limit {
		r.Before = rows[limit-1].Run
	}
	n := 0
	for i, _ := slices.BinarySearchFunc(d.gone, r.After, schema.RunID.Compare); i < len(d.gone) && n <= deadMost; i++ {
		if !r.Before.IsZero() && d.gone[i].Compare(r.Before) >= 0 {
			break
		}
		n++
	}
	d.reads++
	d.passed += n
	time.Sleep(time.Duration(n) * deadRow)
	if n > deadMost {
		return nil, fmt.Errorf("%w: too many tombstones", schema.ErrUnavailable)
	}
	return rows, err
}

// In a list of 150,000 runs each look took longer than the one before, and from 100,000 on none was
// answered any more.
func TestAWaitListIsNotReadFromItsBeginning(t *testing.T) {
	bubble(t, 7*24*time.Hour, func(t *testing.T, w *world) {
		const n = 150_000
		ctx := t.Context()
		d := &dearly{Store: w.store}
		w.store = d
		job := w.limited("j")
		key := schema.JobLimit(job.ID)
		shard := job.ID.Shard()
		begin := time.Now().Add(-time.Hour)
		wait := func(i int) schema.Waiter {
			id := schema.MakeEntryID(begin.Add(time.Duration(i)*10*time.Millisecond), shard, uint64(i)) // #nosec G115 -- small
			return schema.Waiter{Limit: key, Shard: shard, Run: id, Entry: id, Noted: time.Now(), Expires: time.Now().Add(7 * 24 * time.Hour)}
		}
		put := func(i int) {
			if err := w.Counts.PutWaiter(ctx, wait(i)); err != nil {
				t.Fatal(err)
			}
		}
		left := func() int {
			rows, err := w.Counts.Waiters(ctx, key, schema.IDRange{}, n)
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		// Most have had their turn, taken out by others: the last of the runs that wait are wakened
		// all the same.
		for i := range n {
			d.gone = append(d.gone, wait(i).Run)
		}
		for i := n; i < n+300; i++ {
			put(i)
		}
		put(5)
		put(n / 2)
		live := bucketer.NewLiveness(w.Counts, time.Now, nil)
		began, looks := time.Now(), 0
		for ; left() > 0 && looks < 200; looks++ {
			_, _ = w.WakeShard(ctx, shard, "", live) // a read may fail
			time.Sleep(5 * time.Second)
		}
		if n := left(); n > 0 {
			t.Fatalf("after %d looks and %v: %d runs still wait, and nobody finds them", looks, time.Since(began), n)
		}
		t.Logf("%d looks, %d reads, which passed over %d rows", looks, d.reads, d.passed)

		// A process that begins now, and one that goes on, find what comes at once: behind the
		// front too, if the owner looks.
		d.reads, d.passed = 0, 0
		put(n + 1000)
		if rows, err := w.firstWaiting(ctx, key); err != nil || len(rows) != 1 || d.passed > 1000 {
			t.Errorf("firstWaiting = %d runs, %v, having passed over %d rows; want the one, and at most 1000", len(rows), err, d.passed)
		}
		put(n / 3)
		looks = 0
		for ; left() > 0 && looks < 100; looks++ {
			_, _ = w.WakeShard(ctx, shard, "", live)
			time.Sleep(5 * time.Second)
		}
		if n := left(); n > 0 {
			t.Errorf("after %d looks: %d runs still wait", looks, n)
		}
	})
}

// Where little was taken out every run is found at once, and nothing more is read than the list.
func TestAShortWaitListHasNoFront(t *testing.T) {
	bubble(t, 7*24*time.Hour, func(t *testing.T, w *world) {
		d := &dearly{Store: w.store}
		w.store = d
		key := schema.JobLimit(w.limited("j").ID)
		for i := range 1000 {
			d.gone = append(d.gone, schema.MakeEntryID(time.Now().Add(time.Duration(i)*time.Millisecond), 0, 1))
		}
		for range 10 {
			if _, err := w.firstWaiting(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if err := w.lookBehind(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		if low := w.fronts.low(key); low != 0 || d.reads != 10 {
			t.Errorf("the list has a front at %d, after %d reads; want none, and 10", low, d.reads)
		}
	})
}

// The lease of the limit tells a process that begins where to read.
func TestAFrontIsToldByTheLease(t *testing.T) {
	bubble(t, 7*24*time.Hour, func(t *testing.T, w *world) {
		key := schema.JobLimit(w.limited("j").ID)
		low := time.Now().Add(-time.Second).Truncate(time.Millisecond)
		w.swapSlots(key, schema.Slots{Low: low.UnixMilli()})
		d := &dearly{Store: w.store}
		w.store = d
		for i := range deadMost + 1 {
			d.gone = append(d.gone, schema.MakeEntryID(low.Add(time.Duration(i-2*deadMost)*time.Millisecond), 0, 1))
		}
		if _, err := w.firstWaiting(t.Context(), key); err == nil {
			t.Fatal("a read of all was answered")
		}
		if _, err := w.firstWaiting(t.Context(), key); err != nil || w.fronts.low(key) != low.UnixMilli() {
			t.Errorf("firstWaiting = %v from %d on, want from %d", err, w.fronts.low(key), low.UnixMilli())
		}
	})
}

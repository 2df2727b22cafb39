package homes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// A walk compares what the data centres hold of a home, so that the region which is to serve it lacks
// nothing that another one acknowledged. It goes over all that is open: from some minutes before the
// settled cursors, as a region that takes over does, to a time to come.
//
// Left out is what has no due time: leases of runs and slots, keys, names, limits, tasks, tenants. Those
// come by hints, or by a repair.

// walkBefore is how far before the settled cursor of a shard a walk begins: where the region that takes
// over begins.
const walkBefore = 10 * time.Minute

// walkers are how many partitions are compared at once. Each waits for a round trip to another region.
const walkers = 16

// Walk says what is to be compared.
type Walk struct {
	Store interface {
		schema.CursorStore
		schema.Syncer
	}
	Shards []schema.Shard
	// Since is how far back it goes at least, and Until how far ahead.
	Since, Until time.Duration
	Now          time.Time
	// Progress is told what was done so far, every ProgressEvery; nil: nothing is.
	Progress      func(Walked)
	ProgressEvery time.Duration
}

// Walked says what was compared.
type Walked struct {
	Shards     int
	Partitions int // so many minutes of shards
	Of         int // so many there are
	Rows       int
	From, To   time.Time // of due times
	Took       time.Duration
}

// Do compares until all is done, or one partition could not be. Then it returns what was done.
func (w Walk) Do(ctx context.Context) (Walked, error) {
	if w.Since < 0 || w.Until < 0 {
		return Walked{}, errors.New("compare: a span below zero")
	}
	began := time.Now()
	until := schema.BucketOf(w.Now.Add(w.Until))
	from := make([]schema.Bucket, len(w.Shards))
	var rows, done atomic.Int64
	err := each(ctx, len(w.Shards), func(ctx context.Context, i int) error {
		n, err := w.Store.SyncShard(ctx, w.Shards[i])
		rows.Add(int64(n))
		if err != nil {
			return err
		}
		from[i] = schema.BucketOf(w.Now.Add(-max(w.Since, walkBefore)))
		c, err := w.Store.Cursor(ctx, w.Shards[i]) // after what another data centre knows of it is here
		switch {
		case errors.Is(err, schema.ErrNotFound):
		case err != nil:
			return fmt.Errorf("read the cursor of shard %d: %w", w.Shards[i], err)
		default:
			from[i] = min(from[i], schema.BucketOf(c.Settled.Start().Add(-walkBefore)))
		}
		return nil
	})
	at := Walked{Shards: len(w.Shards), From: w.Now, To: until.End()}
	var all []schema.Partition
	for i, shard := range w.Shards {
		if from[i].Start().Before(at.From) {
			at.From = from[i].Start()
		}
		for b := from[i]; err == nil && b <= until; b++ {
			all = append(all, schema.Partition{Bucket: b, Shard: shard})
		}
	}
	at.Of = len(all)
	report := func() Walked {
		at := at
		at.Partitions, at.Rows, at.Took = int(done.Load()), int(rows.Load()), time.Since(began)
		return at
	}
	if err != nil {
		return report(), err
	}
	defer w.tell(report)()
	err = each(ctx, len(all), func(ctx context.Context, i int) error {
		n, err := w.Store.SyncPartition(ctx, all[i])
		rows.Add(int64(n))
		if err == nil {
			done.Add(1)
		}
		return err
	})
	return report(), err
}

// tell tells of progress until the func that it returns is called.
func (w Walk) tell(report func() Walked) (stop func()) {
	if w.Progress == nil || w.ProgressEvery <= 0 {
		return func() {}
	}
	ended := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(w.ProgressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				w.Progress(report())
			}
		}
	})
	return func() { close(ended); telling.Wait() }
}

// each calls do for the numbers below n, some at a time. It stops at the first error, and returns it.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(walkers, n) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

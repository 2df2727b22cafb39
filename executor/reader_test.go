package executor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// library is what a looker reads from: every row exists, nothing was attempted.
type library struct {
	Store
	Writer
	err   error
	delay time.Duration

	reads  atomic.Int64
	widest atomic.Int64
	mixed  atomic.Bool
}

func (l *library) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	l.reads.Add(1)
	l.widest.Store(max(l.widest.Load(), int64(len(ids))))
	select {
	case <-time.After(l.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rows := make([]schema.Entry, len(ids))
	for i, id := range ids {
		rows[i].ID = id
		if id.Partition() != p {
			l.mixed.Store(true)
		}
	}
	return rows, l.err
}

func (l *library) Attempts(context.Context, schema.Partition, []schema.RunID) (map[schema.RunID][]schema.Attempt, error) {
	return nil, nil
}

// looks looks at n runs spread over shards at once, and returns the answers.
func (l *library) looks(ctx context.Context, n, shards int) []error {
	looker := newRowReader(l, l, bucketer.NewReaper(nil, time.Now, nil, nil), time.Now)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			run := wordOf(schema.Shard(i%shards), i, nil).attempt.Run // #nosec G115 -- small
			v, err := looker.read(ctx, &schema.Entry{ID: run})
			if errs[i] = err; err == nil && !v.exists {
				errs[i] = errors.New("no row")
			}
		})
	}
	all.Wait()
	return errs
}

func TestLooksAreBatchedByPartition(t *testing.T) {
	for _, tc := range []struct {
		name             string
		n, shards, reads int
	}{
		{"one", 1, 1, 1},
		{"a few of one partition", 40, 1, 1},
		{"a full batch", batchRows, 1, 1},
		{"more than a batch", 2*batchRows + 50, 1, 3},
		{"of three partitions", 150, 3, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{delay: time.Millisecond}
				for i, err := range l.looks(t.Context(), tc.n, tc.shards) {
					if err != nil {
						t.Errorf("look %d: got %v, want nil", i, err)
					}
				}
				if l.reads.Load() != int64(tc.reads) || l.widest.Load() > batchRows || l.mixed.Load() {
					t.Errorf("got %d reads of up to %d rows, mixed %v, want %d of up to %d of one partition", l.reads.Load(), l.widest.Load(), l.mixed.Load(), tc.reads, batchRows)
				}
			})
		})
	}
}

// TestCancelledLeaderFailsNobody: who reads for a batch may be stopped, while it waits for company
// or while it reads; the others get their answers.
func TestCancelledLeaderFailsNobody(t *testing.T) {
	for _, after := range []time.Duration{batchWithin / 2, 2 * batchWithin} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{delay: time.Second}
				looker := newRowReader(l, l, bucketer.NewReaper(nil, time.Now, nil, nil), time.Now)
				stopped, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				var all sync.WaitGroup
				look := func(ctx context.Context, n int, want error) {
					all.Go(func() {
						if _, err := looker.read(ctx, &schema.Entry{ID: wordOf(0, n, nil).attempt.Run}); !errors.Is(err, want) {
							t.Errorf("look %d: got %v, want %v", n, err, want)
						}
					})
				}
				all.Go(func() { _, _ = looker.read(stopped, &schema.Entry{ID: wordOf(0, 0, nil).attempt.Run}) }) // with or without its answer
				synctest.Wait()
				for n := range 49 {
					look(t.Context(), n+1, nil)
				}
				all.Wait()
				if got := l.reads.Load(); got != 1 {
					t.Errorf("reads: got %d, want 1", got)
				}
			})
		})
	}
}

func TestFailedLookReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{err: schema.ErrUnavailable}
		for i, err := range l.looks(t.Context(), 150, 1) {
			if !errors.Is(err, schema.ErrUnavailable) {
				t.Errorf("look %d: got %v, want %v", i, err, schema.ErrUnavailable)
			}
		}
	})
}

// overloaded is a library that reads one partition after the other, each in a tenth of a second,
// also when nobody waits for it any more.
type overloaded struct {
	library
	mu   sync.Mutex
	free time.Time
}

func (l *overloaded) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	l.mu.Lock()
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(100 * time.Millisecond)
	wait := l.free.Sub(now)
	l.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return l.library.EntriesByID(ctx, p, ids)
}

// TestReadsOfAnOverloadedStoreAreFresh: a read that waits, waits before it begins. So what it says
// is fresh when it comes, and may be started by; a confirmation does not wait at all.
func TestReadsOfAnOverloadedStoreAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(overloaded)
		looker := newRowReader(store, store, bucketer.NewReaper(nil, time.Now, nil, nil), time.Now)
		began := time.Now()
		var fresh, stale, confirmed atomic.Int64
		var all sync.WaitGroup
		for i := range 64 { // one run in each of as many partitions, read again and again
			all.Go(func() {
				e := &schema.Entry{ID: wordOf(schema.Shard(i), i, nil).attempt.Run} // #nosec G115 -- small
				for time.Since(began) < time.Minute {
					v, err := looker.read(t.Context(), e)
					switch {
					case time.Since(began) < 20*time.Second: // it is finding out
					case err != nil || time.Since(v.at) > freshFor/2:
						stale.Add(1)
					default:
						fresh.Add(1)
						if _, err := looker.confirm(t.Context(), e); err == nil && time.Since(v.at) <= freshFor {
							confirmed.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		if fresh, stale := fresh.Load(), stale.Load(); fresh < 100 || stale > fresh/10 {
			t.Errorf("reads within 40 s: %d fresh, %d stale; want a hundred, and few", fresh, stale)
		}
		if n := confirmed.Load(); n < fresh.Load()*3/4 {
			t.Errorf("%d of %d starts were confirmed in time, want three quarters", n, fresh.Load())
		}
	})
}

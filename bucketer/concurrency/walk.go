package concurrency

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// keepPage bounds the waiting runs of one limit that are looked at in one step to keep their
	// rows.
	keepPage = 500
	// walksEach is how often in the least retention a wait list is walked to keep its rows.
	walksEach = 16
	// maxWalks bounds the wait lists in memory; beyond it the memory is emptied.
	maxWalks = 10_000
)

// waitWalks says how far wait lists have been walked to keep their rows.
type waitWalks struct {
	mu sync.Mutex
	of map[schema.LimitKey]waitWalk
}

type waitWalk struct {
	after  schema.RunID // the last run that was looked at; zero: at the beginning
	walked time.Time    // when its end was reached; zero: it was not
}

// keepWaiting keeps the rows of runs that wait for a limit, a page of its list at a time: of runs
// whose row in the list has less than half of the retention left. That row is written last, so
// after a crash all of it is done again.
func (l *WaitLists) keepWaiting(ctx context.Context, key schema.LimitKey) error {
	now := l.now()
	w := l.walks.at(key)
	// Which retention is the least may change: a list may hold rows that leave before the next walk
	// was due.
	if now.Before(w.walked.Add(l.core.LeastRetention() / walksEach)) {
		return nil
	}
	r := schema.IDRange{After: w.after}
	if w.after.IsZero() {
		r = l.fronts.from(key)
	}
	rows, err := l.store.Waiters(ctx, key, r, keepPage)
	if err != nil {
		return err
	}
	if err := l.keepAging(ctx, rows, now); err != nil {
		return err
	}
	w = waitWalk{walked: now}
	if len(rows) == keepPage {
		w = waitWalk{after: rows[len(rows)-1].Run}
	}
	l.walks.put(key, w)
	return nil
}

// keepAging keeps the rows of those runs whose row in the list has less than half of their
// retention left.
func (l *WaitLists) keepAging(ctx context.Context, rows []schema.Waiter, now time.Time) error {
	half := l.core.Expiry(now, now).Sub(now) / 2
	var aging []schema.Waiter
	for _, row := range rows {
		if !row.Expires.IsZero() && row.Expires.Before(now.Add(half)) {
			aging = append(aging, row)
		}
	}
	for part := range slices.Chunk(aging, bucketer.KeepAtOnce) {
		var g errgroup.Group
		for _, row := range part {
			g.Go(func() error {
				aging, err := l.isAging(ctx, &row, now)
				if err != nil || !aging {
					return err
				}
				return l.keepRow(ctx, row, now)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// isAging reports whether less than half of its run's retention is left of a row of which less than
// half of the cluster's is. It reads that where tenants have retentions of their own.
func (l *WaitLists) isAging(ctx context.Context, w *schema.Waiter, now time.Time) (bool, error) {
	if !l.core.AnyRetention() {
		return true, nil
	}
	rows, err := l.core.Stored(ctx, []schema.EntryID{w.Entry})
	if err != nil {
		return false, err
	}
	e, ok := rows[w.Entry]
	if !ok || e.Fault != nil {
		return true, nil
	}
	half := l.core.ExpiryOf(&e.Spec, now, now).Sub(now) / 2
	return w.Expires.Before(now.Add(half)), nil
}

// keepRow keeps the rows of a waiting run, and its row in the list.
func (l *WaitLists) keepRow(ctx context.Context, w schema.Waiter, now time.Time) error {
	days, err := l.core.KeepRowsOf(ctx, w.Run, []schema.EntryID{w.Entry}, now)
	if err != nil {
		return err
	}
	w.Shard, w.Noted = limitShard(w.Limit), now.UTC().Truncate(time.Microsecond)
	w.Expires = l.core.ExpiryOf(&schema.Spec{Retention: days}, bucketer.Latest(w.Run.Time(), w.Entry.Time()), now)
	return l.store.PutWaiter(ctx, w)
}

func (l *waitWalks) at(key schema.LimitKey) waitWalk {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[key]
}

func (l *waitWalks) put(key schema.LimitKey, w waitWalk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.of) >= maxWalks {
		clear(l.of) // each list is then walked from its beginning
	}
	l.of[key] = w
}

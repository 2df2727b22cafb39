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
	// walksEach is how often in a retention a wait list is walked to keep its rows.
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
	after schema.RunID // the last run that was looked at; zero: at the beginning
	next  time.Time    // when to go on
}

// keepWaiting keeps the rows of runs that wait for a limit, a page of its list at a time: of runs
// whose row in the list has less than half of the retention left. That row is written last, so
// after a crash all of it is done again.
func (l *WaitLists) keepWaiting(ctx context.Context, key schema.LimitKey) error {
	now := l.now()
	w := l.walks.at(key)
	if now.Before(w.next) {
		return nil
	}
	retention := l.core.Expiry(now, now).Sub(now)
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
	w = waitWalk{next: now.Add(retention / walksEach)}
	if len(rows) == keepPage {
		w = waitWalk{after: rows[len(rows)-1].Run}
	}
	l.walks.put(key, w)
	return nil
}

// keepAging keeps the rows of those runs whose row in the list has less than half of the retention
// left.
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
			g.Go(func() error { return l.keepRow(ctx, row, now) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// keepRow keeps the rows of a waiting run, and its row in the list.
func (l *WaitLists) keepRow(ctx context.Context, w schema.Waiter, now time.Time) error {
	if err := l.core.KeepRows(ctx, w.Run, []schema.EntryID{w.Entry}, now); err != nil {
		return err
	}
	w.Shard, w.Noted = limitShard(w.Limit), now.UTC().Truncate(time.Microsecond)
	w.Expires = l.core.Expiry(bucketer.Latest(w.Run.Time(), w.Entry.Time()), now)
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

package concurrency

import (
	"context"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// A wait list is one partition, and rows are taken out at its beginning. Cassandra keeps what was
// taken out for hours as tombstones, and a read from the beginning passes over all of them: about
// 12 ms for each thousand, and no answer beyond 100,000 (tombstone_failure_threshold). Hence:
//
//  1. A list whose beginning was slow to read, or could not be read, gets a front: an instant
//     before which, as far as is known, nothing due waits. Reads begin there. The front moves on to
//     the first run that a read from it finds. It is in memory, and in the lease of the limit for
//     processes that begin later (schema.Slots.Low).
//  2. A front is a guess. A run that waits again, or for a retry, keeps its place, which may be
//     before the front. Each time that the shard's owner looks at the limit it reads a stretch
//     behind the front (lookBehind), down to the beginning and then again. It remembers the few
//     runs that it finds there until they are woken. A whole page of them sets the front back.
//
// So every row is found by 2, whatever the fronts of all processes say. A wrong front costs time.
// When reading from the beginning is quick again, the front is dropped.

const (
	// slowRead is how long the first page of a wait list takes if much was taken out before it.
	slowRead = 20 * time.Millisecond
	// behindFor is about how long the owner reads behind the front of a limit at a time.
	behindFor = 50 * time.Millisecond
	// firstSpan is the stretch behind a front that is read at once if all of it is too much.
	firstSpan = time.Hour
	// frontFor is how long a node believes a front that does not look behind it.
	frontFor = 30 * time.Second
	// frontAge: as a rule, a run that comes to wait was due less than this ago.
	frontAge = time.Minute
	// maxFronts bounds the fronts in memory.
	maxFronts = 10_000
)

// waitFront is where the reading of a wait list begins.
type waitFront struct {
	low   time.Time // nothing due before it waits, as far as is known
	until time.Time // when low has to be looked at again
	// seen is down to where the owner has looked behind low; zero = it begins at low.
	seen time.Time
	span time.Duration // how much it reads at once; 0 = all
	// behind are runs that wait before it, in their order, at most wakePage.
	behind []schema.Waiter
}

// waitFronts are the fronts that a process knows. A list without one is read from its beginning.
type waitFronts struct {
	mu sync.Mutex
	of map[schema.LimitKey]*waitFront
}

// dueFrom is the range of the runs due at t or later; a zero t: of all.
func dueFrom(t time.Time) schema.IDRange {
	if t.IsZero() {
		return schema.IDRange{}
	}
	return schema.IDRange{After: schema.LastID(t.Add(-time.Millisecond), schema.MaxShards-1)}
}

// firstWaiting returns the first runs that wait for a limit, at most wakePage: those known to wait
// before its front, and then those from the front on.
func (l *WaitLists) firstWaiting(ctx context.Context, key schema.LimitKey) ([]schema.Waiter, error) {
	low, behind, err := l.front(ctx, key)
	if err != nil {
		return nil, err
	}
	rows, err := l.waitingFrom(ctx, key, low)
	if err != nil || len(behind) == 0 {
		return rows, err
	}
	all := slices.Concat(behind, rows)
	return all[:min(len(all), wakePage)], nil
}

// waitingFrom returns the first page of runs that wait from the front of a limit on, and moves the
// front.
func (l *WaitLists) waitingFrom(ctx context.Context, key schema.LimitKey, low time.Time) ([]schema.Waiter, error) {
	began := time.Now()
	rows, err := l.store.Waiters(ctx, key, dueFrom(low), wakePage)
	took := time.Since(began)
	if low.IsZero() && took < slowRead {
		return rows, err
	}
	now := l.now()
	switch {
	case err == nil && len(rows) > 0:
		l.fronts.move(key, low, rows[0].Run.Time(), now)
	case err == nil:
		l.fronts.move(key, low, now.Add(-frontAge), now)
	case took >= slowRead:
		// Too many rows were taken out from there on, or no replica answers, which passes.
		to := now
		if hint := l.hintedFront(ctx, key); hint.After(low) {
			to = hint
		}
		l.fronts.move(key, low, to, now)
	}
	return rows, err
}

// front returns where the reading of a wait list begins (zero: at its beginning), and the runs that
// are known to wait before that.
func (l *WaitLists) front(ctx context.Context, key schema.LimitKey) (low time.Time, behind []schema.Waiter, err error) {
	now := l.now()
	l.fronts.mu.Lock()
	f := l.fronts.of[key]
	if f == nil || now.Before(f.until) {
		defer l.fronts.mu.Unlock()
		if f == nil {
			return time.Time{}, nil, nil
		}
		return f.low, slices.Clone(f.behind), nil
	}
	l.fronts.mu.Unlock()
	hint := l.hintedFront(ctx, key)
	l.fronts.mu.Lock()
	defer l.fronts.mu.Unlock()
	if hint.IsZero() {
		delete(l.fronts.of, key)
	} else {
		l.fronts.of[key] = &waitFront{low: hint, until: now.Add(frontFor)}
	}
	return hint, nil, ctx.Err()
}

// hintedFront returns the front that the lease of the limit has; zero if it has none or cannot be
// read.
func (l *WaitLists) hintedFront(ctx context.Context, key schema.LimitKey) time.Time {
	held, err := lease.Read(ctx, l.store, key.Lease())
	if err != nil {
		return time.Time{}
	}
	slots, err := held.Slots()
	if err != nil || slots.Low == 0 {
		return time.Time{}
	}
	return time.UnixMilli(slots.Low).UTC()
}

// low returns the front of a limit for its lease: unix ms, 0 = none.
func (l *waitFronts) low(key schema.LimitKey) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.of[key]; f != nil {
		return f.low.UnixMilli()
	}
	return 0
}

// from returns what to read of a wait list.
func (l *waitFronts) from(key schema.LimitKey) schema.IDRange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.of[key]; f != nil {
		return dueFrom(f.low)
	}
	return schema.IDRange{}
}

// move moves the front of a limit on, unless it was set back since the list was read.
func (l *waitFronts) move(key schema.LimitKey, from, to, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of[key]
	switch {
	case f == nil && from.IsZero():
		if len(l.of) >= maxFronts {
			for other := range l.of { // any: the limit's lease has it too
				delete(l.of, other)
				break
			}
		}
		l.of[key] = &waitFront{low: to.Truncate(time.Millisecond), until: now.Add(frontFor)}
	case f != nil && f.low.Equal(from) && to.After(from):
		f.low = to.Truncate(time.Millisecond)
	}
}

// lookBehind looks for runs that wait before the front of a limit, for about behindFor, and keeps
// the rows of those that have waited for long. Only the owner of the limit's shard calls it.
func (l *WaitLists) lookBehind(ctx context.Context, key schema.LimitKey) error {
	l.fronts.mu.Lock()
	known := l.fronts.of[key]
	if known == nil {
		l.fronts.mu.Unlock()
		return nil
	}
	known.until = l.now().Add(frontFor) // its owner looks behind it
	f := *known
	l.fronts.mu.Unlock()

	var spent time.Duration
	whole := f.seen.IsZero() // a round begins
	for over := false; !over && spent < behindFor; {
		r, lower := f.stretch()
		began := time.Now()
		rows, err := l.store.Waiters(ctx, key, r, wakePage)
		took := time.Since(began)
		spent += took
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // WakeWaiters reports it if nothing can be read at all
			if took >= slowRead { // otherwise no replica answers, which passes
				f.narrow(8)
			}
			l.fronts.looked(key, f, nil)
			return nil
		case took > behindFor:
			f.narrow(2)
		case f.span > 0 && took < behindFor/4:
			f.span *= 2
		}
		if err := l.keepAging(ctx, rows, l.now()); err != nil {
			return err
		}
		if len(rows) == wakePage {
			f.low, over = rows[0].Run.Time(), true
		}
		f.seen = lower
		l.fronts.looked(key, f, rows)
		if lower.IsZero() {
			if over = true; whole && spent < slowRead {
				l.fronts.drop(key)
			}
		}
	}
	return nil
}

// stretch returns what the owner reads next behind the front, and where that begins: zero means at
// the beginning.
func (f *waitFront) stretch() (r schema.IDRange, lower time.Time) {
	upper := f.seen
	if upper.IsZero() {
		upper = f.low
	}
	r.Before = schema.FirstID(upper, 0)
	if lower = upper.Add(-f.span); f.span == 0 || lower.UnixMilli() <= 0 {
		return r, time.Time{}
	}
	r.After = dueFrom(lower).After
	return r, lower
}

// narrow makes the stretch that is read at once shorter.
func (f *waitFront) narrow(by time.Duration) {
	if f.span == 0 {
		f.span = firstSpan
		return
	}
	f.span = max(f.span/by, time.Second)
}

// looked notes how far the owner has looked behind the front, and what it found there.
func (l *waitFronts) looked(key schema.LimitKey, is waitFront, found []schema.Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of[key]
	if f == nil {
		return
	}
	f.seen, f.span = is.seen, is.span
	if is.low.Before(f.low) {
		f.low = is.low
		found = nil
	}
	for _, w := range found {
		at, had := slices.BinarySearchFunc(f.behind, w, byRun)
		switch {
		case had:
			f.behind[at] = w
		case len(f.behind) < wakePage:
			f.behind = slices.Insert(f.behind, at, w)
		}
	}
	f.behind = slices.DeleteFunc(f.behind, func(w schema.Waiter) bool { return !w.Run.Time().Before(f.low) })
}

func byRun(x, y schema.Waiter) int { return x.Run.Compare(y.Run) }

// ended notes that w waits no more.
func (l *waitFronts) ended(w schema.Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.of[w.Limit]; f != nil {
		f.behind = slices.DeleteFunc(f.behind, func(o schema.Waiter) bool { return o.Run == w.Run && o.Entry == w.Entry })
	}
}

func (l *waitFronts) drop(key schema.LimitKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key)
}

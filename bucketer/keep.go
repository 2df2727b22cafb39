package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// Rows leave by their TTL, and a run may wait for longer than that: for a slot, for a start of its task's
// rate, for its next attempt. Whoever has it wait keeps its rows (keep). DESIGN section 3 has the table.
//
// Nobody asks how long a row still lives. The life of a run is cut into stretches of half a retention,
// counted from the time in its id. Whoever writes an entry in a later stretch than the entry before
// it keeps the run's rows first, until a whole retention after the new entry's due time. So at each hop at
// least half a retention is left, and a run whose hops are short costs that once in half a retention.

// Outlast is how much longer than the row of a run what became of it lives, so that the row leaves first: without
// its attempts a run would be shown as one that never began. Rows are kept from the due time of an entry
// on, which may lie minutes after an attempt has ended.
const Outlast = time.Hour

const (
	// keepPage bounds the waiting runs of one limit that are looked at in one step to keep their rows.
	keepPage = 500
	// walksEach is how many times in a retention a wait list is walked to keep its rows.
	walksEach = 16
	// maxWalks bounds the wait lists of which it is remembered how far they were walked.
	maxWalks = 10_000
)

// ages reports whether between two due times of entries of a run its rows have to be kept.
func (b *Bucketer) ages(run schema.RunID, from, to time.Time) bool {
	half := b.expiry(to, to).Sub(to) / 2
	stretch := func(t time.Time) time.Duration {
		age := t.Sub(run.Time())
		if age < 0 {
			age -= half - 1 // rounds down
		}
		return age / half
	}
	return stretch(to) > stretch(from)
}

// outlive keeps what the entry next, which follows one due at since, needs to find in the store.
func (b *Bucketer) outlive(ctx context.Context, since time.Time, next *schema.Entry) error {
	if !b.ages(next.Run(), since, next.Due()) {
		return nil
	}
	var also []schema.EntryID
	if at, large := next.LargePayload(); large && at != next.ID {
		also = append(also, at)
	}
	return b.keep(ctx, next.Run(), also, next.Due())
}

// keep has the rows of a run live for a retention from until on, and those of the entries `also` of it:
//
//   - the row that the run was born with, and the row and mark of where it was moved to;
//   - the payloads that lie under these;
//   - what became of its attempts, and what was said of these very entries.
//
// Each row is written again, byte for byte and under its own timestamp: of equal cells the longer-lived one wins. Crash in between: some
// live longer than others, and whoever does the same again keeps the rest. A run whose row has left stays
// gone: what is due later carries all that it needs.
func (b *Bucketer) keep(ctx context.Context, run schema.RunID, also []schema.EntryID, until time.Time) error {
	expires := b.expiry(until, b.now())
	ids := append([]schema.EntryID{run}, also...)
	slices.SortFunc(ids, schema.EntryID.Compare)
	ids = slices.Compact(ids)
	var rows []schema.Entry
	var marks schema.Marks
	for asked := 0; asked < len(ids); {
		found, err := b.Stored(ctx, ids[asked:])
		if err != nil {
			return fmt.Errorf("rows of %s: %w", run, err)
		}
		asked = len(ids)
		for _, row := range found {
			if row.Fault == nil {
				rows = append(rows, row)
			}
			if row.ID == run {
				marks = row.Marks
			}
			at, large := row.LargePayload()
			for _, id := range []schema.EntryID{row.Marks.MovedTo, at} {
				if (id != at || large) && !id.IsZero() && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	for i := range rows {
		row := &rows[i]
		if at, large := row.LargePayload(); large && at == row.ID {
			var err error
			if row.Payload, err = b.store.Payload(ctx, at); err != nil && !errors.Is(err, schema.ErrNotFound) {
				return fmt.Errorf("payload of %s: %w", row.ID, err)
			}
		}
		row.Expires = expires
	}
	var wg sync.WaitGroup
	var of error // the attempts'
	wg.Go(func() {
		of = b.store.KeepAttempts(ctx, run, expires.Add(Outlast), func(a *schema.Attempt) bool {
			return a.Number > 0 || a.Record != nil && slices.Contains(ids, a.Record.Entry)
		})
	})
	var err error
	if len(rows) > 0 {
		err = b.putRows(ctx, rows)
	}
	if to := marks.MovedTo; err == nil && !to.IsZero() && marks.Cancelled == nil {
		_, err = b.store.MoveRun(ctx, run, to, to, expires)
		if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrNotFound) {
			err = nil // whoever moved or cancelled it since has said so for as long
		}
	}
	wg.Wait()
	if err = errors.Join(err, of); err != nil {
		return fmt.Errorf("keep the rows of %s: %w", run, err)
	}
	return nil
}

// waitWalks says how far wait lists have been walked to keep their rows.
type waitWalks struct {
	mu sync.Mutex
	of map[schema.LimitKey]waitWalk
}

type waitWalk struct {
	after schema.RunID // the last run that was looked at; zero: at the beginning
	next  time.Time    // when to go on
}

// keepWaiting keeps the rows of runs that wait for a limit, a page of its list at a time: of those whose row
// in the list has less than half of the retention left. That row is written last, so who crashes before that does it again.
func (b *Bucketer) keepWaiting(ctx context.Context, key schema.LimitKey) error {
	now := b.now()
	w := b.walks.at(key)
	if now.Before(w.next) {
		return nil
	}
	retention := b.expiry(now, now).Sub(now)
	r := schema.IDRange{After: w.after}
	if w.after.IsZero() {
		r = b.fronts.from(key)
	}
	rows, err := b.store.Waiters(ctx, key, r, keepPage)
	if err != nil {
		return err
	}
	if err := b.keepAging(ctx, rows, now); err != nil {
		return err
	}
	w = waitWalk{next: now.Add(retention / walksEach)}
	if len(rows) == keepPage {
		w = waitWalk{after: rows[len(rows)-1].Run}
	}
	b.walks.put(key, w)
	return nil
}

// keepAging keeps the rows of those that wait by a row with less than half of the retention left.
func (b *Bucketer) keepAging(ctx context.Context, rows []schema.Waiter, now time.Time) error {
	half := b.expiry(now, now).Sub(now) / 2
	var aging []schema.Waiter
	for _, row := range rows {
		if !row.Expires.IsZero() && row.Expires.Before(now.Add(half)) {
			aging = append(aging, row)
		}
	}
	for part := range slices.Chunk(aging, lengthenAtOnce) {
		errs := make([]error, len(part))
		var wg sync.WaitGroup
		for i, row := range part {
			wg.Go(func() { errs[i] = b.keepRow(ctx, row, now) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// keepRow keeps the rows of a run that waits, and that by which it does.
func (b *Bucketer) keepRow(ctx context.Context, w schema.Waiter, now time.Time) error {
	if err := b.keep(ctx, w.Run, []schema.EntryID{w.Entry}, now); err != nil {
		return err
	}
	w.Shard, w.Noted = limitShard(w.Limit), now.UTC().Truncate(time.Microsecond)
	w.Expires = b.expiry(latest(w.Run.Time(), w.Entry.Time()), now)
	return b.store.PutWaiter(ctx, w)
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
		clear(l.of) // each list is walked again from its beginning
	}
	l.of[key] = w
}

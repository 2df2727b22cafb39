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

// Rows leave by their TTL, and a run may wait for longer than that: for a slot, for a start of its
// task's rate, for its next attempt. Whoever has it wait keeps its rows (keep). DESIGN section 3
// has the table.
//
// Nobody asks how long a row still lives. The life of a run is cut into stretches of half a
// retention, counted from the time in its id. Whoever writes an entry in a later stretch than the
// entry before it keeps the run's rows first, until a whole retention after the new entry's due
// time. So at each hop at least half a retention is left, and a run whose hops are short costs that
// once in half a retention.

// Outlast is how much longer than the row of a run what became of it lives, so that the row leaves
// first: without its attempts a run would be shown as one that never began. Rows are kept from the
// due time of an entry on, which may lie minutes after an attempt has ended.
const Outlast = time.Hour

// NeedsKeeping reports whether between two due times of entries of a run its rows have to be kept.
func (w *Writer) NeedsKeeping(run schema.RunID, from, to time.Time) bool {
	half := w.Expiry(to, to).Sub(to) / 2
	stretch := func(t time.Time) time.Duration {
		age := t.Sub(run.Time())
		if age < 0 {
			age -= half - 1 // rounds down
		}
		return age / half
	}
	return stretch(to) > stretch(from)
}

// KeepFor keeps what the entry next, which follows one due at since, needs to find in the store.
func (w *Writer) KeepFor(ctx context.Context, since time.Time, next *schema.Entry) error {
	if !w.NeedsKeeping(next.Run(), since, next.Due()) {
		return nil
	}
	var also []schema.EntryID
	if at, large := next.LargePayload(); large && at != next.ID {
		also = append(also, at)
	}
	return w.KeepRows(ctx, next.Run(), also, next.Due())
}

// KeepRows has the rows of a run live for a retention from until on, and those of the entries
// `also` of it:
//
//   - the row that the run was born with, and the row and mark of where it was moved to;
//   - the payloads that lie under these;
//   - what became of its attempts, and what was said of these very entries.
//
// Each row is written again, byte for byte and under its own timestamp: of equal cells the
// longer-lived one wins. Crash in between: some live longer than others, and whoever does the same
// again keeps the rest. A run whose row has left stays gone: what is due later carries all that it
// needs.
func (w *Writer) KeepRows(ctx context.Context, run schema.RunID, also []schema.EntryID, until time.Time) error {
	expires := w.Expiry(until, w.now())
	ids := append([]schema.EntryID{run}, also...)
	slices.SortFunc(ids, schema.EntryID.Compare)
	ids = slices.Compact(ids)
	var rows []schema.Entry
	var marks schema.Marks
	for asked := 0; asked < len(ids); {
		found, err := w.Stored(ctx, ids[asked:])
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
			if row.Payload, err = w.store.Payload(ctx, at); err != nil && !errors.Is(err, schema.ErrNotFound) {
				return fmt.Errorf("payload of %s: %w", row.ID, err)
			}
		}
		row.Expires = expires
	}
	var wg sync.WaitGroup
	var of error // the attempts'
	wg.Go(func() {
		of = w.store.KeepAttempts(ctx, run, expires.Add(Outlast), func(a *schema.Attempt) bool {
			return a.Number > 0 || a.Record != nil && slices.Contains(ids, a.Record.Entry)
		})
	})
	var err error
	if len(rows) > 0 {
		err = w.PutRows(ctx, rows)
	}
	if to := marks.MovedTo; err == nil && !to.IsZero() && marks.Cancelled == nil {
		_, err = w.store.MoveRun(ctx, run, to, to, expires)
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

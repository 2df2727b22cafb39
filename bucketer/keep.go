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

// Rows leave by their TTL, and a run may wait for longer than that: for a slot, for a reservation,
// for its next attempt. The node that makes it wait keeps its rows: it writes them again, byte for
// byte and under their own timestamps, with a longer TTL. Which row must outlive which:
//
//	what waits, or lasts           needs                                  who keeps it
//	a later entry (retry,          the run's row and line of history;     who writes the entry
//	deferral, watch, late,         row, mark and payload of where it
//	reschedule)                    was moved to; its attempts
//	a run in a wait list           the same, its entry, its row in        the shard's owner, 16 times in
//	                               waiting, the mark in waited_for        a retention
//	a message that nobody takes    the same                               the shard's owner replaces its
//	                                                                      entry after 1/4 retention
//	an attempt that lasts          its session cell, its claim            written for the time-out and
//	                                                                      a retention
//	a record that names a retry    itself                                 written to live until a
//	                                                                      retention after the retry
//	a cancel mark                  itself                                 written for 48 h and a retention
//	an operation, a backfill       its row, 30 days from its last step    who works on it, after 15 days
//	a dead letter, 30 days         nothing: it holds its work             nobody
//	an idempotency or unique key   nothing: it names its run              nobody
//	outputs of earlier attempts    nothing                                nobody
//
// A retention is that which the run's entries say, of its tenant or the cluster (package
// retention).
//
// Not kept is what is due and was never published: a backlog without a limit that is older than the
// retention, or an outage of all dispatchers that is longer.
//
// No read asks how long a row still lives. The life of a run is cut into stretches of half a
// retention, counted from the time in its id. A node that writes an entry in a later stretch than
// the entry before it keeps the run's rows first, until a whole retention after the new entry's due
// time. So each entry leaves at least half a retention, and a run with many short waits is kept
// once in half a retention.

// Outlast is how much longer the attempts of a run live than its row. Without its attempts a run
// would be shown as one that never began. Rows are kept from the due time of an entry on, which may
// lie minutes after the end of an attempt.
const Outlast = time.Hour

// NeedsKeeping reports whether the rows of the run of e are to be kept between entries with these
// due times.
func (w *Writer) NeedsKeeping(e *schema.Entry, from, to time.Time) bool {
	half, began := w.retention(e.Spec.Retention)/2, e.Run().Time()
	stretch := func(t time.Time) time.Duration {
		age := t.Sub(began)
		if age < 0 {
			age -= half - 1 // rounds down
		}
		return age / half
	}
	return stretch(to) > stretch(from)
}

// KeepFor keeps what the entry next needs to find in the store. since is the due time of the entry
// before it.
func (w *Writer) KeepFor(ctx context.Context, since time.Time, next *schema.Entry) error {
	if !w.NeedsKeeping(next, since, next.Due()) {
		return nil
	}
	var also []schema.EntryID
	if at, large := next.LargePayload(); large && at != next.ID {
		also = append(also, at)
	}
	return w.KeepRows(ctx, next.Run(), also, next.Due())
}

// KeepRows makes the rows of a run live for its retention from until on:
//
//   - the run's first row, and the row and mark of where it was moved to
//   - the entries `also`
//   - the payloads under these
//   - its attempts, and the attempts 0 about these entries
//
// Each row is written again, byte for byte and under its own timestamp: of equal cells the
// longer-lived one wins. If we crash in between, some rows live longer than others, and the next
// call keeps the rest. A run whose row expired stays gone: later entries carry all that they need.
func (w *Writer) KeepRows(ctx context.Context, run schema.RunID, also []schema.EntryID, until time.Time) error {
	_, err := w.KeepRowsOf(ctx, run, also, until)
	return err
}

// KeepRowsOf is KeepRows, and returns the retention of the run in days, as its rows say; 0: the
// cluster's, or none of its rows is there.
func (w *Writer) KeepRowsOf(ctx context.Context, run schema.RunID, also []schema.EntryID, until time.Time) (days int, err error) {
	ids := append([]schema.EntryID{run}, also...)
	slices.SortFunc(ids, schema.EntryID.Compare)
	ids = slices.Compact(ids)
	var rows []schema.Entry
	var marks schema.Marks
	for asked := 0; asked < len(ids); {
		found, err := w.Stored(ctx, ids[asked:])
		if err != nil {
			return 0, fmt.Errorf("rows of %s: %w", run, err)
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
	days = longest(rows)
	expires := w.ExpiryOf(&schema.Spec{Retention: days}, until, w.now())
	for i := range rows {
		row := &rows[i]
		if at, large := row.LargePayload(); large && at == row.ID {
			var err error
			if row.Payload, err = w.store.Payload(ctx, at); err != nil && !errors.Is(err, schema.ErrNotFound) {
				return days, fmt.Errorf("payload of %s: %w", row.ID, err)
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
	if len(rows) > 0 {
		err = w.PutRows(ctx, rows)
	}
	if to := marks.MovedTo; err == nil && !to.IsZero() && marks.Cancelled == nil {
		_, err = w.store.MoveRun(ctx, run, to, to, expires)
		if errors.Is(err, schema.ErrConflict) || errors.Is(err, schema.ErrNotFound) {
			err = nil // the change that moved or cancelled it since lives as long
		}
	}
	wg.Wait()
	if err = errors.Join(err, of); err != nil {
		return days, fmt.Errorf("keep the rows of %s: %w", run, err)
	}
	return days, nil
}

// longest returns the longest retention that the rows of a run say, in days; 0: the cluster's. As a
// rule they say the same.
func longest(rows []schema.Entry) (days int) {
	for i := range rows {
		own := rows[i].Spec.Retention
		if own == 0 {
			return 0
		}
		days = max(days, own)
	}
	return days
}

package bucketer

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// heldAt applies the late rule and the near rule to rows that a quorum holds since held.
func (w *Writer) heldAt(ctx context.Context, held time.Time, rows []schema.Entry) []error {
	errs := make([]error, len(rows))
	near := make(map[schema.Shard][]schema.Entry)
	var late []int
	for i := range rows {
		switch due := rows[i].Due(); {
		case held.After(due.Add(LateAfter)):
			late = append(late, i)
		case due.Sub(held) < NearSpan && rows[i].Spec.Kind != schema.KindReschedule:
			// A reschedule entry means nothing until moved_to names it. Its writer hints after
			// that.
			near[rows[i].ID.Shard()] = append(near[rows[i].ID.Shard()], rows[i])
		}
	}
	w.Hint(near)
	for k, err := range w.writeLateEntries(ctx, held, Pick(rows, late)) {
		errs[late[k]] = err
	}
	return errs
}

// Hint tells the owners of shards about rows that are due soon.
func (w *Writer) Hint(near map[schema.Shard][]schema.Entry) {
	for shard, entries := range near {
		w.metrics.near.Add(float64(len(entries)))
		w.hints.Near(shard, entries)
	}
}

// writeLateEntries is the late rule. The rows, held or found at held, may have missed their sweep.
// So it writes another entry of each run, a late entry, that is due now. If two late entries are
// written, or the sweep did find the row, the dispatcher looks once more in vain. It answers for
// each row.
func (w *Writer) writeLateEntries(ctx context.Context, held time.Time, rows []schema.Entry) []error {
	errs := make([]error, len(rows))
	open := make([]int, len(rows))
	for i := range open {
		open[i] = i
	}
	for try := 0; try < LateTries && len(open) > 0; try++ {
		open, held = w.writeLateEntriesOnce(ctx, Latest(held, w.now()), rows, open, errs)
	}
	for _, i := range open {
		errs[i] = fmt.Errorf("late entry of %s: %w: every one was held too late", rows[i].Run(), schema.ErrUnknown)
	}
	return errs
}

// writeLateEntriesOnce writes a late entry, due now, for each of the open rows. It returns the rows
// whose late entry was itself held too late, and when the last was held. errs gets the outcome of
// the others.
func (w *Writer) writeLateEntriesOnce(ctx context.Context, now time.Time, rows []schema.Entry, open []int, errs []error) (again []int, held time.Time) {
	held = now
	var late []schema.Entry
	var whose []int
	for _, i := range open {
		e := &rows[i]
		if w.NeedsKeeping(e, e.Due(), now) {
			if err := w.KeepRows(ctx, e.Run(), nil, now); err != nil {
				errs[i] = err
				continue
			}
		}
		kind := schema.KindLate
		if e.Spec.Kind.Plans() {
			kind = e.Spec.Kind // it starts nothing itself: another one is as good
		}
		l, err := w.LaterStart(e, kind, schema.MakeEntryID(now, e.ID.Shard(), schema.RandomHash()), e.Spec.AttemptNumber(), now)
		if err != nil {
			errs[i] = err
			continue
		}
		late, whose = append(late, l), append(whose, i)
	}
	near := make(map[schema.Shard][]schema.Entry)
	for _, batch := range Batches(late) {
		entries := Pick(late, batch)
		if err := w.store.PutEntries(ctx, entries); err != nil {
			for _, k := range batch {
				errs[whose[k]] = fmt.Errorf("late entry of %s: %w", late[k].Run(), err)
			}
			continue
		}
		held = EndedAt(now, w.now())
		w.metrics.late.Add(float64(len(entries)))
		w.CountWritten(entries)
		for n, k := range batch {
			if held.After(late[k].Due().Add(LateAfter)) {
				again = append(again, whose[k])
				continue
			}
			shard := late[k].ID.Shard()
			near[shard] = append(near[shard], entries[n])
		}
	}
	w.Hint(near)
	return again, held
}

// CheckLate applies the late rule to rows that were found, and returns what went wrong with any of
// them.
func (w *Writer) CheckLate(ctx context.Context, rows []schema.Entry) error {
	if len(rows) == 0 {
		return nil
	}
	return firstFault(func(done func(int, error)) { w.checkLateRows(ctx, rows, done) })
}

// checkLateRows applies the late rule to rows that were found, not written. A row whose time has
// passed and of which nothing was recorded may have been held too late for its sweep: that it was
// read says only that it is held now. A cancelled or moved row does not start, late or not.
func (w *Writer) checkLateRows(ctx context.Context, rows []schema.Entry, done func(i int, err error)) {
	now := w.now()
	var late []schema.Entry
	var index []int
	for i := range rows {
		if now.After(rows[i].Due().Add(LateAfter)) && rows[i].Marks.Cancelled == nil && rows[i].Marks.MovedTo.IsZero() {
			late, index = append(late, rows[i]), append(index, i)
			continue
		}
		done(i, nil)
	}
	if len(late) == 0 {
		return
	}
	touched, err := w.HaveAttempts(ctx, late)
	var missed []schema.Entry
	var whose []int
	for k, i := range index {
		switch {
		case err != nil:
			done(i, err)
		case touched[late[k].ID]:
			done(i, nil)
		default:
			missed, whose = append(missed, late[k]), append(whose, i)
		}
	}
	for k, err := range w.writeLateEntries(ctx, now, missed) {
		done(whose[k], err)
	}
}

package bucketer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// markTries bounds how often a mark is tried again because another writer was faster.
	markTries = 5
	// carryOutWithin bounds what follows from a mark that stands.
	carryOutWithin = 5 * time.Second
)

// Cancel cancels a run: no attempt of it starts from 2 s after the answer on. An attempt under way
// is told to stop. Cancelling twice answers the same as once.
func (b *Bucketer) Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (Run, error) {
	if _, err := b.InForce(); err != nil {
		return Run{}, err
	}
	for range markTries {
		run, err := b.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.Entry.Marks.Cancelled != nil && (run.State == schema.StateCancelled || !run.State.Terminal()):
			return b.carryOut(ctx, run, *run.Entry.Marks.Cancelled, true) // what an earlier call left undone is done now
		case run.State.Terminal():
			return run, ErrFinished
		}
		now := b.now()
		mark := schema.Cancel{At: now.UTC().Truncate(time.Millisecond), By: by}
		_, err = b.store.CancelRun(ctx, id, run.Entry.Marks.MovedTo, mark, b.markExpiry(&run, run.Current.Due(), now))
		switch {
		case errors.Is(err, schema.ErrConflict), errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			continue // of an unknown outcome the next round finds either the mark or nothing: both are right
		case err != nil:
			return Run{}, fmt.Errorf("cancel %s: %w", id, err)
		}
		return b.carryOut(ctx, run, mark, false)
	}
	return Run{}, fmt.Errorf("cancel %s: %w: the run keeps changing", id, schema.ErrUnknown)
}

// carryOut does what follows from the mark: whoever runs the run is told, its job's history gets a line, and a guarded run is ended in its lease. An attempt may have
// ended meanwhile: then the run is what that made of it. Where the mark was there before, nothing else is read again.
//
// The line is written here, since no record may ever leave it: a run that waits (for a slot, a start, its next attempt) is met by nobody who records anything, nor is
// one whose executor died. It ranks below that of a success, the one thing that may yet come.
func (b *Bucketer) carryOut(ctx context.Context, run Run, mark schema.Cancel, again bool) (Run, error) {
	// The mark stands, and the run may not be met again: what follows is not given up with the caller, who may have waited long for others before.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryOutWithin)
	defer cancel()
	b.signals.Signal(topicCancel, []byte(run.ID.String()))
	if line, ok := b.CancelLine(&run.Entry, mark); ok {
		if err := b.PutHistory(ctx, []schema.JobRun{line}); err != nil {
			return Run{}, fmt.Errorf("cancel %s: %w", run.ID, err)
		}
	}
	guarded, err := b.guarded(ctx, &run.Current)
	if err == nil && guarded {
		err = b.endLease(ctx, &run)
	}
	switch {
	case err != nil:
		return Run{}, fmt.Errorf("cancel %s: %w", run.ID, err)
	case again && !guarded:
		return run, nil
	}
	now, err := b.Run(ctx, run.Entry.Spec.Tenant, run.ID)
	switch {
	case err != nil:
		return Run{}, err
	case now.State.Terminal() && now.State != schema.StateCancelled:
		return now, ErrFinished
	case ruined(now.Attempts): // at the same time: whoever wrote its dead letter may not have met the mark
		return now, b.supersedeDeadLetter(ctx, now.Entry.Spec.Tenant, now.ID, b.now())
	}
	return now, nil
}

// CancelLine returns the line of history of a run with a mark, e being its row or one that stands in; false if it is of no job that has many.
func (b *Bucketer) CancelLine(e *schema.Entry, mark schema.Cancel) (schema.JobRun, bool) {
	rec := schema.Record{Entry: e.ID, Outcome: schema.Cancelled, Finished: mark.At}
	return HistoryLine(e, &schema.Attempt{Record: &rec, Expires: b.Expiry(e.Due(), b.now())})
}

// markExpiry returns when a mark may leave that names or follows an entry due at due: with the last entry that asks for
// it. A run that was moved to an earlier time still has the row it was born with, which without the mark would start; and so
// would the retry that follows an attempt which may be under way.
func (b *Bucketer) markExpiry(run *Run, due, now time.Time) time.Time {
	return b.Expiry(Latest(run.ID.Time(), run.Current.Due(), due), now.Add(MaxTimeout+MaxBackoff))
}

// Reschedule changes a pending run: a new entry carries the new spec and payload, then moved_to names it. It may start at its old
// time until 2 s after the answer. A change of another entry than the one that starts it answers ErrConflict.
//
// Crash before the mark: the new entry is never named and never starts. Crash after it: the new entry is a
// row like any other, and the sweep finds it.
func (b *Bucketer) Reschedule(ctx context.Context, tenant string, id schema.RunID, c Change) (Run, error) {
	if _, err := b.InForce(); err != nil {
		return Run{}, err
	}
	for range markTries {
		run, err := b.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.State != schema.StatePending || len(run.Attempts) > 0 && started(run.Attempts):
			return run, ErrFinished
		case !c.Of.IsZero() && run.Current.ID != c.Of:
			return run, fmt.Errorf("reschedule %s: %w", id, schema.ErrConflict)
		}
		entry, err := b.moved(ctx, &run, c)
		if err != nil {
			return Run{}, err
		}
		err = b.setMovedTo(ctx, &run, &entry)
		switch {
		case errors.Is(err, schema.ErrConflict):
			continue
		case err != nil:
			return Run{}, fmt.Errorf("reschedule %s: %w", id, err)
		}
		if held := b.now(); entry.Due().Sub(held) < NearSpan {
			b.Hint(map[schema.Shard][]schema.Entry{entry.ID.Shard(): {entry}})
		}
		return b.Run(ctx, tenant, id)
	}
	return Run{}, fmt.Errorf("reschedule %s: %w: the run keeps changing", id, schema.ErrUnavailable)
}

// setMovedTo sets moved_to, and answers ErrConflict where the run has changed since it was read. After an unknown outcome the same
// is asked again: its condition holds at most once, and a conflict shows whose entry was named.
func (b *Bucketer) setMovedTo(ctx context.Context, run *Run, entry *schema.Entry) error {
	expires := b.markExpiry(run, entry.Due(), b.now())
	var err error
	for range markTries {
		var marks schema.Marks
		marks, err = b.store.MoveRun(ctx, run.ID, run.Entry.Marks.MovedTo, entry.ID, expires)
		switch {
		case errors.Is(err, schema.ErrConflict) && marks.MovedTo == entry.ID:
			return nil
		case !errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil:
			return err
		}
	}
	return err
}

// moved writes the entry that carries the change, in time for its own sweep.
func (b *Bucketer) moved(ctx context.Context, run *Run, c Change) (schema.Entry, error) {
	var held time.Time // the entry before
	for range lateTries {
		now := Latest(b.now(), held)
		spec := run.Current.Spec
		spec.Kind, spec.Of, spec.Accepted = schema.KindReschedule, run.ID, now.UnixMicro()
		payload := run.Current.Payload
		if at, large := run.Current.LargePayload(); large {
			spec.PayloadAt, payload = at, nil
		}
		due := run.Current.Due()
		if c.At != nil {
			spec.Nominal = *c.At
			if spec.Nominal.IsZero() {
				spec.Nominal = now
			}
			due = spec.Nominal
		}
		due = DueTime(due, now)
		spec.Nominal = spec.Nominal.UTC().Truncate(time.Millisecond)
		if c.Payload != nil {
			spec.PayloadAt, spec.PayloadSize, payload = schema.EntryID{}, 0, *c.Payload
		}
		apply(&spec, c)
		if err := b.checkMoved(ctx, run, &spec, c); err != nil {
			return schema.Entry{}, err
		}
		id := schema.MakeEntryID(due, run.ID.Shard(), schema.RandomHash())
		entry, err := schema.NewEntry(id, spec, payload, b.Expiry(due, now))
		if err != nil {
			return schema.Entry{}, err
		}
		if !b.fill.take(id.Partition(), entry.Size()) {
			return schema.Entry{}, ErrPartitionFull
		}
		if err := b.outlive(ctx, run.Current.Due(), &entry); err != nil {
			return schema.Entry{}, err
		}
		if err := b.store.PutEntries(ctx, []schema.Entry{entry}); err != nil {
			return schema.Entry{}, fmt.Errorf("reschedule %s: %w", run.ID, err)
		}
		b.CountWritten([]schema.Entry{entry})
		if held = laterOf(now, b.now()); !held.After(due.Add(LateAfter)) {
			return entry, nil
		}
	}
	return schema.Entry{}, fmt.Errorf("reschedule %s: %w: every entry was held too late", run.ID, schema.ErrUnavailable)
}

// checkMoved checks the task and the payload of a run that is changed, if the change is about them.
func (b *Bucketer) checkMoved(ctx context.Context, run *Run, spec *schema.Spec, c Change) error {
	if c.Task == nil && c.Payload == nil {
		return nil
	}
	t, err := b.TaskOf(ctx, spec.Tenant, spec.Task)
	if errors.Is(err, ErrNoTask) && c.Task == nil {
		return nil // as before
	}
	if err != nil || len(t.PayloadSchema) == 0 {
		return err
	}
	if c.Payload != nil {
		return b.fits(&t, *c.Payload)
	}
	text, err := b.EntryPayload(ctx, &run.Current)
	if err != nil {
		return err
	}
	return b.fits(&t, text)
}

func apply(spec *schema.Spec, c Change) {
	if c.Priority != nil {
		spec.Priority = *c.Priority
	}
	if c.Labels != nil {
		spec.Labels = *c.Labels
	}
	if c.Work != nil {
		spec.Work, spec.Task = c.Work, ""
	}
	if c.Task != nil {
		spec.Task, spec.Work = *c.Task, nil
	}
}

// started reports whether anything but an attempt 0 is among the attempts.
func started(attempts []schema.Attempt) bool {
	for i := range attempts {
		if attempts[i].Number > 0 && !attempts[i].Unstarted() {
			return true
		}
	}
	return false
}

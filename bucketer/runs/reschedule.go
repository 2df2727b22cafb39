package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Reschedule changes a pending run: it writes a new entry with the new spec and payload, then names
// that in moved_to. The run may start at its old time until 2 s after the answer. A change that was
// made of another entry than the one that starts the run now answers ErrConflict.
//
// If we crash before the mark, the new entry is never named and never starts. If we crash after it,
// the sweep finds the new entry.
func (c *Control) Reschedule(ctx context.Context, tenant string, id schema.RunID, change Change) (Run, error) {
	if err := c.core.MayWrite(id.Shard()); err != nil {
		return Run{}, err
	}
	for range markTries {
		run, err := c.reader.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.State != schema.StatePending || len(run.Attempts) > 0 && started(run.Attempts):
			return run, bucketer.ErrFinished
		case run.Current.Spec.Kind == schema.KindJoin && !change.Fires:
			return run, fmt.Errorf("reschedule %s: %w", id, ErrWaitsForJobs)
		case !change.Of.IsZero() && run.Current.ID != change.Of:
			return run, fmt.Errorf("reschedule %s: %w", id, schema.ErrConflict)
		}
		entry, err := c.moved(ctx, &run, change)
		if err != nil {
			return Run{}, err
		}
		err = c.setMovedTo(ctx, &run, &entry)
		switch {
		case errors.Is(err, schema.ErrConflict):
			continue
		case err != nil:
			return Run{}, fmt.Errorf("reschedule %s: %w", id, err)
		}
		if held := c.now(); entry.Due().Sub(held) < bucketer.NearSpan {
			c.core.Hint(map[schema.Shard][]schema.Entry{entry.ID.Shard(): {entry}})
		}
		return c.reader.Run(ctx, tenant, id)
	}
	return Run{}, fmt.Errorf("reschedule %s: %w: the run keeps changing", id, schema.ErrUnavailable)
}

// setMovedTo sets moved_to, and answers ErrConflict if the run has changed since it was read. After
// an unknown outcome it asks the same again: the condition holds at most once, and a conflict shows
// which entry was named.
func (c *Control) setMovedTo(ctx context.Context, run *Run, entry *schema.Entry) error {
	expires := c.markExpiry(run, entry.Due(), c.now())
	var err error
	doubt := false // an earlier try may have been done
	for range markTries {
		var marks schema.Marks
		marks, err = c.store.MoveRun(ctx, run.ID, run.Entry.Marks.MovedTo, entry.ID, expires)
		switch {
		case errors.Is(err, schema.ErrConflict) && marks.MovedTo == entry.ID:
			return nil
		case !errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil:
			return notRefused(doubt, err)
		}
		doubt = true
	}
	return err
}

// moved writes the entry that carries the change, in time for its sweep.
func (c *Control) moved(ctx context.Context, run *Run, change Change) (schema.Entry, error) {
	var held time.Time // the entry before
	for range bucketer.LateTries {
		now := bucketer.Latest(c.now(), held)
		spec := run.Current.Spec
		spec.Kind, spec.Of, spec.Accepted = schema.KindReschedule, run.ID, now.UnixMicro()
		payload := run.Current.Payload
		if at, large := run.Current.LargePayload(); large {
			spec.PayloadAt, payload = at, nil
		}
		due := run.Current.Due()
		if change.At != nil {
			spec.Nominal = *change.At
			if spec.Nominal.IsZero() {
				spec.Nominal = now
			}
			due = spec.Nominal
		}
		due = bucketer.DueTime(due, now)
		spec.Nominal = spec.Nominal.UTC().Truncate(time.Millisecond)
		if change.Payload != nil {
			spec.PayloadAt, spec.PayloadSize, payload = schema.EntryID{}, 0, *change.Payload
			spec.ConcurrencyValue = "" // that of the payload now
		}
		apply(&spec, change)
		spec.DeadlineFrom = 0
		if from := run.Current.MisfireFrom(); change.At == nil && spec.Misfire != nil && from.Before(due) {
			spec.DeadlineFrom = from.UnixMilli() // what is overdue stays so
		}
		if err := c.checkMoved(ctx, run, &spec, change); err != nil {
			return schema.Entry{}, err
		}
		id := schema.MakeEntryID(due, run.ID.Shard(), schema.RandomHash())
		entry, err := schema.NewEntry(id, spec, payload, c.core.ExpiryOf(&spec, due, now))
		if err != nil {
			return schema.Entry{}, err
		}
		if !c.core.HasRoom(&entry) {
			return schema.Entry{}, bucketer.ErrPartitionFull
		}
		if err := c.core.KeepFor(ctx, run.Current.Due(), &entry); err != nil {
			return schema.Entry{}, err
		}
		if err := c.store.PutEntries(ctx, []schema.Entry{entry}); err != nil {
			return schema.Entry{}, fmt.Errorf("reschedule %s: %w", run.ID, err)
		}
		c.core.CountWritten([]schema.Entry{entry})
		if held = bucketer.EndedAt(now, c.now()); !held.After(due.Add(bucketer.LateAfter)) {
			return entry, nil
		}
	}
	return schema.Entry{}, fmt.Errorf("reschedule %s: %w: every entry was held too late", run.ID, schema.ErrUnavailable)
}

// checkMoved checks the task and the payload of a changed run, if the change is about them.
func (c *Control) checkMoved(ctx context.Context, run *Run, spec *schema.Spec, change Change) error {
	if change.Task == nil && change.Payload == nil {
		return nil
	}
	t, err := c.core.TaskOf(ctx, spec.Tenant, spec.Task)
	if errors.Is(err, bucketer.ErrNoTask) && change.Task == nil {
		return nil // as before
	}
	if err != nil || len(t.PayloadSchema) == 0 {
		return err
	}
	if change.Payload != nil {
		return c.core.CheckPayload(&t, *change.Payload)
	}
	text, err := c.reader.EntryPayload(ctx, &run.Current)
	if err != nil {
		return err
	}
	return c.core.CheckPayload(&t, text)
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
	if c.Misfire != nil {
		spec.Misfire = c.Misfire
		if *c.Misfire == (schema.Misfire{}) {
			spec.Misfire = nil
		}
	}
}

// started reports whether any attempt has started: an attempt 0 has not.
func started(attempts []schema.Attempt) bool {
	for i := range attempts {
		if attempts[i].Number > 0 && !attempts[i].Unstarted() {
			return true
		}
	}
	return false
}

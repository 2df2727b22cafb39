package bucketer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	topicCancel = "cancel" // signal: the run id, as text
	// markTries bounds how often a mark is tried again because another writer was faster.
	markTries = 5
)

// Cancel cancels a run: no attempt of it starts from 2 s after the answer on. An attempt under way
// is told to stop. Cancelling twice answers the same as once.
func (b *Bucketer) Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (Run, error) {
	if _, err := b.ready(); err != nil {
		return Run{}, err
	}
	for range markTries {
		run, err := b.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.Entry.Marks.Cancelled != nil && (run.State == schema.StateCancelled || !run.State.Terminal()):
			b.signals.Signal(topicCancel, []byte(id.String()))
			return run, nil
		case run.State.Terminal():
			return run, ErrFinished
		}
		now := b.now()
		mark := schema.Cancel{At: now.UTC().Truncate(time.Millisecond), By: by}
		_, err = b.store.CancelRun(ctx, id, run.Entry.Marks.MovedTo, mark, b.expiry(run.Current.Due(), now))
		switch {
		case errors.Is(err, schema.ErrConflict):
			continue
		case err != nil:
			return Run{}, fmt.Errorf("cancel %s: %w", id, err)
		}
		b.signals.Signal(topicCancel, []byte(id.String()))
		// An attempt may have ended meanwhile: then the run is what that made of it.
		run, err = b.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.State.Terminal() && run.State != schema.StateCancelled:
			return run, ErrFinished
		}
		return run, nil
	}
	return Run{}, fmt.Errorf("cancel %s: %w: the run keeps changing", id, schema.ErrUnavailable)
}

// Reschedule changes a pending run: a new entry carries the new spec and payload, then moved_to names it. It may start at its old
// time until 2 s after the answer.
//
// Crash before the mark: the new entry is never named and never starts. Crash after it: the new entry is a
// row like any other, and the sweep finds it.
func (b *Bucketer) Reschedule(ctx context.Context, tenant string, id schema.RunID, c Change) (Run, error) {
	if _, err := b.ready(); err != nil {
		return Run{}, err
	}
	for range markTries {
		run, err := b.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.State != schema.StatePending || len(run.Attempts) > 0 && started(run.Attempts):
			return run, ErrFinished
		}
		entry, err := b.moved(ctx, &run, c)
		if err != nil {
			return Run{}, err
		}
		_, err = b.store.MoveRun(ctx, id, run.Entry.Marks.MovedTo, entry.ID, entry.Expires)
		switch {
		case errors.Is(err, schema.ErrConflict):
			continue
		case err != nil:
			return Run{}, fmt.Errorf("reschedule %s: %w", id, err)
		}
		if held := b.now(); entry.Due().Sub(held) < NearSpan {
			b.hint(map[schema.Shard][]schema.Entry{entry.ID.Shard(): {entry}})
		}
		return b.Run(ctx, tenant, id)
	}
	return Run{}, fmt.Errorf("reschedule %s: %w: the run keeps changing", id, schema.ErrUnavailable)
}

// moved writes the entry that carries the change, in time for its own sweep.
func (b *Bucketer) moved(ctx context.Context, run *Run, c Change) (schema.Entry, error) {
	for range lateTries {
		now := b.now()
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
		due = dueTime(due, now)
		spec.Nominal = spec.Nominal.UTC().Truncate(time.Millisecond)
		if c.Payload != nil {
			spec.PayloadAt, spec.PayloadSize, payload = schema.EntryID{}, 0, *c.Payload
		}
		apply(&spec, c)
		if c.Task != nil {
			if err := b.checkTask(ctx, &Job{Tenant: spec.Tenant, Task: spec.Task}); err != nil {
				return schema.Entry{}, err
			}
		}
		id := schema.MakeEntryID(due, run.ID.Shard(), schema.RandomHash())
		entry, err := schema.NewEntry(id, spec, payload, b.expiry(due, now))
		if err != nil {
			return schema.Entry{}, err
		}
		if !b.fill.take(id.Partition(), entry.Size()) {
			return schema.Entry{}, ErrPartitionFull
		}
		if err := b.outlive(ctx, &run.Entry, due); err != nil {
			return schema.Entry{}, err
		}
		if err := b.store.PutEntries(ctx, []schema.Entry{entry}); err != nil {
			return schema.Entry{}, fmt.Errorf("reschedule %s: %w", run.ID, err)
		}
		b.count([]schema.Entry{entry})
		if !b.now().After(due.Add(lateAfter)) {
			return entry, nil
		}
	}
	return schema.Entry{}, fmt.Errorf("reschedule %s: %w: every entry was held too late", run.ID, schema.ErrUnavailable)
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
		if attempts[i].Number > 0 {
			return true
		}
	}
	return false
}

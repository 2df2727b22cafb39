package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// markTries bounds how often a mark is tried again because another writer was faster.
	markTries = 5
	// carryOutWithin bounds what follows from a mark that stands.
	carryOutWithin = 5 * time.Second
)

// Cancel cancels a run: no attempt of it starts from 2 s after the answer on. An executor that runs
// an attempt of it is told to stop. Cancelling twice answers the same as once.
func (c *Control) Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (Run, error) {
	if err := c.core.MayWrite(id.Shard()); err != nil {
		return Run{}, err
	}
	doubt := false // the mark may stand
	for range markTries {
		run, err := c.reader.Run(ctx, tenant, id)
		switch {
		case err != nil:
			return Run{}, err
		case run.Entry.Marks.Cancelled != nil && (run.State == schema.StateCancelled || !run.State.Terminal()):
			// does what an earlier call left undone
			run, err := c.carryOut(ctx, run, *run.Entry.Marks.Cancelled, true)
			return run, notRefused(true, err)
		case run.State.Terminal():
			return run, bucketer.ErrFinished
		}
		now := c.now()
		// If we crash once the mark stands, what runs after this run hears of it all the same.
		if err := c.recorder.AnnounceEnd(ctx, &run.Entry, now.Add(carryOutWithin)); err != nil {
			return Run{}, fmt.Errorf("cancel %s: %w", id, err)
		}
		mark := schema.Cancel{At: now.UTC().Truncate(time.Millisecond), By: by}
		_, err = c.store.CancelRun(ctx, id, run.Entry.Marks.MovedTo, mark, c.markExpiry(&run, run.Current.Due(), now))
		switch {
		case errors.Is(err, schema.ErrConflict), errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			// the next round finds the mark, or sets it
			doubt = doubt || errors.Is(err, schema.ErrUnknown)
			continue
		case err != nil:
			return Run{}, fmt.Errorf("cancel %s: %w", id, notRefused(doubt, err))
		}
		run, err = c.carryOut(ctx, run, mark, false)
		return run, notRefused(true, err)
	}
	return Run{}, fmt.Errorf("cancel %s: %w: the run keeps changing", id, schema.ErrUnknown)
}

// notRefused returns err, as one of unknown outcome where it says that our region does not serve
// the home (any more), and what was asked for may stand. Alone that says that nothing was done.
func notRefused(mayStand bool, err error) error {
	if mayStand && errors.Is(err, schema.ErrNotServed) && !errors.Is(err, schema.ErrUnknown) {
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	}
	return err
}

// carryOut does what follows from a mark. It signals executors, writes the job's line of history,
// and ends a guarded run in its lease. If an attempt ended meanwhile, the run is what that attempt
// made of it. again says that the mark was there before: then only a guarded run is read again.
//
// The line is written here because nothing may ever be recorded of the run: it may wait for a slot,
// a reservation or its next attempt, or its executor may have died. The line ranks below that of a
// success, which may still come.
func (c *Control) carryOut(ctx context.Context, run Run, mark schema.Cancel, again bool) (Run, error) {
	// The mark stands, and nobody else may do what follows. So it does not end with the caller's
	// context.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryOutWithin)
	defer cancel()
	c.signals.Signal(schema.TopicCancel, []byte(run.ID.String()))
	if line, ok := c.CancelLine(&run.Entry, mark); ok {
		if err := c.core.PutHistory(ctx, []schema.JobRun{line}); err != nil {
			return Run{}, fmt.Errorf("cancel %s: %w", run.ID, err)
		}
	}
	if !again {
		err := c.wakeWorkflow(ctx, &run, mark.By)
		if err == nil {
			err = c.recorder.AnnounceEnd(ctx, &run.Entry, c.now())
		}
		if err != nil {
			return Run{}, fmt.Errorf("cancel %s: %w", run.ID, err)
		}
	}
	guarded, err := c.guarded(ctx, &run.Current)
	if err == nil && guarded {
		err = c.endLease(ctx, &run)
	}
	switch {
	case err != nil:
		return Run{}, fmt.Errorf("cancel %s: %w", run.ID, err)
	case again && !guarded:
		return run, nil
	}
	now, err := c.reader.Run(ctx, run.Entry.Spec.Tenant, run.ID)
	switch {
	case err != nil:
		return Run{}, err
	case now.State.Terminal() && now.State != schema.StateCancelled:
		return now, bucketer.ErrFinished
	case ruined(now.Attempts):
		// an attempt failed at the same time: the node that wrote the dead letter may not have seen
		// the mark
		return now, c.letters.supersede(ctx, now.Entry.Spec.Tenant, now.ID, c.now())
	}
	return now, nil
}

// ByWorkflow is who cancels the steps of a workflow run that is cancelled or has passed its deadline.
const ByWorkflow = "carillon: workflow"

// BySkip is who cancels a step that is skipped by hand: it then counts as skipped, not as cancelled.
const BySkip = "carillon: skip"

// wakeWorkflow has the workflow run advanced that is cancelled, or a step of which is.
func (c *Control) wakeWorkflow(ctx context.Context, run *Run, by string) error {
	if run.Entry.Spec.Workflow != nil {
		if err := c.Wake(ctx, &run.Current); err != nil {
			return err
		}
	}
	st := run.Entry.Spec.Step
	if st == nil || by == ByWorkflow || by == BySkip {
		return nil
	}
	rows, err := c.core.Stored(ctx, []schema.EntryID{st.Workflow})
	if err != nil {
		return err
	}
	if whole, ok := rows[st.Workflow]; ok {
		return c.Wake(ctx, &whole)
	}
	return nil
}

// Wake has the owner of its shard look at a workflow run now: it writes a watch entry that is due
// now. e is an entry of the run.
func (c *Control) Wake(ctx context.Context, e *schema.Entry) error {
	now := c.now()
	id := schema.MakeEntryID(bucketer.DueTime(time.Time{}, now), e.ID.Shard(), schema.RandomHash())
	watch, err := c.core.LaterStart(e, schema.KindWatch, id, 1, now)
	if err != nil {
		return err
	}
	return c.core.WriteOne(ctx, watch)
}

// CancelLine returns the line of history of a run with a mark. e is the run's row or a later entry
// of it. It returns false if the run belongs to no job that can have many.
func (c *Control) CancelLine(e *schema.Entry, mark schema.Cancel) (schema.JobRun, bool) {
	rec := schema.Record{Entry: e.ID, Outcome: schema.Cancelled, Finished: mark.At}
	return HistoryLine(e, &schema.Attempt{Record: &rec, Expires: c.core.Expiry(e.Due(), c.now())})
}

// markExpiry returns when a mark may leave that names or follows an entry due at due: after every
// row that would start without it. Such rows are the run's first row, also if the run was moved to
// an earlier time, the retry of an attempt that may be under way, and the rows of a step's workflow.
func (c *Control) markExpiry(run *Run, due, now time.Time) time.Time {
	return c.core.ExpiryOf(&run.Entry.Spec, bucketer.Latest(run.ID.Time(), run.Current.Due(), due, run.Entry.LivesUntil()), now.Add(bucketer.MaxTimeout+bucketer.MaxBackoff))
}

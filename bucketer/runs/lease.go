package runs

import (
	"context"
	"errors"
	"fmt"

	"carillon.dev/carillon/schema"
)

// guarded reports whether attempts of the entry claim the run. If the task does not exist or is not
// understood, that is unknown, and counts as guarded.
func (c *Control) guarded(ctx context.Context, e *schema.Entry) (bool, error) {
	if e.Spec.Work != nil {
		return e.Spec.Work.Guarantee.Guarded(), nil
	}
	task, err := c.core.TaskCache().Task(ctx, e.Spec.Tenant, e.Spec.Task)
	if errors.Is(err, schema.ErrNotFound) || errors.Is(err, schema.ErrNotUnderstood) {
		return true, nil
	}
	return task.Work.Guarantee.Guarded(), err
}

// endLease ends a guarded run in its lease because it was cancelled. From then on its holder
// changes nothing, also if it does not hear the signal, and no executor claims it any more. If the
// lease says that the run has ended, that stands, and is written to the attempts.
func (c *Control) endLease(ctx context.Context, run *Run) error {
	lease := schema.Lease{}
	read := true
	for range markTries {
		if read {
			var err error
			lease, err = c.store.Lease(ctx, schema.RunLease(run.ID))
			if err != nil && !errors.Is(err, schema.ErrNotFound) {
				return err
			}
		}
		claim, err := lease.Claim()
		if err != nil {
			return err
		}
		now := c.now()
		expires := c.markExpiry(run, run.Current.Due(), now)
		if claim.Record != nil {
			row := claim.Attempt(run.ID)
			row.Expires = expires
			if err := c.recorder.Record(ctx, []schema.Attempt{row}); err != nil || claim.Over() {
				return err
			}
		}
		row := c.recorder.NotStarted(run.Current, schema.Record{Outcome: schema.Cancelled}, now)
		if h := lease.Holder; h != nil {
			row.Number, row.Fence = claim.Number, claim.Fence
			row.Record.Entry, row.Record.Executor, row.Record.Started = h.Entry, h.Executor, h.Started
			row.Record.Error = "cancelled while it was under way"
		}
		is, err := lease.EndedByOther(row, now)
		if err != nil {
			return err
		}
		is.Key = schema.RunLease(run.ID)
		stands, err := c.store.SwapLease(ctx, lease, is, expires)
		switch {
		case errors.Is(err, schema.ErrConflict):
			lease, read = stands, false
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			read = true
		case err != nil:
			return err
		case row.Number == 0:
			return nil // the mark says the same; an executor that reads the lease writes the rest
		default:
			return c.recorder.Record(ctx, []schema.Attempt{row})
		}
	}
	return fmt.Errorf("%w: the run's lease keeps changing", schema.ErrUnknown)
}

// EndUnclaimed ends a guarded run in its lease with the row that says why nothing starts, before
// that row is recorded. It returns false if an executor has claimed the run and may have called:
// the executor finds out by the lease.
func (c *Control) EndUnclaimed(ctx context.Context, e *schema.Entry, row schema.Attempt) (bool, error) {
	guarded, err := c.guarded(ctx, e)
	if err != nil || !guarded {
		return err == nil, err
	}
	is, err := schema.Lease{}.EndedByOther(row, c.now())
	if err != nil {
		return false, err
	}
	is.Key = schema.RunLease(e.Run())
	stands, err := c.store.SwapLease(ctx, schema.Lease{}, is, row.Expires)
	if !errors.Is(err, schema.ErrConflict) {
		return err == nil, err
	}
	claim, err := stands.Claim()
	ours := err == nil && stands.Holder == nil && claim.Number == 0 && claim.Record != nil && claim.Record.Outcome == row.Record.Outcome
	return ours, nil // a claim that is not understood is left to an executor
}

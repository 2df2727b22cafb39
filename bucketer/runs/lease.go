package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// guarded reports whether attempts of the entry claim the run. If the task does not exist or is not
// understood, that is unknown, and counts as guarded.
func (c *Control) guarded(ctx context.Context, e *schema.Entry) (bool, error) {
	if e.Spec.Workflow != nil || e.Spec.Step != nil && !e.Spec.Step.Starts() {
		return false, nil // no executor starts it
	}
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
//
// Of a run that is held everywhere, every region must know of a claim before it is ended as one
// that may have called: its holder may still be making it known, and a region that takes the home
// over without it starts the run.
func (c *Control) endLease(ctx context.Context, run *Run) error {
	var row schema.Attempt
	_, err := lease.Update(ctx, c.store, schema.RunLease(run.ID), schema.Lease{}, func(was schema.Lease, _ bool) (is schema.Lease, expires time.Time, err error) {
		row = schema.Attempt{}
		claim, err := was.Claim()
		if err != nil {
			return is, expires, err
		}
		now := c.now()
		expires = c.markExpiry(run, run.Current.Due(), now)
		if claim.Record != nil {
			held := claim.Attempt(run.ID)
			held.Expires = expires
			if err := c.recorder.Record(ctx, []schema.Attempt{held}); err != nil {
				return is, expires, err
			}
			if claim.Over() {
				return is, expires, lease.ErrUnchanged
			}
		}
		row = c.recorder.NotStarted(run.Current, schema.Record{Outcome: schema.Cancelled}, now)
		if h := was.Holder; h != nil {
			if err := c.core.Regions().ConfirmClaim(ctx, run.Entry.Spec.Everywhere, run.ID); err != nil {
				return is, expires, err // the mark stands: the holder ends the claim
			}
			row.Number, row.Fence = claim.Number, claim.Fence
			row.Record.Entry, row.Record.Executor, row.Record.Started = h.Entry, h.Executor, h.Started
			row.Record.Error = "cancelled while it was under way"
		}
		is, err = was.EndedByOther(row, now)
		return is, expires, err
	})
	switch {
	case errors.Is(err, lease.ErrContended):
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	case err != nil, row.Number == 0:
		return err // the mark says the same; an executor that reads the lease writes the rest
	default:
		return c.recorder.Record(ctx, []schema.Attempt{row})
	}
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

package orchestration

import (
	"context"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// takeSlot takes a slot of the limit of the run's workflow. If none is free, it does what the workflow
// says of that, and returns what became of the run: it waits (schema.Replaced, which is recorded), or
// what is to be recorded instead of a beginning.
func (a ending) takeSlot(ctx context.Context, limit *schema.Concurrency) (instead schema.Record, err error) {
	o, key := a.o, a.State.entry.Spec.Limit()
	has, err := o.limits.Acquire(ctx, key, a.Run, limit.Limit, o.live)
	if err != nil || has {
		return instead, err
	}
	e, err := a.current(ctx)
	if err != nil {
		return instead, err
	}
	backfill := e.Spec.Trigger == schema.TriggerBackfill // its runs are asked for one by one: they wait
	switch {
	case limit.OnLimit == schema.OnLimitSkip && !backfill:
		return bucketer.SkipByLimit(limit), nil
	case limit.OnLimit == schema.OnLimitCancelOldest && !backfill:
		over, err := o.limits.CancelOldest(ctx, key, e, limit.Limit)
		if err != nil || over {
			return schema.Record{Outcome: schema.Cancelled, Reason: "cancel_oldest: later runs of the job were due"}, err
		}
	}
	if err := o.limits.AddToWaitList(ctx, key, e); err != nil {
		return instead, err
	}
	// A run that gave its slot back before the row could be seen has woken nobody.
	if has, err = o.limits.Acquire(ctx, key, a.Run, limit.Limit, o.live); err != nil || has {
		return instead, err
	}
	waits := schema.Record{Outcome: schema.Replaced, Reason: "concurrency: " + bucketer.UnderWay(limit)}
	return waits, o.runs.Record(ctx, []schema.Attempt{o.runs.NotStarted(*e, waits, a.now)})
}

// current returns the entry by which the run is due.
func (a ending) current(ctx context.Context) (*schema.Entry, error) {
	own := &a.State.entry
	if a.Entry.IsZero() || a.Entry == own.ID {
		return own, nil
	}
	found, err := a.o.core.Stored(ctx, []schema.EntryID{a.Entry})
	if err != nil {
		return nil, err
	}
	if e, ok := found[a.Entry]; ok && e.Fault == nil {
		return &e, nil
	}
	return own, nil
}

// releaseSlot gives the slot of a run that has ended back. If that fails, whoever finds no slot free
// sees that the run has ended.
func (a ending) releaseSlot(ctx context.Context) {
	if !a.State.limited {
		return
	}
	key := a.State.entry.Spec.Limit()
	if err := a.o.limits.Release(ctx, key, a.Run, a.o.live); err != nil && ctx.Err() == nil {
		a.o.log.Debug("the slot of a workflow run is left to who looks for one", "limit", key, "run", a.Run, "err", err)
	}
}

package executor

import (
	"context"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// jobSlot is a slot of the limit of a job, held under a session.
type jobSlot struct {
	key     schema.LimitKey
	session string
}

// acquireJobSlot asks the limit of the run's job for a slot, and reports whether the attempt may go
// on. If as many runs are under way as may, it does what the job says of that; then the message has
// been dealt with.
func (l *limits) acquireJobSlot(ctx context.Context) bool {
	a := l.a
	x, e := a.x, a.entry
	key, limit := e.Spec.Limit(), a.basis.limit
	session, alive := x.session.currentWithReserve(x.now())
	if !alive {
		a.giveBackLater(ctx)
		return false
	}
	slot := &jobSlot{key, session}
	is, err := l.tryJobSlot(ctx, slot, limit.Limit)
	switch {
	case err != nil:
		a.postpone(ctx, "take a slot", err)
		return false
	case is == admission.HasSlot:
		return true
	case is == admission.NoSlot && !l.waitsForJobSlot():
		if done := l.makeWay(ctx, key); done {
			return false
		}
	}
	if is == admission.NoSlot {
		if err := x.writer.AddToWaitList(ctx, key, e); err != nil {
			a.postpone(ctx, "hold back", err)
			return false
		}
		// A run that gave its slot back before the row could be seen has woken nobody.
		if is, err = l.tryJobSlot(ctx, slot, limit.Limit); err != nil {
			a.postpone(ctx, "take a slot", err)
			return false
		}
	}
	switch is {
	case admission.HasSlot:
		// The row stays in the wait list: the message may go back before the run begins, and wait
		// again. An executor that wakes the run sees by its session cell that it has begun, and
		// takes the row out once the run is over.
		l.listed = true
		return true
	case admission.SlotElsewhere: // the run is under way, or was until now: its rows will tell
		a.giveBackLater(ctx)
	default:
		l.heldBack = true
		x.metrics.passed.WithLabelValues("limit").Inc()
		waits := schema.Record{Outcome: schema.Replaced, Reason: "concurrency: " + bucketer.UnderWay(limit), Redispatched: a.mayHaveStarted()}
		a.put(x.writer.NotStarted(*e, waits, x.now()), toCount{})
	}
	return false
}

// tryJobSlot asks for a slot, and notes it if there is one.
func (l *limits) tryJobSlot(ctx context.Context, s *jobSlot, most int) (admission.SlotState, error) {
	is, err := l.a.x.limiter.Acquire(ctx, s.key, l.a.entry.Run(), s.session, most)
	switch {
	case err != nil:
		l.jobSlot = s // it may be ours all the same
		l.releaseJobSlot()
	case is == admission.HasSlot:
		l.jobSlot, l.hadJobSlot = s, true
	}
	return is, err
}

// waitsForJobSlot reports whether the run waits for a slot, whatever the job says: it has begun
// before, or is one of many that were asked for one by one.
func (l *limits) waitsForJobSlot() bool {
	a := l.a
	switch a.basis.limit.OnLimit {
	case schema.OnLimitSkip:
		return a.basis.hasBegun() || a.entry.Spec.Trigger == schema.TriggerBackfill
	case schema.OnLimitCancelOldest:
		return a.entry.Spec.Trigger == schema.TriggerBackfill
	}
	return true
}

// makeWay does what the job says of a run for which there is no slot, other than to wait. True
// means that the message has been dealt with.
func (l *limits) makeWay(ctx context.Context, key schema.LimitKey) bool {
	a, limit := l.a, l.a.basis.limit
	if limit.OnLimit == schema.OnLimitSkip {
		a.notStarted(ctx, bucketer.SkipByLimit(limit))
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	over, err := a.x.writer.CancelOldest(bounded, key, a.entry, limit.Limit)
	cancel()
	switch {
	case err != nil:
		a.postpone(ctx, "make room", err)
	case over:
		a.notStarted(ctx, schema.Record{Outcome: schema.Cancelled, Reason: "cancel_oldest: later runs of the job were due"})
	default:
		return false
	}
	return true
}

// releaseJobSlot gives the slot back.
func (l *limits) releaseJobSlot() {
	s := l.jobSlot
	if s == nil {
		return
	}
	l.jobSlot = nil
	l.a.x.limiter.Release(s.key, l.a.entry.Run(), s.session)
}

// releaseKeptSlot gives back the slot that the wait list kept for the run, if the message came to
// an end without it.
func (l *limits) releaseKeptSlot() {
	e := l.a.entry
	if e.Fault != nil || e.Spec.Kind != schema.KindFromWaitList || l.hadJobSlot || l.heldBack || l.a.returned.Load() {
		return
	}
	l.a.x.limiter.Release(e.Spec.Limit(), e.Run(), "")
}

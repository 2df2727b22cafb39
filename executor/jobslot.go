package executor

import (
	"context"
	"fmt"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// seat is what an attempt has of a limit.
type jobSlot struct {
	key     schema.LimitKey
	session string
}

// enter asks the limit of the run's job for a slot, where as many runs are under way as may does what the job says of that, and reports whether the
// attempt may begin; if not, the message has been dealt with.
func (a *attempt) enter(ctx context.Context, k known) bool {
	x, e := a.x, a.entry
	key := schema.JobLimit(e.Spec.Job)
	session, alive := x.keeper.ample(x.now())
	if !alive {
		a.giveBackLater(ctx)
		return false
	}
	seat := &jobSlot{key, session}
	is, err := a.sit(ctx, seat, k.limit.Limit)
	switch {
	case err != nil:
		a.postpone(ctx, "take a slot", err)
		return false
	case is == admission.HasSlot:
		return true
	case is == admission.NoSlot && !a.queues(k):
		if done := a.makeWay(ctx, key, k); done {
			return false
		}
	}
	if is == admission.NoSlot {
		if err := x.writer.AddToWaitList(ctx, key, e); err != nil {
			a.postpone(ctx, "hold back", err)
			return false
		}
		// What left its slot before the row could be seen has woken nobody.
		if is, err = a.sit(ctx, seat, k.limit.Limit); err != nil {
			a.postpone(ctx, "take a slot", err)
			return false
		}
	}
	switch is {
	case admission.HasSlot:
		// Its row stays: the message may go back before it begins, and wait again. Who wakes it sees by its session cell that it has begun, and takes the
		// row out once it is over.
		a.listed = true
		return true
	case admission.SlotElsewhere: // it runs, or did until now: its rows will tell
		a.giveBackLater(ctx)
	default:
		a.waits = true
		x.metrics.passed.WithLabelValues("limit").Inc()
		a.put(x.writer.NotStarted(*e, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: " + k.many()}, x.now()), true)
	}
	return false
}

// sit asks for a slot, and notes it if there is one.
func (a *attempt) sit(ctx context.Context, s *jobSlot, most int) (admission.SlotState, error) {
	is, err := a.x.limiter.Acquire(ctx, s.key, a.entry.Run(), s.session, most)
	switch {
	case err != nil:
		a.jobSlot = s // it may be ours all the same
		a.rise()
	case is == admission.HasSlot:
		a.jobSlot, a.sat = s, true
	}
	return is, err
}

// queues reports whether the run waits for a slot, whatever the job says: it has begun before, or is one of many that were asked for one by one.
func (a *attempt) queues(k known) bool {
	switch k.limit.OnLimit {
	case schema.OnLimitSkip:
		return k.number > 1 || a.entry.Spec.Trigger == schema.TriggerBackfill
	case schema.OnLimitCancelOldest:
		return a.entry.Spec.Trigger == schema.TriggerBackfill
	}
	return true
}

// makeWay does what the job says of a run for which there is no slot, other than to wait. True means that the run has ended by that, or that the message went back.
func (a *attempt) makeWay(ctx context.Context, key schema.LimitKey, k known) bool {
	if k.limit.OnLimit == schema.OnLimitSkip {
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: "skipped: " + k.many()})
		return true
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	over, err := a.x.writer.CancelOldest(bounded, key, a.entry, k.limit.Limit)
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

// many says how many runs there are as there may be.
func (k known) many() string {
	if k.limit.Limit == 1 {
		return "a run of the job was under way"
	}
	return fmt.Sprintf("%d runs of the job were under way", k.limit.Limit)
}

// rise gives the slot back.
func (a *attempt) rise() {
	x, s, run := a.x, a.jobSlot, a.entry.Run()
	if s == nil {
		return
	}
	a.jobSlot = nil
	x.limiter.Release(s.key, run, s.session)
}

// unkeep gives the slot back that was kept for the run, if it came to an end without it.
func (a *attempt) unkeep() {
	if a.entry.Spec.Kind != schema.KindFromWaitList || a.sat || a.waits || a.returned.Load() {
		return
	}
	a.x.limiter.Release(schema.JobLimit(a.entry.Spec.Job), a.entry.Run(), "")
}

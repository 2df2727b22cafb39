package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// admit asks the gate for the right to begin, and waits for it; false means that the message has been dealt with.
func (a *attempt) admit(ctx context.Context) (p admission.Permit, ok bool) {
	x, spec := a.x, &a.entry.Spec
	var at *admission.Load
	for {
		w, err := a.wish(ctx)
		switch {
		case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrNotUnderstood):
			if at == nil {
				return admission.Permit{}, true // start says what is wrong
			}
		case err != nil:
			if at != nil {
				x.admission.Leave(at, admission.Rank(spec.Priority))
			}
			a.postpone(ctx, "read work", err)
			return admission.Permit{}, false
		}
		var v admission.Decision
		v, at = x.admission.Admit(w, at)
		switch {
		case v.Admitted:
			return v.Permit, true
		case v.Defer > 0 && v.Reason == "limit":
			a.awaitSlot(ctx, v.Defer)
			return admission.Permit{}, false
		case v.Defer > 0:
			a.putOff(ctx, v.Defer, v.Cause)
			return admission.Permit{}, false
		}
		timer := time.NewTimer(admission.RecheckEvery)
		select {
		case <-v.Wait:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			x.admission.Leave(at, w.Rank)
			a.giveBack()
			return admission.Permit{}, false
		}
	}
}

// wish returns what the attempt asks the gate for. Its task is asked each time: while it waits its limit may be raised, or lifted.
func (a *attempt) wish(ctx context.Context) (admission.Request, error) {
	x, spec := a.x, &a.entry.Spec
	var w admission.Request
	if spec.Work != nil {
		w = admission.NewRequest(spec.Tenant, spec.Work, x.targets)
	} else {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		task, err := x.tasks.Task(bounded, spec.Tenant, spec.Task)
		cancel()
		if err != nil {
			w = admission.NewRequest(spec.Tenant, &schema.Work{}, x.targets)
			w.Rank = admission.Rank(spec.Priority)
			return w, err
		}
		w = admission.NewRequest(spec.Tenant, &task.Work, x.targets)
		w.Task, w.TaskLimit, a.rated = spec.Task, task.MaxConcurrent, task.Rate != ""
	}
	w.Rank, w.Deferrals, w.Deferred = admission.Rank(spec.Priority), spec.Deferrals, spec.Kind == schema.KindDeferral
	return w, nil
}

// awaitSlot lets an entry that is due later stand in for the one at hand, since the limit of its task is reached. It does not count as put off for its target's sake,
// nor has it a start of its task's rate any more.
func (a *attempt) awaitSlot(ctx context.Context, wait time.Duration) {
	a.handOn(ctx, schema.CauseLimit, func(now time.Time) (schema.Entry, error) { return a.x.writer.Defer(a.entry, now.Add(wait), "", now) })
}

// Defer lets an entry that is due later stand in for the one at hand, which costs no attempt. Crash before it is said that it does, and both may be
// met: who starts second finds what the first has written.
func (a *attempt) putOff(ctx context.Context, wait time.Duration, cause schema.Cause) {
	e := a.entry
	a.handOn(ctx, cause, func(now time.Time) (schema.Entry, error) {
		id := schema.MakeEntryID(now.Add(wait), e.ID.Shard(), schema.RandomHash())
		return a.x.writer.LaterStart(e, schema.KindDeferral, id, e.Spec.AttemptNumber(), now)
	})
}

// askAgain has a run ask for another start of its task's rate: it comes too late for its own, and with others that do would be more at once than the
// rate says.
func (a *attempt) askAgain(ctx context.Context) {
	a.x.admission.CountDeferral("rate")
	a.handOn(ctx, schema.CauseRate, func(now time.Time) (schema.Entry, error) { return a.x.writer.Defer(a.entry, now, "", now) })
}

// handOn has the entry that later makes stand in for the one at hand, when it is its turn.
func (a *attempt) handOn(ctx context.Context, cause schema.Cause, later func(now time.Time) (schema.Entry, error)) {
	x, e := a.x, a.entry
	a.claimed() // others may claim while it waits
	if !x.deferSlots.Acquire(ctx, e.Spec.Priority, e.Spec.Tenant) {
		a.giveBack()
		return
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	yielded, err := a.yield(bounded, cause)
	if err == nil && !yielded {
		var to schema.Entry
		if to, err = later(x.now()); err == nil {
			_, err = x.writer.DeferTo(bounded, []schema.Entry{*e}, []schema.Entry{to}, cause)
		}
	}
	cancel()
	x.deferSlots.Release()
	if err != nil {
		a.postpone(ctx, "put off", err)
		return
	}
	a.over(e.Spec.AttemptNumber())
}

// yield has an entry that waits already stand in for the one at hand, if there is one: it reports whether it does. Whoever puts an entry off and cannot say so
// leaves two that stand in for it, and so on with each of them: in a long backlog runs would come to consist of nothing but copies, which hold each other up. Of two the
// one that is due first yields, and only to one that a record names, which therefore is held: never each to the other.
func (a *attempt) yield(ctx context.Context, cause schema.Cause) (bool, error) {
	x, e := a.x, a.entry
	if a.awaited.IsZero() {
		return false, nil
	}
	rows, err := x.store.EntriesByID(ctx, a.awaited.Partition(), []schema.EntryID{a.awaited})
	if err != nil || len(rows) == 0 || rows[0].Fault != nil {
		return false, err
	}
	to := &rows[0]
	mine, _ := e.First()
	if its, _ := to.First(); its != mine || to.Run() != e.Run() || to.Spec.AttemptNumber() != e.Spec.AttemptNumber() {
		return false, nil // it starts something else: what the run said before it was moved, or another attempt
	}
	rec := schema.Record{Outcome: schema.Replaced, To: to.ID, Reason: schema.Deferred, Cause: cause}
	return true, x.writer.Record(ctx, []schema.Attempt{x.writer.NotStarted(*e, rec, x.now())})
}

package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// limits is what bounds how many attempts run at once, and what an attempt has of it.
type limits struct {
	a       *attempt
	permit  admission.Permit // of its target, its tenant and its task
	slot    bool             // a slot of the executor
	rated   bool             // its task has a rate
	jobSlot *jobSlot         // a slot of its job's limit; nil: none

	wantsJobSlot bool // its job has a limit, by the start basis when it got its turn
	hadJobSlot   bool // it has, or had, a slot of its job's limit
	heldBack     bool // its job's limit holds it back
	listed       bool // it has a slot of that limit, and its run still stands in the wait list
	elsewhere    bool // another region alone may run it
	unfit        bool // we lack labels that it requires
	claimSlot    bool // it may use the lease: as many as claimsAtOnce may
}

// heldUnder reports whether everything that the attempt has it has under that session.
func (l *limits) heldUnder(session string) bool {
	return (l.jobSlot == nil || l.jobSlot.session == session) && (l.permit.Session == "" || l.permit.Session == session)
}

// acquireClaimSlot waits until the attempt may use the lease of its run. What waits rests on
// nothing yet, so that it may wait. False means that ctx ended.
func (l *limits) acquireClaimSlot(ctx context.Context) bool {
	if !l.claimSlot {
		l.claimSlot = l.a.x.claimSlots.Acquire(ctx, l.a.entry.Spec.Priority, l.a.entry.Spec.Tenant)
	}
	return l.claimSlot
}

func (l *limits) releaseClaimSlot() {
	if l.claimSlot {
		l.claimSlot = false
		l.a.x.claimSlots.Release()
	}
}

// admit asks for admission, and waits for it. False means that the message has been dealt with.
func (l *limits) admit(ctx context.Context) bool {
	a := l.a
	x, spec := a.x, &a.entry.Spec
	var at *admission.Load
	frees := false // an attempt is being stopped for it
	for {
		r, err := l.request(ctx)
		r.Waits = frees
		switch {
		case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrNotUnderstood):
			if at == nil {
				return true // the attempt will say what is wrong
			}
		case err != nil:
			if at != nil {
				x.admission.Leave(at, spec.Priority.Rank())
			}
			a.postpone(ctx, "read work", err)
			return false
		}
		var d admission.Decision
		switch {
		case l.elsewhere:
			d = x.admission.DeferForRegion(r.Deferrals)
		case l.unfit:
			d = x.admission.DeferForPool(r.Deferrals)
		default:
			d, at = x.admission.Admit(r, at)
		}
		if (l.elsewhere || l.unfit) && at != nil {
			x.admission.Leave(at, r.Rank)
		}
		if d.Full != nil && !frees && spec.Priority == schema.Critical {
			if frees = x.preemption.stopOne(d.Full); frees && d.Wait == nil {
				continue // it is not deferred, but waits
			}
		}
		switch {
		case d.Admitted:
			l.permit = d.Permit
			return l.admitScheduled(ctx)
		case d.Defer > 0 && d.Reason == admission.ReasonLimit:
			l.deferForQuota(ctx, d.Defer, d.Cause)
			return false
		case d.Defer > 0:
			l.deferForTarget(ctx, d.Defer, d.Cause)
			return false
		}
		timer := time.NewTimer(admission.RecheckEvery)
		select {
		case <-d.Wait:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			x.admission.Leave(at, r.Rank)
			a.giveBack()
			return false
		}
	}
}

// request returns what the attempt asks of admission. Its task is read each time: while the attempt
// waits the limit may be raised, or lifted.
func (l *limits) request(ctx context.Context) (admission.Request, error) {
	x, spec := l.a.x, &l.a.entry.Spec
	var r admission.Request
	tenantLimit, err := l.quota(ctx)
	if err != nil {
		return r, err
	}
	required := schema.RegionChoice{Require: spec.RequireRegion}
	work := spec.Work
	if work != nil {
		r = admission.NewRequest(spec.Tenant, work, x.targets)
	} else {
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		task, err := x.tasks.Task(bounded, spec.Tenant, spec.Task)
		cancel()
		if err != nil {
			r = admission.NewRequest(spec.Tenant, &schema.Work{}, x.targets)
			r.Rank = spec.Priority.Rank()
			return r, err
		}
		work = &task.Work
		r = admission.NewRequest(spec.Tenant, work, x.targets)
		r.Task, r.TaskLimit, l.rated = spec.Task, task.MaxConcurrent, task.Rate != ""
		if task.Region.Require {
			required = task.Region
		}
	}
	l.elsewhere = required.Require && !x.isRegion(required.Name, l.a.entry.ID.Shard())
	r.Rank, r.Deferrals, r.Deferred = spec.Priority.Rank(), spec.Deferrals, spec.Kind == schema.KindDeferral
	l.unfit = !x.labels.Meet(work.Requires)
	r.TenantLimit = tenantLimit
	return r, nil
}

// quota returns how many runs of the run's tenant may be under way at once; 0 = any number.
func (l *limits) quota(ctx context.Context) (int, error) {
	if l.a.x.tenants == nil {
		return 0, nil
	}
	return l.a.x.tenants.Concurrency(ctx, l.a.entry.Spec.Tenant) // as a rule from memory
}

// admitScheduled takes the run out of its tenant's quota of runs a minute, if its schedule starts
// it. False means that the message has been dealt with. A run that is taken and gives its message
// back is taken again.
func (l *limits) admitScheduled(ctx context.Context) bool {
	x, spec := l.a.x, &l.a.entry.Spec
	if x.tenants == nil || spec.Job.IsZero() || spec.Trigger != schema.TriggerSchedule || spec.AttemptNumber() > 1 {
		return true
	}
	apart, err := x.tenants.AdmitScheduled(ctx, spec.Tenant)
	switch {
	case err != nil:
		l.a.postpone(ctx, "read quotas", err)
	case apart > 0:
		d := x.admission.DeferForQuota(spec.Tenant, apart)
		l.deferForQuota(ctx, d.Defer, d.Cause)
	default:
		return true
	}
	return false
}

// deferForQuota defers the entry since the limit of its task, or of its tenant, is reached. That
// does not count as a deferral for its target's sake, and the reservation under the rate of the
// task is given up.
func (l *limits) deferForQuota(ctx context.Context, wait time.Duration, cause schema.Cause) {
	l.replace(ctx, cause, func(e *schema.Entry, now time.Time) (schema.Entry, error) {
		return l.a.x.writer.Defer(e, now.Add(wait), "", now)
	})
}

// deferForTarget defers the entry since its target, or its tenant, may not have more attempts now.
// That costs no attempt. If we crash before it is said that the later entry stands in, both entries
// may be delivered: the second start finds what the first has written.
func (l *limits) deferForTarget(ctx context.Context, wait time.Duration, cause schema.Cause) {
	l.replace(ctx, cause, func(e *schema.Entry, now time.Time) (schema.Entry, error) {
		id := schema.MakeEntryID(now.Add(wait), e.ID.Shard(), schema.RandomHash())
		return l.a.x.writer.LaterStart(e, schema.KindDeferral, id, e.Spec.AttemptNumber(), now)
	})
}

// deferForRate defers the entry to a new reservation: its own has expired, and with others that are
// late as well more would start at once than the rate says.
func (l *limits) deferForRate(ctx context.Context) {
	l.a.x.admission.CountDeferral(admission.ReasonRate)
	l.replace(ctx, schema.CauseRate, func(e *schema.Entry, now time.Time) (schema.Entry, error) {
		return l.a.x.writer.Defer(e, now, "", now)
	})
}

// replace has the entry that later makes stand in for this one, when a deferral slot is free.
func (l *limits) replace(ctx context.Context, cause schema.Cause, later func(e *schema.Entry, now time.Time) (schema.Entry, error)) {
	a := l.a
	x, e := a.x, a.entry
	l.releaseClaimSlot() // others may claim while it waits
	if !x.deferSlots.Acquire(ctx, e.Spec.Priority, e.Spec.Tenant) {
		a.giveBack()
		return
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	yielded, err := l.yield(bounded, cause)
	if err == nil && !yielded {
		var to schema.Entry
		again := *e
		again.Spec.MayHaveStarted = a.mayHaveStarted()
		if to, err = later(&again, x.now()); err == nil {
			_, err = x.writer.DeferTo(bounded, []schema.Entry{*e}, []schema.Entry{to}, cause)
		}
	}
	cancel()
	x.deferSlots.Release()
	if err != nil {
		a.postpone(ctx, "defer", err)
		return
	}
	a.finishEntry(e.Spec.AttemptNumber())
}

// yield reports whether an entry that was deferred to before stands in for this one, and has the
// rows say so.
//
// An executor that writes a later entry and cannot say so leaves two entries of one run, and so on
// with each of them: in a long backlog runs would come to consist of copies that hold each other
// up. Of two the one that is due first yields, and only to one that a record names, which therefore
// is in the store: never each to the other.
func (l *limits) yield(ctx context.Context, cause schema.Cause) (bool, error) {
	x, e, awaited := l.a.x, l.a.entry, l.a.rows.awaited
	if awaited.IsZero() {
		return false, nil
	}
	rows, err := x.store.EntriesByID(ctx, awaited.Partition(), []schema.EntryID{awaited})
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

package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// rowCheck reads the rows of an attempt's run, acts on what they say, and so gives the attempt what
// its start rests on.
type rowCheck struct {
	a *attempt

	// awaited is an entry to which a start of the run was deferred, by the last read
	// (schema.Standing).
	awaited schema.EntryID
	// taken: the rows have another session's cell in place of ours. Two starts of one millisecond
	// have the same fence once in a thousand times, and then the same row. Where the other's cell
	// comes after our confirm, both have started.
	taken bool
}

// check reads the rows. True means that the attempt may start, on the basis that it has now; false,
// that the message has been dealt with.
func (c *rowCheck) check(ctx context.Context) bool {
	a := c.a
	x, e := a.x, a.entry
	x.metrics.looks.Inc()
	guarded, err := a.lease.mayBeGuarded(ctx)
	if err != nil {
		a.postpone(ctx, "read work", err)
		return false
	}
	if guarded && !a.limits.acquireClaimSlot(ctx) {
		a.giveBack()
		return false
	}
	st, v, err := x.standing(ctx, e)
	if err != nil {
		a.postpone(ctx, "look", err)
		return false
	}
	x.storeFailing.Store(false)
	c.awaited = st.Awaited
	switch {
	case st.Repeat != nil:
		// Its follow-ups may be missing: they are repeated before the message goes. The record
		// stands.
		x.metrics.passed.WithLabelValues("over").Inc()
		x.recorder.put(pendingWrite{entry: e, attempt: *st.Repeat, recorded: true, notify: true, then: a.finish})
		return false
	case st.Over:
		x.metrics.passed.WithLabelValues("over").Inc()
		a.finishEntry(e.Spec.AttemptNumber())
		return false
	case st.Unnamed:
		x.metrics.passed.WithLabelValues("unnamed").Inc()
		a.finish()
		return false
	case st.Live:
		x.metrics.passed.WithLabelValues("live").Inc()
		a.finish()
		return false
	}
	a.lease.setGuarded(guarded)
	switch {
	case guarded && a.isFirst() && a.lease.tries == 0 && st.Next == e.Spec.AttemptNumber() && len(st.Dead) == 0:
		// The rows were read for the age of the envelope alone: that nobody has claimed the run is
		// a guess. A claim that finds otherwise reads the rows again.
		a.lease.was = schema.Lease{}
	case guarded:
		var free bool
		if st.Next, free = a.lease.reconcile(ctx, st, v); !free {
			return false
		}
	case len(st.Dead) > 0 && !c.recordLost(ctx, st.Dead):
		return false
	}
	before, ok := c.mayStart(ctx, st.Next > 1 || st.Preempted > 0, v.job)
	if !ok {
		return false
	}
	limit := e.Spec.Concurrency
	if v.job != nil {
		limit = v.job.Current.Spec.Concurrency // as it is now
	}
	a.basis = startBasis{checked: v.at, number: st.Next, fromRows: true, limit: limit, before: before, preempted: st.Preempted}
	return true
}

// mayStart asks the row of the run's job, if the job can have many runs, whether an attempt may
// start of a run that has begun before, or has not, and until when. If not, it records why.
func (c *rowCheck) mayStart(ctx context.Context, hasBegun bool, job *schema.Job) (before time.Time, ok bool) {
	a := c.a
	x, e := a.x, a.entry
	now := x.now()
	switch {
	case e.Spec.Job.IsZero():
		return time.Time{}, true
	case hasBegun: // the run has started: only a cancel ends it
		if job != nil && job.Current.State == schema.JobCancelled {
			a.notStarted(ctx, schema.Record{Outcome: schema.Cancelled, Reason: "the job was cancelled"})
			return time.Time{}, false
		}
		return time.Time{}, true
	}
	right := schema.StartDecision{Unknown: true, Outcome: schema.Cancelled, Reason: "the job does not exist"}
	if job != nil {
		right = job.DecideStart(e, now)
	}
	if right.Unknown {
		// Its dispatcher has seen more than we did: a write that is not decided yet.
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		decided, err := x.store.Job(bounded, e.Spec.Job)
		cancel()
		switch {
		case err == nil:
			job, right = &decided, decided.DecideStart(e, now)
		case !errors.Is(err, schema.ErrNotFound):
			a.postpone(ctx, "read job", err)
			return time.Time{}, false
		}
	}
	if right.Outcome != "" {
		a.notStarted(ctx, schema.Record{Outcome: right.Outcome, Reason: right.Reason})
		return time.Time{}, false
	}
	if rec, missed := x.writer.Misfired(job, e, now); missed {
		a.notStarted(ctx, rec)
		return time.Time{}, false
	}
	return right.Before, true
}

// recordLost records attempts whose sessions were declared dead as lost. The last one allowed ends
// the run, and the message: then it returns false.
func (c *rowCheck) recordLost(ctx context.Context, dead []schema.Attempt) bool {
	a := c.a
	x := a.x
	work, err := a.readTask(ctx)
	if err != nil && !withoutTask(err) {
		a.postpone(ctx, "read work", err)
		return false
	}
	now := x.now()
	last := -1 // of those that end the run
	rows := make([]schema.Attempt, len(dead))
	for i, d := range dead {
		final := d.Number >= work.Retry.MaxAttempts || work.Guarantee == schema.AtMostOnce
		if final {
			last = i
		}
		rows[i] = d
		rows[i].Session = nil
		rows[i].Record = lostRecord(d.Session, now, final)
		rows[i].Record.Announce = final && x.writer.Announces(a.entry.Spec.Tenant)
		rows[i].Written, rows[i].Expires = schema.LostAt(d.Session.Started), a.expiry(now)
	}
	// All of them before the notice: it ends the entry, and the rest would not be counted.
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := x.writer.Record(bounded, rows); err != nil {
		a.postpone(ctx, "record lost attempts", err)
		return false
	}
	x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Add(float64(len(rows)))
	x.recorder.countLost(a.entry, len(rows))
	x.spans.lost(a.entry, &work, rows)
	if last >= 0 {
		// What follows from the end of the run, such as its dead letter, comes before the notice.
		x.recorder.put(pendingWrite{entry: a.entry, attempt: rows[last], recorded: true, notify: true, then: a.finish})
	}
	return last < 0
}

// lostText says why an attempt counts as lost.
const lostText = "the executor's session ended without an outcome"

// lostRecord is the record of an attempt whose session was declared dead.
func lostRecord(session *schema.SessionRef, now time.Time, final bool) *schema.Record {
	finished := now.UTC()
	if began := session.Started; began.After(finished.Round(0)) { // by a clock that is ahead of ours
		finished = began
	}
	return &schema.Record{
		Entry: session.Entry, Executor: session.Executor, Started: session.Started, Finished: finished,
		Outcome: schema.Lost, Error: lostText, Final: final,
	}
}

// revalidate reads the rows again while the basis of the start is too old, or a cancel was heard of
// since. Results as of check.
func (c *rowCheck) revalidate(ctx context.Context) bool {
	a := c.a
	maxAge := freshFor
	if a.limits.claimSlot {
		maxAge -= claimWithin
	}
	for range readTries {
		a.mu.Lock()
		recheck := a.recheck
		a.recheck = false
		a.mu.Unlock()
		if !recheck && a.basis.holds(a.x.now(), maxAge) {
			return true
		}
		if !c.check(ctx) {
			return false
		}
	}
	a.giveBack()
	return false
}

// mayStillStart judges again after a write before the start, which may have taken its time: the
// start needs the same session, a fresh basis, a right clock, and a region that serves the run's home.
func (c *rowCheck) mayStillStart(ctx context.Context, session string) bool {
	a := c.a
	now := a.x.now()
	current, alive := a.sessionAt(now)
	return alive && current == session && a.x.homes.mayStart(a.entry.ID.Shard(), a.env.Epoch) && !a.returned.Load() && !a.x.halt.Halted() && ctx.Err() == nil &&
		!now.Before(a.entry.Due()) && a.basis.holds(now, freshFor)
}

// standing reads the rows of the run that e starts and judges where e stands.
func (x *Executor) standing(ctx context.Context, e *schema.Entry) (schema.Standing, runRows, error) {
	v, err := x.reader.read(ctx, e)
	if err != nil {
		return schema.Standing{}, v, err
	}
	st := schema.Judge(e, v.marks, v.attempts, v.live)
	st.EndByCancel(e, v.marks, v.attempts)
	if !v.exists && len(v.attempts) == 0 {
		st.Over = true // the row has left the store, or never was: nothing was asked for
	}
	return st, v, nil
}

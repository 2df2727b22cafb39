package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// known is what a start rests on.
type known struct {
	checked time.Time           // the rows said so at this time
	number  int                 // of the attempt
	looked  bool                // the rows were read on purpose: the session is written before the start, and they are read again
	limit   *schema.Concurrency // of the job; nil: none
	before  time.Time           // by what the job says the start must be before this; zero = any time
}

// inTime reports whether the job lets the attempt start at now.
func (k known) inTime(now time.Time) bool { return k.before.IsZero() || now.Before(k.before) }

// first reports whether the message is the only one that there has been of the run, as far as is known.
func (a *attempt) first() bool {
	return !a.delivery.Redelivered() && !a.env.Redispatch && a.entry.Run() == a.entry.ID
}

// clear finds out whether the entry may start. Where there is no doubt it reads nothing.
func (a *attempt) clear(ctx context.Context) (known, bool) {
	e := a.entry
	first := a.first()
	at := a.x.now() // of the start: what will be too old by then is looked at in time
	if e.Due().After(at) {
		at = e.Due()
	}
	if first && at.Sub(a.env.CheckedAt) <= freshFor {
		return known{checked: a.env.CheckedAt, number: e.Spec.AttemptNumber(), limit: e.Spec.Concurrency}, true
	}
	if !a.wait(ctx, e.Due().Add(-lookBefore)) {
		a.giveBack()
		return known{}, false
	}
	defer a.claimed()
	return a.look(ctx)
}

// look reads the rows and acts on what they say: true means that the entry may start.
func (a *attempt) look(ctx context.Context) (known, bool) {
	x, e := a.x, a.entry
	x.metrics.looks.Inc()
	guarded, err := a.guarded(ctx)
	if err != nil {
		a.postpone(ctx, "read work", err)
		return known{}, false
	}
	if guarded && !a.mayClaim(ctx) {
		a.giveBack()
		return known{}, false
	}
	st, v, err := x.standing(ctx, e)
	if err != nil {
		a.postpone(ctx, "look", err)
		return known{}, false
	}
	x.troubled.Store(false)
	a.awaited = st.Awaited
	switch {
	case st.Repeat != nil:
		// Its follow-ups may be missing: they are repeated before the message goes. The record stands.
		x.metrics.passed.WithLabelValues("over").Inc()
		x.recorder.put(word{entry: *e, attempt: *st.Repeat, held: true, notify: true, then: a.finish})
		return known{}, false
	case st.Over:
		x.metrics.passed.WithLabelValues("over").Inc()
		a.over(e.Spec.AttemptNumber())
		return known{}, false
	case st.Unnamed:
		x.metrics.passed.WithLabelValues("unnamed").Inc()
		a.finish()
		return known{}, false
	case st.Live:
		x.metrics.passed.WithLabelValues("live").Inc()
		a.finish()
		return known{}, false
	}
	a.guard(guarded)
	switch {
	case guarded && a.first() && a.hold.tries == 0 && st.Next == e.Spec.AttemptNumber() && len(st.Dead) == 0:
		// It was looked at for its age alone: that nobody has claimed it is guessed, and a claim that finds otherwise looks again.
		a.hold.was = schema.Lease{}
	case guarded:
		var free bool
		if st.Next, free = a.reconcile(ctx, st, v); !free {
			return known{}, false
		}
	case len(st.Dead) > 0 && !a.bury(ctx, st.Dead):
		return known{}, false
	}
	before, ok := a.entitled(ctx, st.Next, v.job)
	if !ok {
		return known{}, false
	}
	limit := e.Spec.Concurrency
	if v.job != nil {
		limit = v.job.Current.Spec.Concurrency // as it is now
	}
	return known{checked: v.at, number: st.Next, looked: true, limit: limit, before: before}, true
}

// entitled asks the row of the run's job, if it is of a job that can have many, whether attempt number n may start, and until when. If
// not, it records why.
func (a *attempt) entitled(ctx context.Context, n int, job *schema.Job) (before time.Time, ok bool) {
	x, e := a.x, a.entry
	now := x.now()
	switch {
	case e.Spec.Job.IsZero():
		return time.Time{}, true
	case n > 1: // it has started: only a cancel ends it
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

// bury records attempts whose sessions fell as lost. The last one allowed ends the run.
func (a *attempt) bury(ctx context.Context, dead []schema.Attempt) bool {
	x := a.x
	work, err := a.work(ctx)
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
		rows[i].Written, rows[i].Expires = schema.LostAt(d.Session.Started), a.expiry(now)
	}
	// All of them before anything is said: a notice ends the entry, and nobody would count the rest.
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := x.writer.Record(bounded, rows); err != nil {
		a.postpone(ctx, "record lost attempts", err)
		return false
	}
	x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Add(float64(len(rows)))
	if last >= 0 {
		// What follows from the end of the run, such as its dead letter, comes before the notice.
		x.recorder.put(word{entry: *a.entry, attempt: rows[last], held: true, notify: true, then: a.finish})
	}
	return last < 0
}

// lostRecord is the record of an attempt whose session fell.
func lostRecord(session *schema.SessionRef, now time.Time, final bool) *schema.Record {
	finished := now.UTC()
	if began := session.Started; began.After(finished.Round(0)) { // by a clock that is ahead of ours
		finished = began
	}
	return &schema.Record{
		Entry: session.Entry, Executor: session.Executor, Started: session.Started, Finished: finished,
		Outcome: schema.Lost, Error: "the executor's session ended without an outcome", Final: final,
	}
}

// over tells that the entry is finished, by attempt number or before it, and ends the message.
func (a *attempt) over(number int) {
	e := a.entry
	a.x.notices.Done(e.ID.Shard(), []schema.Notice{{Entry: e.ID, Run: e.Run(), Attempt: number}})
	a.finish()
}

// fresh looks again while what the start rests on is too old, or a cancel was heard of since.
func (a *attempt) fresh(ctx context.Context, k known) (known, bool) {
	within := freshFor
	if a.claiming {
		within -= claimWithin
	}
	for range lookTries {
		a.mu.Lock()
		told := a.told
		a.told = false
		a.mu.Unlock()
		if now := a.x.now(); !told && now.Sub(k.checked) <= within && k.inTime(now) {
			return k, true
		}
		var ok bool
		if k, ok = a.look(ctx); !ok {
			return known{}, false
		}
	}
	a.giveBack()
	return known{}, false
}

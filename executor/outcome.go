package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// This file is about how an attempt ends: its record, what follows, and successes that come late,
// when others may have begun the run again or ended it as failed.

// endedAt returns when what ends at now has ended: by the clock, or by the start and what has
// passed since, if the clock was set back meanwhile. So the next start does not lie behind what the
// dispatcher has swept, and the outcome is not older than what was written about the attempt
// before. (Nothing starts by a clock that is known to be wrong.)
func (e *execution) endedAt(now time.Time) time.Time {
	if by := e.started.Add(time.Since(e.began)); by.After(now.Round(0)) {
		return by
	}
	return now
}

// conclude turns the result into a record and hands it to the recorder, or for a guarded run to the
// lease first.
func (a *attempt) conclude(attempts context.Context, res target.Result) {
	x, e, retry := a.x, a.entry, a.work.Retry
	now := a.endedAt(x.now())
	x.metrics.running.Dec()
	rec := schema.Record{
		Entry: e.ID, Executor: x.name, Region: x.region, Started: a.started, Finished: now.UTC(),
		Outcome: res.Outcome, Error: target.Truncate(res.Error, target.MaxError), Status: res.Status,
		Redispatched: a.mayHaveStarted(),
		Announce:     x.writer.Announces(e.Spec.Tenant),
	}
	rec.PublishedMillis, rec.ReceivedMillis = a.beforeStart(a.started)
	if due, again := after(res, *retry, a.number, now); again {
		rec.Next = schema.MakeEntryID(due, e.ID.Shard(), schema.RandomHash())
	} else if res.Outcome == schema.Failed || res.Outcome == schema.TimedOut {
		rec.Final = true
	} else if res.Outcome == schema.Lost {
		rec.Final = res.Final || a.number >= retry.MaxAttempts
	}
	rec.Doubt = res.Outcome == schema.Succeeded && !a.lease.guarded && a.interfered(now) // a claim excludes interference
	a.mu.Lock()
	a.running = false
	counts := toCount{start: a.number == 1 && !a.counted, end: true}
	a.mu.Unlock()
	row := schema.Attempt{
		Run: e.Run(), Number: a.number, Fence: a.fence, Record: &rec, Tenant: e.Spec.Tenant,
		Written: now.UnixMicro(), Expires: a.expiry(later(now, rec.Next.Time())),
	}
	sent := x.spans.attempt(a, &row)
	x.metrics.observeEnd(&a.work.Work, res.Outcome, rec.Finished.Sub(rec.Started), x.spans.exemplar(e, sent))
	logFailure(x.log, a, &row)
	a.feedback.keep(&row)
	a.keepOutput(&row, &res)
	if rec.Doubt && a.outlived(now) {
		rec.Outlived = true
		a.writeWatchEntry(attempts, a.fence, now)
	}
	if a.lease.guarded {
		a.lease.commit(attempts, row)
		return
	}
	x.metrics.outcomes.WithLabelValues(string(res.Outcome)).Inc()
	a.put(row, counts)
}

// logFailure logs that an attempt has failed, once, for whoever searches by run, task or trace. What
// the callee said stays in the run: it may hold what is the tenant's alone.
func logFailure(log *slog.Logger, a *attempt, row *schema.Attempt) {
	rec := row.Record
	switch rec.Outcome {
	case schema.Failed, schema.TimedOut, schema.Lost:
	default:
		return
	}
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	spec := &a.entry.Spec
	about := make([]any, 0, 20)
	about = append(about, "tenant", spec.Tenant, "run", row.Run, "attempt", row.Number)
	if spec.Task != "" {
		about = append(about, "task", spec.Task)
	}
	if spec.JobName != "" {
		about = append(about, "job", spec.JobName)
	}
	about = append(about, "kind", kinds[kindOf(&a.work.Work)], "outcome", rec.Outcome)
	if rec.Status != 0 {
		about = append(about, "status", rec.Status)
	}
	log.Info("an attempt failed", append(about, "took", rec.Finished.Sub(rec.Started), "final", rec.Final)...)
}

// interrupted ends an attempt that was cut short by the stop of the executor, or for a critical run
// (target.ErrPreempted). It does not count. Its row, if there is one, is closed as unstarted, and
// the number is free again. The message goes back; if it is acknowledged already, the dispatcher
// finds the entry open. The row of a pre-empted one is written in any case, before the message goes
// back: by these rows it is counted how often the run was pre-empted.
func (a *attempt) interrupted(why error) {
	x := a.x
	now := a.endedAt(x.now())
	x.metrics.running.Dec()
	a.mu.Lock()
	a.running = false
	cellSent, isCounted := a.cellSent, a.counted
	a.mu.Unlock()
	if a.number == 1 && !isCounted {
		x.recorder.countStart(a.entry, a.work.HTTP, a.started.Sub(a.entry.LatenessFrom()))
	}
	row := schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.fence, Written: schema.UnstartedAt(a.started), Expires: a.expiry(now), Tenant: a.entry.Spec.Tenant,
		Record: &schema.Record{
			Entry: a.entry.ID, Executor: x.name, Region: x.region, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost,
			Error: target.ErrStopped.Error(), Unstarted: true,
		},
	}
	isPreempted := errors.Is(why, target.ErrPreempted)
	if isPreempted {
		row.Record.Error, row.Record.Preempted = why.Error(), true
		x.metrics.preempted.Inc()
	}
	a.feedback.keep(&row)
	x.spans.stopped(a, now)
	if !cellSent && !isPreempted {
		a.giveBack()
		return
	}
	x.recorder.put(pendingWrite{then: a.giveBack, entry: a.entry, attempt: row})
}

// notStarted records why nothing started here.
func (a *attempt) notStarted(ctx context.Context, rec schema.Record) {
	row := a.x.writer.NotStarted(*a.entry, rec, a.x.now())
	if a.lease.guarded && !a.lease.close(ctx, row) {
		a.giveBack() // the next executor finds what stands
		return
	}
	a.x.metrics.outcomes.WithLabelValues(string(rec.Outcome)).Inc()
	if rec.Outcome == schema.Missed {
		a.x.metrics.missed.WithLabelValues(bucketer.MissedCause(&rec)).Inc()
	}
	a.put(row, toCount{end: true})
}

// close ends the run in its lease with the row that says why nothing started. False means that
// another executor was faster, or that the store did not answer.
func (l *runLease) close(ctx context.Context, row schema.Attempt) bool {
	is, err := l.was.EndedByOther(row, l.a.x.now())
	if err == nil {
		_, err = l.swap(ctx, l.was, is, false)
	}
	if err != nil && !errors.Is(err, schema.ErrConflict) {
		l.a.x.log.Warn("a run cannot be ended", "run", row.Run, "err", fmt.Errorf("swap lease: %w", err))
	}
	return err == nil
}

// put hands a row to the recorder. The message ends when the row and what follows are held. Until
// then it takes no room in hand (reserveRoom), so if no attempt waits for a slot more is fetched,
// for 1/refillPart of maxInHand at a time.
func (a *attempt) put(row schema.Attempt, counts toCount) {
	a.mu.Lock()
	cellSent := a.cellSent
	a.mu.Unlock()
	a.x.recorder.put(pendingWrite{
		entry: a.entry, attempt: row, notify: true, hasCell: cellSent, then: a.finish, counts: counts, ends: counts.end, http: a.work.HTTP,
	})
	if x := a.x; x.endedAttempts.Add(1)%int64(max(x.maxInHand/refillPart, 1)) == 0 && x.slots.Unwanted() {
		x.wakePuller()
	}
}

// watchAfter is how long after a success that outlived its session its watch entry is due.
const watchAfter = time.Minute

// interfered reports whether another execution of the run may have been begun before this one ended
// at now: the run was delivered twice, ran on without the store or the stream knowing, or outlived
// its session.
func (a *attempt) interfered(now time.Time) bool {
	if a.mayHaveStarted() {
		return true
	}
	if max(time.Since(a.began), now.Round(0).Sub(a.started)) < heldFor {
		return false // the message was ours all the time
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.knownAfter == 0 || a.knownAfter >= heldFor || a.sessionLost(now)
}

// outlived reports whether other executors may have found the attempt, by its cell, under a session
// that does not stand any more at now.
func (a *attempt) outlived(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cellSent && a.sessionLost(now)
}

// sessionLost reports whether the session of the attempt does not stand at now; mu is held.
func (a *attempt) sessionLost(now time.Time) bool {
	session, alive := a.x.session.current(now)
	return !alive || session != a.session
}

// writeWatchEntry has a watch entry stand in for the one at hand, due in a while. The executor that
// declared the attempt lost has closed the entry, and its message went long ago. If we died between
// the record and the resolution of the dead letter, nothing would lead to the record again. If the
// entry cannot be written, the record still says what the attempt came to.
func (m *message) writeWatchEntry(ctx context.Context, fence schema.Fence, now time.Time) {
	e := m.entry
	id := schema.MakeEntryID(now.Add(watchAfter), e.ID.Shard(), schema.HashOf("outlived", e.ID.String(), strconv.FormatInt(int64(fence), 10)))
	to, err := m.x.writer.LaterStart(e, schema.KindWatch, id, e.Spec.AttemptNumber(), now)
	if err == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		_, err = m.x.writer.Replace(bounded, []schema.Entry{*e}, []schema.Entry{to})
		cancel()
	}
	if err != nil {
		m.x.log.Warn("a success that outlived its session has no watch entry", "run", e.Run(), "err", err)
	}
}

// backOff returns how long to wait after the failure of attempt number n (from 1): initial ×
// factor^(n−1), at most max. With full jitter it is drawn evenly between 0 and that (M. Brooker,
// "Exponential Backoff And Jitter", AWS Architecture Blog, 2015); draw returns a number in [0, 1).
func backOff(r schema.Retry, n int, draw func() float64) time.Duration {
	d := float64(r.Initial) * math.Pow(r.Factor, float64(n-1))
	d = min(d, float64(r.Max))
	if r.Jitter != "none" {
		d *= draw()
	}
	return time.Duration(d)
}

// after decides what follows attempt number n with that result: the due time of the next attempt,
// or none.
func after(res target.Result, r schema.Retry, n int, finished time.Time) (time.Time, bool) {
	switch res.Outcome {
	case schema.Failed, schema.TimedOut:
	default:
		return time.Time{}, false
	}
	if res.Final || n >= r.MaxAttempts {
		return time.Time{}, false
	}
	wait := max(backOff(r, n, rand.Float64), min(res.RetryAfter, target.MaxRetryAfter))
	due := finished.Add(wait)
	if cut := due.Truncate(time.Millisecond); cut.Before(due) { // ids hold ms: never sooner than was asked
		due = cut.Add(time.Millisecond)
	}
	return due, true
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// Runs of at_most_once and effectively_once are guarded: an attempt claims its run before it
// starts, and ends the claim before it says how it went, both by conditional writes on the run's
// lease (schema.Claim). What the lease says counts; the rows of attempts follow it.

// claimTries bounds how often the lease is read or claimed again because another executor was
// faster.
const claimTries = 5

// errLateClaim: by the time that the claim stood the start rested on nothing any more.
var errLateClaim = errors.New("not started: the run could not be claimed in time")

// taskReach is for how long after a task was put attempts may still have begun by what it was
// before: executors remember it for 10 s, and their clocks differ.
const taskReach = 20 * time.Second

// doubtFor is how long a claim that was not answered, and does not stand, may still come to stand:
// a store ends a request long before.
const doubtFor = time.Minute

// runLease is what an attempt knows of the lease of its run, and has of it.
type runLease struct {
	a       *attempt
	guarded bool         // the run is claimed before it starts, or may have been
	was     schema.Lease // as it was read; zero: no row
	mine    schema.Lease // our claim, once it stands
	doubt   bool         // mine was not answered: it may stand, or come to stand
	tries   int          // how often another executor was faster
}

// setGuarded notes whether the run is guarded. Nothing is known of a lease that is not needed.
func (l *runLease) setGuarded(is bool) {
	if l.guarded = is; !is {
		*l = runLease{a: l.a}
	}
}

// mayBeGuarded reports whether attempts of the entry claim the run, or may have claimed it. That is
// unknown where the task is gone, and where the entry may have been in other hands before and the
// task was put since the run was about to start: then the lease tells, and to claim is safe.
func (l *runLease) mayBeGuarded(ctx context.Context) (bool, error) {
	a := l.a
	spec := &a.entry.Spec
	if spec.Work != nil {
		return spec.Work.Guarantee.Guarded(), nil
	}
	task, err := a.x.tasks.Task(ctx, spec.Tenant, spec.Task)
	switch {
	case errors.Is(err, schema.ErrNotFound), errors.Is(err, schema.ErrNotUnderstood):
		return true, nil
	case err != nil:
		return false, err
	}
	return task.Work.InForce().Guarantee.Guarded() || a.mayHaveStarted() && task.UpdatedAt.After(a.entry.Run().Time().Add(-taskReach)), nil
}

// swap swaps the lease until it is known what became of that: nil and ErrConflict come with what
// stands. To swap again is harmless, and what an unanswered swap may still do is decided by the
// next one.
//
// With keep a store that does not answer is asked until it does. Without, nothing is under way yet:
// an error means that nothing was done, and a message whose swap is unanswered for long is returned
// meanwhile. But where the home is lost before an unanswered swap could be made again, the error is
// ErrUnknown and ErrNotServed.
//
// An error also means that ctx ended and the store did not answer for as long as the stop waits:
// then our session ends as well, and with it what we hold.
func (l *runLease) swap(ctx context.Context, was, is schema.Lease, keep bool) (schema.Lease, error) {
	a, x := l.a, l.a.x
	is.Key = schema.RunLease(a.entry.Run())
	var stopped time.Time
	idle, failing, odd := !keep, false, false
	defer func() {
		if failing {
			x.recorder.failing.Store(false)
		}
	}()
	for {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		stands, err := x.store.SwapLease(bounded, was, is, a.expiry(x.now()))
		cancel()
		switch {
		case err == nil, errors.Is(err, schema.ErrConflict):
			return stands, err
		case errors.Is(err, schema.ErrUnknown):
			keep = true
		case idle && keep && errors.Is(err, schema.ErrNotServed):
			return schema.Lease{}, fmt.Errorf("%w: %w", schema.ErrUnknown, err)
		case !keep || errors.Is(err, schema.ErrTooLarge) || is.Follows(was) != nil:
			return schema.Lease{}, err
		}
		if ctx.Err() != nil {
			if now := time.Now(); stopped.IsZero() {
				stopped = now
			} else if now.Sub(stopped) >= x.recorder.drainFor {
				return schema.Lease{}, err
			}
		}
		switch {
		case errors.Is(err, schema.ErrUnknown), errors.Is(err, schema.ErrUnavailable):
			failing = true
			if !x.recorder.failing.Swap(true) {
				x.log.Warn("claims cannot be decided: they are kept, and nothing new is taken on", "err", err)
			}
		case !odd: // it may pass, or be of this lease alone: no other run waits for it
			odd = true
			x.log.Warn("a claim cannot be decided: it is kept", "run", a.entry.Run(), "err", err)
		}
		if idle {
			a.returnWhileWaiting()
		}
		time.Sleep(postponeFor)
	}
}

// reconcile reads the run's lease and brings the rows up to it. It ends a claim whose session was
// declared dead as lost, and writes a record that the rows do not have, with what follows from it.
// True means that the run is free, for attempt number next; false, that the message has been dealt
// with.
func (l *runLease) reconcile(ctx context.Context, st schema.Standing, v runRows) (next int, free bool) {
	a, x, run := l.a, l.a.x, l.a.entry.Run()
	lease, err := l.read(ctx)
	for range claimTries {
		var c schema.Claim
		if err == nil {
			c, err = lease.Claim()
		}
		switch {
		case errors.Is(err, schema.ErrNotUnderstood):
			l.failRun(err)
			return 0, false
		case err != nil:
			a.postpone(ctx, "read lease", err)
			return 0, false
		}
		ended := endedByHolder(lease, c, v.attempts)
		switch {
		case ended != nil:
			if lease, err = l.endAsRecorded(ctx, lease, *ended); err != nil {
				a.postpone(ctx, "end a claim that has ended", err)
				return 0, false
			}
		case lease.Holder != nil:
			row := schema.Attempt{Run: run, Number: c.Number, Fence: c.Fence, Session: lease.Holder, Written: lease.Holder.Started.UnixMicro()}
			live, err := x.reader.live.Of(ctx, []schema.Attempt{row})
			if err != nil {
				a.postpone(ctx, "read session", err)
				return 0, false
			}
			if live(*lease.Holder) {
				// Its holder says so in the rows after a second; from then on the store knows, and
				// the dispatcher watches.
				x.metrics.passed.WithLabelValues("live").Inc()
				row.Expires = a.expiry(x.now())
				x.recorder.put(pendingWrite{entry: a.entry, attempt: row, then: a.finish})
				return 0, false
			}
			if lease, err = l.endLost(ctx, lease, c, row); err != nil {
				a.postpone(ctx, "end a claim", err)
				return 0, false
			}
			if a.returned.Load() {
				a.giveBack()
				return 0, false
			}
		case c.Record == nil:
			l.was = lease
			return st.Next, len(st.Dead) == 0 || a.rows.recordLost(ctx, st.Dead)
		default:
			row := c.Attempt(run)
			row.Expires = a.expiry(x.now())
			known := slices.ContainsFunc(v.attempts, func(b schema.Attempt) bool {
				return b.Number == row.Number && b.Fence == row.Fence && b.Record != nil
			})
			if c.Over() || !known && !c.Record.Next.IsZero() {
				x.metrics.passed.WithLabelValues("over").Inc()
				x.recorder.put(pendingWrite{entry: a.entry, attempt: row, recorded: known, notify: true, then: a.finish, ends: !known})
				return 0, false
			}
			if !known { // a bare "lost": this very entry starts again
				bounded, cancel := context.WithTimeout(ctx, storeTimeout)
				err := x.writer.Record(bounded, []schema.Attempt{row})
				cancel()
				if err != nil {
					a.postpone(ctx, "record a lost attempt", err)
					return 0, false
				}
			}
			dead := slices.DeleteFunc(slices.Clone(st.Dead), func(d schema.Attempt) bool { return d.Number == row.Number && d.Fence == row.Fence })
			l.was = lease
			return max(st.Next, c.Number+1), len(dead) == 0 || a.rows.recordLost(ctx, dead)
		}
	}
	a.giveBack()
	return 0, false
}

// endedByHolder returns the row with which the holder of a claim recorded that it had ended; nil:
// there is none.
//
// A holder ends its claim first. So within a data centre there is none: the rows were read before
// the lease. But another data centre may lack a conditional write for good. Where the write timed
// out between its two phases, the next operation on the row completes it, in its own data centre
// alone (Cassandra's PaxosCommitAndPrepare), and no hint is kept. So the region that takes a home
// back may find a claim that stands, of an executor that lives and has recorded how it ended.
func endedByHolder(lease schema.Lease, c schema.Claim, rows []schema.Attempt) *schema.Attempt {
	if lease.Holder == nil {
		return nil
	}
	i := slices.IndexFunc(rows, func(row schema.Attempt) bool {
		return row.Number == c.Number && row.Fence == c.Fence && row.Record != nil && row.Record.Executor == lease.Holder.Executor
	})
	if i < 0 {
		return nil
	}
	return &rows[i]
}

// endAsRecorded ends a claim as its holder did, by the row that it wrote, and returns the lease as
// it stands then, also where another executor was faster.
func (l *runLease) endAsRecorded(ctx context.Context, lease schema.Lease, row schema.Attempt) (schema.Lease, error) {
	is := lease.Released()
	if !row.Unstarted() {
		if l.a.x.seal != nil {
			row = l.a.x.seal(ctx, row)
		}
		var err error
		if is, err = lease.Ended(row); err != nil {
			return lease, err
		}
	}
	stands, err := l.swap(ctx, lease, is, false)
	if errors.Is(err, schema.ErrConflict) {
		err = nil
	}
	return stands, err
}

// failRun ends the run since what its lease says cannot be understood. Whether an attempt may start
// is not known, so none does. The holder of the claim can change nothing either, for a claim is
// ended over what it said.
func (l *runLease) failRun(err error) {
	a, x := l.a, l.a.x
	x.log.Error("a claim cannot be understood: its run has failed", "run", a.entry.Run(), "err", err)
	rec := schema.Record{Outcome: schema.Failed, Final: true, Error: "its claim cannot be understood: " + err.Error()}
	x.metrics.outcomes.WithLabelValues(string(rec.Outcome)).Inc()
	a.put(x.writer.NotStarted(*a.entry, rec, x.now()), toCount{end: true})
}

// read reads the run's lease; one without a row is zero.
func (l *runLease) read(ctx context.Context) (schema.Lease, error) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	lease, err := l.a.x.store.Lease(bounded, schema.RunLease(l.a.entry.Run()))
	if errors.Is(err, schema.ErrNotFound) {
		return schema.Lease{}, nil
	}
	return lease, err
}

// endLost ends the claim c of a session that was declared dead, and returns the lease as it stands
// then, also where another executor was faster. The guarantee under which the run was claimed says
// whether that ends the run: its task may have another by now, or be gone.
func (l *runLease) endLost(ctx context.Context, lease schema.Lease, c schema.Claim, row schema.Attempt) (schema.Lease, error) {
	x := l.a.x
	work, err := l.a.readTask(ctx)
	if err != nil && !withoutTask(err) {
		return lease, err
	}
	g := c.Guarantee
	if g == "" {
		g = work.Guarantee
	}
	now := x.now()
	row.Record, row.Written = lostRecord(row.Session, now, row.Number >= work.Retry.MaxAttempts || g == schema.AtMostOnce), now.UnixMicro()
	row.Record.Announce = row.Record.Final && x.writer.Announces(l.a.entry.Spec.Tenant)
	is, err := lease.EndedByOther(row, now)
	if err != nil {
		return lease, err
	}
	stands, err := l.swap(ctx, lease, is, false)
	switch {
	case err == nil:
		x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Inc()
		x.recorder.countLost(l.a.entry, 1)
		x.spans.lostClaim(l.a.entry, &work, &row)
	case !errors.Is(err, schema.ErrConflict):
		return lease, err
	}
	return stands, nil
}

// instant returns now, or some ns later, so that it differs from all that it returned before. Two
// messages of one run may be here at once. The fence, of which ten bits are drawn, and this instant
// tell their claims apart: equal claims would both count as made.
func (x *Executor) instant(now time.Time) time.Time {
	for {
		last := x.lastClaim.Load()
		if next := max(now.UnixNano(), last+1); x.lastClaim.CompareAndSwap(last, next) {
			return time.Unix(0, next).UTC()
		}
	}
}

// claimResult is what became of a claim.
type claimResult int

const (
	claimGaveUp   claimResult = iota // the message has been dealt with
	claimMade                        // the run is ours, and may start
	claimConflict                    // another executor was faster: the rows and the lease tell what is left to do
)

// claim takes the run for the attempt number of the start basis, under the session in force when
// that was judged.
func (l *runLease) claim(ctx, attempts context.Context) claimResult {
	a, x, number, session := l.a, l.a.x, l.a.basis.number, l.a.start.session
	now := x.now()
	is, err := l.was.Claimed(number, a.work.guarantee(), schema.SessionRef{Executor: x.name, ID: session, Started: x.instant(now), Entry: a.entry.ID, Guarded: true}, now)
	if err != nil {
		a.postpone(ctx, "claim", err)
		return claimGaveUp
	}
	stands, err := l.swap(attempts, l.was, is, false)
	switch {
	case errors.Is(err, schema.ErrConflict):
		if l.tries++; l.tries >= claimTries || a.returned.Load() {
			a.giveBack()
			return claimGaveUp
		}
		return claimConflict
	case errors.Is(err, schema.ErrUnknown) && errors.Is(err, schema.ErrNotServed):
		l.mine, l.doubt, a.number = is, true, number
		l.release(attempts, errLateClaim, a.giveBack)
		return claimGaveUp
	case err != nil:
		a.postpone(ctx, "claim", err)
		return claimGaveUp
	}
	l.mine, a.number = stands, number
	a.mu.Lock()
	recheck := a.recheck
	a.mu.Unlock()
	if !recheck && a.rows.mayStillStart(ctx, session) { // the answer may have taken its time
		return claimMade
	}
	l.release(attempts, errLateClaim, a.giveBack)
	return claimGaveUp
}

// errUnconfirmed: a region that is to know of the claim does not answer.
var errUnconfirmed = errors.New("not started: its claim could not be made known in every region")

// confirms reports whether every region must know of the run's claim before it starts.
func (l *runLease) confirms() bool { return l.a.x.everywhere != nil && l.a.entry.Spec.Everywhere }

// confirm has every region know of our claim, and reports whether the run may still start. If not,
// the claim is given up. So a region that is cut off starts nothing that the next one starts again.
func (l *runLease) confirm(ctx, attempts context.Context) bool {
	a, x := l.a, l.a.x
	err := x.everywhere.ConfirmClaim(ctx, schema.RunLease(a.entry.Run()))
	a.mu.Lock()
	recheck := a.recheck
	a.mu.Unlock()
	switch {
	case err != nil:
		x.log.Debug("a claim is not known in every region", "run", a.entry.Run(), "err", err)
		l.release(attempts, errUnconfirmed, a.giveBack)
		return false
	case recheck || !a.rows.mayStillStart(ctx, a.start.session): // the answer may have taken its time
		l.release(attempts, errLateClaim, a.giveBack)
		return false
	}
	return true
}

// release gives up a claim under which nothing was started, or of which the stop of the executor
// left nothing. The row says that nothing stands behind its number, also where another executor
// wrote the session on our behalf. then ends the message once the row is held.
func (l *runLease) release(ctx context.Context, why error, then func()) {
	a, x := l.a, l.a.x
	now := x.now()
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	row := schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: l.mine.Fence, Written: now.UnixMicro(), Expires: a.expiry(now),
		Record: &schema.Record{
			Entry: a.entry.ID, Executor: x.name, Started: l.mine.Holder.Started, Finished: now.UTC(), Outcome: schema.Lost,
			Error: why.Error(), Unstarted: true,
		},
	}
	if err := l.giveUp(ctx); err != nil { // it does not stand, or the end of our session ends it
		a.giveBack()
		return
	}
	x.recorder.put(pendingWrite{entry: a.entry, attempt: row, then: then})
}

// giveUp swaps our claim for none. While we live nobody else does. So one that is in doubt, and does
// not stand, is waited for.
func (l *runLease) giveUp(ctx context.Context) error {
	for began := time.Now(); ; time.Sleep(postponeFor) {
		stands, err := l.swap(ctx, l.mine, l.mine.Released(), true)
		if !l.doubt || !errors.Is(err, schema.ErrConflict) || !stands.Same(l.was) || ctx.Err() != nil || time.Since(began) >= doubtFor {
			return err
		}
		l.a.limits.releaseClaimSlot()
		l.a.returnWhileWaiting()
	}
}

// afterStop says how the message ends of an effectively_once attempt that the stop of the executor
// cut short, or that was abandoned. A script is gone, unless gone says otherwise; what was called
// may work on. So the next attempt waits as long as after a crash, that is for CalleeTime by any
// right clock: a later entry stands in for this one. It is called before the claim ends, since from
// then on the message, which comes again after queue.AckWait, may start the next attempt.
func (l *runLease) afterStop(ctx context.Context, gone bool) (then func()) {
	a, x, e := l.a, l.a.x, l.a.entry
	wait := CalleeTime + schema.MaxClockDifference - time.Since(a.began)
	if a.work.Script != nil && gone || wait <= 0 {
		return a.giveBack
	}
	now := x.now()
	to, err := x.writer.LaterStart(e, schema.KindDeferral, schema.MakeEntryID(now.Add(wait), e.ID.Shard(), schema.RandomHash()), e.Spec.AttemptNumber(), now)
	if err == nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		_, err = x.writer.Replace(bounded, []schema.Entry{*e}, []schema.Entry{to})
		cancel()
	}
	if err != nil {
		x.log.Warn("the next attempt of a run may overlap with what a stop cut short", "run", e.Run(), "err", err)
		return a.giveBack
	}
	return func() { a.finishEntry(e.Spec.AttemptNumber()) }
}

// commit ends the claim with the attempt's row. If the claim is no longer ours, the outcome counts
// for nothing: what the lease says instead is recorded, if it says anything.
func (l *runLease) commit(ctx context.Context, row schema.Attempt) {
	a, x := l.a, l.a.x
	then, again := a.giveBack, row.Record.Outcome == schema.Lost && !row.Record.Final
	if again {
		current, alive := x.session.current(x.now())
		switch {
		case alive && current == a.start.session: // its region was cut off
			then = l.afterStop(ctx, true) // before the run is free: if we crash in between the claim still stands
		case a.work.Script == nil && time.Since(a.began) < CalleeTime+schema.MaxClockDifference:
			// The callee may work on, and others end the claim once that time has passed: when they
			// may declare the session dead, under which the attempt began.
			a.giveBack()
			return
		}
	}
	held := row
	if x.seal != nil {
		held = x.seal(ctx, row)
	}
	is, err := l.mine.Ended(held)
	var stands schema.Lease
	if err == nil {
		stands, err = l.swap(ctx, l.mine, is, true)
	}
	switch {
	case err == nil && again: // this very entry starts again, or the one that stands in for it
		x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Inc()
		x.recorder.put(pendingWrite{entry: a.entry, attempt: row, then: then, counts: toCount{end: true}, http: a.work.HTTP})
	case err == nil:
		x.metrics.outcomes.WithLabelValues(string(row.Record.Outcome)).Inc()
		a.put(row, toCount{end: true})
	case errors.Is(err, schema.ErrConflict):
		x.metrics.outcomes.WithLabelValues(string(schema.Superseded)).Inc()
		x.log.Warn("an outcome counts for nothing: the claim was taken", "run", row.Run, "attempt", row.Number, "outcome", row.Record.Outcome)
		c, err := stands.Claim()
		if err != nil || stands.Holder != nil || c.Record == nil || !c.Over() {
			a.finish() // another executor goes on with the run
			return
		}
		decided := c.Attempt(row.Run)
		decided.Expires = row.Expires
		a.put(decided, toCount{})
	default:
		x.log.Error("an outcome could not be recorded before the stop: the attempt counts as lost", "run", row.Run, "attempt", row.Number, "err", err)
		a.giveBack()
	}
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// Runs of at_most_once and effectively_once are guarded: an attempt claims its run before it starts and ends the claim before it says how
// it went, both by conditional writes on the run's lease (schema.Claim). What the lease says counts; the rows of attempts follow it.

// claimTries bounds how often the lease is read or claimed again because somebody else was faster.
const claimTries = 5

// errLateClaim: by the time that the claim stood the start rested on nothing any more.
var errLateClaim = errors.New("not started: the run could not be claimed in time")

// taskReach is for how long after a task was put attempts may still have begun by what it was before: executors remember it for 10 s, and their clocks differ.
const taskReach = 20 * time.Second

// guarded reports whether attempts of the entry claim the run, or may have claimed it. Where the task is gone that is unknown, as it is where the entry may have been in other hands
// before and the task was put since the run was about to start: its lease tells, and to claim is safe.
func (a *attempt) guarded(ctx context.Context) (bool, error) {
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
	again := a.delivery.Redelivered() || a.env.Redispatch
	return task.Work.InForce().Guarantee.Guarded() || again && task.UpdatedAt.After(a.entry.Run().Time().Add(-taskReach)), nil
}

// guard notes whether the run is guarded.
func (a *attempt) guard(is bool) {
	switch {
	case !is:
		a.hold = nil
	case a.hold == nil:
		a.hold = new(hold)
	}
}

// mayClaim waits for the attempt's turn to look at its lease and claim; claimed ends it. What waits rests on nothing yet, so that it
// may wait. False means that ctx ended.
func (a *attempt) mayClaim(ctx context.Context) bool {
	if !a.claiming {
		a.claiming = a.x.claimSlots.Acquire(ctx, a.entry.Spec.Priority, a.entry.Spec.Tenant)
	}
	return a.claiming
}

func (a *attempt) claimed() {
	if a.claiming {
		a.claiming = false
		a.x.claimSlots.Release()
	}
}

// hold is what an attempt knows of the lease of its run.
type hold struct {
	was   schema.Lease // as it was read; zero = no row
	mine  schema.Lease // our claim, once it stands: fence 0 = not yet
	tries int          // how often somebody else was faster
}

// decide swaps the lease until it is known what became of that: nil and ErrConflict come with what stands. To swap again
// is harmless, and what an unanswered swap may still do it does under our eyes.
//
// With keep a store that does not answer is asked until it does. Without, nothing is under way yet: an error means that
// nothing was done, and a message whose swap is unanswered for long is let go meanwhile.
//
// An error also means that ctx ended and the store did not answer for as long as the stop waits: then our session ends
// as well, and with it what we hold.
func (a *attempt) decide(ctx context.Context, was, is schema.Lease, keep bool) (schema.Lease, error) {
	x := a.x
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
		case !keep || errors.Is(err, schema.ErrTooLarge) || is.Follows(was) != nil:
			return schema.Lease{}, err
		}
		if ctx.Err() != nil {
			if now := time.Now(); stopped.IsZero() {
				stopped = now
			} else if now.Sub(stopped) >= x.recorder.patient {
				return schema.Lease{}, err
			}
		}
		switch {
		case errors.Is(err, schema.ErrUnknown), errors.Is(err, schema.ErrUnavailable):
			failing = true
			if !x.recorder.failing.Swap(true) {
				x.log.Warn("claims cannot be decided: they are kept, and nothing new is taken on", "err", err)
			}
		case !odd: // it may pass, such as that the store could not look up our permissions; or be of this lease alone, and no other run waits for it
			odd = true
			x.log.Warn("a claim cannot be decided: it is kept", "run", a.entry.Run(), "err", err)
		}
		if idle {
			a.letGo()
		}
		time.Sleep(postponeFor)
	}
}

// reconcile reads the run's lease and brings the rows up to it: a claim whose session fell is ended as lost, a record that the rows do not
// have is written with what follows from it. True means that the run is free, for attempt number next.
func (a *attempt) reconcile(ctx context.Context, st schema.Standing, v view) (next int, free bool) {
	x, run := a.x, a.entry.Run()
	lease, err := a.readLease(ctx)
	for range claimTries {
		var c schema.Claim
		if err == nil {
			c, err = lease.Claim()
		}
		switch {
		case errors.Is(err, schema.ErrNotUnderstood):
			a.condemn(err)
			return 0, false
		case err != nil:
			a.postpone(ctx, "read lease", err)
			return 0, false
		}
		switch {
		case lease.Holder != nil:
			row := schema.Attempt{Run: run, Number: c.Number, Fence: c.Fence, Session: lease.Holder, Written: lease.Holder.Started.UnixMicro()}
			live, err := x.looker.live.Of(ctx, []schema.Attempt{row})
			if err != nil {
				a.postpone(ctx, "read session", err)
				return 0, false
			}
			if live(*lease.Holder) {
				// Its holder says so in the rows after a second; from then on the store knows, and the dispatcher watches.
				x.metrics.passed.WithLabelValues("live").Inc()
				row.Expires = a.expiry(x.now())
				x.recorder.put(word{entry: *a.entry, attempt: row, then: a.finish})
				return 0, false
			}
			if lease, err = a.endLost(ctx, lease, c, row); err != nil {
				a.postpone(ctx, "end a claim", err)
				return 0, false
			}
			if a.returned.Load() {
				a.giveBack()
				return 0, false
			}
		case c.Record == nil:
			a.hold.was = lease
			return st.Next, len(st.Dead) == 0 || a.bury(ctx, st.Dead)
		default:
			row := c.Attempt(run)
			row.Expires = a.expiry(x.now())
			known := slices.ContainsFunc(v.attempts, func(b schema.Attempt) bool {
				return b.Number == row.Number && b.Fence == row.Fence && b.Record != nil
			})
			if c.Over() || !known && !c.Record.Next.IsZero() {
				x.metrics.passed.WithLabelValues("over").Inc()
				x.recorder.put(word{entry: *a.entry, attempt: row, held: known, notify: true, then: a.finish})
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
			a.hold.was = lease
			return max(st.Next, c.Number+1), len(dead) == 0 || a.bury(ctx, dead)
		}
	}
	a.giveBack()
	return 0, false
}

// condemn ends the run since what its lease says cannot be understood: whether an attempt may start is not known, so none does. Whoever
// holds the claim can change nothing either, for a claim is ended over what it said.
func (a *attempt) condemn(err error) {
	x := a.x
	x.log.Error("a claim cannot be understood: its run has failed", "run", a.entry.Run(), "err", err)
	rec := schema.Record{Outcome: schema.Failed, Final: true, Error: "its claim cannot be understood: " + err.Error()}
	x.metrics.outcomes.WithLabelValues(string(rec.Outcome)).Inc()
	a.put(x.writer.NotStarted(*a.entry, rec, x.now()), true)
}

// readLease reads the run's lease; one without a row is zero.
func (a *attempt) readLease(ctx context.Context) (schema.Lease, error) {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	lease, err := a.x.store.Lease(bounded, schema.RunLease(a.entry.Run()))
	if errors.Is(err, schema.ErrNotFound) {
		return schema.Lease{}, nil
	}
	return lease, err
}

// endLost ends the claim c of a session that fell, and returns the lease as it stands then, also where somebody else was faster. Whether that ends the run is for the guarantee
// to say under which it was claimed: its task may have another by now, or be gone.
func (a *attempt) endLost(ctx context.Context, lease schema.Lease, c schema.Claim, row schema.Attempt) (schema.Lease, error) {
	x := a.x
	work, err := a.work(ctx)
	if err != nil && !withoutTask(err) {
		return lease, err
	}
	g := c.Guarantee
	if g == "" {
		g = work.Guarantee
	}
	now := x.now()
	row.Record, row.Written = lostRecord(row.Session, now, row.Number >= work.Retry.MaxAttempts || g == schema.AtMostOnce), now.UnixMicro()
	is, err := lease.EndedByOther(row, now)
	if err != nil {
		return lease, err
	}
	stands, err := a.decide(ctx, lease, is, false)
	switch {
	case err == nil:
		x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Inc()
	case !errors.Is(err, schema.ErrConflict):
		return lease, err
	}
	return stands, nil
}

// instant returns now, or later by as many ns as it takes to differ from what it returned before. Two messages of one run may be here at once, and
// what tells their claims apart is the fence, of which ten bits are drawn, and this: equal claims would both count as made.
func (x *Executor) instant(now time.Time) time.Time {
	for {
		last := x.lastClaim.Load()
		if next := max(now.UnixNano(), last+1); x.lastClaim.CompareAndSwap(last, next) {
			return time.Unix(0, next).UTC()
		}
	}
}

// claim takes the run for attempt k.number under the guarantee and the session. False means that it did not, and that the message was dealt with.
func (a *attempt) claim(ctx, attempts context.Context, k known, g schema.Guarantee, session string) bool {
	x := a.x
	now := x.now()
	is, err := a.hold.was.Claimed(k.number, g, schema.SessionRef{Executor: x.name, ID: session, Started: x.instant(now), Entry: a.entry.ID, Guarded: true}, now)
	if err != nil {
		a.postpone(ctx, "claim", err)
		return false
	}
	stands, err := a.decide(attempts, a.hold.was, is, false)
	switch {
	case errors.Is(err, schema.ErrConflict):
		// Somebody was faster: rows and lease tell what is left to do.
		if a.hold.tries++; a.hold.tries >= claimTries || a.returned.Load() {
			a.giveBack()
		} else if k, ok := a.look(ctx); ok {
			a.start(ctx, attempts, k)
		}
		return false
	case err != nil:
		a.postpone(ctx, "claim", err)
		return false
	}
	a.hold.mine, a.number = stands, k.number
	// The answer may have taken its time: what the start rests on is judged again.
	after := x.now()
	current, alive := a.under(after)
	a.mu.Lock()
	told := a.told
	a.mu.Unlock()
	if alive && current == session && !told && !a.returned.Load() && !x.halt.Halted() && ctx.Err() == nil && !after.Before(a.entry.Due()) &&
		after.Sub(k.checked) <= freshFor && k.inTime(after) {
		return true
	}
	a.release(attempts, errLateClaim, a.giveBack)
	return false
}

// release gives up a claim under which nothing was started, or of which the stop of the executor left nothing. The row says that nothing stands behind
// its number, also where somebody wrote the session on our behalf. then ends the message once it is there.
func (a *attempt) release(ctx context.Context, why error, then func()) {
	x := a.x
	now := x.now()
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	row := schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.hold.mine.Fence, Written: now.UnixMicro(), Expires: a.expiry(now),
		Record: &schema.Record{
			Entry: a.entry.ID, Executor: x.name, Started: a.hold.mine.Holder.Started, Finished: now.UTC(), Outcome: schema.Lost,
			Error: why.Error(), Unstarted: true,
		},
	}
	_, err := a.decide(ctx, a.hold.mine, a.hold.mine.Released(), true)
	if err != nil { // somebody ended it, or our session will
		a.giveBack()
		return
	}
	x.recorder.put(word{entry: *a.entry, attempt: row, then: then})
}

// afterStop says how the message ends of an effectively_once attempt that the stop of the executor cut short. A script is gone where killed says so; it, and whoever was
// called, may work on otherwise. So the next attempt waits for as long as it would after a crash,
// that is for CalleeTime by any right clock: an entry that is due then stands in.
func (a *attempt) afterStop(ctx context.Context, work schema.Work, killed bool) (then func()) {
	x, e := a.x, a.entry
	wait := CalleeTime + schema.MaxClockDifference - time.Since(a.began)
	if work.Script != nil && killed || wait <= 0 {
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
	return func() { a.over(e.Spec.AttemptNumber()) }
}

// commit ends the claim with the attempt's row. If it is ours no more the outcome counts for nothing: what the lease says
// instead is recorded, if it says anything.
func (a *attempt) commit(ctx context.Context, row schema.Attempt) {
	x := a.x
	is, err := a.hold.mine.Ended(row)
	var stands schema.Lease
	if err == nil {
		stands, err = a.decide(ctx, a.hold.mine, is, true)
	}
	switch {
	case err == nil && row.Record.Outcome == schema.Lost && !row.Record.Final: // this very entry starts again
		x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Inc()
		x.recorder.put(word{entry: *a.entry, attempt: row, then: a.giveBack})
	case err == nil:
		x.metrics.outcomes.WithLabelValues(string(row.Record.Outcome)).Inc()
		a.put(row, true)
	case errors.Is(err, schema.ErrConflict):
		x.metrics.outcomes.WithLabelValues(string(schema.Superseded)).Inc()
		x.log.Warn("an outcome counts for nothing: the claim was taken", "run", row.Run, "attempt", row.Number, "outcome", row.Record.Outcome)
		c, err := stands.Claim()
		if err != nil || stands.Holder != nil || c.Record == nil || !c.Over() {
			a.finish() // it is another's to go on with
			return
		}
		decided := c.Attempt(row.Run)
		decided.Expires = row.Expires
		a.put(decided, true)
	default:
		x.log.Error("an outcome could not be recorded before the stop: the attempt counts as lost", "run", row.Run, "attempt", row.Number, "err", err)
		a.giveBack()
	}
}

// close ends the run in its lease with the row that says why nothing started. False means that somebody was faster, or that the store
// did not answer.
func (a *attempt) close(ctx context.Context, row schema.Attempt) bool {
	is, err := a.hold.was.EndedByOther(row, a.x.now())
	if err == nil {
		_, err = a.decide(ctx, a.hold.was, is, false)
	}
	if err != nil && !errors.Is(err, schema.ErrConflict) {
		a.x.log.Warn("a run cannot be ended", "run", row.Run, "err", fmt.Errorf("swap lease: %w", err))
	}
	return err == nil
}

// silence stops an effectively_once attempt once its session is not to be trusted any more.
func (a *attempt) silence(now time.Time) {
	if !a.exclusive.Load() {
		return
	}
	a.mu.Lock()
	session := a.session
	a.mu.Unlock()
	if current, alive := a.x.keeper.current(now); !alive || current != session {
		a.cancel(target.ErrAbandoned)
		a.hush.Do(func() { close(a.silent) })
	}
}

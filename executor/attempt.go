package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// attempt is one message in hand, from delivery to acknowledgement. Its own goroutine alone uses
// what no comment gives to another.
type attempt struct {
	message
	place placement // the executor's mutex guards it

	stage    stage
	waited   bool // other messages of the run had the turn since the basis was judged
	basis    startBasis
	work     workload
	limits   limits
	lease    runLease
	rows     rowCheck
	feedback feedback
	traced   bool // its spans will be sent, however it ends; set at the start

	isVictim atomic.Bool // it is stopped for a critical run, which gets its slot

	start     startPoint
	execution // its mutex guards most of it
	health    target.Health
	// targetError is what was wrong with the target, if health says so.
	targetError string
}

// workload is what an attempt runs, and what is wrong with that.
type workload struct {
	schema.Work // in force
	payload     []byte
	secrets     [][]byte    // the call is signed by these
	values      auth.Values // the call is made with these
	fault       error       // the work cannot be known, or the payload is gone: the attempt fails
	barred      string      // why the call cannot be made: what it must be signed or made with, or its payload, is not to be had
}

// guarantee returns that of the work; "" where the task is gone.
func (w *workload) guarantee() schema.Guarantee {
	if withoutTask(w.fault) {
		return ""
	}
	return w.Guarantee
}

// isGuarded reports whether the run is claimed before it starts. Where the task is gone the
// guarantee is unknown, and to claim is safe.
func (w *workload) isGuarded() bool {
	return w.Guarantee.Guarded() || w.guarantee() == ""
}

// startPoint is the moment at which it was judged whether the attempt may start.
type startPoint struct {
	began   time.Time // by the monotonic clock
	now     time.Time // by the executor's
	session string    // in force then
	alive   bool      // and enough of it is left
}

// execution is what tend, a cancel and the callee's reports need of an attempt under way. mu guards
// all up to it.
type execution struct {
	mu         sync.Mutex
	running    bool
	began      time.Time // by the monotonic clock
	started    time.Time // by the executor's wall clock, UTC
	number     int
	fence      schema.Fence
	session    string
	recheck    bool          // the rows are read again before the start: they may say something new, such as a cancel
	cellSent   bool          // the session cell was given to the recorder …
	cellHeld   bool          // … and the store has it
	knownAfter time.Duration // so long after the start the store knew of it; 0: not yet
	counted    bool          // its start was counted by name, or will be with its cell
	stop       context.CancelCauseFunc
	report     *report // what the callee tells; nil: nothing yet

	exclusive   atomic.Bool   // it must be abandoned when the session is lost
	abandoned   chan struct{} // closed when it is; nil: never. Set before it is exclusive
	abandonOnce sync.Once
}

// handle takes the message through its stages.
func (a *attempt) handle(ctx, attempts context.Context) {
	defer a.releaseAll()
	for a.step(ctx, attempts, decide(a.facts(ctx))) {
	}
}

// releaseAll gives back what the attempt still has when its message has been dealt with.
func (a *attempt) releaseAll() {
	a.limits.releaseClaimSlot()
	a.limits.releaseJobSlot()
	a.limits.permit.Preempted = a.isVictim.Load()
	switch {
	case a.limits.slot && a.limits.permit.Preempted:
		a.x.slots.ReleaseTo(schema.Critical)
	case a.limits.slot:
		a.x.slots.Release()
	}
	a.limits.permit.EndWith(&a.health, &a.targetError)
	a.limits.releaseKeptSlot()
}

// facts collects what decide needs at this stage.
func (a *attempt) facts(ctx context.Context) facts {
	x, e, spec := a.x, a.entry, &a.entry.Spec
	f := facts{stage: a.stage}
	switch {
	case a.stage == stageReceived:
		f.unreadable = e.Fault != nil
		f.inDoubt = !f.unreadable && a.inDoubt()
		f.formerEpoch = x.homes.isFormer(e.ID.Shard(), a.env.Epoch)
	case a.stage == stageAlone, a.stage == stageRechecked:
		f.waited, f.jobSlot, f.guarded = a.waited, a.limits.wantsJobSlot && a.basis.limit != nil && a.limits.jobSlot == nil, a.work.isGuarded()
	case a.stage == stageLimited, a.stage == stageMayClaim:
		f.guarded = a.work.isGuarded()
	case a.stage == stageJudged:
		began, now := time.Now(), x.now() // in this order: a stop in between makes the attempt longer, never shorter
		session, alive := a.sessionAt(now)
		a.start = startPoint{began, now, session, alive}
		limit, isLimited := spec.Misfire.Limit()
		f.tooLate = isLimited && now.Sub(e.MisfireFrom()) > limit && !a.basis.hasBegun()
		f.rateExpired = a.limits.rated && now.Sub(e.Due()) > schema.ReservationLife
		f.stopping = x.halt.Halted() || ctx.Err() != nil || now.Before(e.Due()) // the last: the clock was set back under us
		f.notServed = !x.homes.serves(e.ID.Shard())
		f.formerEpoch = x.homes.isFormer(e.ID.Shard(), a.env.Epoch)
		f.noSession = !alive
		f.unreachable = alive && !x.targets.Reachable(a.work.Work)
		f.guarded = a.lease.guarded
		f.unconfirmed = f.guarded && a.lease.confirms() && x.everywhere.ReadyToClaim() != nil
		f.needsCell = a.needsCell()
	case a.stage == stageClaimed:
		f.needsCell = a.needsCell()
	}
	return f
}

// homes answers in which epoch our region serves the home of a shard; nil: there are no regions.
type homes func(schema.Shard) (epoch int64, err error)

// serves reports whether our region serves the home of a shard now. Where it does not, another may.
func (h homes) serves(shard schema.Shard) bool {
	if h == nil {
		return true
	}
	_, err := h(shard)
	return err == nil
}

// isFormer reports whether the home of a shard is known to have a later epoch than that one, in which
// a message was published. Whoever serves it now finds the run by its rows. A message of no epoch is
// older than regions.
func (h homes) isFormer(shard schema.Shard, epoch int64) bool {
	if h == nil || epoch == 0 {
		return false
	}
	known, err := h(shard)
	var elsewhere *schema.NotServedError
	if errors.As(err, &elsewhere) {
		known = elsewhere.Lease.Epoch.Number
	}
	return known > epoch
}

// mayStart reports whether our region serves the home of a shard, in the epoch of the message.
func (h homes) mayStart(shard schema.Shard, epoch int64) bool {
	return h.serves(shard) && !h.isFormer(shard, epoch)
}

// isRegion reports whether our region has that name; "": the one that the home of a shard is called
// after. Without regions it has.
func (x *Executor) isRegion(name string, shard schema.Shard) bool {
	if x.homeOf == nil {
		return true
	}
	if name == "" {
		name = x.homeOf(shard)
	}
	return name == x.region
}

// isCutOff reports whether it cannot be learned any more who serves the home of a shard. Another
// region that takes it over may not see our session.
func (h homes) isCutOff(shard schema.Shard) bool {
	if h == nil {
		return false
	}
	_, err := h(shard)
	var unserved *schema.NotServedError
	return errors.As(err, &unserved) && unserved.Region() == ""
}

// needsCell reports whether the session must be in the rows before the call. A claim says all that
// a session cell would.
func (a *attempt) needsCell() bool {
	return !a.lease.guarded && (a.basis.fromRows || a.limits.listed)
}

// advance notes a stage that was reached.
func (a *attempt) advance(s stage) bool {
	a.stage = s
	return true
}

// step does what was decided, and reports whether the attempt goes on. If not, the message has been
// dealt with. Until the call an attempt is ended by ctx, then by attempts.
func (a *attempt) step(ctx, attempts context.Context, next action) (goesOn bool) {
	x, spec := a.x, &a.entry.Spec
	switch next {
	case doRecordUnreadable:
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: "unreadable: " + a.entry.Fault.Error()})
	case doTrustEnvelope:
		a.basis = startBasis{checked: a.env.CheckedAt, number: spec.AttemptNumber(), limit: spec.Concurrency}
		return a.advance(stageBased)
	case doReadRows:
		if !a.wait(ctx, a.entry.Due().Add(-readBefore)) {
			a.giveBack()
			return false
		}
		defer a.limits.releaseClaimSlot()
		return a.rows.check(ctx) && a.advance(stageBased)
	case doWaitUntilDue:
		if a.wait(ctx, a.entry.Due()) {
			return a.advance(stageArrived)
		}
		a.giveBack()
	case doAskAdmission:
		return a.limits.admit(ctx) && a.advance(stageAdmitted)
	case doTakeSlot:
		var noneFree func()
		if spec.Priority == schema.Critical {
			noneFree = x.preemption.freeSlot
		}
		if x.slots.AcquireOrElse(ctx, spec.Priority, spec.Tenant, noneFree) {
			a.limits.slot = true
			x.leavePending(a)
			return a.advance(stageSlotted)
		}
		a.giveBack()
	case doReadWork:
		if err := a.prepare(ctx, &a.work); err != nil {
			a.postpone(ctx, "read work", err)
			return false
		}
		a.timeout = a.work.Timeout.Std()
		return a.advance(stagePrepared)
	case doTakeTurn:
		var ok bool
		if a.waited, ok = x.takeTurn(ctx, a); ok {
			a.limits.wantsJobSlot = a.basis.limit != nil
			return a.advance(stageAlone)
		}
		a.giveBack()
	case doRevalidate:
		return a.rows.revalidate(ctx) && a.advance(stageRechecked)
	case doTakeJobSlot:
		return a.limits.acquireJobSlot(ctx) && a.advance(stageLimited)
	case doTakeClaimSlot:
		if a.limits.acquireClaimSlot(ctx) {
			return a.advance(stageMayClaim)
		}
		a.giveBack()
	case doJudge:
		if !a.rows.revalidate(ctx) {
			return false
		}
		a.lease.setGuarded(a.work.isGuarded())
		if !a.lease.guarded {
			a.limits.releaseClaimSlot() // rows.check may have taken it
		}
		return a.advance(stageJudged)
	case doRecordMissed:
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: spec.Misfire.Reason()})
	case doDeferForRate:
		a.limits.deferForRate(ctx)
	case doDrop:
		x.metrics.passed.WithLabelValues("former_epoch").Inc()
		a.finish()
	case doGiveBack:
		a.giveBack()
	case doGiveBackLater:
		a.giveBackLater(ctx)
	case doClaimRun:
		return a.claimRun(ctx, attempts)
	case doCallTarget, doNoteSessionAndCall:
		a.execute(ctx, attempts, next == doNoteSessionAndCall)
	}
	return false
}

// claimRun claims the run. Where another executor was faster, the rows and the lease tell what is
// left to do: the attempt reads its work again.
func (a *attempt) claimRun(ctx, attempts context.Context) (goesOn bool) {
	switch a.lease.claim(ctx, attempts) {
	case claimMade:
		a.limits.releaseClaimSlot()
		if a.lease.confirms() && !a.lease.confirm(ctx, attempts) {
			return false
		}
		a.start.began, a.start.now = time.Now(), a.x.now()
		return a.advance(stageClaimed)
	case claimConflict:
		return a.rows.check(ctx) && a.advance(stageSlotted)
	}
	return false
}

// execute begins the attempt, calls its target, and sees to the end.
func (a *attempt) execute(ctx, attempts context.Context, withCell bool) {
	x, work := a.x, &a.work
	run, cancel := context.WithCancelCause(attempts)
	defer cancel(nil)
	a.begin(a.start.began, a.start.now, a.basis.number, a.start.session, cancel)
	if a.lease.guarded && work.Guarantee == schema.EffectivelyOnce {
		a.abandoned = make(chan struct{})
		a.exclusive.Store(true)
	}
	if withCell && !a.noteSession(ctx, a.start.now) {
		return
	}
	late, isFirst := time.Duration(0), !a.basis.hasBegun()
	if isFirst {
		late = a.start.now.Sub(a.entry.LatenessFrom())
	}
	a.traced = x.spans.Foresees(a.entry, a.basis.number, late)
	if isFirst {
		x.metrics.observeStart(a.entry.Spec.Priority, late, x.spans.exemplar(a.entry, a.traced))
		if withCell || a.lease.guarded { // a plain start is counted with its record or its cell
			a.mu.Lock()
			isCounted := a.counted // by tend, if this took so long
			a.counted = true
			a.mu.Unlock()
			if !isCounted {
				x.recorder.countStart(a.entry, work.HTTP, late)
			}
		}
	}
	res := target.Result{Outcome: schema.Failed, Final: true}
	if work.fault != nil {
		res.Error = work.fault.Error()
	} else {
		x.preemption.add(a)
		res = a.call(run)
		x.preemption.remove(a)
		if a.health = res.Health(); a.health == target.Unhealthy {
			a.targetError = res.Error
		}
		if res.Lingering != nil {
			x.metrics.scriptsLeft.Inc()
			x.admission.Linger(admission.NewRequest(a.entry.Spec.Tenant, &work.Work, x.targets), res.Lingering)
		}
	}
	a.exclusive.Store(false)
	switch decideEnd(&res, work.Guarantee, errors.Is(context.Cause(run), target.ErrAbandoned)) {
	case endInterrupted:
		res.Memory.Release()
		a.interrupted(context.Cause(run))
	case endReleased:
		x.metrics.running.Dec()
		res.Memory.Release()
		a.feedback.keep(&schema.Attempt{Record: new(schema.Record)}) // for readers of the log: the row says nothing of it
		x.spans.stopped(a, a.endedAt(x.now()))
		a.lease.release(attempts, target.ErrStopped, a.lease.afterStop(attempts, res.Lingering == nil))
	case endLost: // final where the work surely goes on: another attempt would overlap with it
		res = target.Result{Outcome: schema.Lost, Error: target.ErrAbandoned.Error(), Final: res.Lingering != nil, Memory: res.Memory}
		a.conclude(attempts, res)
	case endRecorded:
		a.conclude(attempts, res)
	}
}

// sessionAt returns the session under which the attempt would begin at now, and whether it may.
// Where others wait for the end of the attempt, enough of the session must be left, and what the
// attempt has must be held under it.
func (a *attempt) sessionAt(now time.Time) (string, bool) {
	if !a.lease.guarded && a.limits.jobSlot == nil && a.limits.permit.Session == "" {
		return a.x.session.current(now)
	}
	session, ample := a.x.session.currentWithReserve(now)
	return session, ample && a.limits.heldUnder(session)
}

// begin notes that the attempt is under way. If a cancel was heard of since the rows were read, it
// ends at once.
func (a *attempt) begin(began, now time.Time, number int, session string, stop context.CancelCauseFunc) {
	a.x.metrics.running.Inc()
	if now.Before(a.entry.Due()) {
		a.x.metrics.early.Inc()
	}
	fence := schema.MakeFence(now)
	if a.lease.guarded {
		fence = a.lease.mine.Fence
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.began, a.started, a.number, a.fence, a.session, a.stop = true, began, now.UTC().Round(0), number, fence, session, stop
	a.counted = a.basis.preempted > 0 // by its first start
	if a.recheck {
		stop(target.ErrCancelled)
	}
}

// call runs the work.
func (a *attempt) call(ctx context.Context) (res target.Result) {
	work := &a.work
	callee := a.x.targets.For(work.Work)
	if callee == nil {
		return target.Result{Outcome: schema.Failed, Error: "this kind of task is not enabled here", Final: true}
	}
	if work.barred != "" {
		return target.Result{Outcome: schema.Failed, Error: work.barred, Uncalled: true} // not final: it is no fault of the run, and may be mended
	}
	ctx, cancel := context.WithTimeoutCause(ctx, work.Timeout.Std(), target.ErrTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			// The value of the panic may hold secrets of the payload: the stack goes to the log,
			// and nothing into the record.
			a.x.log.Error("a target panicked", "run", a.entry.Run(), "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			res = target.Result{Outcome: schema.Failed, Error: "the executor panicked while it ran the attempt"}
		}
	}()
	call := target.Call{
		Tenant: a.entry.Spec.Tenant, Run: a.entry.Run(), Job: a.entry.Spec.Job, Number: a.number, Fence: a.fence,
		Due: a.entry.RequestedAt(), Work: work.Work, Payload: work.payload, Secrets: work.secrets, Values: work.values, Feedback: &a.feedback, Abandoned: a.abandoned,
		Sampled: a.traced,
	}
	if !call.Job.IsZero() {
		call.Nominal = a.entry.Spec.Nominal
	}
	res = callee.Run(ctx, call)
	switch res.Outcome {
	case schema.Succeeded, schema.Failed, schema.TimedOut, schema.Cancelled:
	default: // whatever a target says, a run must come to an end
		res = target.Result{Outcome: schema.Failed, Error: "the target gave no outcome"}
	}
	return res
}

// cancel ends the attempt if it is under way; otherwise the rows are read before it starts.
func (a *attempt) cancel(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recheck = true
	if a.running && a.stop != nil {
		a.stop(cause)
	}
}

// abandonIfSessionLost stops an effectively_once attempt once its session is not to be trusted any
// more: another may start. Where every region knows of its claim, that is so too once ours is cut
// off.
func (a *attempt) abandonIfSessionLost(now time.Time) {
	if !a.exclusive.Load() {
		return
	}
	a.mu.Lock()
	session := a.session
	a.mu.Unlock()
	if current, alive := a.x.session.current(now); !alive || current != session || a.lease.confirms() && a.x.homes.isCutOff(a.entry.ID.Shard()) {
		a.cancel(target.ErrAbandoned)
		a.abandonOnce.Do(func() { close(a.abandoned) })
	}
}

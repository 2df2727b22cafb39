package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// attempt is one message in hand, from delivery to acknowledgement.
type attempt struct {
	x        *Executor
	delivery queue.Delivery
	env      *queue.Envelope
	entry    *schema.Entry

	held  time.Time // when the message was last kept in progress; only tend looks at it
	acked atomic.Bool

	hold      *hold       // nil: the run is not guarded. Set before the start, by the attempt's own goroutine
	claiming  bool        // it has a turn to claim; its own goroutine's
	exclusive atomic.Bool // it is under way, and must be silent when the session is lost
	slotOf    string      // the session under which it has a slot of its task's limit; "": none. Its own goroutine's, as hold
	jobSlot   *jobSlot    // what it has of its job's limit; nil: nothing. Its own goroutine's, as hold
	sat       bool        // it has, or had, a slot of its job's limit …
	waits     bool        // … or was held back by it
	listed    bool        // it has a slot, and stands among what waits for one
	returned  atomic.Bool // the message went back
	rated     bool        // its task has a rate; set by the attempt's own goroutine
	pending   bool        // it has no slot yet; the executor's mutex guards it …
	twin      *attempt    // … and this: another message of its run in hand …

	turn   bool          // … and these: of the messages of its run in hand it alone may start (turn.go) …
	passed chan struct{} // … and closed when it may not any more; nil: nobody waits for that

	// awaited is an entry to which a start of the run was put off, by its last look (schema.Standing); its own goroutine's.
	awaited schema.EntryID

	lasts time.Duration // how long it may last; set before the start

	mu      sync.Mutex
	running bool
	began   time.Time // by the monotonic clock
	started time.Time // by the executor's wall clock, UTC
	number  int
	fence   schema.Fence
	session string
	told    bool // a cancel was heard of before the start, or the run was begun here, or may be: the rows are looked at
	marked  bool // the session cell is on its way …
	known   bool // … or held: the store knows that the attempt runs …
	// … since so long after the start; 0 = not yet.
	knownAfter time.Duration
	stop       context.CancelCauseFunc
	report     *report       // what its worker tells; nil: nothing yet
	silent     chan struct{} // closed once it must be silent; nil: never. Set before it is exclusive
	hush       sync.Once

	signing signing       // set before the start
	health  target.Health // of the target, as the attempt found it
}

// handle takes the message through: look if in doubt, hold to the instant, run, record.
func (a *attempt) handle(ctx, attempts context.Context) {
	x := a.x
	if a.entry.Fault != nil {
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: "unreadable: " + a.entry.Fault.Error()})
		return
	}
	defer a.unkeep()
	known, ok := a.clear(ctx)
	if !ok {
		return
	}
	if !a.wait(ctx, a.entry.Due()) {
		a.giveBack()
		return
	}
	leave, ok := a.admit(ctx)
	if !ok {
		return
	}
	defer leave.End(&a.health)
	a.slotOf = leave.Session
	if !x.slots.Acquire(ctx, a.entry.Spec.Priority, a.entry.Spec.Tenant) {
		a.giveBack()
		return
	}
	defer x.slots.Release()
	x.leavePending(a)
	a.start(ctx, attempts, known)
}

// postpone gives the message back after a call of the store that failed, a little later: it would come again at once.
func (a *attempt) postpone(ctx context.Context, act string, err error) {
	x := a.x
	if ctx.Err() == nil && !x.troubled.Swap(true) {
		x.log.Warn("store fails: messages that need it go back", "act", act, "run", a.entry.Run(), "err", err)
	}
	a.giveBackLater(ctx)
}

// errNoTask: the entry names a task that does not exist.
var errNoTask = errors.New("the task does not exist any more")

// errOddTask: the entry names a task of which nothing is known but that it is there. It may be put again, and the run's dead letter replayed.
var errOddTask = errors.New("what is stored of the task cannot be understood")

// withoutTask reports whether err says that the task of an entry is not to be had, for good.
func withoutTask(err error) bool { return errors.Is(err, errNoTask) || errors.Is(err, errOddTask) }

// errNoPayload: the payload has left the store.
var errNoPayload = errors.New("the payload does not exist any more")

// work returns the entry's work, with every default filled in.
func (a *attempt) work(ctx context.Context) (schema.Work, error) {
	spec := &a.entry.Spec
	if spec.Work != nil {
		return spec.Work.InForce(), nil
	}
	task, err := a.x.tasks.Task(ctx, spec.Tenant, spec.Task)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return schema.Work{}.InForce(), errNoTask
	case errors.Is(err, schema.ErrNotUnderstood):
		return schema.Work{}.InForce(), errOddTask
	case err != nil:
		return schema.Work{}, err
	}
	return task.Work.InForce(), nil
}

// needs reads what the attempt runs with. An error other than one that the record shall tell is the store's.
func (a *attempt) needs(ctx context.Context) (work schema.Work, payload []byte, fault error, err error) {
	if _, large := a.entry.LargePayload(); !large && a.entry.Spec.Work != nil {
		return a.entry.Spec.Work.InForce(), a.entry.Payload, nil, nil // the message has it all
	}
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	work, err = a.work(bounded)
	if withoutTask(err) {
		return work, nil, fmt.Errorf("%w: %s", err, a.entry.Spec.Task), nil
	}
	if err != nil {
		return work, nil, nil, err
	}
	payload, err = a.x.writer.EntryPayload(bounded, a.entry)
	if errors.Is(err, schema.ErrNotFound) {
		return work, nil, errNoPayload, nil // it will not come back: to try again would be for ever
	}
	return work, payload, nil, err
}

// start runs the attempt and records how it ended. Until it begins it is ended by ctx, then by attempts.
func (a *attempt) start(ctx, attempts context.Context, k known) {
	x, e := a.x, a.entry
	spec := &e.Spec
	work, payload, fault, err := a.prepare(ctx)
	if err != nil {
		a.postpone(ctx, "read work", err)
		return
	}
	a.lasts = work.Timeout.Std()
	waited, ok := x.takeTurn(ctx, a)
	if !ok {
		a.giveBack()
		return
	}
	enters := k.limit != nil && a.jobSlot == nil
	if waited || enters { // one of a run that was begun is not held back, or skipped
		if k, ok = a.fresh(ctx, k); !ok {
			return
		}
	}
	if enters && k.limit != nil { // the look may tell that the job has none any more
		if !a.enter(ctx, k) {
			return
		}
		defer a.rise()
	}
	guarantee := work.Guarantee
	if withoutTask(fault) {
		guarantee = "" // nobody knows
	}
	guarded := guarantee.Guarded() || guarantee == ""
	defer a.claimed() // a look may have taken the turn
	if guarded && !a.mayClaim(ctx) {
		a.giveBack()
		return
	}
	// All this may have taken time: everything that a start rests on is judged now, with nothing to wait for after.
	if k, ok = a.fresh(ctx, k); !ok {
		return
	}
	a.guard(guarded)
	if !guarded {
		a.claimed()
	}
	began, now := time.Now(), x.now() // in this order: a stop in between makes the attempt longer, never shorter
	if limit, ok := spec.Misfire.Limit(); ok && now.Sub(e.MisfireFrom()) > limit && k.number == 1 {
		a.notStarted(ctx, schema.Record{Outcome: schema.Missed, Reason: spec.Misfire.Reason()})
		return
	}
	if a.rated && now.Sub(e.Due()) > schema.ReservationLife {
		a.askAgain(ctx)
		return
	}
	session, alive := a.under(now)
	switch {
	case x.halt.Halted() || ctx.Err() != nil || now.Before(e.Due()): // before: the clock was set back under us
		a.giveBack()
		return
	case !alive, !x.targets.Reachable(work): // a renewal is late, or the connection to workers lost: it is not pulled again and again until then
		a.giveBackLater(ctx)
		return
	}
	if a.hold != nil {
		if !a.claim(ctx, attempts, k, guarantee, session) {
			return
		}
		a.claimed()
		began, now = time.Now(), x.now()
	}
	run, cancel := context.WithCancelCause(attempts)
	defer cancel(nil)
	a.begin(began, now, k.number, session, cancel)
	switch {
	case a.hold != nil: // the claim says all that a session cell would
		if work.Guarantee == schema.EffectivelyOnce {
			a.silent = make(chan struct{})
			a.exclusive.Store(true)
		}
	case (k.looked || a.listed) && !a.mark(ctx, now, k):
		return
	}
	if k.number == 1 {
		x.metrics.lateness.Observe(now.Sub(e.LatenessFrom()).Seconds())
	}
	res := target.Result{Outcome: schema.Failed, Final: true}
	if fault != nil {
		res.Error = fault.Error()
	} else {
		res = a.call(run, work, payload)
		if a.signing.fault == "" {
			a.health = res.Health()
		}
		if res.Lingering != nil {
			x.metrics.scriptsLeft.Inc()
			x.admission.Linger(admission.NewRequest(spec.Tenant, &work, x.targets), res.Lingering)
		}
	}
	a.exclusive.Store(false)
	switch {
	case res.Stopped && work.Guarantee == schema.AtLeastOnce:
		res.Memory.Release()
		a.interrupted()
		return
	case errors.Is(context.Cause(run), target.ErrAbandoned) && res.Outcome != schema.Succeeded: // it counts: the callee may have done it
		res = target.Result{Outcome: schema.Lost, Error: target.ErrAbandoned.Error(), Final: res.Lingering != nil, Memory: res.Memory} // what surely goes on would be overlapped
	case res.Stopped && work.Guarantee == schema.EffectivelyOnce: // it does not count, and the run is free again
		x.metrics.running.Dec()
		res.Memory.Release()
		a.keepReport(&schema.Attempt{Record: new(schema.Record)}) // for whoever reads the log: the row says nothing of it
		a.release(attempts, target.ErrStopped, a.afterStop(attempts, work, res.Lingering == nil))
		return
	}
	a.conclude(attempts, res, work)
}

// under returns the session under which the attempt would begin at now, and whether it may.
func (a *attempt) under(now time.Time) (string, bool) {
	if a.hold == nil && a.jobSlot == nil && a.slotOf == "" {
		return a.x.keeper.current(now)
	}
	session, ample := a.x.keeper.ample(now)
	return session, ample && (a.jobSlot == nil || a.jobSlot.session == session) && (a.slotOf == "" || a.slotOf == session)
}

// begin notes that the attempt is under way. If a cancel was heard of since it was looked at, it ends at once.
func (a *attempt) begin(began, now time.Time, number int, session string, stop context.CancelCauseFunc) {
	a.x.metrics.running.Inc()
	if now.Before(a.entry.Due()) {
		a.x.metrics.early.Inc()
	}
	fence := schema.MakeFence(now)
	if a.hold != nil {
		fence = a.hold.mine.Fence
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.began, a.started, a.number, a.fence, a.session, a.stop = true, began, now.UTC().Round(0), number, fence, session, stop
	if a.told {
		stop(target.ErrCancelled)
	}
}

// call runs the work.
func (a *attempt) call(ctx context.Context, work schema.Work, payload []byte) (res target.Result) {
	callee := a.x.targets.For(work)
	if callee == nil {
		return target.Result{Outcome: schema.Failed, Error: "this kind of task is not enabled here", Final: true}
	}
	if a.signing.fault != "" {
		return target.Result{Outcome: schema.Failed, Error: a.signing.fault} // not final: it is no fault of the run, and may be mended
	}
	ctx, cancel := context.WithTimeoutCause(ctx, work.Timeout.Std(), target.ErrTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may hold secrets of the payload: it goes to the log's stack, not into the record.
			a.x.log.Error("a target panicked", "run", a.entry.Run(), "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			res = target.Result{Outcome: schema.Failed, Error: "the executor panicked while it ran the attempt"}
		}
	}()
	call := target.Call{
		Tenant: a.entry.Spec.Tenant, Run: a.entry.Run(), Job: a.entry.Spec.Job, Number: a.number, Fence: a.fence,
		Due: a.entry.RequestedAt(), Work: work, Payload: payload, Secrets: a.signing.secrets, Feedback: a, Abandoned: a.silent,
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

// end returns when what ends now has ended: by the clock, or by the start and what has passed since if the clock was set back
// meanwhile. Nothing starts by a clock that is known to be wrong. So what is drawn from it, such as the next start, does not lie behind what the
// dispatcher has swept, and the outcome is not older than what was written about the attempt before.
func (a *attempt) end() time.Time {
	now := a.x.now()
	if by := a.started.Add(time.Since(a.began)); by.After(now.Round(0)) {
		return by
	}
	return now
}

// conclude turns the result into a record and hands it to the recorder, or for a guarded run to the lease first.
func (a *attempt) conclude(attempts context.Context, res target.Result, work schema.Work) {
	x, e := a.x, a.entry
	now := a.end()
	x.metrics.running.Dec()
	rec := schema.Record{
		Entry: e.ID, Executor: x.name, Region: x.region, Started: a.started, Finished: now.UTC(),
		Outcome: res.Outcome, Error: target.Truncate(res.Error, target.MaxError), Status: res.Status,
		Redispatched: a.env.Redispatch || a.delivery.Redelivered(),
	}
	if due, again := after(res, *work.Retry, a.number, now); again {
		rec.Next = schema.MakeEntryID(due, e.ID.Shard(), schema.RandomHash())
	} else if res.Outcome == schema.Failed || res.Outcome == schema.TimedOut {
		rec.Final = true
	} else if res.Outcome == schema.Lost {
		rec.Final = res.Final || a.number >= work.Retry.MaxAttempts
	}
	rec.Doubt = res.Outcome == schema.Succeeded && a.hold == nil && a.rivalled(now) // a claim has no rival
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	row := schema.Attempt{
		Run: e.Run(), Number: a.number, Fence: a.fence, Record: &rec,
		Written: now.UnixMicro(), Expires: a.expiry(later(now, rec.Next.Time())),
	}
	a.keepReport(&row)
	a.keepOutput(&row, &res)
	if rec.Doubt && a.outlived(now) {
		rec.Outlived = true
		a.haveWatched(attempts, now)
	}
	if a.hold != nil {
		a.commit(attempts, row)
		return
	}
	x.metrics.outcomes.WithLabelValues(string(res.Outcome)).Inc()
	a.put(row, true)
}

// interrupted ends an attempt that the stop of the executor cut short. It does not count, since nothing of the run's failed: its row, if there
// is one, is closed as unstarted, and the number is free again. The message goes back; where it has gone already, the
// dispatcher finds the entry open once our session has ended.
func (a *attempt) interrupted() {
	x := a.x
	now := a.end()
	x.metrics.running.Dec()
	a.mu.Lock()
	a.running = false
	marked := a.marked
	a.mu.Unlock()
	row := schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.fence, Written: schema.UnstartedAt(a.started), Expires: a.expiry(now),
		Record: &schema.Record{
			Entry: a.entry.ID, Executor: x.name, Region: x.region, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost,
			Error: target.ErrStopped.Error(), Unstarted: true,
		},
	}
	a.keepReport(&row)
	if !marked {
		a.giveBack()
		return
	}
	x.recorder.put(word{then: a.giveBack, entry: *a.entry, attempt: row})
}

// notStarted records why nothing started here.
func (a *attempt) notStarted(ctx context.Context, rec schema.Record) {
	row := a.x.writer.NotStarted(*a.entry, rec, a.x.now())
	if a.hold != nil && !a.close(ctx, row) {
		a.giveBack() // who gets it next finds what stands
		return
	}
	a.x.metrics.outcomes.WithLabelValues(string(rec.Outcome)).Inc()
	a.put(row, true)
}

// put hands a row to the recorder; the message ends when the row and what follows are held. What waits for that takes no room in hand
// (ask), so where nobody waits for the slots that come free more is pulled, a wakePart of the room at a time. Else it has time until the rows are held, which many
// messages are at once.
func (a *attempt) put(row schema.Attempt, notify bool) {
	a.mu.Lock()
	marked := a.marked
	a.mu.Unlock()
	a.x.recorder.put(word{entry: *a.entry, attempt: row, notify: notify, marked: marked, then: a.finish})
	if x := a.x; x.ended.Add(1)%int64(max(x.allowed/wakePart, 1)) == 0 && x.slots.Unwanted() {
		x.wake()
	}
}

// expiry returns when a row of the attempt leaves that is written at now: a retention after the attempt may
// have ended, and after the run's own row, which may be due later than the entry if the run was moved forward.
func (a *attempt) expiry(now time.Time) time.Time {
	return a.x.writer.Expiry(later(a.entry.Due(), a.entry.Run().Time()), now.Add(a.lasts)).Add(bucketer.Outlast)
}

// later returns the later of two instants.
func later(t, other time.Time) time.Time {
	if other.After(t) {
		return other
	}
	return t
}

// noted lets the message go: the store knows that the attempt runs.
func (a *attempt) noted() {
	a.mu.Lock()
	a.knownAfter = max(time.Since(a.began), 1)
	a.mu.Unlock()
	a.x.passTurn(a)
	a.ack()
}

// ack acknowledges the message, once.
func (a *attempt) ack() {
	if !a.acked.Swap(true) {
		a.delivery.Ack()
	}
}

// finish acknowledges the message and ends its stay.
func (a *attempt) finish() {
	a.ack()
	a.x.leave(a)
}

// giveBack returns the message to the stream, for anybody.
func (a *attempt) giveBack() {
	a.x.metrics.passed.WithLabelValues("returned").Inc()
	a.returned.Store(true)
	if !a.acked.Swap(true) {
		a.delivery.Return()
	}
	a.x.leave(a)
}

// letGo has others start the run once they may have declared our session dead: the store does not say what became of
// what was asked of it. The attempt itself goes on waiting for that: what stands in its name by then would hold the run
// for as long as the session lives, which goes on if nobody has declared it dead.
func (a *attempt) letGo() {
	if !a.x.keeper.lapsed(a.x.now()) || a.returned.Swap(true) {
		return
	}
	if !a.acked.Swap(true) {
		a.delivery.Return()
	}
	a.x.passTurn(a)
}

// giveBackLater is giveBack after a pause: the message would come again at once.
func (a *attempt) giveBackLater(ctx context.Context) {
	a.claimed()
	select {
	case <-ctx.Done():
	case <-time.After(postponeFor):
	}
	a.giveBack()
}

// cancel ends the attempt if it is under way; otherwise the rows are looked at before it starts.
func (a *attempt) cancel(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = true
	if a.running && a.stop != nil {
		a.stop(cause)
	}
}

// wait waits until t by the executor's clock; false means that ctx ended first, or that the clock was found to be wrong: one that was set
// back would keep the message from those whose clocks are right for as long as it is slow.
func (a *attempt) wait(ctx context.Context, t time.Time) bool {
	for {
		d := t.Sub(a.x.now())
		if d <= 0 {
			return true
		}
		if a.x.halt.Halted() {
			return false
		}
		timer := time.NewTimer(min(d, tendEvery))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

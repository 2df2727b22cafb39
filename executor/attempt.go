package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
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

	mu      sync.Mutex
	running bool
	began   time.Time // by the monotonic clock
	started time.Time // by the executor's wall clock, UTC
	number  int
	fence   schema.Fence
	session string
	told    bool // a cancel was heard of before the start
	marked  bool // the session cell is on its way …
	known   bool // … or held: the store knows that the attempt runs
	stop    context.CancelCauseFunc
}

// handle takes the message through: look if in doubt, hold to the instant, run, record.
func (a *attempt) handle(ctx, attempts context.Context) {
	x := a.x
	if a.entry.Fault != nil {
		a.notStarted(schema.Record{Outcome: schema.Missed, Reason: "unreadable: " + a.entry.Fault.Error()})
		return
	}
	known, ok := a.clear(ctx)
	if !ok {
		return
	}
	if !a.wait(ctx, a.entry.Due()) {
		a.giveBack()
		return
	}
	select {
	case x.slots <- struct{}{}:
	case <-ctx.Done():
		a.giveBack()
		return
	}
	defer func() { <-x.slots }()
	a.start(ctx, attempts, known)
}

// known is what a start rests on.
type known struct {
	checked time.Time // the rows said so at this time
	number  int       // of the attempt
	doubt   bool      // another attempt may be under way or have been: the session is written before the start
	before  time.Time // by what the job says the start must be before this; zero = any time
}

// clear finds out whether the entry may start. Where there is no doubt it reads nothing.
func (a *attempt) clear(ctx context.Context) (known, bool) {
	e := a.entry
	first := !a.delivery.Redelivered() && !a.env.Redispatch && e.Run() == e.ID
	at := a.x.now() // of the start: what will be too old by then is looked at in time
	if e.Due().After(at) {
		at = e.Due()
	}
	if first && at.Sub(a.env.CheckedAt) <= freshFor {
		return known{checked: a.env.CheckedAt, number: e.Spec.AttemptNumber()}, true
	}
	if !a.wait(ctx, e.Due().Add(-lookBefore)) {
		a.giveBack()
		return known{}, false
	}
	return a.look(ctx)
}

// look reads the rows and acts on what they say: true means that the entry may start.
func (a *attempt) look(ctx context.Context) (known, bool) {
	x, e := a.x, a.entry
	x.metrics.looks.Inc()
	st, v, err := x.standing(ctx, e)
	if err != nil {
		a.postpone(ctx, "look", err)
		return known{}, false
	}
	x.troubled.Store(false)
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
	if len(st.Dead) > 0 && !a.bury(ctx, st.Dead) {
		return known{}, false
	}
	before, ok := a.entitled(ctx, st.Next, v.job)
	if !ok {
		return known{}, false
	}
	doubt := a.delivery.Redelivered() || a.env.Redispatch || st.Next > e.Spec.AttemptNumber() ||
		e.Spec.Kind != schema.KindRun && e.Spec.Kind != schema.KindReschedule
	return known{checked: v.at, number: st.Next, doubt: doubt, before: before}, true
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
			a.notStarted(schema.Record{Outcome: schema.Cancelled, Reason: "the job was cancelled"})
			return time.Time{}, false
		}
		return time.Time{}, true
	}
	right := schema.Right{Unknown: true, Outcome: schema.Cancelled, Reason: "the job does not exist"}
	if job != nil {
		right = job.Right(e, now)
	}
	if right.Unknown {
		// Its dispatcher has seen more than we did: a write that is not decided yet.
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		decided, err := x.store.Job(bounded, e.Spec.Job)
		cancel()
		switch {
		case err == nil:
			job, right = &decided, decided.Right(e, now)
		case !errors.Is(err, schema.ErrNotFound):
			a.postpone(ctx, "read job", err)
			return time.Time{}, false
		}
	}
	if right.Outcome != "" {
		a.notStarted(schema.Record{Outcome: right.Outcome, Reason: right.Reason})
		return time.Time{}, false
	}
	if rec, missed := x.writer.Misfired(job, e, now); missed {
		a.notStarted(rec)
		return time.Time{}, false
	}
	return right.Before, true
}

// bury records attempts whose sessions fell as lost. The last one allowed ends the run.
func (a *attempt) bury(ctx context.Context, dead []schema.Attempt) bool {
	x := a.x
	work, err := a.work(ctx)
	if err != nil && !errors.Is(err, errNoTask) {
		a.postpone(ctx, "read work", err)
		return false
	}
	now := x.now()
	over := false
	rows := make([]schema.Attempt, len(dead))
	for i, d := range dead {
		finished := now.UTC()
		if began := d.Session.Started; began.After(finished.Round(0)) { // by a clock that is ahead of ours
			finished = began
		}
		final := d.Number >= work.Retry.MaxAttempts || work.Guarantee == schema.AtMostOnce
		over = over || final
		rows[i] = d
		rows[i].Session = nil
		rows[i].Record = &schema.Record{
			Entry: d.Session.Entry, Executor: d.Session.Executor, Started: d.Session.Started, Finished: finished,
			Outcome: schema.Lost, Error: "the executor's session ended without an outcome", Final: final,
		}
		rows[i].Written, rows[i].Expires = now.UnixMicro(), a.expiry(now)
	}
	// All of them before anything is said: a notice ends the entry, and nobody would count the rest.
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := x.writer.Record(bounded, rows); err != nil {
		a.postpone(ctx, "record lost attempts", err)
		return false
	}
	x.metrics.outcomes.WithLabelValues(string(schema.Lost)).Add(float64(len(rows)))
	if over {
		a.over(rows[len(rows)-1].Number)
	}
	return !over
}

// over tells that the entry is finished, by attempt number or before it, and ends the message.
func (a *attempt) over(number int) {
	e := a.entry
	a.x.notices.Done(e.ID.Shard(), []schema.Notice{{Entry: e.ID, Run: e.Run(), Attempt: number}})
	a.finish()
}

// postpone gives the message back after a call of the store that failed, a little later: it would come again at once.
func (a *attempt) postpone(ctx context.Context, act string, err error) {
	x := a.x
	if ctx.Err() == nil && !x.troubled.Swap(true) {
		x.log.Warn("store fails: messages that need it go back", "act", act, "run", a.entry.Run(), "err", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(postponeFor):
	}
	a.giveBack()
}

// errNoTask: the entry names a task that does not exist.
var errNoTask = errors.New("the task does not exist any more")

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
	if errors.Is(err, errNoTask) {
		return work, nil, fmt.Errorf("%w: %s", errNoTask, a.entry.Spec.Task), nil
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

// inTime reports whether the job lets the attempt start at now.
func (k known) inTime(now time.Time) bool { return k.before.IsZero() || now.Before(k.before) }

// fresh looks again while what the start rests on is too old, or a cancel was heard of since.
func (a *attempt) fresh(ctx context.Context, k known) (known, bool) {
	for range lookTries {
		a.mu.Lock()
		told := a.told
		a.told = false
		a.mu.Unlock()
		if now := a.x.now(); !told && now.Sub(k.checked) <= freshFor && k.inTime(now) {
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

// start runs the attempt and records how it ended. Until it begins it is ended by ctx, then by attempts.
func (a *attempt) start(ctx, attempts context.Context, k known) {
	x, e := a.x, a.entry
	spec := &e.Spec
	work, payload, fault, err := a.needs(ctx)
	if err != nil {
		a.postpone(ctx, "read work", err)
		return
	}
	// The slot and the reads may have taken time: everything that a start rests on is judged now, with nothing to wait for after.
	k, ok := a.fresh(ctx, k)
	if !ok {
		return
	}
	began, now := time.Now(), x.now() // in this order: a stop in between makes the attempt longer, never shorter
	if limit, ok := spec.Misfire.Limit(); ok && now.Sub(e.DueSince()) > limit && k.number == 1 {
		a.notStarted(schema.Record{Outcome: schema.Missed, Reason: spec.Misfire.Reason()})
		return
	}
	session, alive := x.keeper.current(now)
	if !alive || x.halt.Halted() || ctx.Err() != nil || now.Before(e.Due()) { // before: the clock was set back under us
		a.giveBack()
		return
	}
	run, cancel := context.WithCancelCause(attempts)
	defer cancel(nil)
	a.begin(began, now, k.number, session, cancel)
	if k.doubt && !a.mark(ctx, now, k) {
		return
	}
	if k.number == 1 {
		x.metrics.lateness.Observe(now.Sub(spec.Start(e.ID)).Seconds())
	}
	res := Result{Outcome: schema.Failed, Final: true}
	if fault != nil {
		res.Error = fault.Error()
	} else {
		res = a.call(run, work, payload)
	}
	a.conclude(res, work)
}

// begin notes that the attempt is under way.
func (a *attempt) begin(began, now time.Time, number int, session string, stop context.CancelCauseFunc) {
	a.x.metrics.running.Inc()
	if now.Before(a.entry.Due()) {
		a.x.metrics.early.Inc()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running, a.began, a.started, a.number, a.fence, a.session, a.stop = true, began, now.UTC().Round(0), number, schema.MakeFence(now), session, stop
}

// call runs the work.
func (a *attempt) call(ctx context.Context, work schema.Work, payload []byte) (res Result) {
	target := a.x.targets.of(work)
	if target == nil {
		return Result{Outcome: schema.Failed, Error: "this kind of task is not enabled here", Final: true}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, work.Timeout.Std(), ErrTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			// What was panicked with may hold secrets of the payload: it goes to the log's stack, not into the record.
			a.x.log.Error("a target panicked", "run", a.entry.Run(), "type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			res = Result{Outcome: schema.Failed, Error: "the executor panicked while it ran the attempt"}
		}
	}()
	res = target.Run(ctx, Call{
		Tenant: a.entry.Spec.Tenant, Run: a.entry.Run(), Job: a.entry.Spec.Job, Number: a.number, Fence: a.fence,
		Due: a.entry.Due(), Work: work, Payload: payload,
	})
	switch res.Outcome {
	case schema.Succeeded, schema.Failed, schema.TimedOut, schema.Cancelled:
	default: // whatever a target says, a run must come to an end
		res = Result{Outcome: schema.Failed, Error: "the target gave no outcome"}
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

// conclude turns the result into a record and hands it to the recorder.
func (a *attempt) conclude(res Result, work schema.Work) {
	x, e := a.x, a.entry
	now := a.end()
	x.metrics.running.Dec()
	x.metrics.outcomes.WithLabelValues(string(res.Outcome)).Inc()
	rec := schema.Record{
		Entry: e.ID, Executor: x.name, Region: x.region, Started: a.started, Finished: now.UTC(),
		Outcome: res.Outcome, Error: head(res.Error, errorHead), Status: res.Status, Output: head(string(res.Output[:min(len(res.Output), outputHead)]), outputHead),
		Redispatched: a.env.Redispatch || a.delivery.Redelivered(),
	}
	if due, again := after(res, *work.Retry, a.number, now); again {
		rec.Next = schema.MakeEntryID(due, e.ID.Shard(), schema.RandomHash())
	} else if res.Outcome == schema.Failed || res.Outcome == schema.TimedOut {
		rec.Final = true
	}
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	a.put(schema.Attempt{
		Run: e.Run(), Number: a.number, Fence: a.fence, Record: &rec,
		Written: now.UnixMicro(), Expires: a.expiry(now),
	}, true)
}

// notStarted records why nothing started here.
func (a *attempt) notStarted(rec schema.Record) {
	a.x.metrics.outcomes.WithLabelValues(string(rec.Outcome)).Inc()
	a.put(a.x.writer.NotStarted(*a.entry, rec, a.x.now()), true)
}

// put hands a row to the recorder; the message ends when the row and what follows are held.
func (a *attempt) put(row schema.Attempt, notify bool) {
	a.x.recorder.put(word{entry: *a.entry, attempt: row, notify: notify, then: a.finish})
}

// errOutdated: between the look and the start too much time passed, the session was lost, or the clock was set back.
var errOutdated = errors.New("noting the session took too long")

// mark writes the session cell before the start, which rests on what is known. It goes the way of records, in batches of a
// partition: a backlog after trouble consists of starts in doubt, and a write for each would be dearer than the runs.
// If it took so long that the start rests on nothing any more, or ctx ended, the cell would say for as long as our session lives that
// the attempt is under way: so the attempt is recorded as lost, and unstarted, before the message goes back.
func (a *attempt) mark(ctx context.Context, now time.Time, k known) bool {
	x := a.x
	row := a.cell(now)
	held := make(chan struct{})
	x.recorder.put(word{entry: *a.entry, attempt: row, then: func() { close(held) }})
	x.recorder.hurry()
	err := errOutdated
	select {
	case <-held:
		after := x.now()
		session, alive := x.keeper.current(after)
		if alive && session == a.session && !x.halt.Halted() && ctx.Err() == nil && !after.Before(a.entry.Due()) && after.Sub(k.checked) <= freshFor && k.inTime(after) {
			a.mu.Lock()
			a.known = true
			a.mu.Unlock()
			return true
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	x.metrics.running.Dec()
	x.log.Debug("not started: the message goes back", "run", a.entry.Run(), "err", err)
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	now = a.end()
	row.Session, row.Written = nil, now.UnixMicro()
	row.Record = &schema.Record{
		Entry: a.entry.ID, Executor: x.name, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost,
		Error: "not started: the session could not be noted in time", Unstarted: true,
	}
	x.recorder.put(word{entry: *a.entry, attempt: row, then: a.giveBack})
	return false
}

// cell makes the row with the session of the attempt under way.
func (a *attempt) cell(now time.Time) schema.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marked = true
	return schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.fence,
		Session: &schema.SessionRef{Executor: a.x.name, ID: a.session, Started: a.started, Entry: a.entry.ID},
		Written: now.UnixMicro(), Expires: a.expiry(now),
	}
}

// expiry returns when a row of the attempt leaves: not before the run's own row, which may be due later than the entry if the run
// was moved forward.
func (a *attempt) expiry(now time.Time) time.Time {
	due := a.entry.Due()
	if run := a.entry.Run().Time(); run.After(due) {
		due = run
	}
	return a.x.writer.Expiry(due, now)
}

// tend keeps the message in progress, and lets it go once the store knows that the attempt runs.
func (a *attempt) tend(now time.Time) {
	if a.acked.Load() {
		return
	}
	a.mu.Lock()
	// What has passed is told by the monotonic clock: the wall clock may be set back meanwhile.
	long := a.running && !a.marked && time.Since(a.began) >= ackAfter
	known := a.running && a.known && time.Since(a.began) >= ackAfter
	if long {
		// The session in force now, which is another one if that of the start was declared dead meanwhile. While
		// there is none to be trusted the message stays in hand.
		if session, alive := a.x.keeper.current(now); alive {
			a.session = session
		} else {
			long = false
		}
	}
	a.mu.Unlock()
	if long {
		a.x.recorder.put(word{entry: *a.entry, attempt: a.cell(now), then: a.ack})
	} else if known {
		a.ack()
	}
	if time.Since(a.held) >= holdEvery {
		a.held = time.Now()
		a.delivery.Hold()
	}
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
	if !a.acked.Swap(true) {
		a.delivery.Return()
	}
	a.x.leave(a)
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

// head returns the first n bytes of s, cut at a character's border, as valid UTF-8.
func head(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}

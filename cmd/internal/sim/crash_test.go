package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// step is a step of an attempt. A node may crash before it, so that it is not done, or right after
// it, so that nothing after it is done.
type step string

const (
	stepClaim    step = "claim"     // of a guarded run, in its lease
	stepCall     step = "call"      // of the callee
	stepEnd      step = "end"       // of a claim, with the outcome
	stepCell     step = "cell"      // the session under which the attempt goes on
	stepOutput   step = "output"    // a part of what does not fit the record
	stepRecord   step = "record"    // of the outcome
	stepFollowUp step = "follow-up" // the retry or the dead letter
	stepNotice   step = "notice"    // to the dispatcher
	stepAck      step = "ack"       // of the message

	stepSession step = "session" // begun, kept, left or declared dead

	stepSlot    step = "slot"     // of a job's limit: acquired or released
	stepWait    step = "wait"     // a waiter for a slot is written
	stepEndWait step = "end-wait" // the waiter is deleted
	stepGrant   step = "grant"    // the entry of a run that gets a slot
	stepLine    step = "line"     // of the job's history

	stepBlock    step = "block"    // of slots of a task's limit: taken, kept or released
	stepDeferral step = "deferral" // the entry of a deferred start
	stepWatch    step = "watch"    // the entry that looks after a run for the next minutes
	stepReserve  step = "reserve"  // reservations under a task's rate

	// Rare ones: a scenario need not have seen the last two. stepCancel is the mark of a run that
	// is the oldest, or whose cancel was asked for.
	stepCancel     step = "cancel"
	stepResolution step = "resolution" // of a dead letter that a late success supersedes
	stepUnmark     step = "unmark"     // of a limit without waiters
)

// The steps that are taken wherever runs are executed; for runs of jobs and of tasks with a limit;
// and where runs last for minutes.
var (
	attemptSteps     = []step{stepClaim, stepCall, stepEnd, stepCell, stepOutput, stepRecord, stepFollowUp, stepNotice, stepAck, stepSession}
	limitSteps       = []step{stepSlot, stepWait, stepEndWait, stepGrant, stepLine, stepCancel}
	concurrencySteps = []step{stepBlock, stepDeferral}
	rateSteps        = []step{stepReserve}
	longSteps        = []step{stepWatch}
)

// likelier multiplies the probability of crashes around rare steps.
var likelier = map[step]float64{
	stepOutput: 4, stepWait: 2, stepEndWait: 6, stepSlot: 4, stepGrant: 40, stepBlock: 20, stepDeferral: 8, stepWatch: 40, stepReserve: 40, stepResolution: 40, stepUnmark: 20, stepCancel: 10,
}

// crashPoints are the counters of crashes before and after each of the steps.
func crashPoints(steps []step) (all []string) {
	for _, s := range steps {
		all = append(all, crashCounter(s, false), crashCounter(s, true))
	}
	return all
}

func crashCounter(s step, after bool) string {
	if after {
		return "crash after " + string(s)
	}
	return "crash before " + string(s)
}

// crashes does a step, and draws whether the process of l crashes before or after it. It reports
// whether the crash came before: then the step is not done.
func (n *Node) crashes(l *life, s step, do func()) (before bool) {
	kind, draw := n.c.chance(func(f Faults) float64 {
		return f.Crash * max(likelier[s], 1)
	}, 2)
	before = kind == 0
	if !before {
		do()
	}
	if kind < 0 || !n.crash(l, time.Duration(draw*float64(n.c.away))) {
		return before // a step of a process that is gone fails by itself
	}
	n.c.mu.Lock()
	n.c.crashed[crashCounter(s, !before)]++
	n.c.mu.Unlock()
	return before
}

// crashing is the store of a process that may crash before and after what it writes of attempts.
type crashing struct {
	*schematest.FaultyStore
	n *Node
	l *life
}

// around does the step, and crashes before or after it, if that is drawn. A step that the
// crash prevents fails with ErrUnavailable.
func (s crashing) around(step step, do func() error) error {
	var err error
	if s.n.crashes(s.l, step, func() { err = do() }) {
		return schema.ErrUnavailable
	}
	return err
}

// SwapLease is a claim, or its end; or it changes who has the slots of a limit, or the starts of a
// rate.
func (s crashing) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (stands schema.Lease, err error) {
	err = s.around(leaseStep(is), func() (err error) {
		stands, err = s.FaultyStore.SwapLease(ctx, was, is, expires)
		return err
	})
	return stands, err
}

func leaseStep(is schema.Lease) step {
	limit, ofLimit := strings.CutPrefix(is.Key, schema.LimitKey("").Lease())
	_, ofTask := schema.LimitKey(limit).Task()
	_, ofTenant := schema.LimitKey(limit).Tenant()
	switch {
	case ofLimit && (ofTask || ofTenant):
		return stepBlock
	case ofLimit:
		return stepSlot
	case !strings.HasPrefix(is.Key, "run/"):
		return stepReserve
	case is.Holder != nil:
		return stepClaim
	}
	return stepEnd
}

// SwapSession begins, keeps or leaves the session of an executor.
func (s crashing) SwapSession(ctx context.Context, was, is schema.Session) error {
	return s.around(stepSession, func() error { return s.FaultyStore.SwapSession(ctx, was, is) })
}

// PutWaiter notes who waits for a slot.
func (s crashing) PutWaiter(ctx context.Context, w schema.Waiter) error {
	return s.around(stepWait, func() error { return s.FaultyStore.PutWaiter(ctx, w) })
}

// DeleteWaiter takes out the note.
func (s crashing) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	return s.around(stepEndWait, func() error { return s.FaultyStore.DeleteWaiter(ctx, w) })
}

// DeleteLimitMark says that nobody waits for a limit.
func (s crashing) DeleteLimitMark(ctx context.Context, m schema.LimitMark) error {
	return s.around(stepUnmark, func() error { return s.FaultyStore.DeleteLimitMark(ctx, m) })
}

// CancelRun marks a run as cancelled.
func (s crashing) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (marks schema.Marks, err error) {
	err = s.around(stepCancel, func() (err error) {
		marks, err = s.FaultyStore.CancelRun(ctx, id, asRead, mark, expires)
		return err
	})
	return marks, err
}

// PutResolution says what became of a dead letter.
func (s crashing) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	return s.around(stepResolution, func() error { return s.FaultyStore.PutResolution(ctx, tenant, run, f, expires) })
}

// PutJobRuns writes lines of history.
func (s crashing) PutJobRuns(ctx context.Context, lines []schema.JobRun) error {
	return s.around(stepLine, func() error { return s.FaultyStore.PutJobRuns(ctx, lines) })
}

// PutPart writes a part of an output.
func (s crashing) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	return s.around(stepOutput, func() error { return s.FaultyStore.PutPart(ctx, run, kind, p, written, expires) })
}

// PutAttempts writes records, or session cells.
func (s crashing) PutAttempts(ctx context.Context, rows []schema.Attempt) error {
	step := stepCell
	if slices.ContainsFunc(rows, func(a schema.Attempt) bool { return a.Record != nil }) {
		step = stepRecord
	}
	return s.around(step, func() error { return s.FaultyStore.PutAttempts(ctx, rows) })
}

// entrySteps are the steps that write entries of these kinds: retries that records name, and what
// stands in for a start.
var entrySteps = map[schema.Kind]step{
	schema.KindRetry: stepFollowUp, schema.KindFromWaitList: stepGrant, schema.KindDeferral: stepDeferral, schema.KindWatch: stepWatch,
}

// PutEntries may be a step.
func (s crashing) PutEntries(ctx context.Context, rows []schema.Entry) error {
	do := func() error { return s.FaultyStore.PutEntries(ctx, rows) }
	for i := range rows {
		if step, ok := entrySteps[rows[i].Spec.Kind]; ok {
			return s.around(step, do)
		}
	}
	return do()
}

// PutDeadLetters writes what follows from the last failure.
func (s crashing) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	return s.around(stepFollowUp, func() error { return s.FaultyStore.PutDeadLetters(ctx, letters) })
}

// crashAround crashes the node that sends a notice or an acknowledgement, before or right after. It
// reports whether the message is never sent.
func (c *Cluster) crashAround(e inproc.Event) (lost bool) {
	c.mu.Lock()
	n := c.node(e.Conn)
	up := n != nil && n.up
	var l *life
	if up {
		l = n.life
	}
	c.mu.Unlock()
	switch {
	case n == nil:
		return false
	case !up:
		return true
	case e.Point == inproc.Ack:
		return n.crashes(l, stepAck, func() {})
	case e.Point == inproc.Notice:
		return n.crashes(l, stepNotice, func() {})
	}
	return false
}

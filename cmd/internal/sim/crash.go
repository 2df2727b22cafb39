package sim

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// step is one of those that an attempt takes. A node may crash before it, so that nothing of it was done, or right after it, so that nothing that
// follows was.
type step string

const (
	stepClaim    step = "claim"     // of a guarded run, in its lease
	stepCall     step = "call"      // of the callee
	stepEnd      step = "end"       // of a claim, with the outcome
	stepCell     step = "cell"      // the session under which the attempt goes on
	stepRecord   step = "record"    // of the outcome
	stepFollowUp step = "follow-up" // the retry or the dead letter
	stepNotice   step = "notice"    // to the dispatcher
	stepAck      step = "ack"       // of the message
)

// crashPoints are the counters of crashes before and after each step.
var crashPoints = func() (all []string) {
	for _, s := range []step{stepClaim, stepCall, stepEnd, stepCell, stepRecord, stepFollowUp, stepNotice, stepAck} {
		all = append(all, crashCounter(s, false), crashCounter(s, true))
	}
	return all
}()

func crashCounter(s step, after bool) string {
	if after {
		return "crash after " + string(s)
	}
	return "crash before " + string(s)
}

// crashes does a step, and draws whether the process of l crashes before or after it. It reports whether it is gone before: then the step is not done.
func (n *Node) crashes(l *life, s step, do func()) (before bool) {
	kind, draw := n.c.chance(func(f Faults) float64 { return f.Crash }, 2)
	before = kind == 0
	if !before {
		do()
	}
	if kind < 0 || !n.crash(l, time.Duration(draw*float64(n.c.away))) {
		return before // where it is gone already the step finds that out
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

// around does the step, and crashes before or after it, if that is drawn. Whoever crashed is told nothing.
func (s crashing) around(step step, do func() error) error {
	var err error
	if s.n.crashes(s.l, step, func() { err = do() }) {
		return schema.ErrUnavailable
	}
	return err
}

// SwapLease is a claim, or its end.
func (s crashing) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (stands schema.Lease, err error) {
	step := stepEnd
	if is.Holder != nil {
		step = stepClaim
	}
	err = s.around(step, func() (err error) {
		stands, err = s.FaultyStore.SwapLease(ctx, was, is, expires)
		return err
	})
	return stands, err
}

// PutAttempts writes records, or session cells.
func (s crashing) PutAttempts(ctx context.Context, rows []schema.Attempt) error {
	step := stepCell
	if slices.ContainsFunc(rows, func(a schema.Attempt) bool { return a.Record != nil }) {
		step = stepRecord
	}
	return s.around(step, func() error { return s.FaultyStore.PutAttempts(ctx, rows) })
}

// PutEntries may write the retries that records name.
func (s crashing) PutEntries(ctx context.Context, rows []schema.Entry) error {
	do := func() error { return s.FaultyStore.PutEntries(ctx, rows) }
	if !slices.ContainsFunc(rows, func(e schema.Entry) bool { return e.Spec.Kind == schema.KindRetry }) {
		return do()
	}
	return s.around(stepFollowUp, do)
}

// PutDeadLetters writes what follows from the last failure.
func (s crashing) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	return s.around(stepFollowUp, func() error { return s.FaultyStore.PutDeadLetters(ctx, letters) })
}

// crashAround has the node crash that sends a notice or an acknowledgement, before it is sent or right after. It reports whether it never goes out, as nothing
// of a process does that is gone.
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

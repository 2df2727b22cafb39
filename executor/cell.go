package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// errOutdated: between the read of the rows and the start too much time passed, the session was
// lost, or the clock was set back.
var errOutdated = errors.New("noting the session took too long")

// noteSession writes the session cell before the start, and reports whether the start goes on. If
// not, the message has been dealt with.
//
// The cell goes the way of records, in batches of a partition: a backlog after trouble consists of
// starts in doubt, and a write for each would cost more than the runs. Then the rows are read again
// (confirm): a rival that read them before they held the cell may have started.
//
// A cell that stands says that the attempt is under way, for as long as our session lives. So where
// the attempt does not start after all, it is recorded as lost and unstarted before the message
// goes back.
func (a *attempt) noteSession(ctx context.Context, now time.Time) (goesOn bool) {
	x := a.x
	row := a.cell(now)
	held := make(chan struct{})
	x.recorder.put(pendingWrite{entry: a.entry, attempt: row, then: func() { close(held) }})
	x.recorder.hurry()
	var err error
	switch {
	case a.awaitHeld(ctx, held):
		if err = a.rows.confirm(ctx); err != nil {
			break
		}
		err = errOutdated
		if a.rows.mayStillStart(ctx, a.session) {
			a.mu.Lock()
			a.cellHeld, a.knownAfter = true, 1
			a.mu.Unlock()
			x.passTurn(a)
			return true
		}
	default:
		err = context.Cause(ctx)
	}
	x.metrics.running.Dec()
	if errors.Is(err, errRival) {
		x.metrics.passed.WithLabelValues("rival").Inc()
	}
	x.log.Debug("not started: the message goes back", "run", a.entry.Run(), "err", err)
	a.mu.Lock()
	a.running = false
	a.mu.Unlock()
	if a.rows.taken { // the row says that another executor runs the attempt
		a.giveBack()
		return false
	}
	now = a.endedAt(x.now())
	row.Session, row.Written = nil, schema.UnstartedAt(a.started)
	row.Record = &schema.Record{
		Entry: a.entry.ID, Executor: x.name, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost,
		Error: "not started: the session could not be noted in time", Unstarted: true,
	}
	x.recorder.put(pendingWrite{entry: a.entry, attempt: row, then: a.giveBack})
	x.recorder.hurry() // a rival may wait for us to yield
	return false
}

// awaitHeld waits until the row is held; false means that ctx ended first. A message that waits for
// long is returned meanwhile.
func (m *message) awaitHeld(ctx context.Context, held <-chan struct{}) bool {
	for {
		select {
		case <-held:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(postponeFor):
			m.returnWhileWaiting()
		}
	}
}

// cell makes the row with the session of the attempt under way.
func (a *attempt) cell(now time.Time) schema.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cellSent = true
	return schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.fence,
		Session: &schema.SessionRef{Executor: a.x.name, ID: a.session, Started: a.started, Entry: a.entry.ID, Guarded: a.lease.guarded},
		Written: now.UnixMicro(), Expires: a.expiry(now),
	}
}

// tend keeps the message in progress, and acknowledges it once the store knows that the attempt
// runs.
func (a *attempt) tend(now time.Time) {
	a.abandonIfSessionLost(now)
	if a.acked.Load() {
		return
	}
	a.mu.Lock()
	// By the monotonic clock: the wall clock may be set back meanwhile.
	long := a.running && !a.cellSent && time.Since(a.began) >= ackAfter
	known := a.running && a.cellHeld && time.Since(a.began) >= ackAfter
	if long && !a.lease.guarded {
		// The session in force now, which is another one if that of the start was declared dead
		// meanwhile. While there is none to be trusted the message stays in hand.
		if session, alive := a.x.session.current(now); alive {
			a.session = session
		} else {
			long = false
		}
	}
	var counts toCount
	if long {
		counts.start, a.counted = a.number == 1 && !a.counted, true
	}
	a.mu.Unlock()
	if long {
		a.x.recorder.put(pendingWrite{entry: a.entry, attempt: a.cell(now), then: a.noted, counts: counts, http: a.work.HTTP})
	} else if known {
		a.ack()
	}
	if time.Since(a.heldAt) >= holdEvery {
		a.heldAt = time.Now()
		a.delivery.Hold()
	}
}

// noted acknowledges the message: the store knows that the attempt runs.
func (a *attempt) noted() {
	a.mu.Lock()
	a.knownAfter = max(time.Since(a.began), 1)
	a.mu.Unlock()
	a.x.passTurn(a)
	a.ack()
}

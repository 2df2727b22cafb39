package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// errOutdated: between the look and the start too much time passed, the session was lost, or the clock was set back.
var errOutdated = errors.New("noting the session took too long")

// mark writes the session cell before the start, which rests on what is known. It goes the way of records, in batches of a
// partition: a backlog after trouble consists of starts in doubt, and a write for each would be dearer than the runs.
// Then the rows are read again: a rival that read before the cell was held may have started. If there is one, if it
// took so long that the start rests on nothing any more, or if ctx ended, the cell would say for as long as our
// session lives that the attempt is under way: so the attempt is recorded as lost, and unstarted, before the message
// goes back.
func (a *attempt) mark(ctx context.Context, now time.Time, k known) bool {
	x := a.x
	row := a.cell(now)
	held := make(chan struct{})
	x.recorder.put(word{entry: *a.entry, attempt: row, then: func() { close(held) }})
	x.recorder.hurry()
	var err error
	switch {
	case a.awaits(ctx, held):
		if err = a.confirm(ctx, k.number); err != nil {
			break
		}
		err = errOutdated
		after := x.now()
		session, alive := a.under(after)
		if alive && session == a.session && !a.returned.Load() && !x.halt.Halted() && ctx.Err() == nil && !after.Before(a.entry.Due()) && after.Sub(k.checked) <= freshFor && k.inTime(after) {
			a.mu.Lock()
			a.known, a.knownAfter = true, 1
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
	now = a.end()
	row.Session, row.Written = nil, schema.UnstartedAt(a.started)
	row.Record = &schema.Record{
		Entry: a.entry.ID, Executor: x.name, Started: a.started, Finished: now.UTC(), Outcome: schema.Lost,
		Error: "not started: the session could not be noted in time", Unstarted: true,
	}
	x.recorder.put(word{entry: *a.entry, attempt: row, then: a.giveBack})
	return false
}

// awaits waits until the row is held; false means that ctx ended first. A message that waits for long is let go meanwhile.
func (a *attempt) awaits(ctx context.Context, held <-chan struct{}) bool {
	for {
		select {
		case <-held:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(postponeFor):
			a.letGo()
		}
	}
}

// cell makes the row with the session of the attempt under way.
func (a *attempt) cell(now time.Time) schema.Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marked = true
	return schema.Attempt{
		Run: a.entry.Run(), Number: a.number, Fence: a.fence,
		Session: &schema.SessionRef{Executor: a.x.name, ID: a.session, Started: a.started, Entry: a.entry.ID, Guarded: a.hold != nil},
		Written: now.UnixMicro(), Expires: a.expiry(now),
	}
}

// tend keeps the message in progress, and lets it go once the store knows that the attempt runs.
func (a *attempt) tend(now time.Time) {
	a.silence(now)
	if a.acked.Load() {
		return
	}
	a.mu.Lock()
	// What has passed is told by the monotonic clock: the wall clock may be set back meanwhile.
	long := a.running && !a.marked && time.Since(a.began) >= ackAfter
	known := a.running && a.known && time.Since(a.began) >= ackAfter
	if long && a.hold == nil {
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
		a.x.recorder.put(word{entry: *a.entry, attempt: a.cell(now), then: a.noted})
	} else if known {
		a.ack()
	}
	if time.Since(a.held) >= holdEvery {
		a.held = time.Now()
		a.delivery.Hold()
	}
}

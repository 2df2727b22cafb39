package executor

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// This file is about several messages of one run: a redelivery and a redispatch may come at the
// same time. Only one of them starts an attempt.
//
// In one process, a message takes the turn of its run before it starts. It passes the turn on when
// the store knows of the start, or when the message ends. A message that waited for the turn reads
// the rows again.
//
// A message may come when another one of its run is in hand, or has ended. It was perhaps stored or
// delivered twice, and rests on rows that were read before the first one began. So a process
// remembers which runs it began lately, and reads the rows of those and of what it has in hand
// first.
//
// Across processes, a start that rests on rows writes its session cell and then reads the rows
// again (confirm). If two have written before both read, each sees the other. Otherwise the second
// sees the first.

const (
	// confirmTries bounds how often a start that saw a rival reads again: the rival may be about to
	// yield.
	confirmTries = 5
	// confirmPause is the pause after the first such read. Each pause is twice the one before.
	confirmPause = 10 * time.Millisecond
	// beganFor is for how long at least a begun run is remembered. The rows of an envelope that is
	// older than freshFor, by the clock of the dispatcher that read them, are read in any case.
	beganFor = freshFor + schema.MaxClockDifference
	// maxBegan bounds the begun runs of such a span that are remembered: at 40,000 a second there
	// are 196,000.
	maxBegan = 200_000
)

// begunRuns remembers which runs this process began lately, each for beganFor at least and for
// twice that at most. The executor's mutex guards it.
type begunRuns struct {
	since       time.Time // of those in late; by the monotonic clock
	late, early map[schema.RunID]struct{}
}

// rotate forgets what began two spans ago. The maps are used again: nothing is allocated in the
// long run.
func (b *begunRuns) rotate(now time.Time) {
	d := now.Sub(b.since)
	if d < beganFor {
		return
	}
	b.late, b.early = b.early, b.late
	clear(b.late)
	b.since = b.since.Add(beganFor)
	if d >= 2*beganFor {
		clear(b.early)
		b.since = now
	}
}

func (b *begunRuns) note(run schema.RunID, now time.Time) {
	if b.rotate(now); len(b.late) == maxBegan {
		return
	}
	if b.late == nil {
		b.late = make(map[schema.RunID]struct{})
	}
	b.late[run] = struct{}{}
}

// has reports whether run was begun in the last beganFor; of a longer time ago it may.
func (b *begunRuns) has(run schema.RunID, now time.Time) bool {
	b.rotate(now)
	if _, ok := b.late[run]; ok {
		return true
	}
	_, ok := b.early[run]
	return ok
}

// errRival: another execution of the attempt was begun, or is about to be.
var errRival = errors.New("not started: another executor has the run in hand")

// takeTurn waits until no other message of a's run in hand may start, and has a be the one that
// may. It reports whether it had to wait, and false for ok if ctx ended first.
func (x *Executor) takeTurn(ctx context.Context, a *attempt) (waited, ok bool) {
	for {
		x.mu.Lock()
		var holder *attempt
		x.messages.of(a.entry.Run(), func(b *attempt) {
			if b.place.turn {
				holder = b
			}
		})
		if holder == nil || holder == a {
			a.place.turn = true
			x.mu.Unlock()
			return waited, true
		}
		if holder.place.passed == nil {
			holder.place.passed = make(chan struct{})
		}
		passed := holder.place.passed
		x.mu.Unlock()
		waited = true
		select {
		case <-passed:
		case <-ctx.Done():
			return true, false
		}
	}
}

// passTurn lets the other messages of the run that are in hand start, once they have read the rows:
// what they read before says nothing of this start.
func (x *Executor) passTurn(a *attempt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.passTurnLocked(a)
}

// passTurnLocked is passTurn; x.mu is held.
func (x *Executor) passTurnLocked(a *attempt) {
	if !a.place.turn {
		return
	}
	a.place.turn = false
	x.messages.of(a.entry.Run(), func(b *attempt) {
		if b != a {
			b.mu.Lock()
			b.recheck = true
			b.mu.Unlock()
		}
	})
	if a.place.passed != nil {
		close(a.place.passed)
		a.place.passed = nil
	}
}

// confirm reads the rows of the run once more, now that they hold our session cell. It returns nil
// if they still say that this attempt may start, and errRival if not.
//
// An attempt that sees the cell of a rival may be the second of two, whatever its fence: it does
// not start while that cell stands. Of two that see each other, the one with the higher fence
// yields, and the other one waits for that.
func (c *rowCheck) confirm(ctx context.Context) (err error) {
	a := c.a
	for try := range confirmTries {
		var v runRows
		if v, err = a.x.reader.confirm(ctx, a.entry); err == nil {
			switch rivals, first := c.rivals(&v, a.basis.number); {
			case !rivals:
				return nil
			case !first:
				return errRival
			}
			err = errRival
		}
		select {
		case <-time.After(confirmPause << try):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// rivals reports whether the rows say anything but that attempt number starts, our own cell aside
// (any). first means that only cells of higher fences do, which will yield to ours if they have
// seen it. A later entry that stands in for ours does not count: an executor that takes it sees our
// cell, and leaves the run to us. It notes whether our row is another session's now (taken).
func (c *rowCheck) rivals(v *runRows, number int) (any, first bool) {
	a := c.a
	others := make([]schema.Attempt, 0, len(v.attempts))
	own, lower := false, false
	for _, b := range v.attempts {
		if b.Number == a.number && b.Fence == a.fence {
			own = b.Record == nil && b.Session != nil && b.Session.Executor == a.x.name && b.Session.ID == a.session
			c.taken = b.Session != nil && !own
			continue
		}
		if b.Number == 0 && b.Record != nil && b.Record.Outcome == schema.Replaced {
			continue
		}
		others = append(others, b)
		lower = lower || b.Record == nil && b.Session != nil && b.Fence < a.fence && v.live(*b.Session)
	}
	st := schema.Judge(a.entry, v.marks, others, v.live)
	if !own || st.Over || st.Unnamed || st.Next != number {
		return true, false
	}
	return st.Live, !lower
}

package bucketer

import (
	"sync/atomic"
	"time"
)

// anchorEvery is how often a clock notes a reading that is right.
const anchorEvery = haltStep

// clock tells the time by which rows are judged. The rules of writing compare it with the times in
// ids. A clock that was set back would count a row as held in time after its sweep has passed.
//
// While the node is halted, the clock tells the later of two times:
//
//   - the wall clock
//   - the last right reading + what has passed since by the monotonic clock
//
// The monotonic clock stands still while the machine is suspended, hence the later one. A clock
// that was set forward makes rows count as late that are not. That costs an entry each.
type clock struct {
	wall   func() time.Time
	halted func() bool
	// a reading while not halted, with its monotonic part; nil = none yet
	right atomic.Pointer[time.Time]
}

// now returns the time. It has a monotonic reading only while the wall clock is right.
func (c *clock) now() time.Time {
	at, right := c.wall(), c.right.Load()
	switch {
	case !c.halted(): // asked after the reading, so that a clock that is set in between is noticed
		if right == nil || at.Sub(*right).Abs() >= anchorEvery {
			anchor := at
			c.right.Store(&anchor)
		}
		return at
	case right == nil:
		return at
	}
	return EndedAt(*right, at)
}

// known reports whether now can be relied upon: the wall clock is right, or was once.
func (c *clock) known() bool {
	c.now()
	return c.right.Load() != nil
}

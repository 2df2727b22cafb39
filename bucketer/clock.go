package bucketer

import (
	"sync/atomic"
	"time"
)

// anchorEvery is how often a clock notes a reading that is right.
const anchorEvery = haltStep

// clock tells what time it is at least, also while the wall clock is not to be trusted: the rules
// of writing compare it with the times in ids, and a clock that was set back would have a row count
// as held in time that its sweep has passed.
//
// While the node is halted it tells the later of the wall clock and the last right reading plus
// what has passed since by the monotonic clock. The later one, since the monotonic clock stands
// still while the machine is suspended. A clock that was set forward makes rows count as late that
// are not, which costs an entry each.
type clock struct {
	wall   func() time.Time
	halted func() bool
	// a reading taken while not halted, with its monotonic part; nil = none yet
	right atomic.Pointer[time.Time]
}

// now returns the time. It carries a monotonic reading only while the wall clock is right.
func (c *clock) now() time.Time {
	at, right := c.wall(), c.right.Load()
	switch {
	case !c.halted(): // asked after the reading: a clock set in between is noticed
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

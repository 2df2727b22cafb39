// Package window counts what happened lately, in constant memory. It reads no clock.
package window

import "time"

// Span is the length of a window.
const Span = 500 * time.Millisecond

// Counter counts events in the current window and in the one before. The zero value has counted
// nothing. It is not safe for concurrent use.
type Counter struct {
	since       time.Time // start of the current window
	now, before int
}

// roll ends the current window if its time is over.
func (c *Counter) roll(now time.Time) {
	switch d := now.Sub(c.since); {
	case d >= 2*Span || d < 0:
		c.since, c.now, c.before = now, 0, 0
	case d >= Span:
		c.since, c.now, c.before = c.since.Add(Span), 0, c.now
	}
}

// Add counts one event.
func (c *Counter) Add(now time.Time) {
	c.roll(now)
	c.now++
}

// Recent returns the larger of the counts of the current window and the one before.
func (c *Counter) Recent(now time.Time) int {
	c.roll(now)
	return max(c.now, c.before)
}

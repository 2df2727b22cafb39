package executor

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// cancelFor is for how long at least a cancel is remembered: a message that comes after it may
	// rest on rows that were read before it for as long as freshFor by the dispatcher's clock,
	// which may be ahead of ours.
	cancelFor = bucketer.TaskChangeWithin + schema.MaxClockDifference
	// maxCancels bounds the cancels of such a span that are remembered. A run beyond it may start
	// within freshFor of its cancel, as if the signal had been lost.
	maxCancels = 100_000
)

// cancels remembers of which runs a cancel was heard lately. The executor's mutex guards it.
type cancels struct {
	since       time.Time // of those in late; by the monotonic clock
	late, early map[schema.RunID]struct{}
}

// rotate forgets what was heard two spans ago.
func (c *cancels) rotate(now time.Time) {
	switch d := now.Sub(c.since); {
	case d >= 2*cancelFor:
		c.since, c.late, c.early = now, nil, nil
	case d >= cancelFor:
		c.since, c.late, c.early = c.since.Add(cancelFor), nil, c.late
	}
}

func (c *cancels) note(run schema.RunID, now time.Time) {
	if c.rotate(now); len(c.late) == maxCancels {
		return
	}
	if c.late == nil {
		c.late = make(map[schema.RunID]struct{})
	}
	c.late[run] = struct{}{}
}

// heard reports whether a cancel of run was heard in the last cancelFor; of a longer time ago it
// may.
func (c *cancels) heard(run schema.RunID) bool {
	if len(c.late) == 0 && len(c.early) == 0 { // nearly always
		return false
	}
	c.rotate(time.Now())
	_, late := c.late[run]
	_, early := c.early[run]
	return late || early
}

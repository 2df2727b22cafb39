package planner

import (
	"fmt"
	"time"
)

// A play ends by itself: each run begins once, and while runs wait one is under way, or begins
// soon. The guard ends a play of which that is not true, so that a mistake of the planner is an
// error and not a command that never comes back.
const (
	// longest is how much time is played at most. Later instants could not be told in nanoseconds.
	longest = 100 * 365 * 24 * time.Hour
	// idleMost is for how long nothing may be under way once no more runs become due. A deferral
	// takes minutes at most.
	idleMost = time.Hour
)

// guard notices that a play does not end.
type guard struct {
	idleMost time.Duration
	active   time.Duration // until when runs were under way, or became due
}

// newGuard returns the guard of a Config. The bounds of rates may keep a run back for as long as
// lies between two starts.
func newGuard(c *Config) guard {
	most := every(c.Starts)
	for i := range c.Loads {
		if rate := c.Loads[i].TaskRate; rate > 0 {
			most = max(most, every(rate))
		}
	}
	return guard{idleMost: idleMost + most}
}

// check returns an error if what comes next in a play, at that time, shows that it does not end.
func (g *guard) check(p *play, next time.Duration) error {
	if next > longest {
		return fmt.Errorf("it would take more than %.0f years: %d of %d runs still wait", longest.Hours()/24/365, p.result.All.waiting, p.result.All.Runs)
	}
	if p.free < p.c.Slots || p.now < p.c.Span {
		g.active = next
	}
	if next-g.active > g.idleMost {
		return fmt.Errorf("it does not end, a fault of this simulator: nothing is under way from %s on, and %d of %d runs still wait", g.active.Round(time.Millisecond), p.result.All.waiting, p.result.All.Runs)
	}
	return nil
}

// every returns how far apart so many a second are.
func every(rate float64) time.Duration { return bounded(float64(time.Second) / rate) }

// bounded returns a span of so many nanoseconds, and no longer than is played.
func bounded(ns float64) time.Duration { return time.Duration(min(ns, float64(longest))) }

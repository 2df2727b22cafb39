package chaos

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// The most that a fault costs a run (DESIGN sections 6, 7 and 8).
const (
	noticed = 3 * time.Second // until the ring notices a death
	// until the session of a dead executor is declared dead
	sessionDies = 10*time.Second + schema.SessionGrace
	// until an entry is looked at again that nobody has finished
	nextInspection = 15 * time.Second
	deathCosts     = noticed + sessionDies + nextInspection

	// sustained is the throughput of the smallest machine that the scenarios are for, in runs a
	// second. What is due faster than that waits in a backlog.
	sustained = 500
	// The additional cost where a kind has one member only, from its kill until it serves again.
	onlyCassandra = 90 * time.Second
	onlyNATS      = 30 * time.Second
)

// latenessBound returns how late runs of c may start.
func latenessBound(c Config) check.LatenessBound {
	p := c.Scenario.plan()
	switch {
	case p.Load != nil:
		return check.LatenessBound{Max: p.Load.MaxLateness}
	case p.Course.Late != nil:
		return p.Course.Late(c)
	}
	return check.LatenessBound{} // there is no such scenario
}

// late bounds runs by the cost of the faults.
func late(most time.Duration) func(Config) check.LatenessBound {
	return func(Config) check.LatenessBound { return check.LatenessBound{Max: most} }
}

// behind bounds runs by the cost of the faults and the backlog; p99 0 = no bound.
func behind(most, p99 time.Duration) func(Config) check.LatenessBound {
	return func(c Config) check.LatenessBound {
		b := check.LatenessBound{Max: most + c.backlog()}
		if p99 > 0 {
			b.P99 = p99 + c.backlog()
		}
		return b
	}
}

// faulty bounds runs of Faults: a node is dead, then another one frozen for 12 s, and Cassandra and
// NATS each lack a member, which may be the only one.
func faulty(c Config) check.LatenessBound {
	most := 2*deathCosts + c.backlog()
	if c.Cluster.Cassandra < 3 {
		most += onlyCassandra
	}
	if c.Cluster.NATS < 3 {
		most += onlyNATS
	}
	return check.LatenessBound{Max: most}
}

// backlog returns how long the smallest machine needs after the span for the runs of c.
func (c Config) backlog() time.Duration {
	return max(0, time.Duration(c.Jobs)*time.Second/sustained-c.Span)
}

// calm reports whether nothing goes wrong: no fault, and no backlog, which causes redeliveries.
func (c Config) calm() bool { return c.Scenario == Calm && c.backlog() == 0 }

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

// latenessBounds are how late runs may start in the scenarios with a course of their own, without a
// backlog. Plans state the bound of the others.
var latenessBounds = map[Scenario]check.LatenessBound{
	Calm: {Max: 10 * time.Second, P99: 2 * time.Second},
	Kill: {Max: deathCosts, P99: 15 * time.Second},
	// A node is dead, then another one frozen for 12 s, and Cassandra and NATS each lack a member.
	Faults:   {Max: 2 * deathCosts},
	Stream:   {Max: 2 * deathCosts},
	Blackout: {Max: 150 * time.Second}, // everything starts again, Cassandra first
	// The misfire policy decides on what is not published 60 s after it was due.
	Recurring: {Max: time.Minute + deathCosts},
	Pause:     {Max: deathCosts},
	Stopped:   {Max: time.Minute + deathCosts}, // and the stop itself
	// Executors are killed one after the other: two deaths may delay one run.
	Guarantees: {Max: 2 * deathCosts},
	Frozen:     {Max: deathCosts + frozenWork},
	Limits:     {Max: 2 * deathCosts}, // and what waits for its limit
}

// latenessBound returns how late runs of c may start:
//
//	cost of the scenario + cost of the absence of the only Cassandra or NATS + backlog
func latenessBound(c Config) check.LatenessBound {
	if l := c.Scenario.plan().Load; l != nil {
		return check.LatenessBound{Max: l.MaxLateness}
	}
	if l := c.Scenario.course(); l != nil {
		return check.LatenessBound{Max: l.Late(c)}
	}
	bound := latenessBounds[c.Scenario]
	switch c.Scenario {
	case Faults, Stream:
		if c.Cluster.Cassandra < 3 {
			bound.Max += onlyCassandra
		}
		if c.Cluster.NATS < 3 {
			bound.Max += onlyNATS
		}
	case Stopped:
		bound.Max += c.Stop
	case Limits:
		bound.Max += 2 * c.Span // all due at once at a rate that needs the span
	}
	if c.Scenario.Recurs() || c.Scenario == Limits {
		return bound
	}
	backlog := c.backlog()
	bound.Max += backlog
	if bound.P99 > 0 {
		bound.P99 += backlog
	}
	return bound
}

// backlog returns how long the smallest machine needs after the span for the runs of c.
func (c Config) backlog() time.Duration {
	return max(0, time.Duration(c.Jobs)*time.Second/sustained-c.Span)
}

// calm reports whether nothing goes wrong: no fault, and no backlog, which causes redeliveries.
func (c Config) calm() bool { return c.Scenario == Calm && c.backlog() == 0 }

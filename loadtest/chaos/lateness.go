package chaos

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// What a fault may cost a run, at most (DESIGN sections 5, 7 and 8).
const (
	noticed        = 3 * time.Second                      // until the ring notices a death
	sessionDies    = 10*time.Second + schema.SessionGrace // until the session of a dead executor is declared dead
	nextInspection = 15 * time.Second                     // until an entry is looked at again that nobody has finished
	deathCosts     = noticed + sessionDies + nextInspection

	// sustained is how many runs a second the smallest machine starts that the scenarios are for.
	// What falls due faster than that waits in a backlog.
	sustained = 500
	// What the only node of a kind costs beside what its absence does, from its kill until it serves again.
	onlyCassandra = 90 * time.Second
	onlyNATS      = 30 * time.Second
)

// latenessBounds has how late runs may start in each scenario with a course of its own, without a
// backlog. Plans state the bound of the others.
var latenessBounds = map[Scenario]check.LatenessBound{
	Calm: {Max: 10 * time.Second, P99: 2 * time.Second},
	Kill: {Max: deathCosts, P99: 15 * time.Second},
	// A node is dead, then another one frozen for 12 s, and Cassandra and NATS each lack a member.
	Faults:   {Max: 2 * deathCosts},
	Stream:   {Max: 2 * deathCosts},
	Blackout: {Max: 150 * time.Second}, // everything starts again, Cassandra first
	// What is not published 60 s after it was due is given to the misfire policy.
	Recurring: {Max: time.Minute + deathCosts},
	Pause:     {Max: deathCosts},
	Stopped:   {Max: time.Minute + deathCosts}, // and the stop itself
	// Executors are killed in turn: a run may meet two of the deaths.
	Guarantees: {Max: 2 * deathCosts},
	Frozen:     {Max: deathCosts + frozenWork},
	Limits:     {Max: 2 * deathCosts}, // and what waits for its limit
}

// latenessBound returns how late runs of c may start, defaults filled in: what the scenario costs,
// what the absence of the only Cassandra or NATS costs, and what its backlog costs.
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

// backlog returns how long the smallest machine takes for what it cannot start within the span.
func (c Config) backlog() time.Duration {
	return max(0, time.Duration(c.Jobs)*time.Second/sustained-c.Span)
}

// calm reports whether nothing goes wrong: no fault, and no backlog, in which messages are redelivered that nobody had time for.
func (c Config) calm() bool { return c.Scenario == Calm && c.backlog() == 0 }

package chaos

import (
	"context"
	"fmt"
	"time"
)

// An Act is one thing done to the cluster.
type Act string

// The acts.
const (
	ActKill     Act = "kill -9"
	ActStart    Act = "start"
	ActFreeze   Act = "freeze"
	ActThaw     Act = "thaw"
	ActStream   Act = "delete streams" // of the member, a NATS server that is asked to
	ActKillAll  Act = "kill -9 all"
	ActStartAll Act = "start all"
)

// acts are the acts of a family of plans, done to the member of a step. The note goes into the
// report.
type acts map[Act]func(ctx context.Context, r *run, member string) (note string, err error)

// A step is one act at an instant counted from T0.
type step struct {
	at     time.Duration
	act    Act
	member string // empty for acts on all
}

// A chain is steps one after the other: each waits for its instant and for the step before. Chains
// run side by side.
type chain []step

// fullSpan is the span that the offsets below are made for.
const fullSpan = time.Minute

// schedule returns the faults of a scenario on a cluster of these sizes:
//
//	10 s  kill the first Carillon node
//	20 s  start it
//	25 s  freeze the last one for 12 s, and not before the first is ready again
//	28 s  kill a Cassandra node
//	30 s  delete the streams: a dispatcher is frozen, a Cassandra node away
//	38 s  kill a NATS server
//	46 s  start it: members start one at a time, and Cassandra takes long
//	48 s  start the Cassandra node
func schedule(s Scenario, cassandra, nats, nodes int, span time.Duration) []chain {
	at := func(seconds float64) time.Duration {
		d := time.Duration(seconds * float64(time.Second))
		if span >= fullSpan {
			return d
		}
		return time.Duration(float64(d) * float64(span) / float64(fullSpan)).Truncate(time.Millisecond)
	}
	killed := func(member string, from, to float64) chain {
		return chain{{at(from), ActKill, member}, {at(to), ActStart, member}}
	}
	// The second of three, so that it is not the one that a client asks first.
	second := func(kind string, n int) string { return fmt.Sprintf("%s-%d", kind, min(n, 2)) }

	var chains []chain
	switch s {
	case Kill:
		chains = []chain{killed("carillon-1", 10, 20)}
	case Faults, Stream:
		carillon := killed("carillon-1", 10, 20)
		if nodes > 1 {
			other := fmt.Sprintf("carillon-%d", nodes)
			carillon = append(carillon, step{at(25), ActFreeze, other}, step{at(25 + 12), ActThaw, other})
		}
		chains = []chain{carillon, killed(second("cassandra", cassandra), 28, 48), killed(second("nats", nats), 38, 46)}
	}
	if s == Stream {
		chains = append(chains, chain{{at(30), ActStream, "nats-1"}})
	}
	return chains
}

// minuteRest is the least that must be left of a minute for jobs to be due within it.
const minuteRest = 10 * time.Second

// portionSpan bounds the span that a portion's jobs are due in.
const portionSpan = 20 * time.Second

// portionAt returns when a portion planned for t is imported: at t, or at the start of the next
// minute if less than minuteRest is left of this one.
func portionAt(t time.Time) time.Time {
	next := t.Truncate(time.Minute).Add(time.Minute)
	if next.Sub(t) < minuteRest {
		return next
	}
	return t
}

// portionDue returns the span of due instants of a portion imported at t: from soon after t to the
// end of its minute, at most portionSpan.
func portionDue(t time.Time) (from time.Time, spread time.Duration) {
	const soon = 500 * time.Millisecond
	from = t.Add(soon).Truncate(time.Millisecond)
	rest := t.Truncate(time.Minute).Add(time.Minute).Sub(from)
	return from, min(max(0, rest), portionSpan)
}

// portions is how many late imports there are, spread over the span.
const portions = 5

// counts divides jobs: 5 % due within the minute of their import, 0.5 % immediate, the rest over
// the span. The first two are multiples of portions.
func counts(jobs int) (main, near, immediate int) {
	near = jobs * 5 / 100 / portions * portions
	immediate = max(jobs*5/1000/portions, 1) * portions
	return jobs - near - immediate, near, immediate
}

// portionPlan returns when the late imports happen, from T0. A blackout has none: its late import
// follows the main one at once, so that the kill finds new rows.
func portionPlan(s Scenario, span time.Duration) []time.Duration {
	if s == Blackout {
		return nil
	}
	at := make([]time.Duration, portions)
	for i := range at {
		at[i] = span * time.Duration(2*i+1) / (2*portions + 2)
	}
	return at
}

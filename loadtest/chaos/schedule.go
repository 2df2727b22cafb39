package chaos

import (
	"context"
	"fmt"
	"time"
)

// An Act is what is done to the cluster.
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

// acts are what a family of plans can do beside the acts above, to the member that a step names. The
// note says what there is to say.
type acts map[Act]func(ctx context.Context, r *run, member string) (note string, err error)

// A step is one act at an instant counted from T0.
type step struct {
	at     time.Duration
	act    Act
	member string // empty for acts on all
}

// A chain is steps that are taken one after the other, none before its instant: a step waits until the one before is
// done. Chains run side by side.
type chain []step

// fullSpan is the span that the offsets below are made for.
const fullSpan = time.Minute

// schedule returns the faults of a scenario on a cluster with so many nodes of each sort.
//
// The first Carillon node is killed at 10 s and started again at 20 s; the last one is frozen for 12 s at 25 s, and not
// before the first is ready again. A Cassandra node is killed at 28 s, while the last Carillon node is frozen, and
// started at 48 s; a NATS server is killed at 38 s, while the Cassandra node is away, and started at 46 s (before that
// node: members start one at a time, and Cassandra takes long). Streams are deleted at 30 s: with one dispatcher frozen,
// which finds out when it comes back, and a Cassandra node away.
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

// portionAt returns when a portion that is planned for t is imported: at t, or at the start of the next minute if less
// than minuteRest is left of this one.
func portionAt(t time.Time) time.Time {
	next := t.Truncate(time.Minute).Add(time.Minute)
	if next.Sub(t) < minuteRest {
		return next
	}
	return t
}

// portionDue returns the span of due instants of a portion imported at t: from soon after it to the end of its minute, and
// no longer than portionSpan.
func portionDue(t time.Time) (from time.Time, spread time.Duration) {
	const soon = 500 * time.Millisecond
	from = t.Add(soon).Truncate(time.Millisecond)
	rest := t.Truncate(time.Minute).Add(time.Minute).Sub(from)
	return from, min(max(0, rest), portionSpan)
}

// portions is how many late imports there are, spread over the span.
const portions = 5

// counts divides jobs: 5 % due within the minute of their own import, 0.5 % immediate, the rest due over the span.
// The portions are equal, so the last two are multiples of their number.
func counts(jobs int) (main, near, immediate int) {
	near = jobs * 5 / 100 / portions * portions
	immediate = max(jobs*5/1000/portions, 1) * portions
	return jobs - near - immediate, near, immediate
}

// portionPlan returns when the late imports happen, counted from T0: in a blackout all at once, right after the main one,
// so that the kill finds them as fresh as can be.
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

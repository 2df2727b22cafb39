package chaos

import (
	"fmt"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// Scenarios in which links are cut. Each member has a network namespace.
const (
	CutStore    Scenario = "cut-store"
	CutQueue    Scenario = "cut-queue"
	CutGossip   Scenario = "cut-gossip"
	CutOneWay   Scenario = "cut-oneway"
	CutFlap     Scenario = "cut-flap"
	CutExecutor Scenario = "cut-executor"
	WrongClock  Scenario = "wrong-clock"
)

const (
	// cutRests is how late runs may be whose dispatcher is cut from its store or queue. It gives up
	// its shards after about 10 s; another one notices and reads them.
	cutRests = 10*time.Second + noticed + 7*time.Second
)

// three is a cluster whose members all have a quorum without one of them.
var three = cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 3}

const (
	// steadyRate is the runs a second of a steady load: what two cores carry with three replicas of
	// everything, and room to catch up with what two minutes without a quorum leave. At 40 a few
	// runs were later than the bound; --rate asks for more.
	steadyRate = 20
	// mostSteady bounds the jobs of a steady load: the judge reads each of them twice.
	mostSteady = 40_000
)

// steadyMix is the mix of guarantees where nothing depends on it.
var steadyMix = Mix{AtLeastOnce: 7, EffectivelyOnce: 2, AtMostOnce: 1}

func namespaced(s cluster.Spec) cluster.Spec {
	s.Namespaces = true
	return s
}

// cutOf declares a scenario of cuts, of three spans one after the other, with a rest between.
func cutOf(links string, bound time.Duration, spans ...seconds) *Load {
	var c chain
	at := seconds(20)
	for _, span := range spans {
		c = append(c, outage(links, at, at+span)...)
		c = append(c, agree(at+span))
		at += span + 40
	}
	return &Load{
		Rate: min(steadyRate, int(mostSteady/at)), Span: at.span(), Mix: steadyMix, MaxLateness: bound,
		Faults: func(cluster.Spec) []chain { return []chain{c} },
	}
}

var networkPlans = []Plan{
	{
		Name: CutStore, Takes: 12 * time.Minute, Members: namespaced(three),
		Does:     "one node is cut from all Cassandra for 20 s, 60 s and 5 min, not from gossip (F5)",
		Promises: "it gives up its shards after about 10 s: at most 50 s late",
		Load:     cutOf(between("carillon-2", "cassandra"), cutRests+deathCosts, 20, 60, 300),
	},
	{
		Name: CutQueue, Takes: 6 * time.Minute, Members: namespaced(three),
		Does:     "one node is cut from all NATS for 20 s and 60 s (F10)",
		Promises: "it gives up its shards after about 10 s: at most 50 s late",
		Load:     cutOf(between("carillon-2", "nats"), cutRests+deathCosts, 20, 60),
	},
	{
		Name: CutGossip, Takes: 12 * time.Minute, Members: namespaced(three),
		Does:     "one node is cut from the others' gossip for 20 s, 60 s and 5 min (F4)",
		Promises: "two owners of a shard do no harm; views are equal 60 s after the heal",
		Load:     cutOf(between("carillon-2", "carillon"), deathCosts, 20, 60, 300),
	},
	{
		Name: CutOneWay, Takes: 6 * time.Minute, Members: namespaced(three),
		Does:     "one direction only, 40 s each: node to Cassandra, NATS to node, node to gossip (F6)",
		Promises: "as if both directions were cut",
		Load: steady(4*time.Minute, cutRests+deathCosts, func(cluster.Spec) []chain {
			var c chain
			for i, links := range []string{
				toward("carillon-2", "cassandra"), toward("nats", "carillon-2"), toward("carillon-2", "carillon"),
			} {
				at := seconds(20 + 70*i)
				c = append(c, outage(links, at, at+40)...)
				c = append(c, agree(at+40))
			}
			return []chain{c}
		}),
	},
	{
		Name: CutFlap, Takes: 5 * time.Minute, Members: namespaced(three),
		Does:     "one node is cut from gossip and Cassandra, 1 s on and 1 s off for 2 min (F6)",
		Promises: "no storm of ring changes; views are equal 60 s after the last heal",
		Load: steady(3*time.Minute, cutRests+deathCosts, func(cluster.Spec) []chain {
			var gossip, store chain
			for at := seconds(20); at < 140; at += 2 {
				gossip = append(gossip, outage(between("carillon-2", "carillon"), at, at+1)...)
				store = append(store, outage(between("carillon-2", "cassandra"), at, at+1)...)
			}
			return []chain{append(gossip, agree(141)), store}
		}),
	},
	{
		Name: WrongClock, Takes: 7 * time.Minute, Members: namespaced(cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3}),
		Does:     "the clock of one node is set 1.5 s ahead for 40 s, later 0.4 s for 40 s (F24)",
		Promises: "at 1.5 s it refuses work and others take over; at 0.4 s it goes on: nothing is earlier than that",
		Off:      450 * time.Millisecond,
		Load: steady(4*time.Minute, cutRests+deathCosts, func(cluster.Spec) []chain {
			return []chain{{
				do(20, ActClock, "carillon-2 to 1.5s"), do(60, ActClock, "carillon-2 to 0s"), agree(60),
				do(120, ActClock, "carillon-2 to 400ms"), do(160, ActClock, "carillon-2 to 0s"), agree(160),
			}}
		}),
	},
	{
		Name: CutExecutor, Takes: 6 * time.Minute, Members: executing(namespaced(three)),
		Does:     "an executor is cut from NATS for 40 s, another from Cassandra, in the middle of jobs (F10)",
		Promises: "others finish what it held; no guarantee is broken",
		Load: &Load{
			Rate: steadyRate, Span: 3 * time.Minute, Mix: Mix{10, 6, 4}, MaxLateness: 2 * deathCosts,
			Faults: func(cluster.Spec) []chain {
				c := outage(between("carillon-2", "nats"), 20, 60)
				c = append(c, agree(60))
				c = append(c, outage(between("carillon-3", "cassandra"), 100, 140)...)
				return []chain{append(c, agree(140))}
			},
		},
	},
}

// executing gives all nodes but the first the role of an executor alone.
func executing(s cluster.Spec) cluster.Spec {
	s.Roles = executorRoles(s.Nodes)
	return s
}

// numbered is the name of member i of a kind.
func numbered(kind string, i int) string { return fmt.Sprintf("%s-%d", kind, i) }

package chaos

import (
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// Scenarios in which processes are stopped or frozen.
const (
	QuorumCassandra Scenario = "quorum-cassandra"
	PauseCassandra  Scenario = "pause-cassandra"
	QuorumNATS      Scenario = "quorum-nats"
	PauseNATS       Scenario = "pause-nats"
	RollingNATS     Scenario = "rolling-nats"
	KillNATS        Scenario = "kill-nats"
	Freeze          Scenario = "freeze"
	Rolling         Scenario = "rolling"
)

// recovers is how long a cluster may need after a fault of its stores until its backlog is done.
const recovers = 45 * time.Second

// two declares that two of three members of a kind are away in the same span.
func two(act Act, kind string, from, to seconds) []chain {
	return []chain{away(act, numbered(kind, 2), from, to), away(act, numbered(kind, 3), from, to)}
}

var processPlans = []Plan{
	{
		Name: QuorumCassandra, Takes: 7 * time.Minute, Members: three,
		Does:     "2 of 3 Cassandra are killed for 2 min, then start again (F19)",
		Promises: "what was acknowledged runs when they are back, or its misfire policy says otherwise",
		Load:     steady(4*time.Minute, 2*time.Minute+startsAgain+recovers, func(cluster.Spec) []chain { return two(ActKill, "cassandra", 30, 150) }),
	},
	{
		Name: PauseCassandra, Takes: 7 * time.Minute, Members: three,
		Does:     "one Cassandra is frozen for 60 s, later two of three (F18)",
		Promises: "nothing missed; late by the pause of two at most",
		Load: steady(4*time.Minute, time.Minute+recovers, func(cluster.Spec) []chain {
			return append(two(ActFreeze, "cassandra", 120, 180), away(ActFreeze, numbered("cassandra", 1), 20, 80))
		}),
	},
	{
		Name: QuorumNATS, Takes: 6 * time.Minute, Members: three,
		Does:     "2 of 3 NATS are killed for 2 min, then start again (F14)",
		Promises: "jobs are refused while they are away; what fell due runs when they are back",
		Load:     steady(4*time.Minute, 2*time.Minute+startsAgain+recovers, func(cluster.Spec) []chain { return two(ActKill, "nats", 30, 150) }),
	},
	{
		Name: PauseNATS, Takes: 7 * time.Minute, Members: three,
		Does:     "the NATS that leads the stream is frozen for 60 s, later two of three (F18)",
		Promises: "nothing missed; late by the pause of two at most",
		Load: steady(4*time.Minute, time.Minute+recovers, func(cluster.Spec) []chain {
			return append(two(ActFreeze, "nats", 120, 180), away(ActFreeze, streamLeader, 20, 80))
		}),
	},
	{
		Name: RollingNATS, Takes: 5 * time.Minute, Members: three,
		Does:     "each NATS in turn is stopped (SIGTERM) and started again, twice (F16)",
		Promises: "nothing missed; runs that are published twice start once",
		Load:     steady(3*time.Minute, deathCosts, func(m cluster.Spec) []chain { return []chain{rolling("nats", 2*m.NATS, m.NATS, 20, 20)} }),
	},
	{
		Name: KillNATS, Takes: 5 * time.Minute, Members: three,
		Does:     "the NATS that leads the stream is killed -9 every 10 s, back 4 s later (F11)",
		Promises: "nothing missed; runs that are published twice start once",
		Load: steady(3*time.Minute, 2*deathCosts, func(cluster.Spec) []chain {
			var c chain
			for at := seconds(20); at < 140; at += 10 {
				c = append(c, away(ActKill, streamLeader, at, at+4)...)
			}
			return []chain{append(c, agree(150))}
		}),
	},
	{
		Name: Freeze, Takes: 6 * time.Minute, Members: three,
		Does:     "each node in turn is frozen for 40 s (F2)",
		Promises: "others take over; what a thawed node still believes does no harm",
		Load: steady(4*time.Minute, 2*deathCosts, func(m cluster.Spec) []chain {
			var c chain
			for i := range m.Nodes {
				at := seconds(20 + 70*i)
				c = append(c, away(ActFreeze, numbered("carillon", i+1), at, at+40)...)
				c = append(c, agree(at+40))
			}
			return []chain{c}
		}),
	},
	{
		Name: Rolling, Takes: 5 * time.Minute, Members: three,
		Does:     "each node in turn is stopped (SIGTERM) and started again, twice (F3)",
		Promises: "nothing missed; at most 2 s late",
		Load:     steady(3*time.Minute, 2*time.Second, func(m cluster.Spec) []chain { return []chain{rolling("carillon", 2*m.Nodes, m.Nodes, 20, 20)} }),
	},
}

// startsAgain is how long a killed Cassandra may take until it serves again.
const startsAgain = 60 * time.Second

// rolling stops and starts one member after the other.
func rolling(kind string, times, members int, from, every seconds) chain {
	var c chain
	for i := range times {
		at := from + every*seconds(i)
		c = append(c, away(ActStop, numbered(kind, i%members+1), at, at)...)
	}
	return append(c, agree(from+every*seconds(times)))
}

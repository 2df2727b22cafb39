package chaos

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// Scenarios of two regions (--regions 3: three) and a witness on one keyspace. All faults are of
// region eu; what is at home in another one is to notice nothing.
const (
	RegionKilled   Scenario = "region-killed"
	RegionCut      Scenario = "region-cut"
	RegionSlow     Scenario = "region-slow"
	RegionMove     Scenario = "region-move"
	RegionFailback Scenario = "region-failback"
	RegionAuto     Scenario = "region-automatic"
	RegionRolling  Scenario = "region-rolling"
	RegionClock    Scenario = "region-clock"
)

// regionRate is the runs a second of each home: two cores carry five Cassandra and NATS, four nodes
// and what is started again beside it. --rate asks for more.
const regionRate = 20

// twoRegions is what each region has.
var twoRegions = cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2, Shards: 16}

// byHand is how late a run may be whose region is lost: until an operator's command, until it takes
// effect, and the backlog.
const byHand = 10*time.Second + byHandWithin + 20*time.Second

// regional declares a scenario of regions.
func regional(name Scenario, span, late time.Duration, does, promises string, faults chain) Plan {
	return regionalOf(name, span, late, does, promises, func(cluster.Spec) []chain { return []chain{faults} })
}

// regionalOf is regional where faults depend on the members that region eu has.
func regionalOf(name Scenario, span, late time.Duration, does, promises string, faults func(cluster.Spec) []chain) Plan {
	return Plan{
		Name: name, Takes: span + 4*time.Minute, Members: twoRegions, Regions: 2, Does: does, Promises: promises,
		Load: &Load{
			Rate: regionRate, Span: span, Mix: steadyMix, MaxLateness: late, Faults: faults,
		},
	}
}

// clockAhead is by how far the clocks of region eu are ahead in region-clock: of a clock that is
// off by more a node refuses work, if another machine tells it the time.
const clockAhead = 400 * time.Millisecond

// regionClock is a region whose clock is off by as much as nobody tells it.
func regionClock() Plan {
	p := regionalOf(RegionClock, 4*time.Minute, byHand,
		"the clocks of all nodes of region eu are set 0.4 s ahead; its home is moved to us, and back while they still are",
		"nothing missed, and nothing earlier than that; nothing starts beyond a lease; home us notices nothing",
		func(m cluster.Spec) []chain {
			set := func(at seconds, ahead time.Duration) (all chain) {
				for i := range m.Nodes {
					all = append(all, do(at, ActClock, fmt.Sprintf("eu/carillon-%d%s%s", i+1, toWord, ahead)))
				}
				return all
			}
			return []chain{slices.Concat(set(fault, clockAhead), chain{do(fault+20, ActMove, "eu to us"), do(fault+90, ActMove, "eu to eu")}, set(fault+140, 0))}
		})
	p.Off = clockAhead + 50*time.Millisecond
	return p
}

// fault is when the first fault comes.
const fault = seconds(regionsFault / time.Second)

var regionPlans = []Plan{
	regional(RegionKilled, 4*time.Minute, byHand,
		"every process of region eu is killed; its home fails over, and is moved back when it runs again",
		"nothing missed; fail-over 30 s by hand; home us notices nothing",
		chain{
			do(fault, ActRegionKill, "eu"), do(fault+5, ActFailOver, "eu to us"),
			do(fault+70, ActRegionStart, "eu"), do(fault+110, ActMove, "eu to eu"),
		}),
	regional(RegionAuto, 4*time.Minute, byHand+30*time.Second,
		"as region-killed, and nobody gives the command: regions.automatic is set",
		"nothing missed; fail-over 60 s by itself; home us notices nothing",
		chain{do(fault, ActRegionKill, "eu"), do(fault+80, ActRegionStart, "eu"), do(fault+120, ActMove, "eu to eu")}),
	regional(RegionCut, 4*time.Minute, 3*time.Minute,
		"region eu is cut off from all others for 70 s; its home fails over, and is moved back after the heal",
		"eu starts nothing beyond its lease; what it took in and us never saw runs after the heal or the move; home us notices nothing",
		chain{
			do(fault, ActRegionCut, "eu"), do(fault+5, ActFailOver, "eu to us"),
			do(fault+70, ActRegionHeal, "eu"), do(fault+110, ActMove, "eu to eu"),
		}),
	regional(RegionSlow, 3*time.Minute, 2*time.Second,
		"packets between regions take 200 ms, one way, for 60 s",
		"both homes notice nothing",
		chain{do(fault, ActRegionDelay, "200ms"), do(fault+60, ActRegionDelay, regionsDelay.String())}),
	regional(RegionMove, 4*time.Minute, byHand,
		"home eu is moved to us and back, while both regions are well",
		"nothing missed; home us notices nothing",
		chain{do(fault, ActMove, "eu to us"), do(fault+90, ActMove, "eu to eu")}),
	regionalOf(RegionRolling, 4*time.Minute, 2*time.Second,
		"each node of region eu in turn is stopped (SIGTERM) and started again, twice",
		"nothing missed; at most 2 s late; home us notices nothing",
		func(m cluster.Spec) []chain {
			return []chain{rolling("carillon", 2*m.Nodes, m.Nodes, fault, 20)}
		}),
	regionClock(),
	regional(RegionFailback, 5*time.Minute, 3*time.Minute,
		"region eu is cut off, killed 3 s later, failed over, started again, healed, and its home is moved back",
		"what eu took in and us never saw runs after the fail-back, or was met before; home us notices nothing",
		chain{
			do(fault, ActRegionCut, "eu"), do(fault+3, ActRegionKill, "eu"), do(fault+8, ActFailOver, "eu to us"),
			do(fault+70, ActRegionHeal, "eu"), do(fault+70, ActRegionStart, "eu"), do(fault+120, ActMove, "eu to eu"),
		}),
}

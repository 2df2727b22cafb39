package sim

import (
	"slices"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// lateByMove is how late a run may be where its home goes to another region.
	lateByMove = 40 * time.Second
	// lateByAnnounced is how late it may be where that was announced.
	lateByAnnounced = 15 * time.Second
	// lateByRequired is how late a run may be that waits for its region: as long as that does not
	// serve, over a minute or two, and as long again until it is tried next.
	lateByRequired = 8 * time.Minute
	// lateByRegister is how late it may be where a region does not reach the epochs.
	lateByRegister = 50 * time.Second
	// lateByAll is how late it may be where none reaches them for up to 65 s; one does not for up to 40 s.
	lateByAll = lateByRegister + 25*time.Second
	// slowest is how long replication may take such that what a region did in the last instant of
	// its lease is there when the next one begins.
	slowest = schema.TakeOverWait - schema.HomeLeaseLife - 100*time.Millisecond
	// lateByLoss is how late it may be where its row reaches the other region after that has taken
	// over: it is found by the second read.
	lateByLoss = lateCosts
)

// shortRegions are those that short tests run. A seed costs about a second of CPU.
var shortRegions = []string{"homes move to and fro", "one dies and comes back", "one is cut off, and both believe that they serve"}

// regionScenarios are those of two regions, each with two nodes. `make sim
// RUN=TestSimulationOfRegions$` runs thousands of seeds of them.
var regionScenarios = []play{
	{"nothing goes wrong", 1, Scenario{Guarantees: true, Regions: &Regional{}, Promise: Promise{Lateness: onTime, Once: true, NoneLost: true, Lag: 4}}, nil},
	{"the link between them is cut", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: linkIsCut}, Promise: Promise{Lateness: onTime, NoneLost: true},
	}, nil},
	{"the link between them is cut, and nodes are killed", 1, Scenario{Guarantees: true, Changes: true, Kills: 6, Regions: &Regional{Plan: linkIsCut}}, nil},
	{"homes move to and fro", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMove}, Promise: Promise{Lateness: lateByMove, NoneLost: true},
	}, nil},
	{"homes move to and fro, and jobs require their region", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMoveAndReturn, Required: true}, Promise: Promise{Lateness: lateByRequired, NoneLost: true},
	}, nil},
	{"homes move to and fro, jobs require their region, and nodes are killed", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 6, Regions: &Regional{Plan: homesMoveAndReturn, Required: true}, Promise: Promise{Lateness: lateByRequired + deathCosts + 30*time.Second},
	}, nil},
	{"homes move to and fro as announced", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMoveAnnounced}, Promise: Promise{Lateness: lateByAnnounced, NoneLost: true},
	}, nil},
	{"homes move to and fro soon after it was announced", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMoveSoon}, Promise: Promise{Lateness: lateByMove, NoneLost: true},
	}, nil},
	{"homes move to and fro as announced, while nodes are killed, and who serves cannot be read", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 6, Regions: &Regional{Plan: func(d *drama) {
			var wg sync.WaitGroup
			wg.Go(func() { registerIsAway(d) })
			homesMoveSoon(d)
			wg.Wait()
		}},
	}, nil},
	{"homes move to and fro, and jobs recur", 1, Scenario{
		Jobs: 40, Recurring: 12, Changes: true, Guarantees: true, Regions: &Regional{Plan: homesMove}, Promise: Promise{Lateness: lateByMove, NoneLost: true},
	}, nil},
	{"homes move to and fro, and workflows, events and joins", 1, Scenario{
		Jobs: 40, Workflows: 6, Events: 10, Joins: 6, Regions: &Regional{Plan: homesMove}, Promise: Promise{NoneLost: true},
	}, nil},
	{"homes move to and fro, and jobs and tasks have limits", 1, Scenario{
		Jobs: 40, Limited: 6, Rated: 80, Concurrent: 45, Regions: &Regional{Plan: homesMove},
	}, nil},
	{"homes move to and fro, while nodes are killed and callees fail", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 6, Faults: Faults{Target: 0.1}, Regions: &Regional{Plan: homesMove},
	}, nil},
	{"homes move to and fro, while everything fails", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 3, Faults: Faults{Store: 0.005, Message: 0.01, Target: 0.05, Crash: 0.001}, Regions: &Regional{Plan: homesMove},
	}, nil},
	{"homes move to and fro, and clocks are off", 1, Scenario{
		Guarantees: true, Changes: true, Skew: time.Second, SkewEnds: true, Regions: &Regional{Plan: homesMove},
	}, nil},
	{"homes move to and fro, and clocks are set", 1, Scenario{
		Guarantees: true, Steps: 5, InTurn: true, Regions: &Regional{Plan: homesMove},
	}, nil},
	{"homes move to and fro, and replication takes as long as it may", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMove, Most: slowest}, Promise: Promise{Lateness: lateByMove, NoneLost: true},
	}, nil},
	{"homes move to and fro, and replication takes up to a minute", 1, Scenario{
		Regions: &Regional{Plan: homesMove, Most: time.Minute}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"homes move to and fro, and conditional writes are not answered", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: homesMove, Unanswered: 0.2},
	}, nil},
	{"homes move to and fro, conditional writes are not answered, and jobs and tasks have limits", 1, Scenario{
		Jobs: 40, Limited: 6, Rated: 80, Concurrent: 45, Regions: &Regional{Plan: homesMove, Unanswered: 0.2},
	}, nil},
	{"homes move to and fro, conditional writes are not answered, and workflows, events and joins", 1, Scenario{
		Jobs: 40, Workflows: 6, Events: 10, Joins: 6, Regions: &Regional{Plan: homesMove, Unanswered: 0.2},
	}, nil},
	{"one is cut off, and conditional writes are not answered", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: regionIsApart, Loses: true, Unanswered: 0.2}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"who serves cannot be read", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: registerIsAway}, Promise: Promise{Lateness: lateByRegister, NoneLost: true},
	}, nil},
	{"who serves cannot be read, and jobs recur", 1, Scenario{
		Jobs: 40, Recurring: 12, Guarantees: true, Regions: &Regional{Plan: registerIsAway}, Promise: Promise{NoneLost: true},
	}, nil},
	{"one dies and comes back", 1, Scenario{Guarantees: true, Changes: true, Regions: &Regional{Plan: regionDies, Loses: true}, Promise: Promise{Lateness: lateByLoss}}, nil},
	{"one dies and comes back, and jobs recur", 1, Scenario{
		Jobs: 40, Recurring: 12, Regions: &Regional{Plan: regionDies, Loses: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one dies and comes back, while nodes are killed and callees fail", 1, Scenario{
		Guarantees: true, Changes: true, Kills: 4, Faults: Faults{Target: 0.1}, Regions: &Regional{Plan: regionDies, Loses: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is cut off, and jobs recur", 1, Scenario{
		Jobs: 40, Recurring: 12, Regions: &Regional{Plan: regionIsApart, Loses: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is lost for good", 1, Scenario{Guarantees: true, Changes: true, Regions: &Regional{Plan: regionDies, Loses: true, Gone: true}, Promise: Promise{Lateness: lateByLoss}}, nil},
	{"one is lost for good while replication takes up to a minute", 1, Scenario{
		Regions: &Regional{Plan: regionDies, Most: time.Minute, Loses: true, Gone: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is cut off, and both believe that they serve", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: regionIsApart, Loses: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one dies, is failed over by itself, and comes back", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: regionDies, Loses: true, Automatic: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"one is cut off, and is failed over by itself", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: regionIsApart, Loses: true, Automatic: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
	{"none reaches the others, and homes may be failed over by themselves", 1, Scenario{
		Guarantees: true, Changes: true, Regions: &Regional{Plan: allAreApart, Automatic: true}, Promise: Promise{Lateness: lateByAll, NoneLost: true},
	}, nil},
	{"one is cut off while clocks are off", 1, Scenario{
		Guarantees: true, Skew: time.Second, SkewEnds: true, Regions: &Regional{Plan: regionIsApart, Loses: true}, Promise: Promise{Lateness: lateByLoss},
	}, nil},
}

func init() {
	for i := range everywhereScenarios {
		everywhereScenarios[i].name += ", everywhere"
	}
	regionScenarios = append(regionScenarios, everywhereScenarios...)
	for i := range regionScenarios {
		s := &regionScenarios[i].Scenario
		s.Nodes, s.Shards = 2, 4
		if s.Jobs == 0 {
			s.Jobs = 400
		}
	}
}

// TestSimulationOfRegions: whatever happens to two regions and to what lies between them, what
// TestSimulation says of one holds for both, and no region does anything for a home without the
// lease on it.
func TestSimulationOfRegions(t *testing.T) {
	played := regionScenarios
	if testing.Short() {
		played = only(played, func(p *play) bool { return slices.Contains(shortRegions, p.name) })
	}
	playAll(t, played)
}

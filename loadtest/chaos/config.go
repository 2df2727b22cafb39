package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// A Scenario names what happens to the cluster while jobs run.
type Scenario string

// The scenarios with a course of their own. Those with a steady load are named beside their plans.
const (
	// Faults kills a Carillon node, a Cassandra node and a NATS server, and freezes another
	// Carillon node.
	Faults Scenario = "faults"
	// Calm is the same without faults.
	Calm Scenario = "calm"
	// Stream is Faults, and all JetStream streams of Carillon are deleted in the middle.
	Stream Scenario = "stream"
	// Blackout kills every process of the cluster a second after the summary of the last import,
	// and starts all again.
	Blackout Scenario = "blackout"
	// Kill kills one Carillon node and starts it again: for small clusters and short runs.
	Kill Scenario = "kill"
	// Recurring has recurring jobs with a start and an end. A Carillon node is killed after a third
	// of the span and started again after half of it.
	Recurring Scenario = "recurring"
	// Pause has recurring jobs that are paused, resumed, updated and cancelled at random instants.
	Pause Scenario = "pause"
	// Stopped has recurring jobs of every misfire policy. All Carillon nodes are killed and started
	// again Config.Stop later.
	Stopped Scenario = "stopped"
	// Guarantees has jobs under all three guarantees, run by nodes that only execute. Each
	// Config.KillEvery one of these is killed, and started again some seconds later.
	Guarantees Scenario = "guarantees"
	// Frozen has such jobs too. An executor is frozen past its session while it holds runs of each
	// guarantee; others finish them; it thaws. What was read before is compared with what is read
	// after.
	Frozen Scenario = "frozen"
	// Limits has tasks with a rate or max_concurrent, and recurring jobs with a concurrency limit,
	// more of each than may run. A Carillon node is killed after a third of the span and started
	// again after half of it.
	Limits Scenario = "limits"
)

// Config describes one run. The zero value of a field is its default, where one is named.
type Config struct {
	Scenario Scenario // default Faults
	// in all; default 100,000, at least 200; recurring ones 50,000, Pause 1,000, Stopped 600, at
	// least 20; Limits 6,000 and a 40th as many recurring ones, at least 400; Workflows 2,000 runs of
	// workflows, at least 20
	Jobs int
	// Items is how many items the largest step of Workflows has; default 1,000.
	Items int
	// Lead is from the start of the main import to the first due instant; default 20 s.
	Lead time.Duration
	// Warm is how long runs go without a fault before the first due instant: half the rate in
	// Guarantees, 50 a second in Limits, the rate at each home in scenarios of regions. A new
	// Cassandra node needs four times the CPU for a conditional write. Default 90 s, Limits a
	// minute, regions 0; negative = not at all.
	Warm time.Duration
	// Span spreads the due instants of the main import. Default a minute; negative = all at T0
	// (Calm only). Jobs of Recurring run for it, default 5 min. In Pause and Stopped it lasts from
	// the last creation to the end of the observation, without Stop; default 2 min.
	Span time.Duration
	// Changes is how many runs are cancelled or rescheduled, half each. Default 300 or a tenth of
	// the jobs; negative = none.
	Changes int
	// Unkeyed imports the main part without idempotency keys. If that is cut, lines have unknown
	// outcomes.
	Unkeyed bool
	Payload int // bytes of each payload; 0 = the least
	Seed    uint64

	// Every is the distance of two runs of a recurring job; default 30 s, Pause 2 s, Stopped 10 s.
	Every time.Duration
	// Create lies between the start of the creation of Recurring's jobs and the start that they
	// state. Default as long as it takes at 125 a second, at least 5 s.
	Create time.Duration
	// Rate is the runs a second of a steady load. Default as the plan says.
	Rate int
	// Regions is how many there are in scenarios of regions: 2 or 3, beside a witness. Default as
	// the plan says.
	Regions int
	// Older is the commit of the older build in TwoBuilds; default as olderCommit says.
	Older string
	// KillEvery is the time between two kills of executors in Guarantees; default 10 s.
	KillEvery time.Duration
	// Mix divides the jobs of Guarantees, or of a steady load, by guarantee. Default 10, 6 and 4 of
	// 20, or as the plan says.
	Mix Mix
	// Stop is how long no node runs in Stopped. Default 3 min.
	Stop time.Duration
	// Concurrency bounds the requests under way that create and cancel recurring jobs; default 128.
	Concurrency int

	Cluster cluster.Spec

	// Dir holds members' data and logs, jobs, answers, sinks' records and the report. It must be
	// empty or missing.
	Dir string
	// Program is the path of carillon-load, which is run as sink and as judge.
	Program string
	// Command is how the run was started, for the report.
	Command string

	// Late is how late runs may start. Default as latenessBound says.
	Late check.LatenessBound
	// Wait is how long after the last due instant runs may take to end; default 2 min.
	Wait time.Duration
	// Apart is how long the judge's second read comes after the first; default 30 s.
	Apart time.Duration
	// Idle is how long the idle cluster's CPU is measured before the import; default 5 s.
	Idle time.Duration

	Log *slog.Logger
}

const (
	defaultJobs    = 100_000
	defaultLead    = 20 * time.Second
	defaultSpan    = time.Minute
	defaultChanges = 300
	defaultWait    = 2 * time.Minute
	defaultApart   = 30 * time.Second
	defaultIdle    = 5 * time.Second

	minJobs = 200
	maxRate = 10_000

	defaultKillEvery = 10 * time.Second
	leastKillEvery   = 4 * time.Second
	maxParts         = 100

	defaultStop        = 3 * time.Minute
	defaultConcurrency = 128
	minRecurring       = 20
	createRate         = 125 // jobs a second, on a small machine
	leastCreate        = 5 * time.Second
	minGuarantees      = 60
)

// withDefaults returns c with the defaults filled in. A negative value that means "none" becomes 0.
func (c Config) withDefaults() Config {
	c.Scenario = cmp.Or(c.Scenario, Faults)
	p := c.Scenario.plan()
	if l := p.Load; l != nil {
		c.Rate, c.Span, c.Mix = cmp.Or(c.Rate, l.Rate), l.Span, cmp.Or(c.Mix, l.Mix)
		c.Jobs = int(float64(c.Rate) * c.Span.Seconds())
		c.Cluster.Namespaces, c.Cluster.Disks = p.Members.Namespaces, p.Members.Disks
	}
	c.Rate, c.Span = cmp.Or(c.Rate, p.Course.Rate), max(cmp.Or(c.Span, p.Course.Span, defaultSpan), 0)
	c.Jobs = cmp.Or(c.Jobs, p.Course.Jobs, int(float64(c.Rate)*c.Span.Seconds()), defaultJobs)
	c.Lead, c.Warm = cmp.Or(c.Lead, p.Course.Lead, defaultLead), max(cmp.Or(c.Warm, p.Course.Warm), 0)
	c.Every, c.Stop = cmp.Or(c.Every, p.Course.Every), cmp.Or(c.Stop, defaultStop)
	if c.Scenario == Recurring {
		c.Create = cmp.Or(c.Create, max(leastCreate, time.Duration(c.Jobs)*time.Second/createRate))
	}
	c.KillEvery, c.Mix = cmp.Or(c.KillEvery, defaultKillEvery), cmp.Or(c.Mix, defaultMix)
	c.Concurrency, c.Items = cmp.Or(c.Concurrency, defaultConcurrency), cmp.Or(c.Items, workflowItems)
	c.Wait, c.Apart, c.Idle = cmp.Or(c.Wait, defaultWait), cmp.Or(c.Apart, defaultApart), cmp.Or(c.Idle, defaultIdle)
	c.Cluster.Shards, c.Regions = cmp.Or(c.Cluster.Shards, p.Members.Shards), cmp.Or(c.Regions, p.Regions)
	if p.Load != nil || p.Course.Unchanged {
		c.Changes = -1
	}
	c.Changes = max(cmp.Or(c.Changes, min(defaultChanges, c.Jobs/10)), 0)
	c.Late = cmp.Or(c.Late, latenessBound(c))
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Validate reports every fault of c together.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains(Scenarios, c.Scenario) {
		fault("scenario is %q, want one of %q", c.Scenario, Scenarios)
	}
	least := minJobs
	if c.Scenario.Recurs() {
		least = minRecurring
		c.faultsOfRecurring(fault)
	}
	if c.Span == 0 && c.Scenario != Calm && c.Scenario != HerdMillion {
		fault("all jobs at one instant leave no time for the faults of %q", c.Scenario)
	}
	if m := c.Mix; (c.Scenario.Guards() || c.Scenario.Steady()) &&
		(min(m.AtLeastOnce, m.EffectivelyOnce, m.AtMostOnce) < 1 || max(m.AtLeastOnce, m.EffectivelyOnce, m.AtMostOnce) > maxParts) {
		fault("mix is %d, %d, %d, want each from 1 to %d", m.AtLeastOnce, m.EffectivelyOnce, m.AtMostOnce, maxParts)
	}
	if c.Scenario.Guards() {
		least = minGuarantees
		if c.KillEvery < leastKillEvery {
			fault("kill every is %s, want at least %s: an executor needs some seconds to come back", c.KillEvery, leastKillEvery)
		}
		if c.Scenario != Guarantees && c.Mix != defaultMix {
			fault("a mix is of %q, not of %q", Guarantees, c.Scenario)
		}
		if c.Cluster.Nodes < 3 {
			fault("cluster: %d Carillon nodes; %q needs at least 3, one that dispatches and two that execute", c.Cluster.Nodes, c.Scenario)
		}
	}
	if c.Scenario == Limits {
		least = minLimited
		if c.Cluster.Nodes < 2 {
			fault("cluster: %d Carillon nodes; %q needs at least 2, since one is killed", c.Cluster.Nodes, c.Scenario)
		}
		if c.Lead < 2*tasksLead {
			fault("lead is %s, want at least %s for %q: dispatchers must know the tasks by then", c.Lead, 2*tasksLead, c.Scenario)
		}
	}
	if c.Scenario == Workflows {
		least = minWorkflowRuns
		if c.Jobs > mostWorkflowRuns {
			fault("jobs: %d, want at most %d runs of workflows", c.Jobs, mostWorkflowRuns)
		}
		if c.Cluster.Nodes < 2 {
			fault("cluster: %d Carillon nodes; %q needs at least 2, since one is killed", c.Cluster.Nodes, c.Scenario)
		}
		if c.Items < 1 || c.Items > schema.MaxItems {
			fault("items: %d, want 1 to %d", c.Items, schema.MaxItems)
		}
	}
	if c.Jobs < least {
		fault("jobs: %d, want at least %d", c.Jobs, least)
	}
	if c.Span%time.Millisecond != 0 {
		fault("the span is %s, want whole milliseconds", c.Span)
	}
	if c.Changes > c.Jobs/10 {
		fault("changes: %d, want at most a tenth of the %d jobs", c.Changes, c.Jobs)
	}
	for name, d := range map[string]time.Duration{"lead": c.Lead, "wait": c.Wait, "apart": c.Apart, "idle": c.Idle} {
		if d < 0 {
			fault("%s is %s, want it positive", name, d)
		}
	}
	if c.Dir == "" {
		fault("dir is not given")
	}
	if c.Program == "" {
		fault("program is not given")
	}
	if c.Cluster.Cassandra < 1 || c.Cluster.NATS < 1 || c.Cluster.Nodes < 1 {
		fault("cluster: at least one each of Cassandra, NATS and Carillon is needed, asked for are %d, %d, %d",
			c.Cluster.Cassandra, c.Cluster.NATS, c.Cluster.Nodes)
	}
	if len(c.Cluster.Roles) > 0 {
		fault("cluster: roles are not stated here: they follow from the scenario")
	}
	if c.Rate != 0 && !c.Scenario.Steady() && c.Scenario != Soak {
		fault("a rate is of scenarios with a steady load, not of %q", c.Scenario)
	}
	if c.Rate < 0 || c.Rate > maxRate {
		fault("the rate is %d, want 1 to %d runs a second", c.Rate, maxRate)
	}
	if l := c.Scenario.plan().Load; l != nil {
		faults = append(faults, l.missing(c.Cluster))
	}
	if of := c.Scenario.plan().Regions; c.Regions != of && (of == 0 || c.Regions < 2 || c.Regions > 3) {
		fault("regions: %d; scenarios of regions have 2 or 3, others none", c.Regions)
	}
	if c.Scenario == Blackout && c.Cluster.CommitLog != cluster.CommitLogGroup {
		fault("a blackout needs the group commit log: the periodic one loses acknowledged writes when every replica is killed")
	}
	return errors.Join(append(faults, c.Cluster.Validate())...)
}

// faultsOfRecurring reports faults in the fields of recurring jobs.
func (c Config) faultsOfRecurring(fault func(format string, args ...any)) {
	if c.Every < time.Second || c.Every%time.Millisecond != 0 {
		fault("every is %s, want at least a second and whole milliseconds", c.Every)
	}
	if c.Span < 2*c.Every {
		fault("the span is %s, want at least two times %s", c.Span, c.Every)
	}
	if c.Create < 0 || c.Create > 0 && c.Scenario != Recurring {
		fault("create is %s, want it positive, and only for %q: other jobs run from their creation on", c.Create, Recurring)
	}
	if c.Stop < time.Second {
		fault("stop is %s, want at least a second", c.Stop)
	}
	if c.Concurrency < 1 {
		fault("concurrency is %d, want at least 1", c.Concurrency)
	}
}

package chaos

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/workload"
)

// A Plan declares a scenario. The plans of one family of faults are in one file; Plans lists the
// families.
type Plan struct {
	Name Scenario
	// Does and Promises are one line each: what is done to the cluster, and what holds beside the
	// promises that the judge checks in every scenario.
	Does, Promises string
	// Takes is about how long a run takes, from the start of the cluster to the verdict.
	Takes time.Duration
	// Members are those that the scenario wants where nothing else is stated.
	Members cluster.Spec
	// Regions, if not 0, is how many regions there are, each with Members, beside a witness.
	Regions int
	// Off is how far the clocks of nodes are off that go on with their work.
	Off time.Duration
	// Alerts: a Prometheus watches, and it is judged which alerts fire.
	Alerts bool
	// Load is the load and its faults; nil in scenarios that have a course of their own.
	Load *Load
	// Course is the defaults of the others.
	Course Course
}

// A Course is the defaults of a scenario with a course of its own; zero = those of all.
type Course struct {
	// Jobs is how many jobs there are in all; 0 = as many as Rate and Span make, if there is a Rate.
	Jobs, Rate       int
	Lead, Warm, Span time.Duration // Span negative: all are due at one instant
	Every            time.Duration
	// Unchanged: no run is cancelled or rescheduled.
	Unchanged bool
	// Late is how late a run of c may start: what its faults and its backlog cost.
	Late func(c Config) check.LatenessBound
}

// A Load stays the same while faults come and go.
type Load struct {
	// Rate runs fall due each second, for Span from T0 on. Four of five are imported before T0, the
	// rest while the others run.
	Rate int
	Span time.Duration
	// Mix is how many of the jobs are under which guarantee.
	Mix Mix
	// Faults are the faults of a cluster of these members, from T0. All are mended within the span.
	Faults func(members cluster.Spec) []chain
	// MaxLateness is how late a run may start: what the faults cost.
	MaxLateness time.Duration
	// Kinds are the jobs; nil = those of guaranteeKinds, of which some fail.
	Kinds func(Mix) []workload.Kind
}

// missing says which members the faults name that a cluster of these does not have; nil = none.
func (l *Load) missing(members cluster.Spec) error {
	all := memberNamesOf(members)
	var faults []error
	for _, c := range l.Faults(members) {
		for _, s := range c {
			if _, ok := regionActs[s.act]; ok || s.act == ActClock {
				continue
			}
			switch s.act {
			case ActCut, ActHeal:
				if _, err := linksOf(s.member, all); err != nil {
					faults = append(faults, err)
				}
			default:
				for _, member := range strings.Split(s.member, togetherWord) {
					if member == "" || member == streamLeader || slices.Contains(all, member) {
						continue
					}
					faults = append(faults, fmt.Errorf("%s %s: the cluster has the members %q", s.act, s.member, all))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// memberNamesOf are the names of the members of a cluster.
func memberNamesOf(members cluster.Spec) []string {
	var all []string
	for _, part := range []struct {
		kind string
		n    int
	}{{"cassandra", members.Cassandra}, {"nats", members.NATS}, {"carillon", members.Nodes}} {
		for i := range part.n {
			all = append(all, numbered(part.kind, i+1))
		}
	}
	return all
}

// Plans lists all scenarios in the order in which they are shown.
var Plans = slices.Concat(classicPlans, networkPlans, processPlans, buildPlans, diskPlans, loadPlans, workflowPlans, regionPlans, alertPlans)

// families are the acts that families of plans bring with them.
var families = []acts{buildActs, diskActs, regionActs, clockActs, alertActs}

// Scenarios lists the names of all scenarios.
var Scenarios = names(Plans)

func names(plans []Plan) []Scenario {
	all := make([]Scenario, len(plans))
	for i := range plans {
		all[i] = plans[i].Name
	}
	return all
}

// plan returns the plan of the scenario; the zero Plan if there is none.
func (s Scenario) plan() Plan {
	for _, p := range Plans {
		if p.Name == s {
			return p
		}
	}
	return Plan{}
}

// Plan returns the plan of a scenario; ok is false if there is no such scenario.
func (s Scenario) Plan() (p Plan, ok bool) {
	p = s.plan()
	return p, p.Name != ""
}

// Steady reports whether the scenario is of a steady load, with faults that its plan states.
func (s Scenario) Steady() bool { return s.plan().Load != nil }

// Loads reports whether the scenario is of much or long load.
func (s Scenario) Loads() bool { return slices.Contains(names(loadPlans), s) }

// WritePlans lists all scenarios for people.
func WritePlans(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// A tabwriter keeps its first error for Flush.
	_, _ = fmt.Fprintln(tw, "SCENARIO\tTAKES\tWHAT IS DONE\tWHAT IS PROMISED")
	for _, p := range Plans {
		_, _ = fmt.Fprintf(tw, "%s\t%d min\t%s\t%s\n", p.Name, max(1, int(p.Takes.Round(time.Minute).Minutes())), p.Does, p.Promises)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("list scenarios: %w", err)
	}
	return nil
}

// classicPlans are the scenarios that have a course and a file of their own.
var classicPlans = []Plan{
	{
		Name: Faults, Takes: 5 * time.Minute, Members: cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2},
		Does:     "kill -9 of a node, a Cassandra and a NATS, 12 s freeze of the other node",
		Promises: "nothing missed or early, at most a minute late",
		Course:   Course{Late: faulty},
	},
	{
		Name: Calm, Takes: 4 * time.Minute, Members: cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2},
		Does:     "the same jobs and changes without faults",
		Promises: "99 of 100 within 2 s",
		Course:   Course{Late: behind(10*time.Second, 2*time.Second)},
	},
	{
		Name: Stream, Takes: 5 * time.Minute, Members: cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2},
		Does:     "faults, and the JetStream streams are deleted in the middle",
		Promises: "nothing missed: what was in the streams is published again",
		Course:   Course{Late: faulty},
	},
	{
		Name: Blackout, Takes: 6 * time.Minute, Members: cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2},
		Does:     "kill -9 of every process a second after an import, all start again",
		Promises: "every acknowledged job runs",
		Course:   Course{Late: behind(150*time.Second, 0)}, // everything starts again, Cassandra first
	},
	{
		Name: Kill, Takes: 3 * time.Minute, Members: cluster.Spec{Cassandra: 3, NATS: 3, Nodes: 2},
		Does:     "kill -9 of one node and its restart, for small clusters",
		Promises: "nothing missed, at most 30 s late",
		Course:   Course{Late: behind(deathCosts, 15*time.Second)},
	},
	{
		Name: Recurring, Takes: 20 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "50,000 jobs every 30 s; a node is killed and started again",
		Promises: "every occurrence runs once",
		// The misfire policy decides on what is not published 60 s after it was due.
		Course: Course{Jobs: 50_000, Every: 30 * time.Second, Span: 5 * time.Minute, Late: late(time.Minute + deathCosts)},
	},
	{
		Name: Pause, Takes: 5 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "1,000 jobs every 2 s are paused, resumed, updated, cancelled",
		Promises: "no run after a pause or cancel, no old revision after an update",
		Course:   Course{Jobs: 1000, Every: 2 * time.Second, Span: 2 * time.Minute, Late: late(deathCosts)},
	},
	{
		Name: Stopped, Takes: 8 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "all nodes are killed for 3 min; recurring jobs of every misfire policy",
		Promises: "each missed occurrence is treated as its policy says",
		Course: Course{
			Jobs: 600, Every: 10 * time.Second, Span: 2 * time.Minute,
			Late: func(c Config) check.LatenessBound { return check.LatenessBound{Max: time.Minute + deathCosts + c.Stop} },
		},
	},
	{
		Name: Guarantees, Takes: 10 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3},
		Does:     "every 10 s an executor is killed -9 in the middle of its jobs",
		Promises: "each guarantee holds; the reported attempts are the true ones",
		// Executors are killed one after the other: two deaths may delay one run.
		Course: Course{
			Jobs: 180_000, Lead: 40 * time.Second, Span: 3 * time.Minute, Warm: 90 * time.Second, Unchanged: true,
			Late: behind(2*deathCosts, 0),
		},
	},
	{
		Name: Frozen, Takes: 4 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 3},
		Does:     "an executor is frozen past its session, others finish its jobs, it thaws",
		Promises: "what it writes then is not seen",
		Course: Course{
			Jobs: 900, Lead: 10 * time.Second, Span: 3 * time.Second, Unchanged: true, Late: behind(deathCosts+frozenWork, 0),
		},
	},
	{
		Name: Limits, Takes: 6 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "jobs with rates and limits, more of each than may run; a node is killed",
		Promises: "no limit is exceeded",
		Course: Course{
			Jobs: limitsJobs, Span: limitsSpan, Warm: limitsWarm, Unchanged: true,
			// All are due at once, at a rate that needs the span.
			Late: func(c Config) check.LatenessBound { return check.LatenessBound{Max: 2*deathCosts + 2*c.Span} },
		},
	},
}

package chaos

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// Scenarios of much load, or of long load. Each has a course of its own.
const (
	ImportCuts  Scenario = "import-cuts"
	HerdMillion Scenario = "herd-million"
	Tombstones  Scenario = "tombstones"
	Soak        Scenario = "soak"
)

// A Course is the defaults of a scenario of load.
type Course struct {
	// Jobs is how many jobs there are in all; 0 = as many as Rate and Span make.
	Jobs int
	Rate int
	Span time.Duration
	// Late is how late a run of c may start.
	Late func(c Config) time.Duration
	// Counted: there are too many runs for the judge. A tally compares jobs with calls (tally.go).
	Counted bool
}

const (
	// herdRate is how many runs a second the smallest machine starts of a herd: all its nodes do
	// nothing else.
	herdRate = 2500
	// soakRate is the load of a soak, and soakSpan how long it lasts.
	soakRate = 1000
	soakSpan = 2 * time.Hour
)

var loadPlans = []Plan{
	{
		Name: ImportCuts, Takes: 12 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "imports are killed -9 1,000 times at random points, and sent again (F35)",
		Promises: "exactly the jobs of the files, none twice",
		Course: &Course{
			Jobs: 100_000, Span: 10 * time.Second, Late: func(Config) time.Duration { return deathCosts },
		},
	},
	{
		Name: HerdMillion, Takes: 12 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "a million jobs are due at one instant (F29)",
		Promises: "all run; memory stays bounded",
		Course: &Course{
			Jobs: 1_000_000, Counted: true,
			Late: func(c Config) time.Duration { return time.Duration(c.Jobs)*time.Second/herdRate + deathCosts },
		},
	},
	{
		Name: Tombstones, Takes: 62 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2, Shards: 1},
		Does:     "200,000 jobs of one minute and shard; nine of ten, those due first, are cancelled (F28)",
		Promises: "reads of the bucket take less than 1 s; the rest starts on time",
		Course: &Course{
			Jobs: 200_000, Span: time.Minute, Counted: true,
			Late: func(c Config) time.Duration {
				return time.Duration(c.Jobs/keptOf)*time.Second/sustained + 10*time.Second
			},
		},
	},
	{
		Name: Soak, Takes: soakSpan + 8*time.Minute, Members: three,
		Does:     "the same load for SPAN (2 h), with random faults of other scenarios (F36)",
		Promises: "nothing missed; memory, goroutines and files stay flat",
		Course:   &Course{Rate: soakRate, Span: soakSpan, Counted: true, Late: func(Config) time.Duration { return 3 * deathCosts }},
	},
}

// A Figure is something that a scenario measured, in words.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// figure adds a figure to the report.
func (r *recorder) figure(name, format string, args ...any) {
	r.record(func(rep *Report) { rep.Figures = append(rep.Figures, Figure{name, fmt.Sprintf(format, args...)}) })
}

// playCourse plays the course of a scenario of load.
func (r *run) playCourse(ctx context.Context) error {
	switch r.cfg.Scenario {
	case ImportCuts:
		return cutsCourse{r}.play(ctx)
	case HerdMillion:
		return countedCourse{r}.playHerd(ctx)
	case Tombstones:
		return countedCourse{r}.playTombstones(ctx)
	case Soak:
		return soakCourse{countedCourse{r}}.play(ctx)
	default:
		return fmt.Errorf("%s has no course", r.cfg.Scenario)
	}
}

// peaks are the largest resident memories seen, in MiB, by member.
type peaks map[string]float64

func (p peaks) add(resources map[string]Resources) {
	for member, of := range resources {
		p[member] = max(p[member], of.MiB)
	}
}

// String lists the peaks in the order of the members' names.
func (p peaks) String() string {
	var names []string
	for member := range p {
		names = append(names, member)
	}
	slices.Sort(names)
	text := ""
	for i, member := range names {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %.0f", member, math.Round(p[member]))
	}
	return text
}

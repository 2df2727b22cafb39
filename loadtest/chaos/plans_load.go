package chaos

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/check"
)

// Scenarios of much load, or of long load. Each has a course of its own.
const (
	ImportCuts  Scenario = "import-cuts"
	HerdMillion Scenario = "herd-million"
	Tombstones  Scenario = "tombstones"
	Soak        Scenario = "soak"
)

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
		Course:   Course{Jobs: 100_000, Span: 10 * time.Second, Unchanged: true, Late: late(deathCosts)},
	},
	{
		Name: HerdMillion, Takes: 12 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2},
		Does:     "a million jobs are due at one instant (F29)",
		Promises: "all run; memory stays bounded",
		Course: Course{
			Jobs: 1_000_000, Span: -1, Unchanged: true,
			Late: func(c Config) check.LatenessBound {
				return check.LatenessBound{Max: time.Duration(c.Jobs)*time.Second/herdRate + deathCosts}
			},
		},
	},
	{
		Name: Tombstones, Takes: 95 * time.Minute, Members: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2, Shards: 1},
		Does:     "115,000 jobs of one minute and shard; nine of ten, those due first, are cancelled (F28); 12 min with --commitlog periodic",
		Promises: "reads of the bucket take less than 1 s; the rest starts on time",
		Course: Course{
			Jobs: 115_000, Unchanged: true,
			Late: func(c Config) check.LatenessBound {
				return check.LatenessBound{Max: time.Duration(c.Jobs/keptOf)*time.Second/sustained + 10*time.Second}
			},
		},
	},
	{
		Name: Soak, Takes: soakSpan + 8*time.Minute, Members: three,
		Does:     "the same load for SPAN (2 h), with random faults of other scenarios (F36)",
		Promises: "nothing missed; memory, goroutines and files stay flat",
		Course:   Course{Rate: soakRate, Span: soakSpan, Unchanged: true, Late: late(3 * deathCosts)},
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

// peaks are the largest resident memories seen, in MiB, by member.
type peaks map[string]float64

func (p peaks) add(resources map[string]Resources) {
	for member, of := range resources {
		p[member] = max(p[member], of.MiB)
	}
}

// String lists the peaks in the order of the members' names.
func (p peaks) String() string {
	var texts []string
	for _, member := range slices.Sorted(maps.Keys(p)) {
		texts = append(texts, fmt.Sprintf("%s %.0f", member, math.Round(p[member])))
	}
	return strings.Join(texts, ", ")
}

package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// A half of regions: what its own processes cost, what the other region's, and the links.
func half(variant string, round int, own, other float64) *Result {
	return &Result{
		Protocol: regionsProtocol, System: "carillon", Variant: variant, Round: round, Rate: 2000, Lateness: &Lateness{P99: 10},
		CPU: map[string]float64{"carillon": own, "cassandra": own, "nats": own / 2, "sink": 50, "us/cassandra": other},
		Regions: &RegionCost{
			Whole: map[string]float64{"carillon": 2 * own, "cassandra": 2 * own, "us/cassandra": other}, Bytes: map[string]float64{"eu to us": 900},
			Statements: map[string]float64{"us local write": 2}, IdleCores: map[string]float64{"us/cassandra": 0.02}, IdleBytes: map[string]float64{"eu to us": 3000},
		},
	}
}

// A region among others may use a tenth more CPU for a run than one alone.
func TestRegionsAreHeldAgainstASingleOne(t *testing.T) {
	for _, row := range []struct {
		name   string
		shared float64
		want   string
	}{
		{"a little more", 108, "holds: within 10 %"},
		{"too much more", 115, "**does not hold**"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var all []*Result
			for round := 1; round <= 5; round++ {
				all = append(all, half(singleRegion, round, 100, 0), half(sharedRegions, round, row.shared, 60))
			}
			all = append(all, half(singleRegion, 6, 1, 0)) // the other half is missing
			pairs := regionsPairs(all)
			if got := pairs[0].Verdict(); len(pairs[0].Before) != 5 || got != row.want {
				t.Errorf("of %d pairs the verdict is %q, want 5 and %q", len(pairs[0].Before), got, row.want)
			}
			if got := middle(dearerShared(all)); math.Abs(got-row.shared/100) > 1e-9 {
				t.Errorf("a run costs %g times as much, want %g", got, row.shared/100)
			}
			var table strings.Builder
			writeRegions(&table, all)
			for _, want := range []string{"| CPU of us/cassandra | 60.0 µs | 0.020 cores |", "| link eu to us | 900 bytes | 3000 bytes/s |", "| statements, us local write | 2.000 | |"} {
				if !strings.Contains(table.String(), want) {
					t.Errorf("the table lacks %q:\n%s", want, table.String())
				}
			}
		})
	}
	var none strings.Builder
	if writeRegions(&none, nil); none.Len() > 0 {
		t.Errorf("a table of nothing: %s", none.String())
	}
}

// What is used at rest is no cost of runs.
func TestCostIsBesideRest(t *testing.T) {
	t0 := time.Date(2026, 11, 27, 15, 0, 0, 0, time.UTC)
	at := func(seconds, cpu, bytes, writes float64) usage {
		return usage{
			at: t0.Add(time.Duration(seconds * float64(time.Second))), cpu: map[string]float64{"us/cassandra": cpu},
			bytes: map[string]float64{"eu to us": bytes}, statements: map[string]float64{"us local write": writes},
		}
	}
	rest, seconds := at(20, 1, 2000, 40).less(at(0, 0, 0, 0))
	rest = rest.scaled(1 / seconds)
	spent, seconds := at(140, 8, 112_000, 2240).less(at(40, 2, 2000, 40))
	c := costOf(spent, seconds, rest, 1000)
	if got := c.Whole["us/cassandra"]; math.Abs(got-1000) > 1e-6 { // 6 s less 100 × 0.05 s
		t.Errorf("CPU of a run = %g µs, want 1000", got)
	}
	if got := c.Bytes["eu to us"]; math.Abs(got-100) > 1e-6 { // 110,000 less 100 × 100
		t.Errorf("bytes of a run = %g, want 100", got)
	}
	if got := c.Statements["us local write"]; math.Abs(got-2) > 1e-6 { // 2,200 less 100 × 2
		t.Errorf("statements of a run = %g, want 2", got)
	}
	if got := c.IdleCores["us/cassandra"]; math.Abs(got-0.05) > 1e-9 {
		t.Errorf("cores at rest = %g, want 0.05", got)
	}
}

// Both halves serve as many shards, and only one knows of other regions.
func TestHalvesOfRegionsServeAsMuch(t *testing.T) {
	each := cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2}
	single, shared := regionsSpec(each, singleRegion), regionsSpec(each, sharedRegions)
	for _, s := range []cluster.RegionsSpec{single, shared} {
		if err := s.Validate(); err != nil {
			t.Errorf("Validate(%+v) = %v", s, err)
		}
	}
	if single.OneKeyspace || !single.NoWitness || !shared.OneKeyspace || shared.NoWitness || shared.Each.Shards != 2*single.Each.Shards || single.Each.Shards != defaultShards {
		t.Errorf("the halves are %+v and %+v", single, shared)
	}
	if got := inTurn([]string{"a", "b"}, 2); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("halves of round 2 = %q, want them turned", got)
	}
}

func TestRegionsNeedACluster(t *testing.T) {
	c := Config{Protocols: []string{regionsProtocol}, System: OnDev, Program: "p", Carillon: "c", Dir: "d", Out: "o", Rates: []int{100}, Span: time.Second, N: 1}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "regions need") {
		t.Errorf("Validate of regions on dev = %v, want it refused", err)
	}
}

package chaos

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

func soakLines60(mib func(i int) float64) []SoakLine {
	var lines []SoakLine
	for i := range 60 {
		u := Resources{MiB: mib(i), Goroutines: 100, Files: 50, Threads: 80}
		lines = append(lines, SoakLine{Seconds: float64(60 * (i + 1)), Members: map[string]Resources{"carillon-1": u, "cassandra-1": u, "nats-1": u}})
	}
	return lines
}

func TestFlatness(t *testing.T) {
	all := flatSeries(cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 1})
	rows := []struct {
		name string
		mib  func(i int) float64
		flat bool
	}{
		{"flat", func(int) float64 { return 200 }, true},
		{"saw teeth", func(i int) float64 { return 200 + 40*float64(i%4) }, true},
		{"grows while warm", func(i int) float64 { return 100 + 10*float64(min(i, 15)) }, true},
		{"leaks", func(i int) float64 { return 100 + 10*float64(i) }, false},
		{"leaks beneath saw teeth", func(i int) float64 { return 100 + 8*float64(i) + 40*float64(i%4) }, false},
		{"bursts, larger ones later", func(i int) float64 { return 100 + float64(i%3)*20*float64(i) }, true},
		{"leaks beneath bursts", func(i int) float64 { return 100 + 8*float64(i) + float64(i%3)*600 }, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			figures, grew := flatness(soakLines60(row.mib), all, time.Hour)
			if (len(grew) == 0) != row.flat || len(figures) != len(all) {
				t.Errorf("flatness = %d figures, grew %q, want %d, flat %t", len(figures), grew, len(all), row.flat)
			}
		})
	}
	if _, grew := flatness(soakLines60(rows[0].mib)[:20], all, time.Hour); len(grew) == 0 {
		t.Error("two lines after the warm-up are taken for evidence")
	}
}

// What a soak breaks it mends, and it leaves those alone whose figures must stay flat.
func TestSoakFaultsLeaveTheFirstAlone(t *testing.T) {
	for _, m := range []cluster.Spec{three, {Cassandra: 1, NATS: 1, Nodes: 2}} {
		for _, c := range soakFaults(m) {
			if len(c) != 2 || c[0].member != c[1].member || strings.HasSuffix(c[0].member, "-1") {
				t.Errorf("fault %v, want it mended, and not of the first member", c)
			}
		}
	}
}

func TestResourcesOfAProcess(t *testing.T) {
	proc := fstest.MapFS{
		"7/status": {Data: []byte("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t5\n")},
		"7/fd/0":   {}, "7/fd/1": {}, "7/fd/2": {},
	}
	if got, err := resourcesOf(proc, 7); err != nil || got != (Resources{PID: 7, MiB: 2, Files: 3, Threads: 5}) {
		t.Errorf("resourcesOf = %+v, %v", got, err)
	}
	if _, err := resourcesOf(proc, 8); err == nil {
		t.Error("a process that is not there uses something")
	}
}

func TestCoursesFollowTheirPlan(t *testing.T) {
	for _, p := range loadPlans {
		cfg := Config{Scenario: p.Name, Cluster: p.Members, Dir: "d", Program: "p"}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: Validate = %v", p.Name, err)
		}
		got := cfg.withDefaults()
		if got.Jobs == 0 || got.Late.Max <= 0 || got.Changes != 0 {
			t.Errorf("%s: %d jobs, late %s, %d changes, want jobs, a bound and no changes", p.Name, got.Jobs, got.Late, got.Changes)
		}
	}
	soak := Config{Scenario: Soak, Cluster: three, Rate: 10, Span: 5 * time.Minute, Dir: "d", Program: "p"}.withDefaults()
	if soak.Jobs != 3000 {
		t.Errorf("a soak of 10 a second for 5 min has %d jobs, want 3000", soak.Jobs)
	}
}

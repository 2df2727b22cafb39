package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
	"carillon.dev/carillon/loadtest/chaos"
	"carillon.dev/carillon/loadtest/check"
)

func TestCommandLineCanBePasted(t *testing.T) {
	rows := []struct {
		name string
		args []string
		want string
	}{
		{"plain", []string{"/a/b/carillon-load", "chaos", "--jobs", "10", "--beside=x.json"}, "carillon-load chaos --jobs 10 --beside=x.json"},
		{"blanks and quotes", []string{"carillon-load", "--dir", "my runs", "it's"}, `carillon-load --dir 'my runs' 'it'\''s'`},
		{"empty", []string{"carillon-load", ""}, "carillon-load ''"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := commandLine(row.args); got != row.want {
				t.Errorf("commandLine(%q) = %s, want %s", row.args, got, row.want)
			}
		})
	}
}

func TestChaosReportsStandBesideOthers(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	calm := &chaos.Report{Scenario: chaos.Calm, Judged: true}
	var out bytes.Buffer
	if err := writeChaos(calm, nil, folder, &out); err != nil {
		t.Fatal(err)
	}
	others, err := readReports([]string{filepath.Join(folder, "calm.json")})
	if err != nil || len(others) != 1 || others[0].Scenario != chaos.Calm {
		t.Fatalf("readReports = %v, %v, want the report of calm", others, err)
	}
	if err := writeChaos(&chaos.Report{Scenario: chaos.Faults}, others, folder, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "faults.md"))
	if err != nil || !strings.Contains(string(text), "| | faults | calm |") || !strings.HasSuffix(out.String(), string(text)) {
		t.Errorf("faults.md holds (%v):\n%s\nwant both columns, and the same as was printed", err, text)
	}
	if _, err := readReports([]string{filepath.Join(folder, "faults.md")}); err == nil {
		t.Error("readReports of a file that is no report = nil, want an error")
	}
}

func TestChaosRefusesBadFlags(t *testing.T) {
	_, err := load(t, "chaos", "--scenario", "storm", "--jobs", "7", "--dir", t.TempDir(), "--out", t.TempDir())
	if err == nil {
		t.Error("chaos --scenario storm = nil, want an error")
	}
}

func TestRecurringScenariosHaveDefaultsOfTheirOwn(t *testing.T) {
	cfg := chaos.Config{Scenario: chaos.Recurring, Jobs: 100_000}
	cfg.Cluster.Cassandra, cfg.Cluster.NATS = 3, 3
	if _, err := planFlags(&cfg, 0, func(name string) bool { return name == "nats" }); err != nil {
		t.Fatal(err)
	}
	if cfg.Jobs != 0 || cfg.Span != 0 || cfg.Cluster.Cassandra != 1 || cfg.Cluster.NATS != 3 {
		t.Errorf("planFlags = %+v, want what was stated (3 NATS), and the scenario's defaults else", cfg)
	}
	if _, err := load(t, "chaos", "--scenario", "faults", "--span", "5s", "--dir", t.TempDir(), "--out", t.TempDir()); err == nil {
		t.Error("chaos --scenario faults --span = nil, want an error")
	}
}

func TestGuardedScenariosHaveDefaultsOfTheirOwn(t *testing.T) {
	cfg := chaos.Config{Scenario: chaos.Guarantees, Jobs: 100_000, Lead: time.Second, Span: time.Minute}
	cfg.Cluster.Cassandra, cfg.Cluster.NATS, cfg.Cluster.Nodes = 3, 3, 4
	if _, err := planFlags(&cfg, 0, func(name string) bool { return name == "nodes" || name == "rate-span" }); err != nil {
		t.Fatal(err)
	}
	if c := cfg.Cluster; cfg.Jobs != 0 || cfg.Lead != 0 || cfg.Span != time.Minute || c.Cassandra != 1 || c.NATS != 1 || c.Nodes != 4 {
		t.Errorf("planFlags = %+v, want what was stated (4 nodes, a minute), and the scenario's defaults else", cfg)
	}
	_, err := load(t, "chaos", "--scenario", "guarantees", "--nodes", "2", "--kill-every", "1s", "--mix", "8,0,1", "--dir", t.TempDir(), "--out", t.TempDir())
	for _, fault := range []string{"needs at least 3", "kill every is 1s", "mix is 8, 0, 1"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("chaos --scenario guarantees --nodes 2 --kill-every 1s --mix 8,0,1 = %v, want %q in it", err, fault)
		}
	}
	if _, err := load(t, "chaos", "--scenario", "guarantees", "--mix", "8,1", "--dir", t.TempDir(), "--out", t.TempDir()); err == nil || !strings.Contains(err.Error(), "2 parts, want 3") {
		t.Errorf("chaos --mix 8,1 = %v, want that it lacks one", err)
	}
	if _, err := load(t, "chaos", "--scenario", "frozen", "--mix", "8,1,1", "--dir", t.TempDir(), "--out", t.TempDir()); err == nil || !strings.Contains(err.Error(), `a mix is of "guarantees"`) {
		t.Errorf("chaos --scenario frozen --mix = %v, want an error", err)
	}
}

func TestLimitsHaveDefaultsOfTheirOwn(t *testing.T) {
	cfg := chaos.Config{Scenario: chaos.Limits, Jobs: 100_000, Span: time.Minute}
	cfg.Cluster.Cassandra, cfg.Cluster.NATS = 3, 3
	if _, err := planFlags(&cfg, 0, func(name string) bool { return name == "cassandra" }); err != nil {
		t.Fatal(err)
	}
	if c := cfg.Cluster; cfg.Jobs != 0 || cfg.Span != 0 || c.Cassandra != 3 || c.NATS != 1 {
		t.Errorf("planFlags = %+v, want what was stated (3 Cassandra), and the scenario's defaults else", cfg)
	}
}

func TestWorkflowsHaveDefaultsOfTheirOwn(t *testing.T) {
	cfg := chaos.Config{Scenario: chaos.Workflows, Jobs: 100_000, Span: time.Minute}
	timeout, err := planFlags(&cfg, 0, func(name string) bool { return name == "cassandra" })
	if err != nil {
		t.Fatal(err)
	}
	if c := cfg.Cluster; cfg.Jobs != 0 || cfg.Span != 0 || c.Cassandra != 0 || c.NATS != 3 || c.Nodes != 3 || timeout != longTimeout {
		t.Errorf("planFlags = %+v and %s, want what was stated, the scenario's defaults else, and an hour", cfg, timeout)
	}
}

// A check that something is to be done between the reads of waits for it.
func TestMarkIsWaitedFor(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	done := make(chan error)
	go func() { done <- waitRemoved(t.Context(), mark) }()
	for { // until it is there
		if err := os.Remove(mark); err == nil {
			break
		}
		runtime.Gosched()
	}
	if err := <-done; err != nil {
		t.Errorf("waitRemoved = %v, want nil", err)
	}
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := waitRemoved(t.Context(), mark); err == nil {
		t.Error("waitRemoved with a mark that is there = nil, want an error")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitRemoved(gone, mark+"-2"); !errors.Is(err, context.Canceled) {
		t.Errorf("waitRemoved = %v, want %v", err, context.Canceled)
	}
}

func TestCheckAsksForOneKindOfEvidence(t *testing.T) {
	rows := []struct {
		name string
		args []string
		says string
	}{
		{"neither", nil, "--asked and --acks are needed"},
		{"both", []string{"--events", "e", "--end", "2026-11-21T10:00:00Z", "--asked", "a"}, "one or the other"},
		{"no end", []string{"--events", "e"}, "--events needs --end"},
		{"a bad end", []string{"--events", "e", "--end", "noon"}, "read --end"},
		{"half a stop", []string{"--events", "e", "--end", "2026-11-21T10:00:00Z", "--stop", "2026-11-21T10:00:00Z"}, "is not FROM,TO"},
		{"a bad kill", []string{"--events", "e", "--end", "2026-11-21T10:00:00Z", "--kill", "noon"}, "read --kill"},
		{"tasks beside events", []string{"--events", "e", "--end", "2026-11-21T10:00:00Z", "--tasks", "t"}, "one or the other"},
		{"no such file", []string{"--events", filepath.Join(t.TempDir(), "e"), "--end", "2026-11-21T10:00:00Z"}, "open evidence"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, append([]string{"check", "--sink", "s", "--api", "http://127.0.0.1:9"}, row.args...)...)
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("check %v = %v, want %q", row.args, err, row.says)
			}
		})
	}
}

func TestChaosListsItsScenarios(t *testing.T) {
	out, err := load(t, "chaos", "--list")
	if err != nil || !strings.Contains(out, "cut-store ") || !strings.Contains(out, "WHAT IS PROMISED") {
		t.Errorf("chaos --list = %v:\n%s\nwant a table of scenarios", err, out)
	}
}

func TestChaosSumsUpReports(t *testing.T) {
	folder := t.TempDir()
	if err := writeChaos(&chaos.Report{Scenario: chaos.Calm, Judged: true}, nil, folder, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	out, err := load(t, "chaos", "--summary", filepath.Join(folder, "calm.json"))
	if err != nil || !strings.Contains(out, "| calm | ok |") {
		t.Errorf("chaos --summary = %v:\n%s\nwant a row of calm", err, out)
	}
	if _, err := load(t, "chaos", "--summary"); err == nil {
		t.Error("chaos --summary without reports = nil, want an error")
	}
}

func TestSteadyScenariosFollowTheirPlan(t *testing.T) {
	for _, flag := range []string{"--jobs=500", "--rate-span=5s", "--changes=1"} {
		_, err := load(t, "chaos", "--scenario", "freeze", flag, "--dir", t.TempDir(), "--out", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "its plan decides that") {
			t.Errorf("chaos --scenario freeze %s = %v, want it refused", flag, err)
		}
	}
	cfg := chaos.Config{Scenario: chaos.Freeze, Jobs: 100_000, Span: time.Minute}
	cfg.Cluster.Cassandra, cfg.Cluster.NATS, cfg.Cluster.Nodes = 1, 3, 2
	_, err := planFlags(&cfg, 0, func(name string) bool { return name == "cassandra" })
	if c := cfg.Cluster; err != nil || cfg.Jobs != 0 || cfg.Span != 0 || c.Cassandra != 1 || c.NATS != 3 || c.Nodes != 3 {
		t.Errorf("planFlags = %+v, %v, want what was stated (1 Cassandra), and what the plan says else", cfg, err)
	}
}

// A report of regions has a plot beside it, which can be drawn anew. Others have none.
func TestChaosDrawsRegions(t *testing.T) {
	folder := t.TempDir()
	rep := &chaos.Report{Scenario: chaos.RegionMove, Judged: true, Regions: &chaos.RegionsResult{
		PerSecond: []chaos.StartsSeries{{Home: "eu", Region: "eu", Starts: []int{1, 2, 3}}},
	}}
	for _, r := range []*chaos.Report{rep, {Scenario: chaos.Calm}} {
		if err := writeChaos(r, nil, folder, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
	}
	plot := filepath.Join(folder, "region-move.svg")
	drawn, err := os.ReadFile(plot)
	if err != nil || !strings.Contains(string(drawn), "home eu in eu") {
		t.Fatalf("the plot is %.100s (%v), want the starts of home eu", drawn, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "calm.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("calm has a plot (%v), want none", err)
	}
	if err := os.Remove(plot); err != nil {
		t.Fatal(err)
	}
	if out, err := load(t, "chaos", "--plot", filepath.Join(folder, "region-move.json")); err != nil {
		t.Fatalf("chaos --plot = %v:\n%s", err, out)
	}
	if again, err := os.ReadFile(plot); err != nil || !bytes.Equal(again, drawn) {
		t.Errorf("drawn anew the plot differs (%v)", err)
	}
}

// Scenarios of regions have what their plan says of each region, or what is stated.
func TestScenariosOfRegionsFollowTheirPlan(t *testing.T) {
	none := func(string) bool { return false }
	for _, row := range []struct {
		stated                        []string
		regions, cassandra            int
		wantRegions, wantCassandra, n int
	}{
		{nil, 0, 3, 2, 1, 2},
		{[]string{"regions", "cassandra"}, 3, 3, 3, 3, 2},
	} {
		cfg := chaos.Config{Scenario: chaos.RegionMove, Regions: row.regions}
		cfg.Cluster.Cassandra = row.cassandra
		// whether this machine has room for it is another question
		_, _ = planFlags(&cfg, 0, func(name string) bool { return slices.Contains(row.stated, name) })
		if cfg.Regions != row.wantRegions || cfg.Cluster.Cassandra != row.wantCassandra || cfg.Cluster.Nodes != row.n {
			t.Errorf("stated %q: %d regions with %d Cassandra and %d nodes each, want %d, %d and %d", row.stated,
				cfg.Regions, cfg.Cluster.Cassandra, cfg.Cluster.Nodes, row.wantRegions, row.wantCassandra, row.n)
		}
		if cfg.Dir, cfg.Program, cfg.Cluster.CommitLog = "d", "p", cluster.CommitLogGroup; cfg.Validate() != nil {
			t.Errorf("stated %q: Validate = %v, want nil", row.stated, cfg.Validate())
		}
	}
	for scenario, regions := range map[chaos.Scenario]int{chaos.RegionMove: 4, chaos.RegionCut: 1, chaos.Freeze: 2} {
		cfg := chaos.Config{Scenario: scenario}
		_, _ = planFlags(&cfg, 0, none)
		cfg.Regions = regions
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "regions: ") {
			t.Errorf("Validate of %s with %d regions = %v, want it refused", scenario, regions, err)
		}
	}
}

func TestLossesAreSpans(t *testing.T) {
	loss := func(from, cut time.Time) check.Loss { return check.Loss{From: from, Cut: cut} }
	got, err := spansOf("--lost", []string{"2026-01-01T11:59:50Z,2026-01-01T12:00:01Z"}, loss)
	if err != nil || len(got) != 1 || got[0].Cut.Sub(got[0].From) != 11*time.Second {
		t.Errorf("spansOf = %v, %v, want one of 11 s", got, err)
	}
	if _, err := spansOf("--lost", []string{"2026-01-01T11:59:50Z"}, loss); err == nil {
		t.Error("a span without an end is taken")
	}
}

func TestSpansAway(t *testing.T) {
	ev := evidence{away: []string{"eu,2026-01-01T12:00:00Z,2026-01-01T12:01:00Z"}}
	got, err := ev.spansAway()
	if err != nil || len(got) != 1 || got[0].Region != "eu" || got[0].To.Sub(got[0].From) != time.Minute {
		t.Errorf("spansAway = %+v, %v, want one of a minute, of eu", got, err)
	}
	ev.away = []string{"eu"}
	if _, err := ev.spansAway(); err == nil {
		t.Error("a region without a span is taken")
	}
}

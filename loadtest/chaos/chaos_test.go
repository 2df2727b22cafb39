package chaos

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"carillon.dev/carillon/deploy/local/cluster"
)

// program builds carillon-load.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "carillon-load")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "carillon.dev/carillon/loadtest/cmd/carillon-load")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build carillon-load: %v\n%s", err, out)
	}
	return path
}

// endToEnd is a scenario in small: a Cassandra, a NATS server, two nodes.
func endToEnd(t *testing.T, s Scenario) Config {
	t.Helper()
	return Config{
		Scenario: s, Seed: 1, Concurrency: 32,
		Cluster: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 2, CommitLog: cluster.CommitLogGroup},
		Dir:     filepath.Join(t.TempDir(), "run"), Program: program(t), Command: "go test",
		Wait: 3 * time.Minute, Apart: 2 * time.Second, Idle: time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// playEndToEnd runs a scenario, which must be judged to be good.
func playEndToEnd(t *testing.T, cfg Config) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var table bytes.Buffer
	rep, err := Run(ctx, cfg, &table)
	if err != nil {
		showLogs(t, cfg.Dir)
		t.Fatalf("Run = %v", err)
	}
	t.Logf("check says:\n%s", table.String())
	if rep.Failed() {
		showLogs(t, cfg.Dir)
		t.Fatalf("the run failed: %q", rep.Faults())
	}
	return rep
}

// slowness returns how many times slower this machine is than a quiet one, as .ci/test found: what
// is asked of it is as much less, so that the bounds of lateness hold.
func slowness(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CARILLON_TEST_SLOWNESS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("CARILLON_TEST_SLOWNESS = %q, want a number from 1", text)
	}
	return n
}

// The main job, small: a Cassandra, a NATS server, two nodes of which one is killed -9 and comes
// back.
func TestEndToEnd(t *testing.T) {
	cluster.Require(t)
	cfg := endToEnd(t, Kill)
	cfg.Jobs, cfg.Lead, cfg.Span = max(2000/slowness(t), 400), 5*time.Second, 20*time.Second
	cfg.Changes = min(60, cfg.Jobs/10)
	rep := playEndToEnd(t, cfg)

	// That the judge is content says little if nothing happened.
	main, near, immediate := counts(cfg.Jobs)
	if c := rep.Check; c.Asked != cfg.Jobs || c.Acknowledged != cfg.Jobs || c.Done+c.Cancelled != cfg.Jobs || !c.SeenAll {
		t.Errorf("check = %+v, want %d asked, acknowledged, and done or cancelled, by a complete record", c, cfg.Jobs)
	}
	lines := 0
	for _, i := range rep.Imports {
		lines += i.Created + i.Existing
	}
	if want := main + near + immediate; len(rep.Imports) != 1+portions || lines != want {
		t.Errorf("%d imports brought %d lines, want %d and %d", len(rep.Imports), lines, 1+portions, want)
	}
	if c := rep.Changes; c.Cancels == 0 || c.Reschedules == 0 {
		t.Errorf("changes = %+v, want some of both kinds", c)
	}
	if e := rep.Events; len(e) != 2 || e[0].Act != ActKill || e[1].Act != ActStart || e[1].Member != "carillon-1" {
		t.Errorf("events = %v, want one kill and one start of carillon-1", e)
	}
	if len(rep.Phases) != 3 || rep.Phases[2].Of("carillon") <= 0 || rep.Phases[2].Of("cassandra") <= 0 || rep.Phases[2].Of("nats") <= 0 || rep.Phases[2].Of("sink") <= 0 {
		t.Errorf("phases = %+v, want three with CPU of every part in the last", rep.Phases)
	}
	if v := rep.Versions; v["nats"] == "" || v["cassandra"] == "unknown" || v["java"] == "unknown" || rep.Settings.StreamReplicas != 1 {
		t.Errorf("versions %v, stream replicas %d, want all known and 1", v, rep.Settings.StreamReplicas)
	}
}

// showLogs logs the end of the log of each Carillon node.
func showLogs(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "cluster", "carillon-*", "log"))
	if err != nil {
		t.Error(err)
	}
	const shown = 6000 // bytes of each
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("the end of %s:\n%s", path, text[max(0, len(text)-shown):])
	}
}

func TestRunKeepsOtherEvidence(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "seen.ndjson"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir, Program: "nothing", Cluster: cluster.Spec{Cassandra: 1, NATS: 1, Nodes: 1}}
	if rep, err := Run(t.Context(), cfg, os.Stderr); err == nil {
		t.Errorf("Run in a folder that is not empty = %+v, nil, want an error", rep)
	}
}

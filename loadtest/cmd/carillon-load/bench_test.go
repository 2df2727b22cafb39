package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/bench"
)

// TestBenchOnDev measures a real process in small: a burn-down over a restart, and a stream that calls a sink.
func TestBenchOnDev(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "carillon")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "carillon.dev/carillon/cmd/carillon")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build carillon: %v\n%s", err, out)
	}
	t.Setenv(asProgram, "1") // the sink is this very program
	results := filepath.Join(dir, "results")
	out, err := load(t, "bench", "A", "C", "--system", "dev", "--carillon", program, "--n", "300", "--rates", "200", "--span", "1s",
		"--lead", "2s", "--warm", "-1s", "--quiet", "200ms", "--dir", filepath.Join(dir, "run"), "--out", results)
	if err != nil {
		t.Fatalf("bench: %v\n%s", err, out)
	}
	all, err := bench.ReadResults([]string{filepath.Join(results, "A-carillon-dev-outage-noop-round-1.json"), filepath.Join(results, "C-carillon-dev-http-200-round-1.json")})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{300, 200} {
		r := all[i]
		if r.N != n || r.Missed != 0 || r.Early != 0 || r.RunsPerS <= 0 || r.Lateness == nil {
			t.Errorf("%s: n %d, missed %d, early %d, %g runs/s, lateness %v; want %d, none, none, some, some", r.Protocol, r.N, r.Missed, r.Early, r.RunsPerS, r.Lateness, n)
		}
		if r.CPU["carillon"] <= 0 || r.Allocs <= 0 || !strings.Contains(r.Settings.Durability, "Pebble") {
			t.Errorf("%s: cpu %v, %g allocations, durability %q", r.Protocol, r.CPU, r.Allocs, r.Settings.Durability)
		}
		if !strings.Contains(out, r.String()) {
			t.Errorf("what was printed does not tell of %s:\n%s", r.Protocol, out)
		}
	}
	if _, err := os.Stat(filepath.Join(results, "C-carillon-dev-http-200-round-1.svg")); err != nil {
		t.Errorf("the plot of C: %v", err)
	}
	table, err := load(t, "goals", filepath.Join(results, "A-carillon-dev-outage-noop-round-1.json"))
	if err != nil || !strings.Contains(table, "| carillon dev: burn-down | ≥ 30,000 runs/s |") {
		t.Errorf("goals = %v\n%s", err, table)
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	rows := []struct {
		name string
		args []string
		want string
	}{
		{"no such protocol", []string{"bench", "Z"}, `protocol is "Z"`},
		{"a kill where nobody takes over", []string{"bench", "E"}, "no second dispatcher"},
		{"a worker that cannot connect", []string{"bench", "A", "--targets", "nats"}, "not reachable"},
		{"rows that would have to go", []string{"bench", "D", "--resident", "10,5"}, "ascending"},
		{"everything at once", []string{"bench", "C", "--rates", "0", "--rounds", "-1"}, "rounds is -1"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, append(row.args, "--system", "dev", "--dir", t.TempDir())...)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%q = %v, want an error that says %q", row.args, err, row.want)
			}
		})
	}
	if _, err := load(t, "suite", "medium", "--dir", t.TempDir()); err == nil {
		t.Error("suite medium = nil, want an error")
	}
}

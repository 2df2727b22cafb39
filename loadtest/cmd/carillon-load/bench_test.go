package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/bench"
)

// buildCarillon builds what is measured into a folder.
func buildCarillon(t *testing.T, dir string) (program string) {
	t.Helper()
	program = filepath.Join(dir, "carillon")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "carillon.dev/carillon/cmd/carillon")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build carillon: %v\n%s", err, out)
	}
	return program
}

// TestBenchOnDev measures a real process in small: a burn-down over a restart, and a stream that
// calls a sink.
func TestBenchOnDev(t *testing.T) {
	dir := t.TempDir()
	program := buildCarillon(t, dir)
	t.Setenv(asProgram, "1") // the sink is this very program
	results := filepath.Join(dir, "results")
	out, err := load(t, "bench", "A", "C", "--system", "dev", "--carillon", program, "--n", "300", "--rates", "200", "--span", "1s",
		"--lead", "2s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "run"), "--out", results)
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
	growsOnDev(t, program, filepath.Join(dir, "grown"))
	workflowsOnDev(t, program, filepath.Join(dir, "workflows"))
	table, err := load(t, "goals", filepath.Join(results, "A-carillon-dev-outage-noop-round-1.json"))
	if err != nil || !strings.Contains(table, "| carillon dev: burn-down | ≥ 30,000 runs/s |") {
		t.Errorf("goals = %v\n%s", err, table)
	}
}

// growsOnDev measures D in small: what is resident is written and does not run, and every figure of
// growth is there.
func growsOnDev(t *testing.T, program, results string) {
	t.Helper()
	out, err := load(t, "bench", "D", "--system", "dev", "--carillon", program, "--n", "200", "--rates", "100", "--span", "1s", "--resident", "0,3000",
		"--lead", "2s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(t.TempDir(), "run"), "--out", results)
	if err != nil {
		t.Fatalf("bench D: %v\n%s", err, out)
	}
	files := []string{
		"D-carillon-dev-C-100-round-1.json", "D-carillon-dev-C-100-resident-3000-round-1.json",
		"D-carillon-dev-B-round-1.json", "D-carillon-dev-B-resident-3000-round-1.json",
	}
	for i := range files {
		files[i] = filepath.Join(results, files[i])
	}
	all, err := bench.ReadResults(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		m := r.Memory["carillon"]
		if m.Before.Heap <= 0 || m.Before.RSS < m.Before.Heap || m.After.Heap <= 0 || m.After.RSS < m.After.Heap {
			t.Errorf("%s with %d resident: memory %+v, want heap and RSS of carillon before and after", r.Variant, r.Resident, r.Memory)
		}
		if r.Scans == nil || r.Scans.Count < 10 || r.Scans.Mean <= 0 {
			t.Errorf("%s with %d resident: scans %+v, want some, with their time", r.Variant, r.Resident, r.Scans)
		}
		if r.Missed != 0 || (r.Settled == nil) != (r.Resident == 0) {
			t.Errorf("%s with %d resident: missed %d, resident rows %+v", r.Variant, r.Resident, r.Missed, r.Settled)
		}
	}
	if _, err := os.Stat(filepath.Join(results, "D-carillon-dev-growth.svg")); err != nil {
		t.Errorf("the plot of D: %v", err)
	}
	again := filepath.Join(results, "again.svg")
	table, err := load(t, append([]string{"growth", "--out", again}, files...)...)
	if err != nil || strings.Count(table, "\n| carillon-dev, ") != len(files) {
		t.Errorf("growth = %v, want a row for each result\n%s", err, table)
	}
	if _, err := os.Stat(again); err != nil {
		t.Errorf("the plot of growth: %v", err)
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
		{"runs that cannot all be in flight", []string{"bench", "F", "--targets", "h2", "--n", "100", "--hold", "10s", "--ramp", "8s"}, "hold is 10s, want at least 24s"},
		{"more in flight than there are slots", []string{"bench", "F", "--targets", "http"}, "n is 100000, want at most 1900"},
		{"nothing in flight", []string{"bench", "F"}, "never in flight"},
		{"h2 for others", []string{"bench", "B", "--targets", "h2"}, "of protocol F alone"},
		{"no such part of W", []string{"bench", "W", "--workflows", "loops"}, `part of W is "loops"`},
		{"more items than a step may have", []string{"bench", "W", "--items", "10001"}, "at most 10000"},
		{"a pace without a chain", []string{"bench", "W", "--pace", "2", "--span", "2s"}, "at least the 5 of a chain"},
		{"pages of nothing", []string{"bench", "pages", "--resident", "0"}, "want some for pages"},
		{"fewer consoles than none", []string{"bench", "consoles", "--consoles", "-1"}, "consoles is -1"},
		{"more on the hour than there are", []string{"bench", "R", "--jobs", "10", "--on-hour", "1.5"}, "the share on the hour 1.5"},
		{"no such harm", []string{"bench", "H", "--harm", "bite"}, `harm is "bite"`},
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

// TestBenchFlightAndHarmOnDev measures F and H in small on a real process: calls that are held over
// HTTP/2 with new runs beside, and a tenant beside another one whose target drips.
func TestBenchFlightAndHarmOnDev(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	dir := t.TempDir()
	program := buildCarillon(t, dir)
	t.Setenv(asProgram, "1") // the sink is this very program
	results := filepath.Join(dir, "results")
	out, err := load(t, "bench", "F", "--system", "dev", "--carillon", program, "--targets", "h2", "--n", "600", "--hold", "8s", "--ramp", "1s",
		"--beside", "50", "--beside-rate", "50", "--lead", "2s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "f"), "--out", results)
	if err != nil {
		t.Fatalf("bench F: %v\n%s", err, out)
	}
	files := []string{"F-carillon-dev-h2-600-round-1.json"}
	out2, err := load(t, "bench", "H", "--system", "dev", "--carillon", program, "--rates", "50", "--span", "1s", "--harm-rate", "20", "--harm-timeout", "1s",
		"--harm", "drip", "--lead", "3s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "h"), "--out", results)
	if err != nil {
		t.Fatalf("bench H: %v\n%s", err, out2)
	}
	files = append(files, "H-carillon-dev-drip-alone-50-round-1.json", "H-carillon-dev-drip-beside-50-round-1.json")
	for i := range files {
		files[i] = filepath.Join(results, files[i])
	}
	all, err := bench.ReadResults(files)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, out2)
	}
	for _, r := range all[:1] {
		x := r.Flight
		if x == nil || x.Peak < 600 || x.Succeeded != 600 || r.Missed != 0 || r.Early != 0 || r.Doubled != 0 {
			t.Fatalf("F %s: %+v, missed %d, early %d, doubled %d, want all 600 at once, and all succeeded\n%s", r.Variant, x, r.Missed, r.Early, r.Doubled, out)
		}
		if x.Held.Before.RSS <= 0 || x.Held.After.Heap <= x.Held.Before.Heap || x.Heap <= 0 || x.Lateness == nil || x.LatenessAlone == nil {
			t.Errorf("F %s: %+v, want the memory before and with all in flight, and lateness with and without", r.Variant, x)
		}
	}
	for _, r := range all[1:] {
		h := r.Harm
		if h == nil || r.Missed != 0 || r.Early != 0 || r.Lateness == nil {
			t.Fatalf("H %s: %+v, missed %d, early %d, lateness %v, want it measured\n%s", r.Variant, h, r.Missed, r.Early, r.Lateness, out2)
		}
		if beside := strings.Contains(r.Variant, "beside"); beside && (h.Calls < 40 || h.Ratio <= 0 || h.Rate != 20) || !beside && (h.Calls != 0 || h.Rate != 0) {
			t.Errorf("H %s: %+v, want at least the 40 first calls of the other tenant in the half beside it, and none in the other", r.Variant, h)
		}
	}
	table, err := load(t, append([]string{"goals"}, files...)...)
	if err != nil || !strings.Contains(table, "| carillon-dev h2, held 8 s") || !strings.Contains(table, "| drip (carillon-dev) | 50/s, 20/s, 1 |") {
		t.Errorf("goals = %v, want tables of F and H:\n%s", err, table)
	}
	t.Logf("\n%s\n%s\n%s", out, out2, table)
}

// TestFairOnDev measures fairness in small on a real process: every run begins, and every figure is
// there. Whether a goal is met says nothing on a machine that does other things meanwhile.
func TestFairOnDev(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	dir := t.TempDir()
	program, results := buildCarillon(t, dir), filepath.Join(dir, "results")
	t.Setenv(asProgram, "1")                 // the sink is this very program
	t.Setenv("CARILLON_EXECUTOR_SLOTS", "8") // put back after the test
	out, err := load(t, "fair", "--system", "dev", "--carillon", program, "--rate", "3", "--span", "1s", "--pairs", "2", "--backlog", "2400", "--work", "10ms", "--slots", "8",
		"--lead", "3s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "run"), "--out", results)
	if err != nil && !errors.Is(err, errVerdict) {
		t.Fatalf("fair: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(results, "fair-carillon-dev.json"))
	var r bench.FairResult
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pairs) != 2 || len(r.Verdicts) != 3 || r.Weights == nil || r.Critical == nil || r.WorkMS != 10 {
		t.Fatalf("fair: %+v\n%s", r, out)
	}
	for i, p := range r.Pairs {
		if p.Missed != 0 || p.Alone == nil || p.Beside == nil || p.Other == nil || p.Alone.Max <= 0 {
			t.Errorf("pair %d is %+v", i+1, p)
		}
	}
	if w := r.Weights; w.Missed != 0 || len(w.Got) != 3 || w.PerS <= 0 || w.To <= w.From {
		t.Errorf("weights are %+v", w)
	}
	if c := r.Critical; c.Missed != 0 || c.Low != 2400 || c.Lateness == nil {
		t.Errorf("critical is %+v", c)
	}
	for _, v := range r.Verdicts {
		if !strings.Contains(out, v) {
			t.Errorf("what was printed does not say %q:\n%s", v, out)
		}
	}
	// A plot needs starts in two seconds: 2,400 runs of 10 ms in 8 slots take 3 s at least.
	for _, part := range []string{"beside", "weights", "critical"} {
		if _, err := os.Stat(filepath.Join(results, "fair-carillon-dev-"+part+".svg")); err != nil {
			t.Errorf("the plot of %s: %v", part, err)
		}
	}
}

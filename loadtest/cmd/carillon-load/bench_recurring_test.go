package main

import (
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/bench"
)

// TestBenchRecurringOnDev measures R in small on a real process: daily jobs, of which some are due
// at one instant; one-off runs, and then as many of recurring jobs, each on its nominal time and
// none besides.
func TestBenchRecurringOnDev(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
	dir := t.TempDir()
	program, results := buildCarillon(t, dir), filepath.Join(dir, "results")
	t.Setenv(asProgram, "1") // the sink is this very program
	const rate, span = 50, 2
	out, err := load(t, "bench", "R", "--system", "dev", "--carillon", program, "--rates", "50", "--span", "2s", "--every", "1s",
		"--jobs", "60", "--on-hour", "0.5", "--mend", "1s", "--lead", "2s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "run"), "--out", results)
	if err != nil {
		t.Fatalf("bench R: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(results, "R-*.json"))
	if err != nil || len(files) != 4 {
		t.Fatalf("results are %q, %v; want four", files, err)
	}
	all, err := bench.ReadResults(files)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range all {
		seen[r.Variant] = true
		switch r.Variant {
		case "hour":
			if r.N != 30 || r.Jobs != 60 || r.Load == nil || r.Load.Lines != 60 || r.Missed+r.Early+r.Doubled+r.Unexpected+r.Unended != 0 || r.Lateness == nil {
				t.Errorf("hour: %s; want 30 runs at one instant of 60 imported jobs, and none wrong", r)
			}
			continue
		case "mend":
			if r.Jobs != 60 || r.Memory["carillon"].After.Heap <= 0 {
				t.Errorf("mend: %s; want the heap with 60 jobs", r)
			}
			continue
		}
		if r.Protocol != "R" || r.Rate != rate || r.N != rate*span || r.Missed != 0 || r.Early != 0 || r.Doubled != 0 || r.Unexpected != 0 || r.Lateness == nil {
			t.Errorf("%s: rate %g, n %d, missed %d, early %d, doubled %d, unexpected %d, lateness %v; want %d a second, %d, and none wrong",
				r.Variant, r.Rate, r.N, r.Missed, r.Early, r.Doubled, r.Unexpected, r.Lateness, rate, rate*span)
		}
		if r.CPU["carillon"] <= 0 || r.Allocs <= 0 {
			t.Errorf("%s: cpu %v, %g allocations, want what a run costs", r.Variant, r.CPU, r.Allocs)
		}
		if recurs := r.Variant == "recurring"; recurs != (r.Jobs == rate) || recurs != (r.AgainstOneOff > 0) || recurs && (r.Every != 1 || r.Load == nil || r.Load.Lines != rate) {
			t.Errorf("%s: %d jobs every %g s, created %+v, %g times a one-off run; want 50 jobs every second, and what their runs cost beside it", r.Variant, r.Jobs, r.Every, r.Load, r.AgainstOneOff)
		}
		if !strings.Contains(out, r.String()) {
			t.Errorf("what was printed does not tell of %s:\n%s", r.Variant, out)
		}
	}
	if !seen["one-off"] || !seen["recurring"] || !seen["hour"] || !seen["mend"] {
		t.Errorf("measured was %v, want one-off and recurring runs, those on the hour, and mend", seen)
	}
}

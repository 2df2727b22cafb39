package main

import (
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/bench"
)

// workflowsOnDev measures W in small on a real process: every step is called once, by every part.
func workflowsOnDev(t *testing.T, program, results string) {
	t.Helper()
	out, err := load(t, "bench", "W", "--system", "dev", "--carillon", program, "--chains", "30", "--open", "10", "--pace", "50", "--span", "1s", "--items", "40",
		"--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(t.TempDir(), "run"), "--out", results)
	if err != nil {
		t.Fatalf("bench W: %v\n%s", err, out)
	}
	for name, steps := range map[string]int{"pace-50": 50, "chains": 150, "fanout": 41, "subscribers": 40} {
		all, err := bench.ReadResults([]string{filepath.Join(results, "W-carillon-dev-"+name+"-round-1.json")})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		r := all[0]
		if r.N != steps || r.Missed != 0 || r.Early != 0 || r.Doubled != 0 || r.Unexpected != 0 || r.Lateness == nil || r.RunsPerS <= 0 || r.LastStart <= 0 {
			t.Errorf("%s: n %d, missed %d, early %d, doubled %d, unexpected %d, gaps %v, %g a second, last after %g s; want %d, none, and figures",
				name, r.N, r.Missed, r.Early, r.Doubled, r.Unexpected, r.Lateness, r.RunsPerS, r.LastStart, steps)
		}
		if r.CPU["carillon"] <= 0 || !strings.Contains(out, r.String()) {
			t.Errorf("%s: cpu %v, want what a step costs; or it was not printed:\n%s", name, r.CPU, out)
		}
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"carillon.dev/carillon/loadtest/bench"
)

// TestBenchConsolesOnDev measures consoles and pages in small on a real process: the node answers
// every request of ten open consoles, and each page shows something.
func TestBenchConsolesOnDev(t *testing.T) {
	dir := t.TempDir()
	program := buildCarillon(t, dir)
	t.Setenv(asProgram, "1") // the sink is this very program
	results := filepath.Join(dir, "results")
	out, err := load(t, "bench", "consoles", "pages", "--system", "dev", "--carillon", program, "--rates", "100", "--span", "3s", "--resident", "20000",
		"--lead", "3s", "--warm", "-1", "--quiet", "200ms", "--dir", filepath.Join(dir, "run"), "--out", results)
	if err != nil {
		t.Fatalf("bench: %v\n%s", err, out)
	}
	files := []string{"consoles-carillon-dev-without-100-round-1.json", "consoles-carillon-dev-with-100-round-1.json", "pages-carillon-dev-cold-and-warm-resident-20000-round-1.json"}
	for i := range files {
		files[i] = filepath.Join(results, files[i])
	}
	all, err := bench.ReadResults(files)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, r := range all[:2] {
		if r.N != 300 || len(r.Faults()) > 0 || r.Lateness == nil || r.CPU["carillon"] <= 0 || (r.Consoles != nil) != (i == 1) {
			t.Errorf("%s: n %d, %q, lateness %v, cpu %v, consoles %+v; want 300 runs and no fault", r.Variant, r.N, r.Faults(), r.Lateness, r.CPU, r.Consoles)
		}
	}
	if c := all[1].Consoles; c != nil && (c.Open != 10 || c.Failed > 0 || c.Requests < 100) {
		t.Errorf("consoles are %+v, want ten that are never refused", c)
	}
	pages := all[2]
	if len(pages.Pages) != 9 || pages.Resident != 20_000 || pages.Settled == nil {
		t.Fatalf("pages are %+v with %d rows", pages.Pages, pages.Resident)
	}
	for _, p := range pages.Pages {
		if p.Cold <= 0 || len(p.Warm) != 10 {
			t.Errorf("%s: %+v, want it cold, and ten times warm", p.Page, p)
		}
	}
	// 20,000 over four hours, estimated from few rows
	if due := pages.Pages[5].Due; due < 2500 || due > 10_000 {
		t.Errorf("in an hour %d runs are due, want about 5,000", due)
	}
	table, err := load(t, append([]string{"goals"}, files...)...)
	if err != nil || !strings.Contains(table, "| carillon-dev, lateness p99, ms |") || !strings.Contains(table, "| Overview (carillon-dev) | 20 k, 1 |") {
		t.Errorf("goals = %v, want tables of both:\n%s", err, table)
	}
	t.Logf("\n%s\n%s", out, table)
}

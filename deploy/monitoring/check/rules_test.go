package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const top = ".."

func metrics(t *testing.T) map[string]Metric {
	t.Helper()
	all, err := ReadMetrics(filepath.Join(top, "METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 || all["carillon_executor_attempts_total"].Type != "counter" || all["go_goroutines"].Type != "gauge" {
		t.Fatalf("METRICS.md has %d metrics: it was not understood", len(all))
	}
	return all
}

func rules(t *testing.T) (all []Rule, recorded map[string]bool) {
	t.Helper()
	all, err := ReadRules(filepath.Join(top, "rules"))
	if err != nil {
		t.Fatal(err)
	}
	recorded = make(map[string]bool)
	for _, r := range all {
		if r.Record != "" {
			recorded[r.Record] = true
		}
	}
	return all, recorded
}

// parts are what a section of a runbook has, in this order.
var parts = regexp.MustCompile(`(?s)^\s*\*\*Means\.\*\* .+\*\*Look at\.\*\* .+\*\*Do\.\*\* .+\*\*Harmless when\.\*\* .+`)

// TestEachAlertIsWhole: it asks for what exists, says what is wrong, and has a section in the
// runbooks and tests in which it fires, resolves, and does not fire just below.
func TestEachAlertIsWhole(t *testing.T) {
	known := metrics(t)
	all, recorded := rules(t)
	books, err := ReadRunbooks(filepath.Join(top, "RUNBOOKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := ReadTests(filepath.Join(top, "rules", "tests"))
	if err != nil {
		t.Fatal(err)
	}
	alerts := make(map[string]bool)
	for _, r := range all {
		for _, fault := range ExprFaults(known, recorded, r.Expr) {
			t.Errorf("%s%s: %s", r.Record, r.Alert, fault)
		}
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has the severity %q, want page or ticket", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["dashboard"] == "" {
			t.Errorf("%s wants a summary and a dashboard", r.Alert)
		}
		if got, want := r.Annotations["runbook_url"], Runbooks+"#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s has the runbook %q, want %q", r.Alert, got, want)
		}
		if !parts.MatchString(books[r.Alert]) {
			t.Errorf("RUNBOOKS.md has no section %s with Means, Look at, Do, Harmless when", r.Alert)
		}
	}
	if len(alerts) < 30 {
		t.Errorf("%d alerts were found, want 30 or more", len(alerts))
	}
	for heading := range books {
		if !alerts[heading] {
			t.Errorf("the section %s of RUNBOOKS.md belongs to no alert", heading)
		}
	}
	fires, resolves, below := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, test := range tests {
		firing := make(map[string]bool)
		for _, a := range test.Alerts {
			switch {
			case len(a.Want) > 0:
				fires[a.Name], firing[a.Name] = true, true
			case firing[a.Name]:
				resolves[a.Name] = true
			}
		}
		for _, a := range test.Alerts {
			below[a.Name] = below[a.Name] || !firing[a.Name]
		}
	}
	for alert := range alerts {
		if !fires[alert] || !resolves[alert] || !below[alert] {
			t.Errorf("the tests of %s: fires %t, resolves %t, stays silent just below %t, want all three", alert, fires[alert], resolves[alert], below[alert])
		}
	}
}

// TestExprFaults: what an expression must not have is found.
func TestExprFaults(t *testing.T) {
	known := map[string]Metric{
		"a_total": {Type: "counter", Labels: []string{"kind"}}, "b": {Type: "gauge"}, "c_seconds": {Type: "histogram"},
	}
	for expr, want := range map[string]string{
		`sum(rate(a_total{kind="x",cluster="y"}[5m])) + b`:                  "",
		`histogram_quantile(0.9, sum by (le) (rate(c_seconds_bucket[5m])))`: "",
		`r:x`: "", `r:y`: "recorded by no rule",
		`sum(rate(a_total[5m])`:       "parse error",
		`rate(d_total[5m])`:           `no metric "d_total"`,
		`rate(a_total{king="x"}[5m])`: "no label king",
		`rate(b[5m])`:                 "is a gauge",
		`a_total > 1`:                 "is a counter",
		`rate(c_seconds[5m])`:         "no metric",
		`histogram_quantile(0.9, sum(rate(c_seconds_bucket[5m])))`:    "by le",
		`histogram_quantile(0.9, rate(c_seconds_bucket{le="1"}[5m]))`: "by le",
	} {
		got := strings.Join(ExprFaults(known, map[string]bool{"r:x": true}, expr), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("ExprFaults(%s) = %q, want %q", expr, got, want)
		}
	}
}

// promtool returns the path of promtool, "" if there is none: then the test is left out, which fails
// in CI.
func promtool(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"promtool", filepath.Join(top, "..", "..", ".local", "prometheus", "usr", "bin", "promtool")} {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("there is no promtool: bash .ci/run install fetches it")
	}
	t.Skip("LEFT OUT: there is no promtool (Debian: prometheus), so no rule was tested")
	return ""
}

// TestRulesByPromtool: Prometheus takes the rules and the example of a configuration, and the rules
// do what their tests say.
func TestRulesByPromtool(t *testing.T) {
	tool := promtool(t)
	if out, err := exec.CommandContext(t.Context(), tool, "check", "config", filepath.Join(top, "prometheus.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check config prometheus.yaml: %v\n%s", err, out)
	}
	for _, args := range [][]string{{"check", "rules", "rules/*.yaml"}, {"test", "rules", "rules/tests/*.yaml"}} {
		files, err := filepath.Glob(filepath.Join(top, args[2]))
		if err != nil || len(files) < 3 {
			t.Fatalf("%s: %d files, %v", args[2], len(files), err)
		}
		out, err := exec.CommandContext(t.Context(), tool, slices.Concat(args[:2], files)...).CombinedOutput()
		if err != nil {
			t.Errorf("promtool %s %s: %v\n%s", args[0], args[1], err, out)
		}
	}
}

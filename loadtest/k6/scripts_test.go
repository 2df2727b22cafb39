// Package k6_test runs the k6 scripts against a stub that does one thing wrong, and looks at which thresholds fail: a
// load test that cannot fail shows nothing. What the scripts find on a real cluster is shown by `make k6`.
package k6_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// k6Env names the program k6. It takes minutes to build, so only `make k6-check`, which builds it, sets this.
const k6Env = "CARILLON_K6"

func TestEachThresholdCanFail(t *testing.T) {
	k6 := os.Getenv(k6Env)
	if k6 == "" {
		t.Skip("LEFT OUT: the k6 scripts; `make k6-check` builds k6 and runs this test")
	}
	for _, tt := range []struct {
		name   string
		script string
		faults faults
		want   []string // the thresholds that fail, and no others
	}{
		{"jobs: all is well", "jobs.js", faults{}, nil},
		{"jobs: 429 is no error", "jobs.js", faults{refuse: true}, []string{"back_pressure"}},
		{"jobs: 429 without Retry-After", "jobs.js", faults{hasty: true}, []string{"back_pressure", "checks"}},
		{"jobs: 500", "jobs.js", faults{fail: true}, []string{"errors"}},
		{"jobs: an answer that is not JSON", "jobs.js", faults{garble: true}, []string{"iterations_broken"}},
		{"jobs: another instant", "jobs.js", faults{move: true}, []string{"checks"}},
		{"jobs: a run never starts", "jobs.js", faults{lose: true}, []string{"runs_missing"}},
		{"jobs: late", "jobs.js", faults{late: true}, []string{"lateness_p99_ms"}},
		{"jobs: early", "jobs.js", faults{early: true}, []string{"runs_early"}},
		{"jobs: a failed attempt", "jobs.js", faults{miscarry: true}, []string{"runs_failed"}},
		{"jobs: a node started anew", "jobs.js", faults{restart: true}, []string{"verdicts"}},
		{"import: all is well", "import.js", faults{}, nil},
		{"import: an answer that was cut", "import.js", faults{cut: true}, []string{"errors"}},
		{"import: a line fails", "import.js", faults{lineFails: true}, []string{"errors", "import_lines_failed"}},
		{"import: a refused line is no error", "import.js", faults{lineWaits: true}, []string{"back_pressure"}},
		{"import: keys are forgotten", "import.js", faults{forget: true}, []string{"checks"}},
		{"k6-10k: all is well", "k6-10k.js", faults{}, nil},
		{"k6-10k: 429", "k6-10k.js", faults{refuse: true}, []string{"back_pressure", "jobs_accepted"}},
		{"k6-10k: late", "k6-10k.js", faults{late: true}, []string{"lateness_p99_ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(&stub{faults: tt.faults, knownKeyedLine: map[string]bool{}})
			defer api.Close()
			failed, code := run(t, k6, tt.script, api.URL)
			if !slices.Equal(failed, tt.want) {
				t.Errorf("k6 run %s: thresholds %q failed, want %q", tt.script, failed, tt.want)
			}
			if (code != 0) != (len(tt.want) > 0) {
				t.Errorf("k6 run %s: exit code %d, with thresholds %q failed", tt.script, code, failed)
			}
		})
	}
}

// run runs a script with the smoke profile and returns the metrics whose thresholds failed, sorted, and the exit code.
func run(t *testing.T, k6, script, api string) (failed []string, code int) {
	t.Helper()
	summary := filepath.Join(t.TempDir(), "summary.json")
	cmd := exec.CommandContext(t.Context(), k6, "run", "--quiet", "--no-usage-report", "--summary-export", summary, script)
	cmd.Env = append(os.Environ(), "PROFILE=smoke", "DRAIN=1s", "API="+api, "SINK="+api, "AHEAD=1s")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("k6 run %s: %v", script, err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	}()
	failed, err = failedThresholds(summary)
	if err != nil {
		t.Fatalf("k6 run %s: %v\n%s", script, err, out)
	}
	return failed, cmd.ProcessState.ExitCode()
}

// failedThresholds returns the metrics with a failed threshold in k6's export, sorted. There, true means failed.
func failedThresholds(summary string) ([]string, error) {
	text, err := os.ReadFile(summary)
	if err != nil {
		return nil, fmt.Errorf("read summary: %w", err)
	}
	var export struct {
		Metrics map[string]struct {
			Thresholds map[string]bool `json:"thresholds"`
		} `json:"metrics"`
	}
	if err := json.Unmarshal(text, &export); err != nil {
		return nil, fmt.Errorf("read summary: %w", err)
	}
	var failed []string
	for name, m := range export.Metrics {
		for _, bad := range m.Thresholds {
			if bad {
				failed = append(failed, name)
				break
			}
		}
	}
	slices.Sort(failed)
	return failed, nil
}

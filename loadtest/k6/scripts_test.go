// Package k6_test runs the k6 scripts against a stub that does one thing wrong, and looks at which
// thresholds fail: a load test that cannot fail shows nothing. What the scripts find on a real
// cluster is shown by `make k6`.
package k6_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// k6Env names the program k6. It takes minutes to build, so only `make k6-check`, which builds it,
// sets this.
const k6Env = "CARILLON_K6"

// settings of the scripts in the smoke profile: enough that every kind of call is made, and every
// branch taken.
var settings = map[string][]string{
	"jobs.js":   nil,
	"import.js": nil,
	// or a run may have no cancel, of which one in ten is planned, if there is something to cancel
	"mixed.js":  {"RATE=300"},
	"herd.js":   {"JOBS=1500"}, // two imports, the second a rest
	"k6-10k.js": {"AHEAD=6s"},
}

func TestEachThresholdCanFail(t *testing.T) {
	k6 := needK6(t)
	for _, tt := range cases() {
		t.Run(strings.TrimSuffix(tt.script, ".js")+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			api := httptest.NewServer(newStub(tt.faults))
			defer api.Close()
			failed, code := run(t, k6, tt.script, api.URL, tt.env)
			if !slices.Equal(failed, tt.want) {
				t.Errorf("k6 run %s: thresholds %q failed, want %q", tt.script, failed, tt.want)
			}
			if (code != 0) != (len(tt.want) > 0) {
				t.Errorf("k6 run %s: exit code %d, with thresholds %q failed", tt.script, code, failed)
			}
		})
	}
}

// TestNoThresholdIsLeftOut looks into the scripts for thresholds that no case sees fail.
func TestNoThresholdIsLeftOut(t *testing.T) {
	k6 := needK6(t)
	seen := map[string][]string{}
	for _, tt := range cases() {
		seen[tt.script] = append(seen[tt.script], tt.want...)
	}
	for script := range settings {
		for _, profile := range []string{"smoke", "spike"} {
			if script == "k6-10k.js" && profile == "spike" {
				continue // it has no such profile
			}
			cmd := exec.CommandContext(t.Context(), k6, "inspect", "--env", "PROFILE="+profile, script)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("k6 inspect %s: %v", script, err)
			}
			var options struct {
				Thresholds map[string][]json.RawMessage `json:"thresholds"`
			}
			if err := json.Unmarshal(out, &options); err != nil {
				t.Fatalf("k6 inspect %s: %v", script, err)
			}
			for metric, expressions := range options.Thresholds {
				for _, expression := range expressions {
					if name := nameOf(metric, string(expression)); !slices.Contains(seen[script], name) {
						t.Errorf("%s with PROFILE=%s: no case in which the threshold %s fails", script, profile, name)
					}
				}
			}
		}
	}
}

func needK6(t *testing.T) string {
	t.Helper()
	k6 := os.Getenv(k6Env)
	if k6 == "" {
		t.Skip("LEFT OUT: the k6 scripts; `make k6-check` builds k6 and runs this test")
	}
	return k6
}

// run runs a script with the smoke profile, if env has no other, and returns the thresholds that
// failed, sorted, and the exit code.
func run(t *testing.T, k6, script, api string, env []string) (failed []string, code int) {
	t.Helper()
	summary := filepath.Join(t.TempDir(), "summary.json")
	cmd := exec.CommandContext(t.Context(), k6, "run", "--quiet", "--no-usage-report", "--summary-export", summary, script)
	cmd.Env = slices.Concat(os.Environ(), []string{"PROFILE=smoke", "DRAIN=1s", "API=" + api, "SINK=" + api}, settings[script], env)
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

// failedThresholds returns the failed thresholds in k6's export, by their names, sorted. There,
// true means failed.
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
	for metric, m := range export.Metrics {
		for expression, bad := range m.Thresholds {
			if bad {
				failed = append(failed, nameOf(metric, expression))
			}
		}
	}
	slices.Sort(failed)
	return failed, nil
}

var (
	kindOfCall = regexp.MustCompile(`^http_req_duration\{op:([^,]+),`)
	quantile   = regexp.MustCompile(`p\(\d+\)`)
)

// nameOf names a threshold: after its metric, which is enough but for the latency of a kind of
// call, "create p(95)".
func nameOf(metric, expression string) string {
	if kind := kindOfCall.FindStringSubmatch(metric); kind != nil {
		return kind[1] + " " + quantile.FindString(expression)
	}
	return metric
}

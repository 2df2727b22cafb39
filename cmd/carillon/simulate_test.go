package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulate runs carillon simulate.
func simulate(t *testing.T, in string, args ...string) (out string, err error) {
	t.Helper()
	cmd := simulateCommand()
	var text strings.Builder
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	cmd.SetIn(strings.NewReader(in))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return text.String(), err
}

func TestSimulate(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "plan.svg")
	out, err := simulate(t, "", "--slots", "10", "--load", "name=mail,rate=20/s,even=true,duration=1s", "--span", "1m", "--plot", plot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mail", "10 slots are used to 90 %; the loads want 20 on average", "more than the 9 that these tenants may have", "wait p99"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if svg, err := os.ReadFile(plot); err != nil || !strings.Contains(string(svg), "<svg") {
		t.Errorf("the picture: %d bytes, %v", len(svg), err)
	}
	out, err = simulate(t, `{"due_at":"2026-11-27T10:00:00Z","attempts":[{"started_at":"2026-11-27T10:00:01Z","finished_at":"2026-11-27T10:00:02Z"}]}`, "--recorded", "-", "-o", "json")
	var doc struct {
		All struct {
			Runs int `json:"runs"`
		} `json:"all"`
	}
	if err != nil || json.Unmarshal([]byte(out), &doc) != nil || doc.All.Runs != 1 {
		t.Errorf("a recorded run: %v\n%s", err, out)
	}
}

// TestSimulateLimit: recorded runs of a task are played under a limit.
func TestSimulateLimit(t *testing.T) {
	const two = `{"task":"mail","due_at":"2026-11-27T10:00:00Z","attempts":[{"started_at":"2026-11-27T10:00:00Z","finished_at":"2026-11-27T10:00:04Z"}]}
		{"task":"mail","due_at":"2026-11-27T10:00:00Z","attempts":[{"started_at":"2026-11-27T10:00:00Z","finished_at":"2026-11-27T10:00:04Z"}]}`
	for limit, want := range map[string]string{"mail=1": "ends at 8", "mail=2": "ends at 4"} {
		if out, err := simulate(t, two, "--recorded", "-", "--max-concurrent", limit, "--slots", "9"); err != nil || !strings.Contains(out, want) {
			t.Errorf("--max-concurrent %s: %v, want %q\n%s", limit, err, want, out)
		}
	}
	for limit, want := range map[string]string{"mail": "not task=n", "mail=0": "not task=n", "post=3": "no recorded run is of that task"} {
		if _, err := simulate(t, two, "--recorded", "-", "--max-concurrent", limit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--max-concurrent %s: %v, want %q", limit, err, want)
		}
	}
	if _, err := simulate(t, two+strings.ReplaceAll(two, "{\"task\"", "{\"tenant\":\"b\",\"task\""), "--recorded", "-", "--max-concurrent", "mail=1"); err == nil || !strings.Contains(err.Error(), "several tenants") {
		t.Errorf("a task of two tenants: %v", err)
	}
	if _, err := simulate(t, "", "--load", "rate=1", "--max-concurrent", "mail=1"); err == nil || !strings.Contains(err.Error(), "goes with --recorded") {
		t.Errorf("a limit without recorded runs: %v", err)
	}
}

func TestSimulateNamesEveryFault(t *testing.T) {
	_, err := simulate(t, "x", "--slots", "0", "--load", "rate=x,colour=red", "--load", "herd=1,rate=1", "--starts", "many", "--span", "soon", "--step", "0.5", "--recorded", "-", "-o", "xml")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--executors: 1 with 0 slots", `rate: "x" is no rate`, "colour: is none of", "either a rate or a herd", "--starts: ", "--span: ", "--step: ", "--recorded: ", "--output: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing: %v", want, err)
		}
	}
	for _, args := range [][]string{{}, {"--load", "rate=1", "--span", "365d"}, {"--load", "rate=10M"}, {"--recorded", "/none"}} {
		if _, err := simulate(t, "", args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

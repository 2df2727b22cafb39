package workload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/loadtest/workload"
)

func drawn(t *testing.T, seed uint64) (workload.Workflows, []workflows.Workflow) {
	t.Helper()
	w := workload.Workflows{Graphs: 20, Items: 1000, Runs: 2000, Seed: seed, Target: "http://h"}
	all, err := w.All()
	if err != nil {
		t.Fatal(err)
	}
	return w, all
}

func TestWorkflowsAreDrawnFromTheSeed(t *testing.T) {
	_, all := drawn(t, 1)
	_, again := drawn(t, 1)
	_, others := drawn(t, 2)
	if diff := cmp.Diff(all, again); diff != "" {
		t.Errorf("the same seed makes others (-first +second):\n%s", diff)
	}
	if cmp.Equal(all, others) {
		t.Error("another seed makes the same workflows")
	}
}

// Of each kind that the judge knows something is drawn, so that a run of the scenario shows it.
func TestWorkflowsAreOfAllKinds(t *testing.T) {
	w, all := drawn(t, 1)
	seen := map[string]int{}
	for _, f := range all {
		if n := len(f.Definition.Steps); f.Name != workload.FanOut && (n < 10 || n > 50) {
			t.Errorf("%s has %d steps, want 10 to 50", f.Name, n)
		}
		for _, s := range f.Definition.Steps {
			for kind, is := range map[string]bool{
				"join": len(s.After) > 1, "chain": len(s.After) == 1, "root": len(s.After) == 0, "wait": s.Wait != nil, "items": s.ForEach != nil,
				"if of the payload": strings.HasPrefix(s.If, "input."), "if of a step": strings.HasPrefix(s.If, "steps."),
				"when " + s.When: true,
			} {
				if is {
					seen[kind]++
				}
			}
			if s.HTTP != nil {
				manner, _, _ := strings.Cut(strings.TrimPrefix(s.HTTP.URL, "http://h/"), "/")
				seen["manner "+strings.TrimRight(manner, "0123456789ms")]++
			}
		}
	}
	for _, kind := range []string{
		"join", "chain", "root", "wait", "items", "if of the payload", "if of a step",
		"when ", "when all_done", "when always", "when any_succeeded", "when any_failed",
		"manner fail-", "manner work-", "manner status-", "manner fail",
	} {
		if seen[kind] == 0 {
			t.Errorf("no step is of the kind %q: %v", kind, seen)
		}
	}
	runs := map[string]int{}
	for n := range w.Runs {
		name, payload := w.Trigger(n + 1)
		runs[name]++
		var input struct{ Few, Items []int }
		if err := json.Unmarshal(payload, &input); err != nil || name == workload.FanOut && len(input.Items) != w.Items {
			t.Fatalf("Trigger(%d) of %s = %s, %v, want %d items for %s", n+1, name, payload, err, w.Items, workload.FanOut)
		}
		if !slices.ContainsFunc(all, func(f workflows.Workflow) bool { return f.Name == name }) {
			t.Fatalf("Trigger(%d) is of %s, which is not there", n+1, name)
		}
	}
	if runs[workload.FanOut] != 20 || len(runs) != len(all) {
		t.Errorf("runs by workflow: %v, want 20 of %s and some of each", runs, workload.FanOut)
	}
}

// The judge reads all that is drawn.
func TestTheJudgeReadsWhatIsDrawn(t *testing.T) {
	for seed := range uint64(20) {
		w, all := drawn(t, seed)
		h := workflows.History{Workflows: all}
		for n := range 40 {
			name, payload := w.Trigger(n + 1)
			tr := workflows.Trigger{Payload: payload}
			tr.Ref.Source, tr.Ref.Line = name, n+1
			h.Triggers = append(h.Triggers, tr)
		}
		if _, err := workflows.Judge(h); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestWorkflowsValidate(t *testing.T) {
	_, err := workload.Workflows{Items: 20_000, Target: "x"}.All()
	for _, want := range []string{"graphs is 0", "items is 20000", "target"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("All = %v, want %q in it", err, want)
		}
	}
}

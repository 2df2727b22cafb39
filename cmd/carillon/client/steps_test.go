package client

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/schema"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// step makes a step of a run that started at noon and took so long; 0: it has not ended; negative: it
// has not started.
func step(name, after string, state schema.State, took time.Duration) httpapi.RunStep {
	s := httpapi.RunStep{Name: name, After: strings.Fields(after), State: state}
	if took >= 0 {
		s.StartedAt = httpapi.Time{Time: noon}
	}
	if took > 0 {
		s.FinishedAt = httpapi.Time{Time: noon.Add(took)}
	}
	return s
}

func someSteps() []httpapi.RunStep {
	steps := []httpapi.RunStep{
		step("alert", "load", schema.StatePending, -1),
		step("extract", "", schema.StateSucceeded, 1200*time.Millisecond),
		step("transform", "extract", schema.StateRunning, 0),
		step("check", "extract", schema.StateSkipped, -1),
		step("load", "check transform", schema.StatePending, -1),
		step("alone", "", schema.StateFailed, time.Second),
	}
	steps[2].Items = &httpapi.StepItems{Total: 7, States: map[schema.State]int{schema.StateSucceeded: 2, schema.StateFailed: 1, schema.StateRunning: 1}}
	steps[3].Reason = "its condition was not met"
	steps[5].Attempts, steps[5].Reason = 3, "answered \x1b[31m500"
	return steps
}

func TestStepsAreDrawnAsATree(t *testing.T) {
	got := strings.Join(stepLines(stepTree(someSteps()), noon.Add(2500*time.Millisecond)), "\n")
	want := strings.TrimPrefix(`
extract         succeeded    1.2s
├─ transform    running 3/7  2.5s  1 failed
└─ check        skipped            its condition was not met
   └─ load      pending
      └─ alert  pending
alone           failed       1s    3 attempts, answered \u001b[31m500`, "\n")
	// load comes after two steps of one depth: it is drawn below the one that it names first.
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
}

func TestTreeOfWhatCannotBe(t *testing.T) {
	for name, steps := range map[string][]httpapi.RunStep{
		"none":             nil,
		"after no step":    {step("a", "gone", schema.StatePending, -1)},
		"after itself":     {step("a", "a", schema.StatePending, -1)},
		"after each other": {step("a", "b", schema.StatePending, -1), step("b", "a", schema.StatePending, -1)},
	} {
		t.Run(name, func(t *testing.T) {
			if tree := stepTree(steps); len(tree) != len(steps) {
				t.Errorf("the tree of %d steps has %d lines", len(steps), len(tree))
			}
		})
	}
	deep := make([]httpapi.RunStep, 1000)
	for i := range deep {
		deep[i] = step(fmt.Sprintf("s%d", i), fmt.Sprintf("s%d", i-1), schema.StatePending, -1)
	}
	for _, line := range stepLines(stepTree(deep), noon) {
		if len(line) > 200 {
			t.Fatalf("a line of a deep tree has %d bytes", len(line))
		}
	}
}

func TestLiveTreeDrawsOverItself(t *testing.T) {
	run := httpapi.Run{Workflow: "etl", State: schema.StateRunning, StartedAt: httpapi.Time{Time: noon}, Steps: someSteps()}
	var out bytes.Buffer
	tree := liveTree{out: &out, columns: 30, rows: 40}
	for range 2 {
		if err := tree.show(&run, noon.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(out.String(), "\r\x1b[2Ketl  ") || strings.Count(out.String(), "\x1b[7A") != 1 || strings.Count(out.String(), "\n") != 14 {
		t.Errorf("two drawings of seven lines are %q, want the second over the first", out.String())
	}
	for _, line := range lines {
		shown := strings.NewReplacer("\r", "", "\x1b[2K", "", "\x1b[J", "", "\x1b[7A", "").Replace(line)
		if n := len([]rune(shown)); n > 30 {
			t.Errorf("the line %q has %d columns, more than the terminal", shown, n)
		}
	}
	// Where the terminal is lower, what is under way or went wrong is shown.
	out.Reset()
	low := liveTree{out: &out, columns: 80, rows: 6}
	if err := low.show(&run, noon); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "\n") > 6 || !strings.Contains(text, "transform") || !strings.Contains(text, "more") {
		t.Errorf("in six rows is drawn %q", text)
	}
	out.Reset()
	run.State = schema.StateFailed
	if err := low.show(&run, noon); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Count(text, "\n") != 7 {
		t.Errorf("the end is drawn as %q, want all of it", text)
	}
}

func TestEachChangeOfAStepIsOneLine(t *testing.T) {
	run := httpapi.Run{Workflow: "etl", State: schema.StateRunning, StartedAt: httpapi.Time{Time: noon}, Steps: []httpapi.RunStep{
		step("a", "", schema.StateRunning, 0), step("b", "a", schema.StatePending, -1),
	}}
	var out bytes.Buffer
	log := stepLog{out: &out, said: make(map[string]string)}
	show := func() {
		t.Helper()
		if err := log.show(&run, noon.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	show()
	show()
	run.Steps[0] = step("a", "", schema.StateFailed, time.Second)
	run.Steps[0].Reason = "answered 500"
	run.Steps[1].State = schema.StateSkipped
	run.State, run.FinishedAt = schema.StateFailed, httpapi.Time{Time: noon.Add(time.Second)}
	show()
	want := "etl run 00000000-0000-0000-0000-000000000000\n" +
		"12:00:01.000  a  running\n12:00:01.000  run  running\n12:00:01.000  a  failed  1s  answered 500\n12:00:01.000  b  skipped\n12:00:01.000  run  failed  1s\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
}

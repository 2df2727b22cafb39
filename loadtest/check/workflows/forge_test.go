package workflows_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/schema"
)

// The forged world: every instant is told in milliseconds after t0.
var t0 = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

// The workflow runs of the clean history. stranger is one that nobody asked for.
var mixed, plain, stranger = runID(1), runID(2), runID(3)

func runID(n int) schema.RunID {
	return schema.MakeEntryID(at(n), 7, uint64(n)<<40) // #nosec G115 -- small
}

// world is a history that is easy to change by step.
type world struct{ workflows.History }

// steps of the workflow mixed, whose run has failed. Each is the plainest of its kind.
const mixedSteps = `[
	{"name":"s1","http":{"url":"http://h/mixed/1"}},
	{"name":"s2","after":["s1"],"http":{"url":"http://h/mixed/2"},"for_each":{"input":"/items"}},
	{"name":"s3","after":["s2"],"wait":{"for":"3s"}},
	{"name":"s4","after":["s3"],"http":{"url":"http://h/mixed/4"}},
	{"name":"s5","after":["s1"],"http":{"url":"http://h/status-404/mixed/5"}},
	{"name":"s6","after":["s5"],"when":"any_failed","http":{"url":"http://h/mixed/6"}},
	{"name":"s7","after":["s5"],"http":{"url":"http://h/mixed/7"}},
	{"name":"s8","after":["s1"],"if":"input.n % 2 == 0","http":{"url":"http://h/mixed/8"}},
	{"name":"s9","after":["s5","s4"],"when":"any_succeeded","http":{"url":"http://h/mixed/9"}},
	{"name":"s10","after":["s5","s7"],"when":"all_done","if":"steps.s5.state == \"failed\"","http":{"url":"http://h/mixed/10"}},
	{"name":"s11","after":["s1"],"http":{"url":"http://h/fail-1/mixed/11"}},
	{"name":"s12","after":["s1"],"http":{"url":"http://h/fail/mixed/12"},"retry":{"max_attempts":3}},
	{"name":"s13","after":["s1"],"http":{"url":"http://h/mixed/13"},"for_each":{"input":"/none"}},
	{"name":"s14","after":["s13","s8"],"http":{"url":"http://h/mixed/14"}}]`

func definition(t *testing.T, name, steps string) workflows.Workflow {
	t.Helper()
	var w workflows.Workflow
	if err := json.Unmarshal(fmt.Appendf(nil, `{"name":%q,"body":{"steps":%s}}`, name, steps), &w); err != nil {
		t.Fatal(err)
	}
	return w
}

// clean is a history without a fault: a run of a workflow with a step of every kind, and one of a
// workflow of one step.
func clean(t *testing.T) *world {
	t.Helper()
	w := &world{workflows.History{
		Workflows: []workflows.Workflow{
			definition(t, "mixed", mixedSteps), definition(t, "plain", `[{"name":"s1","http":{"url":"http://h/plain/1"}}]`),
		},
		Triggers: []workflows.Trigger{
			{Ref: check.Ref{Source: "mixed", Line: 1}, Payload: []byte(`{"n":1,"items":[7,8,9],"none":[]}`), Requested: at(0), Acked: at(10), Run: mixed.String()},
			{Ref: check.Ref{Source: "plain", Line: 2}, Payload: []byte(`{}`), Requested: at(5), Acked: at(15), Run: plain.String()},
		},
		SeenAll: true,
	}}
	w.call(1, 0, 1, 20, 30, 200)
	for item := 1; item <= 3; item++ {
		w.call(2, item, 1, 40+item, 50+item, 200)
	}
	w.call(4, 0, 1, 3060, 3080, 200)
	w.call(5, 0, 1, 40, 45, 404)
	w.call(6, 0, 1, 50, 55, 200)
	w.call(9, 0, 1, 3090, 3095, 200)
	w.call(10, 0, 1, 50, 56, 200)
	w.call(11, 0, 1, 40, 41, 500)
	w.call(11, 0, 2, 300, 301, 200)
	for attempt := 1; attempt <= 3; attempt++ {
		w.call(12, 0, attempt, 40*attempt, 40*attempt+1, 500)
	}
	w.call(14, 0, 1, 40, 50, 200)
	w.callOf(plain, "plain", 1, 0, 1, 20, 30, 200)

	states := strings.Fields("succeeded succeeded succeeded succeeded failed succeeded skipped skipped succeeded succeeded succeeded failed succeeded succeeded")
	run := check.Run{ID: mixed.String(), State: check.Failed, Workflow: "mixed"}
	for i, s := range states {
		run.Steps = append(run.Steps, check.WorkflowStep{Name: fmt.Sprintf("s%d", i+1), State: check.State(s)})
	}
	run.Steps[1].Items = &check.StepItems{Total: 3, States: map[check.State]int{check.Succeeded: 3}}
	run.Steps[12].Items = &check.StepItems{}
	w.observe(run)
	w.observe(check.Run{
		ID: plain.String(), State: check.Succeeded, Workflow: "plain", Steps: []check.WorkflowStep{{Name: "s1", State: check.Succeeded}},
	})
	return w
}

// cleanReport is what Judge says of clean, lateness aside.
func cleanReport() workflows.Report {
	return workflows.Report{
		Triggers: 2, Acknowledged: 2, DoneFailed: 1, StepRuns: 13, Items: 3, FailedSteps: 2, Skipped: 2, Waits: 1, Retried: 3,
		SeenAll: true, Sightings: 16,
	}
}

// idOf is the run of a step (from 1) of a workflow run, or of an item of it.
func idOf(run schema.RunID, step, item int) string {
	return schema.MakeStepID(run, step-1, item).String()
}

// call adds a call of a step of mixed.
func (w *world) call(step, item, attempt, from, end, status int) {
	w.callOf(mixed, "mixed", step, item, attempt, from, end, status)
}

func (w *world) callOf(run schema.RunID, workflow string, step, item, attempt, from, end, status int) {
	w.Seen = append(w.Seen, check.Sighting{
		Run: idOf(run, step, item), Ref: check.Ref{Source: workflow, Line: step}, Attempt: attempt, At: at(from), End: at(end), Status: status,
	})
}

// seen is the first call of a step of mixed, or of an item of it.
func (w *world) seen(step, item int) *check.Sighting {
	return &w.Seen[slices.IndexFunc(w.Seen, func(s check.Sighting) bool { return s.Run == idOf(mixed, step, item) })]
}

// move has a step called at another instant. The call ends 1 ms later.
func (w *world) move(step, item, from int) {
	s := w.seen(step, item)
	s.At, s.End = at(from), at(from+1)
}

func (w *world) unsee(step, item int) {
	w.Seen = slices.DeleteFunc(w.Seen, func(s check.Sighting) bool { return s.Run == idOf(mixed, step, item) })
}

// observe adds two equal readings of a run.
func (w *world) observe(run check.Run) {
	w.Runs = append(w.Runs, observation(run))
}

func observation(run check.Run) check.Observation {
	return check.Observation{
		ID: run.ID, First: check.Reading{Status: check.Found, At: at(9000), Run: run}, Second: check.Reading{Status: check.Found, At: at(9900), Run: run},
	}
}

// record adds the records of the run of a step of mixed.
func (w *world) record(step int, state check.State, attempts ...check.Attempt) {
	w.StepRuns = append(w.StepRuns, observation(check.Run{ID: idOf(mixed, step, 0), State: state, Attempts: attempts}))
}

// shown is what the API says of mixed at the second read.
func (w *world) shown() *check.Run { return &w.Runs[0].Second.Run }

// shownStep is what it says of a step of mixed. The steps are those of both readings.
func (w *world) shownStep(step int) *check.WorkflowStep { return &w.shown().Steps[step-1] }

package orchestration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/concurrency"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Orchestrator on a store in memory, and a callee that plays dispatcher and executor.
type world struct {
	*bucketertest.World
	core   *bucketer.Bucketer
	runs   *runs.Runs
	jobs   *recurring.Jobs
	limits *concurrency.WaitLists
	o      *Orchestrator
	missed atomic.Int64 // runs of workflows that were missed, as it was told

	// answers says what a step's run comes to; absent: it succeeds with the output null.
	answers map[string]answer
	called  []string // names of steps that were called, with their payloads, in order
	states  map[schema.RunID]*State
}

type answer struct {
	output string
	fails  bool
	hangs  bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4}), answers: make(map[string]answer), states: make(map[schema.RunID]*State)}
	w.open()
	return w
}

// open makes the parts of the world anew, as a process that has just started.
func (w *world) open() {
	w.T.Helper()
	store := w.Store()
	var err error
	if w.core, err = bucketer.New(bucketer.Config{Store: store, Hints: w, Signals: w, Missed: func(_ *schema.Spec, _ string, runs int64) { w.missed.Add(runs) }}); err != nil {
		w.T.Fatal(err)
	}
	if err := w.core.Refresh(context.Background()); err != nil {
		w.T.Fatal(err)
	}
	w.runs = runs.New(runs.Config{Bucketer: w.core, Store: store, Signals: w})
	w.jobs = recurring.New(recurring.Config{Bucketer: w.core, Runs: w.runs, Store: store})
	w.limits = concurrency.New(concurrency.Config{Bucketer: w.core, Runs: w.runs, Jobs: w.jobs, Store: store})
	w.o = New(Config{Bucketer: w.core, Runs: w.runs, Jobs: w.jobs, Limits: w.limits, Store: store})
	w.runs.RetryWorkflows(w.o.RetryWorkflow)
	w.runs.AskWaits(w.o.FindWaits)
	clear(w.states)
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

// workflow makes a workflow of JSON.
func (w *world) workflow(name, definition string) schema.Job {
	w.T.Helper()
	d, err := workflow.Decode([]byte(definition))
	if err != nil {
		w.T.Fatal(err)
	}
	if _, faults := workflow.Compile(d); len(faults) > 0 {
		w.T.Fatalf("faults of %s: %+v", name, faults)
	}
	stored, err := NewJobWorkflow(d)
	if err != nil {
		w.T.Fatal(err)
	}
	job, _, err := w.jobs.PutJob(context.Background(), "t", name, 0, schema.JobSpec{Workflow: stored})
	if err != nil {
		w.T.Fatalf("PutJob(%s) = %v", name, err)
	}
	return job
}

// trigger makes a run of a workflow.
func (w *world) trigger(job schema.Job, payload string) schema.RunID {
	w.T.Helper()
	var text json.RawMessage
	if payload != "" {
		text = json.RawMessage(payload)
	}
	r, err := w.jobs.TriggerJob(context.Background(), "t", job.ID, text, "", "")
	if err != nil {
		w.T.Fatalf("TriggerJob = %v", err)
	}
	return r.Run
}

// step advances a run once, with those ends, and returns what came of it.
func (w *world) step(run schema.RunID, ended ...StepEnd) *Turn {
	t := &Turn{Run: run, State: w.states[run], Ended: ended}
	w.o.Advance(context.Background(), []*Turn{t}, 1000)
	w.states[run] = t.State
	return t
}

// drive advances a run and calls what it starts, one after the other, until it is over or waits.
// children are driven too. An error starts it anew from the rows, as a new owner would.
func (w *world) drive(run schema.RunID) *Turn {
	w.T.Helper()
	var ended []StepEnd
	for range 200 {
		t := w.step(run, ended...)
		ended = nil
		if t.Err != nil {
			delete(w.states, run)
			time.Sleep(time.Second)
			continue
		}
		for _, e := range slices.Concat(t.Start, t.Inspect) {
			ended = append(ended, w.call(e)...)
		}
		for _, e := range t.Advance {
			if child := w.drive(e.ID); child.Over {
				ended = append(ended, StepEnd{Run: e.ID})
			}
		}
		if t.Over || len(ended) == 0 && !t.Wake.Before(time.Now().Add(time.Hour)) {
			return t
		}
		if len(ended) == 0 {
			time.Sleep(time.Until(t.Wake))
		}
	}
	w.T.Fatalf("run %s neither ends nor waits", run)
	return nil
}

// call plays the executor: it calls a step's run, unless the rows say that it was, and records it.
func (w *world) call(e schema.Entry) []StepEnd {
	w.T.Helper()
	run, err := w.runs.Run(context.Background(), "t", e.ID)
	if err != nil { // a fault of the test: once
		run, err = w.runs.Run(context.Background(), "t", e.ID)
	}
	if err != nil {
		w.T.Fatalf("run of step %s = %v", e.ID, err)
	}
	name := e.Spec.Step.Name
	a := w.answers[name]
	if run.State.Terminal() {
		return []StepEnd{{Run: e.ID}}
	}
	if a.hangs {
		return nil
	}
	w.called = append(w.called, name+" "+string(run.Entry.Payload))
	rec := schema.Record{Outcome: schema.Succeeded, Output: a.output, Started: time.Now()}
	if a.fails {
		rec.Outcome, rec.Final, rec.Error = schema.Failed, true, "refused"
	}
	w.Recorded(e, 1, rec)
	return []StepEnd{{Run: e.ID, Succeeded: !a.fails}}
}

// state returns the state of a run.
func (w *world) state(run schema.RunID) schema.State {
	w.T.Helper()
	r, err := w.runs.Run(context.Background(), "t", run)
	if err != nil {
		w.T.Fatalf("run %s = %v", run, err)
	}
	return r.State
}

// view returns the states of the steps of a run, as the API shows them.
func (w *world) view(run schema.RunID) map[string]string {
	w.T.Helper()
	r, err := w.runs.Run(context.Background(), "t", run)
	if err != nil {
		w.T.Fatal(err)
	}
	v, err := w.o.View(context.Background(), &r)
	if err != nil {
		w.T.Fatalf("View = %v", err)
	}
	states := make(map[string]string)
	for _, s := range v.Steps {
		states[s.Name] = string(s.State)
	}
	return states
}

// steps returns the JSON of a definition with these steps, each work unless it says otherwise.
func steps(all ...string) string {
	text := `{"steps":[`
	for i, s := range all {
		if i > 0 {
			text += ","
		}
		text += s
	}
	return text + "]}"
}

func work(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"http":{"url":"http://x.test/%s"}%s}`, name, name, more)
}

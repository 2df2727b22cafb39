package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Runs are what can be asked for about runs.
type Runs struct{ node *node }

// Get returns a run with its attempts, and one of a workflow with its steps.
func (r Runs) Get(ctx context.Context, id RunID) (Run, error) {
	return ask[Run](ctx, r.node, question{method: http.MethodGet, path: []string{"runs", id.String()}})
}

// RunQuery selects runs by due time, From ≤ due < To. Empty fields select all.
type RunQuery struct {
	From, To time.Time // must be stated, but for Search and States
	State    State
	States   []State // or in one of these
	Task     string
	Job      string            // id or name; its runs come newest first in each hour
	Labels   map[string]string // all of them
	// Late selects runs that started later than that after they were due, that could have started
	// for longer and have not, or that were missed; 0: any.
	Late time.Duration
	// Error is part of the last error of the run, in capitals or not.
	Error  string
	OneOff bool // runs of one-off jobs alone
	// CreatedBy is who made their job, or asked for them, as the audit log names callers.
	CreatedBy string
}

// params returns the filters.
func (q RunQuery) params() url.Values {
	query := stated(map[string]string{"state": string(q.State), "task": q.Task, "job": q.Job, "error": q.Error, "created_by": q.CreatedBy})
	for _, s := range q.States {
		query.Add("state", string(s))
	}
	for name, value := range q.Labels {
		query.Add("label", name+"="+value)
	}
	if q.Late != 0 {
		query.Set("late", q.Late.String())
	}
	if q.OneOff {
		query.Set("one_off", "true")
	}
	return query
}

// List returns the runs of a window, in the order of due times. It asks for an hour at a time, and
// ends with the first error.
func (r Runs) List(ctx context.Context, q RunQuery) iter.Seq2[Run, error] {
	return listWindow[Run](ctx, r.node, q.From, q.To, q.params(), "runs")
}

// OfSteps returns the runs of the steps of a workflow run, each item of a step with for_each as a run
// of its own, in the order of the steps, then of items; only those of one step unless that is "", and
// in one of these states unless there are none. It ends with the first error.
func (r Runs) OfSteps(ctx context.Context, workflowRun RunID, step string, states ...State) iter.Seq2[Run, error] {
	query := stated(map[string]string{"workflow_run": workflowRun.String(), "step": step})
	for _, s := range states {
		query.Add("state", string(s))
	}
	return list[Run](ctx, r.node, query, "runs")
}

// Stuck returns the runs that wait for other jobs and whose deadline has passed, in the order in which
// their chains began. Such a run still starts if those jobs end as it asks for; a cancel ends it. It
// ends with the first error.
func (r Runs) Stuck(ctx context.Context) iter.Seq2[Run, error] {
	return list[Run](ctx, r.node, nil, "stuck")
}

// Cancel cancels a run; twice is the same as once. One that has ended is an *Error of the kind
// "finished".
func (r Runs) Cancel(ctx context.Context, id RunID) (Run, error) {
	return ask[Run](ctx, r.node, question{method: http.MethodPost, path: []string{"runs", id.String(), "cancel"}})
}

// Retry runs a run that has ended again, as a new run, which it returns. One of a workflow goes on
// from the steps that did not succeed.
func (r Runs) Retry(ctx context.Context, id RunID, options ...CreateOption) (Run, error) {
	return ask[Run](ctx, r.node, question{path: []string{"runs", id.String(), "retry"}}.create(options))
}

// SkipStep has a step of a workflow run not run, and returns the run; twice is the same as once.
func (r Runs) SkipStep(ctx context.Context, id RunID, step string) (Run, error) {
	return ask[Run](ctx, r.node, question{method: http.MethodPost, path: []string{"runs", id.String(), "steps", step, "skip"}})
}

// Output returns the output of the attempt that succeeded, else of the last that has ended.
func (r Runs) Output(ctx context.Context, id RunID) (RunOutput, error) {
	a, err := r.node.send(ctx, &question{method: http.MethodGet, path: []string{"runs", id.String(), "output"}})
	if err != nil {
		return RunOutput{}, err
	}
	out := RunOutput{
		Text: a.body, Cut: a.header.Get("Carillon-Output-Cut") == "true",
		Binary: !strings.HasPrefix(a.header.Get("Content-Type"), "text/"),
	}
	out.Attempt, _ = strconv.Atoi(a.header.Get("Carillon-Attempt")) // absent: 0
	return out, nil
}

// How long Wait waits between two looks: at first, and at most.
const (
	firstLook = 100 * time.Millisecond
	laterLook = 2 * time.Second
)

// Wait returns a run once it has ended. It looks every 0.1 s at first, and later every 2 s.
func (r Runs) Wait(ctx context.Context, id RunID) (Run, error) {
	for pause := firstLook; ; pause = min(2*pause, laterLook) {
		run, err := r.Get(ctx, id)
		if err != nil || run.State.Terminal() {
			return run, err
		}
		if err := sleep(ctx, pause); err != nil {
			return run, err
		}
	}
}

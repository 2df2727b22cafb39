package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Workflows are what can be asked for about workflows. Where a method takes a name it also takes an
// id.
type Workflows struct{ node *node }

// Put creates the workflow, or replaces what it says. A run under way keeps what it began with.
func (w Workflows) Put(ctx context.Context, workflow *Workflow) (WorkflowInfo, error) {
	return w.put(ctx, workflow, nil)
}

// Check returns what Put would, and changes nothing. The generation of a workflow that does not
// exist is 0.
func (w Workflows) Check(ctx context.Context, workflow *Workflow) (WorkflowInfo, error) {
	return w.put(ctx, workflow, url.Values{"dry_run": {"true"}})
}

func (w Workflows) put(ctx context.Context, workflow *Workflow, query url.Values) (WorkflowInfo, error) {
	body, err := workflow.build()
	if err != nil {
		return WorkflowInfo{}, err
	}
	return ask[WorkflowInfo](ctx, w.node, question{method: http.MethodPut, path: []string{"workflows", body.Name}, query: query, body: body})
}

// Get returns a workflow with its steps.
func (w Workflows) Get(ctx context.Context, name string) (WorkflowInfo, error) {
	return ask[WorkflowInfo](ctx, w.node, question{method: http.MethodGet, path: []string{"workflows", name}})
}

// List returns the workflows, newest first. It ends with the first error.
func (w Workflows) List(ctx context.Context, q JobQuery) iter.Seq2[WorkflowInfo, error] {
	return list[WorkflowInfo](ctx, w.node, q.parameters(), "workflows")
}

// Cancel lets no run of a workflow begin any more; those under way go on. Twice is the same as
// once.
func (w Workflows) Cancel(ctx context.Context, name string) (WorkflowInfo, error) {
	return ask[WorkflowInfo](ctx, w.node, question{method: http.MethodDelete, path: []string{"workflows", name}})
}

// Pause lets no run of a workflow begin until it is resumed; twice is the same as once.
func (w Workflows) Pause(ctx context.Context, name string) (WorkflowInfo, error) {
	return ask[WorkflowInfo](ctx, w.node, question{method: http.MethodPost, path: []string{"workflows", name, "pause"}})
}

// Resume lets a workflow that was paused go on, from now on; twice is the same as once.
func (w Workflows) Resume(ctx context.Context, name string) (WorkflowInfo, error) {
	return ask[WorkflowInfo](ctx, w.node, question{method: http.MethodPost, path: []string{"workflows", name, "resume"}})
}

// Trigger runs a workflow now, besides its schedule, and returns the run. The payload is anything
// that encodes as JSON; nil: the workflow's.
func (w Workflows) Trigger(ctx context.Context, name string, payload any, options ...CreateOption) (Run, error) {
	body := struct {
		Payload any `json:"payload,omitempty"`
	}{payload}
	return ask[Run](ctx, w.node, question{path: []string{"workflows", name, "trigger"}, body: body}.create(options))
}

// Runs returns the runs of a workflow as Jobs.Runs does those of a job, without their steps.
func (w Workflows) Runs(ctx context.Context, name string, q JobRunQuery) iter.Seq2[Run, error] {
	return list[Run](ctx, w.node, q.parameters(), "workflows", name, "runs")
}

// Upcoming returns the next runs of a workflow, if it stays as it is: at most count of them, from 1
// to 100.
func (w Workflows) Upcoming(ctx context.Context, name string, count int) ([]NextRun, error) {
	return upcoming(ctx, w.node, count, "workflows", name, "upcoming")
}

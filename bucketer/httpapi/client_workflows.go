package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"

	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// workflowPath returns the path of what there is to ask about a workflow, by its name or id.
func workflowPath(name, what string) string {
	return workflowsPath + "/" + url.PathEscape(name) + what
}

// PutWorkflow creates or replaces the workflow of a name, and reports whether it was created. It is
// anything that encodes as the body of PUT /v1/workflows/{name}, such as a request.WorkflowRequest.
func (c *Client) PutWorkflow(ctx context.Context, name string, workflow any) (Workflow, bool, error) {
	var out Workflow
	header, err := c.call(ctx, ask{method: http.MethodPut, path: workflowPath(name, ""), body: workflow, repeatable: true}, &out)
	return out, header.Get("Location") != "", err
}

// CheckWorkflow returns what PutWorkflow would, and changes nothing. The generation of a workflow that
// does not exist is 0.
func (c *Client) CheckWorkflow(ctx context.Context, name string, workflow any) (Workflow, error) {
	var out Workflow
	_, err := c.call(ctx, ask{method: http.MethodPut, path: workflowPath(name, "?dry_run=true"), body: workflow, repeatable: true}, &out)
	return out, err
}

// Workflow returns a workflow by its name or id.
func (c *Client) Workflow(ctx context.Context, name string) (Workflow, error) {
	var out Workflow
	_, err := c.call(ctx, ask{method: http.MethodGet, path: workflowPath(name, ""), repeatable: true}, &out)
	return out, err
}

// Workflows returns the workflows of q, newest first, without their steps. It ends with the first
// error.
func (c *Client) Workflows(ctx context.Context, q JobQuery) iter.Seq2[Workflow, error] {
	return func(yield func(Workflow, error) bool) {
		eachItem(ctx, c, workflowsPath, q.parameters(), q.Limit, yield)
	}
}

// DeleteWorkflow cancels a workflow: no run of it begins any more, and those under way go on. Twice is
// the same as once.
func (c *Client) DeleteWorkflow(ctx context.Context, name string) (Workflow, error) {
	return c.controlWorkflow(ctx, http.MethodDelete, name, "")
}

// PauseWorkflow pauses a workflow; twice is the same as once.
func (c *Client) PauseWorkflow(ctx context.Context, name string) (Workflow, error) {
	return c.controlWorkflow(ctx, http.MethodPost, name, "/pause")
}

// ResumeWorkflow resumes a workflow; twice is the same as once.
func (c *Client) ResumeWorkflow(ctx context.Context, name string) (Workflow, error) {
	return c.controlWorkflow(ctx, http.MethodPost, name, "/resume")
}

func (c *Client) controlWorkflow(ctx context.Context, method, name, act string) (Workflow, error) {
	var out Workflow
	_, err := c.call(ctx, ask{method: method, path: workflowPath(name, act), repeatable: true}, &out)
	return out, err
}

// TriggerWorkflow runs a workflow now, besides its schedule, with that payload; nil: the workflow's.
// About key see CreateJob.
func (c *Client) TriggerWorkflow(ctx context.Context, name string, payload json.RawMessage, key string) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{
		method: http.MethodPost, path: workflowPath(name, "/trigger"), body: request.TriggerRequest{Payload: payload}, header: keyed(key), repeatable: key != "",
	}, &out)
	return out, err
}

// WorkflowGraph returns the steps of a workflow as a graph: as "json", "mermaid", "dot" or "tree".
func (c *Client) WorkflowGraph(ctx context.Context, name, format string) ([]byte, error) {
	return c.graph(ctx, workflowPath(name, "/graph"), format)
}

// RunGraph returns the steps of a workflow run as a graph, with how they stand. About format see
// WorkflowGraph.
func (c *Client) RunGraph(ctx context.Context, id schema.RunID, format string) ([]byte, error) {
	return c.graph(ctx, "/v1/runs/"+id.String()+"/graph", format)
}

func (c *Client) graph(ctx context.Context, path, format string) ([]byte, error) {
	var text []byte
	_, err := c.call(ctx, ask{method: http.MethodGet, path: path + "?" + url.Values{"format": {format}}.Encode(), repeatable: true}, &text)
	return text, err
}

// WorkflowRuns returns the runs of a workflow as JobRuns does those of a job, without their steps.
func (c *Client) WorkflowRuns(ctx context.Context, name string, q JobRunQuery) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		eachItem(ctx, c, workflowPath(name, "/runs"), q.parameters(), q.Limit, yield)
	}
}

// WorkflowUpcoming returns the next runs of a workflow, as Upcoming does those of a job.
func (c *Client) WorkflowUpcoming(ctx context.Context, name string, from time.Time, count int) ([]NextRun, error) {
	return c.upcoming(ctx, workflowPath(name, "/upcoming"), from, count)
}

// SkipStep has a step of a workflow run not run, and returns the run. Twice is the same as once.
func (c *Client) SkipStep(ctx context.Context, id schema.RunID, step string) (Run, error) {
	var out Run
	_, err := c.call(ctx, ask{method: http.MethodPost, path: "/v1/runs/" + id.String() + "/steps/" + url.PathEscape(step) + "/skip", repeatable: true}, &out)
	return out, err
}

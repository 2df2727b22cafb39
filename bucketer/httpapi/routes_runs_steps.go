package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

type (
	runGraph struct {
		ID     string `path:"id" doc:"The run's id"`
		Format string `query:"format" enum:"json,mermaid,dot,tree" default:"json" doc:"json; else text for Mermaid, for Graphviz, or for a terminal"`
	}
	stepSkip struct {
		ID   string `path:"id" doc:"The id of the workflow run"`
		Step string `path:"step" doc:"The step's name" example:"approve"`
		body
	}
)

// runStepRoutes serves what only runs of workflows have.
type runStepRoutes struct{ *Server }

func (s runStepRoutes) route() {
	huma.Register(s.api, documentWriter(s).graphOperation("get-run-graph", "/v1/runs/{id}/graph", "The steps of a workflow run as a graph, with how they stand"), s.getGraph)
	skip := s.operation("skip-step", http.MethodPost, "/v1/runs/{id}/steps/{step}/skip", "Have a step of a workflow run not run: it counts as succeeded for those after it. If it runs, it is cancelled", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	huma.Register(s.api, skip, s.skipStep)
}

// noteSteps adds to an answered run what its workflow says of it, if it is one of a workflow.
func (s runStepRoutes) noteSteps(ctx context.Context, run *runs.Run, shown *Run) error {
	if run.Entry.Spec.Workflow == nil {
		return nil
	}
	v, err := s.deps.Workflows.View(ctx, run)
	switch {
	case errors.Is(err, schema.ErrNotUnderstood):
		shown.Fault = err.Error()
	case err != nil:
		return err
	default:
		shown.noteView(&v)
	}
	return nil
}

func (s runStepRoutes) getGraph(ctx context.Context, in *runGraph) (*huma.StreamResponse, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	run, err := s.deps.Runs.Run(ctx, tenantOf(ctx), id)
	if err == nil && run.Entry.Spec.Workflow == nil {
		err = notFound("The run is not one of a workflow.")
	}
	var v orchestration.View
	if err == nil {
		v, err = s.deps.Workflows.View(ctx, &run)
	}
	if err == nil && v.Graph == nil {
		err = notFound("The run never began, and its workflow has left.")
	}
	if err != nil {
		return nil, s.fail(ctx, "draw run", err)
	}
	return draw(v.Graph, in.Format, statesOf(&v))
}

func (s runStepRoutes) skipStep(ctx context.Context, in *stepSkip) (*runAnswer, error) {
	id, err := parseRun(in.ID)
	if err == nil {
		err = s.noBody(&in.body)
	}
	if what := bucketer.NameFault(in.Step); what != "" {
		err = also(err, bucketer.Faults{{Location: "path.step", Message: what}})
	}
	if err == nil {
		err = s.deps.Workflows.SkipStep(ctx, tenantOf(ctx), id, in.Step)
	}
	var run runs.Run
	if err == nil {
		run, err = s.deps.Runs.Run(ctx, tenantOf(ctx), id)
	}
	if err != nil {
		return nil, s.fail(ctx, "skip step", err)
	}
	return runRoutes(s).answerRun(ctx, run, http.StatusOK)
}

// retryWorkflow runs a workflow run again that has ended.
func (s runRoutes) retryWorkflow(ctx context.Context, run *runs.Run, key string) (*runAnswer, error) {
	spec := run.Entry.Spec
	payload, err := s.deps.Runs.Payload(ctx, *run)
	var receipt bucketer.Receipt
	if err == nil {
		receipt, err = s.deps.Workflows.RetryWorkflow(ctx, spec.Tenant, run.ID, key)
	}
	if err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	return s.answerNewRun(ctx, receipt, schema.Spec{
		Tenant: spec.Tenant, Job: spec.Job, JobName: spec.JobName, Nominal: spec.Nominal, Priority: spec.Priority,
		Trigger: schema.TriggerRetry, Origin: run.ID, Workflow: new(schema.WorkflowRun),
	}, payload), nil
}

// stepProblem refuses to run a step again by itself.
func stepProblem(of schema.RunID) *Problem {
	return &Problem{
		Type: problemType + "step", Title: "The run is a step of a workflow run", Status: http.StatusConflict,
		Detail: "It cannot be run again by itself: retry " + of.String() + " when that has ended.",
	}
}

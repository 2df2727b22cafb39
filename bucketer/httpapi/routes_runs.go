package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

type (
	runByID struct {
		ID string `path:"id" doc:"The run's id" example:"0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"`
	}
	runCancel struct {
		ID string `path:"id" doc:"The run's id"`
		body
	}
	runRetry struct {
		ID  string `path:"id" doc:"The run's id"`
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key gives the same new run"`
		body
	}
)

func parseRun(id string) (schema.RunID, error) {
	run, err := schema.ParseEntryID(id)
	if err != nil {
		return schema.RunID{}, invalid(bucketer.Fault{Location: "path.id", Message: "is not the id of a run"})
	}
	return run, nil
}

type runAnswer struct {
	Status   int
	Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
	Location string `header:"Location"`
	Body     Run
}

type runList struct {
	Body struct {
		Items      []Run     `json:"items"`
		Searched   *Searched `json:"searched,omitempty" doc:"With order=newest: how far the search has come"`
		NextCursor string    `json:"next_cursor,omitempty"`
	}
}

// runRoutes serves runs.
type runRoutes struct{ *Server }

func (s runRoutes) route() {
	huma.Register(s.api, s.operation("get-run", http.MethodGet, "/v1/runs/{id}", "A run and its attempts", 200, 404, 422, 503), s.getRun)
	list := s.operation("list-runs", http.MethodGet, "/v1/runs", "Runs of a window of due times, in order. An answer may hold fewer items than limit, even none, and still have next_cursor", 200, 404, 422, 429, 503)
	list.Description = runsAsked
	huma.Register(s.api, list, s.listRuns)
	huma.Register(s.api, s.operation("cancel-run", http.MethodPost, "/v1/runs/{id}/cancel", "Cancel a run; twice is the same as once", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503), s.cancelRun)
	retry := s.operation("retry-run", http.MethodPost, "/v1/runs/{id}/retry", "Run a finished run again, as a new run whose origin is this one", 201, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	retry.Description = "Its dead letter, if it has one, goes on waiting, whatever becomes of the new run. " +
		"POST /v1/dead-letters/{id}/replay runs the same again and settles it; DELETE /v1/dead-letters/{id} settles it alone."
	huma.Register(s.api, retry, s.retryRun)
	searchRoutes(s).route()
	outputRoutes(s).route()
	runStepRoutes(s).route()
}

func (s runRoutes) getRun(ctx context.Context, in *runByID) (*runAnswer, error) {
	id, err := parseRun(in.ID)
	if err != nil {
		return nil, err
	}
	run, err := s.deps.Runs.Run(ctx, tenantOf(ctx), id)
	if err != nil {
		return nil, s.fail(ctx, "read run", err)
	}
	return s.answerRun(ctx, run, http.StatusOK)
}

func (s runRoutes) answerRun(ctx context.Context, run runs.Run, status int) (*runAnswer, error) {
	payload, err := s.deps.Runs.Payload(ctx, run)
	if err != nil && !errors.Is(err, schema.ErrSealed) { // the answer says so
		return nil, s.fail(ctx, "read payload", err)
	}
	shown := []Run{runOf(&run, payload, s.config.Now())}
	if err := s.noteDeadLetters(ctx, shown); err != nil {
		return nil, s.fail(ctx, "read dead letter", err)
	}
	shown[0].Calls = callOf(ctx, s.deps.Tasks, &standing(&run).Spec)
	if err := runStepRoutes(s).noteSteps(ctx, &run, &shown[0]); err != nil {
		return nil, s.fail(ctx, "read steps", err)
	}
	return &runAnswer{Status: status, Body: shown[0]}, nil
}

func (s runRoutes) cancelRun(ctx context.Context, in *runCancel) (*runAnswer, error) {
	id, err := parseRun(in.ID)
	if err == nil {
		err = s.noBody(&in.body)
	}
	if err != nil {
		return nil, s.fail(ctx, "cancel run", err)
	}
	run, err := s.deps.Jobs.Cancel(ctx, tenantOf(ctx), id, canceller)
	if err != nil {
		return nil, s.fail(ctx, "cancel run", err)
	}
	return s.answerRun(ctx, run, http.StatusOK)
}

func (s runRoutes) retryRun(ctx context.Context, in *runRetry) (*runAnswer, error) {
	id, err := parseRun(in.ID)
	if err == nil {
		err = s.noBody(&in.body)
	}
	key, faults := idempotencyKey(in.Key)
	if err = also(err, faults); err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	run, err := s.deps.Runs.Run(ctx, tenantOf(ctx), id)
	if err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	spec := &run.Entry.Spec
	switch {
	case spec.Step != nil:
		return nil, stepProblem(spec.Step.Workflow)
	case !run.State.Terminal():
		return nil, notFinished(run.State)
	case spec.Workflow != nil:
		return s.retryWorkflow(ctx, &run, key)
	}
	payload, err := s.deps.Runs.Payload(ctx, run)
	if err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	job := requestOf(&run, payload)
	job.At, job.JobName, job.Trigger, job.Origin, job.OriginJob = time.Time{}, spec.JobName, schema.TriggerRetry, id, spec.ListedWith()
	if key != "" {
		job.Key, job.BodyHash = key, "retry "+id.String()
	}
	receipt, err := s.deps.Jobs.Submit(ctx, job)
	if err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	return s.answerNewRun(ctx, receipt, schema.Spec{
		Tenant: job.Tenant, Nominal: receipt.Run.Time(), Task: job.Task, Work: job.Work, Priority: job.Priority,
		JobName: job.JobName, Trigger: job.Trigger, Origin: job.Origin, Labels: job.Labels,
	}, payload), nil
}

// answerNewRun answers with a run that was made now. It is durable, whether or not it can be read:
// then spec says what it is.
func (s *Server) answerNewRun(ctx context.Context, receipt bucketer.Receipt, spec schema.Spec, payload []byte) *runAnswer {
	out := &runAnswer{Status: http.StatusCreated, Location: "/v1/runs/" + receipt.Run.String()}
	if receipt.Existing {
		out.Replayed = "true"
	}
	run := runs.Run{ID: receipt.Run, State: schema.StatePending, Entry: schema.Entry{ID: receipt.Run, Spec: spec}}
	if receipt.Entry != nil {
		run.Entry = *receipt.Entry
	} else if stored, err := s.deps.Runs.Run(ctx, spec.Tenant, receipt.Run); err == nil {
		run = stored
	}
	out.Body = runOf(&run, payload, s.config.Now())
	out.Body.Calls = callOf(ctx, s.deps.Tasks, &standing(&run).Spec)
	return out
}

// noBody checks the body of a request that takes none.
func (s *Server) noBody(b *body) error {
	text, err := b.text()
	if err != nil {
		return err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	return d.EmptyBody(text)
}

// notFinished refuses what only a run that has ended can be asked.
func notFinished(state schema.State) *Problem {
	return &Problem{
		Type: problemType + "not-finished", Title: "The run has not ended", Status: http.StatusConflict,
		Detail: "It is " + string(state) + ". Only a run that has ended can be run again.",
	}
}

package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// maxWindow is the longest stretch of due times of one list of runs.
const maxWindow = time.Hour

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
	runFilter struct {
		Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string    `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		From   time.Time `query:"from" doc:"First due time; needed unless event is stated"`
		To     time.Time `query:"to" doc:"Due times before this one; at most an hour after from; needed unless event is stated"`
		State  string    `query:"state" enum:"pending,running,retrying,succeeded,failed,cancelled,missed,skipped"`
		Job    string    `query:"job" doc:"Only runs of the job of this id or name; of one that can have many, the latest due first, as at /v1/jobs/{id}/runs"`
		Task   string    `query:"task" doc:"Only runs of this task"`
		Event  string    `query:"event" doc:"The runs that the event of this id started, in the order in which they were planned; nothing else can be asked for beside it"`
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
		Items      []Run  `json:"items"`
		NextCursor string `json:"next_cursor,omitempty"`
	}
}

// runRoutes serves runs.
type runRoutes struct{ *Server }

func (s runRoutes) route() {
	huma.Register(s.api, s.operation("get-run", http.MethodGet, "/v1/runs/{id}", "A run and its attempts", 200, 404, 422, 503), s.getRun)
	huma.Register(s.api, s.operation("list-runs", http.MethodGet, "/v1/runs", "Runs of a window of due times, in order. An answer may hold fewer items than limit, even none, and still have next_cursor", 200, 422, 503), s.listRuns)
	huma.Register(s.api, s.operation("cancel-run", http.MethodPost, "/v1/runs/{id}/cancel", "Cancel a run; twice is the same as once", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503), s.cancelRun)
	huma.Register(s.api, s.operation("retry-run", http.MethodPost, "/v1/runs/{id}/retry", "Run a finished run again, as a new run whose origin is this one", 201, 400, 404, 408, 409, 413, 415, 422, 429, 503), s.retryRun)
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
	if err != nil {
		return nil, s.fail(ctx, "read payload", err)
	}
	shown := []Run{runOf(&run, payload)}
	if err := s.noteDeadLetters(ctx, shown); err != nil {
		return nil, s.fail(ctx, "read dead letter", err)
	}
	if err := runStepRoutes(s).noteSteps(ctx, &run, &shown[0]); err != nil {
		return nil, s.fail(ctx, "read steps", err)
	}
	return &runAnswer{Status: status, Body: shown[0]}, nil
}

func (s runRoutes) listRuns(ctx context.Context, in *runFilter) (*runList, error) {
	if in.Event != "" {
		return eventRoutes(s).runsOfEvent(ctx, in)
	}
	w := runs.Window{Tenant: tenantOf(ctx), From: in.From.UTC(), To: in.To.UTC(), State: schema.State(in.State), Task: in.Task}
	faults := checkWindow(w.From, w.To)
	if in.Task != "" {
		if what := bucketer.NameFault(in.Task); what != "" {
			faults = append(faults, bucketer.Fault{Location: "query.task", Message: what})
		}
	}
	job, what, err := s.jobOfQuery(ctx, in.Job)
	switch {
	case err != nil:
		return nil, s.fail(ctx, "list runs", err)
	case what != "":
		faults = append(faults, bucketer.Fault{Location: "query.job", Message: what, Value: in.Job})
	}
	var pos runs.Position
	question := []any{"runs", w, in.Job}
	if bucketer.NameFault(in.Job) == "" { // a name may be given to another job between two pages
		question[2] = job.String()
	}
	if in.Cursor != "" && len(faults) == 0 { // the question is part of it
		var p *Problem
		if err := s.cursors.read(in.Cursor, question, &pos); errors.As(err, &p) {
			faults = append(faults, p.Errors...)
		}
	}
	if len(faults) > 0 {
		return nil, invalid(faults...)
	}
	out := new(runList)
	out.Body.Items = []Run{}
	if only, ok := job.OneOff(); ok {
		return out, s.listOne(ctx, w, only, out)
	}
	if !job.IsZero() {
		return out, s.listHistory(ctx, w, job, pos, in.Limit, question, out)
	}
	page, next, err := s.deps.Runs.Runs(ctx, w, pos, in.Limit)
	if err != nil {
		return nil, s.fail(ctx, "list runs", err)
	}
	for i := range page {
		out.Body.Items = append(out.Body.Items, runOf(&page[i], standing(&page[i]).Payload))
	}
	if err := s.noteDeadLetters(ctx, out.Body.Items); err != nil {
		return nil, s.fail(ctx, "list runs", err)
	}
	if next != nil {
		if out.Body.NextCursor, err = s.cursors.make(question, next); err != nil {
			return nil, s.fail(ctx, "list runs", err)
		}
	}
	return out, nil
}

// checkWindow finds fault with a window of instants, at most maxWindow long.
func checkWindow(from, to time.Time) bucketer.Faults {
	var faults bucketer.Faults
	for _, stated := range []struct {
		name string
		at   time.Time
	}{{"from", from}, {"to", to}} {
		if stated.at.IsZero() {
			faults = append(faults, bucketer.Fault{Location: "query." + stated.name, Message: "must be stated"})
		}
	}
	if len(faults) > 0 {
		return faults
	}
	faults = checkYears(from, to)
	switch {
	case !to.After(from):
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be after from"})
	case to.Sub(from) > maxWindow:
		faults = append(faults, bucketer.Fault{Location: "query.to", Message: "must be at most an hour after from"})
	}
	return faults
}

// jobOfQuery returns the job of an id or a name, or what is wrong with that.
func (s runRoutes) jobOfQuery(ctx context.Context, text string) (id schema.JobID, what string, err error) {
	if text == "" {
		return id, "", nil
	}
	if id, err = schema.ParseJobID(text); err == nil {
		return id, "", nil
	}
	if bucketer.NameFault(text) != "" {
		return id, "is neither an id nor a name of a job", nil
	}
	job, err := s.deps.Recurring.JobByName(ctx, tenantOf(ctx), text)
	if errors.Is(err, schema.ErrNotFound) {
		return id, "there is no job of this name", nil
	}
	return job.ID, "", err
}

// listOne lists the run id if it lies in the window.
func (s runRoutes) listOne(ctx context.Context, w runs.Window, id schema.RunID, out *runList) error {
	run, err := s.deps.Runs.Run(ctx, w.Tenant, id)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil
	case err != nil:
		return s.fail(ctx, "list runs", err)
	}
	e := standing(&run)
	if due := e.Due(); due.Before(w.From) || !due.Before(w.To) ||
		w.State != "" && run.State != w.State || w.Task != "" && e.Spec.Task != w.Task {
		return nil
	}
	out.Body.Items = append(out.Body.Items, runOf(&run, e.Payload))
	if err := s.noteDeadLetters(ctx, out.Body.Items); err != nil {
		return s.fail(ctx, "list runs", err)
	}
	return nil
}

// listHistory lists the runs of a job that can have many, the latest due first: a window of due
// times may lie in many partitions, and the history knows the job's.
func (s runRoutes) listHistory(ctx context.Context, w runs.Window, job schema.JobID, pos runs.Position, limit int, question any, out *runList) error {
	asked := historyPage{filter: recurring.JobRunFilter{State: w.State, From: w.From, To: w.To}, pos: pos, limit: limit, question: question}
	err := recurringRoutes(s).historyOf(ctx, job, asked, out)
	var none *Problem
	if errors.As(err, &none) && none.Status == http.StatusNotFound {
		return nil
	}
	out.Body.Items = slices.DeleteFunc(out.Body.Items, func(r Run) bool { return w.Task != "" && r.Task != w.Task })
	return err
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
	job.At, job.Trigger, job.Origin = time.Time{}, schema.TriggerRetry, id
	if key != "" {
		job.Key, job.BodyHash = key, "retry "+id.String()
	}
	receipt, err := s.deps.Jobs.Submit(ctx, job)
	if err != nil {
		return nil, s.fail(ctx, "retry run", err)
	}
	return s.answerNewRun(ctx, receipt, schema.Spec{
		Tenant: job.Tenant, Nominal: receipt.Run.Time(), Task: job.Task, Work: job.Work, Priority: job.Priority,
		Trigger: job.Trigger, Origin: job.Origin,
	}, payload), nil
}

// answerNewRun answers with a run that was made now. It is durable, whether or not it can be read:
// then spec says what it is.
func (s *Server) answerNewRun(ctx context.Context, receipt bucketer.Receipt, spec schema.Spec, payload []byte) *runAnswer {
	out := &runAnswer{Status: http.StatusCreated, Location: "/v1/runs/" + receipt.Run.String()}
	if receipt.Existing {
		out.Replayed = "true"
	}
	run, err := s.deps.Runs.Run(ctx, spec.Tenant, receipt.Run)
	if err != nil {
		run = runs.Run{ID: receipt.Run, State: schema.StatePending, Entry: schema.Entry{ID: receipt.Run, Spec: spec}}
	}
	out.Body = runOf(&run, payload)
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

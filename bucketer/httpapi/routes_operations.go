package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Operations does one thing to everything that matches (operations.Operations).
type Operations interface {
	Begin(ctx context.Context, tenant string, spec schema.OperationSpec, key, bodyHash string) (operations.Begun, error)
	// Backfill begins an operation that runs a stretch of a job's past again.
	Backfill(ctx context.Context, tenant string, id schema.JobID, r operations.Backfill, by, key, bodyHash string) (operations.Begun, error)
	// PreviewBackfill says what a backfill would do.
	PreviewBackfill(ctx context.Context, tenant string, id schema.JobID, r operations.Backfill) (operations.BackfillPreview, error)
	Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error)
	// List returns operations of a tenant, newest first, and where to go on (before), nil at the end.
	// A page of those in a state may hold fewer than limit, even none, before the end.
	List(ctx context.Context, tenant, state string, before schema.OperationID, limit int) ([]schema.Operation, *schema.OperationID, error)
	// Cancel ends an operation where it is.
	Cancel(ctx context.Context, tenant string, id schema.OperationID, by string) (schema.Operation, error)
}

// OperationScope is what an operation acts on, as the API answers it.
type OperationScope struct {
	State      string `json:"state,omitempty"`
	Label      string `json:"label,omitempty"`
	NamePrefix string `json:"name_prefix,omitempty"`
	From       Time   `json:"from,omitzero"`
	To         Time   `json:"to,omitzero"`
	Task       string `json:"task,omitempty"`
	// The rest selects runs, as lists of runs do.
	States  []string `json:"states,omitempty" doc:"Of runs: in one of these"`
	Labels  []string `json:"labels,omitempty" doc:"Of runs: all of these, too"`
	Job     string   `json:"job,omitempty" doc:"Of runs: the id of their job"`
	JobName string   `json:"job_name,omitempty" doc:"Of runs: the name by which their job was asked for"`
	Host    string   `json:"host,omitempty" doc:"Of runs: they call it"`
	Late    string   `json:"late,omitempty" doc:"Of runs: they are late by more than this span"`
	Key     string   `json:"key,omitempty" doc:"Of runs: made with this idempotency key"`
	// ErrorPattern and Error select dead letters.
	ErrorPattern string `json:"error_pattern,omitempty" doc:"Of dead letters"`
	Error        string `json:"error,omitempty" doc:"Of dead letters: part of their error"`
}

// BackfillScope is what a backfill is for, as the API answers it.
type BackfillScope struct {
	JobID         schema.JobID `json:"job_id"`
	JobName       string       `json:"job_name,omitempty"`
	From          Time         `json:"from" doc:"The first nominal time that may be run again"`
	To            Time         `json:"to" doc:"Nominal times before this one"`
	MaxConcurrent int          `json:"max_concurrent" doc:"The most runs that are unfinished at a time"`
	Missing       bool         `json:"missing,omitempty" doc:"Times in it have runs, and are left out"`
	Notes         []string     `json:"notes,omitempty" doc:"What was changed in what was asked for"`
}

// BackfillPreview is what a backfill would do.
type BackfillPreview struct {
	Matched int64    `json:"matched" doc:"How many runs there would be" example:"3"`
	Times   int64    `json:"times" doc:"How many nominal times the schedule names in the stretch; with missing, those that have a run are not matched" example:"7"`
	First   Time     `json:"first,omitzero" doc:"The first nominal time of those runs"`
	Last    Time     `json:"last,omitzero" doc:"The last one"`
	From    Time     `json:"from" doc:"The first nominal time that may be run again"`
	To      Time     `json:"to" doc:"Nominal times before this one"`
	Notes   []string `json:"notes,omitempty" doc:"What would be changed in what is asked for"`
}

// Operation is an action on everything that matches, and how far it has come.
type Operation struct {
	ID          schema.OperationID `json:"id"`
	Tenant      string             `json:"tenant"`
	Action      string             `json:"action" enum:"cancel,pause,resume,trigger,retry,replay,discard,backfill,unknown"`
	Filter      OperationScope     `json:"filter"`
	Backfill    *BackfillScope     `json:"backfill,omitempty" doc:"What a backfill is for"`
	DryRun      bool               `json:"dry_run,omitempty"`
	State       string             `json:"state" enum:"running,done,cancelled,unknown"`
	Matched     int64              `json:"matched" doc:"Met so far; all nominal times of a backfill"`
	Changed     int64              `json:"changed" doc:"Of those: done; none in a dry run. The runs that a backfill has asked for"`
	Unchanged   int64              `json:"unchanged" doc:"Of those: nothing was to be done"`
	Failed      int64              `json:"failed" doc:"Of those: could not be done. The runs of a backfill that ended without success"`
	Running     int                `json:"running,omitempty" doc:"The runs of a backfill that have not ended, when it was last looked at"`
	Faults      []string           `json:"faults,omitempty" doc:"The first of those that failed, and why"`
	CreatedAt   Time               `json:"created_at"`
	CreatedBy   string             `json:"created_by,omitempty"`
	UpdatedAt   Time               `json:"updated_at"`
	CancelledAt Time               `json:"cancelled_at,omitzero"`
	CancelledBy string             `json:"cancelled_by,omitempty"`
	Fault       string             `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: then its action and state are unknown"`
}

func operationOf(op *schema.Operation) Operation {
	if op.Fault != nil {
		made := Time{op.ID.Time()}
		return Operation{ID: op.ID, Tenant: op.Tenant, Action: "unknown", State: "unknown", CreatedAt: made, UpdatedAt: made, Fault: faultOf(op.Fault)}
	}
	f, p := &op.Spec.Filter, &op.Progress
	out := Operation{
		ID: op.ID, Tenant: op.Tenant, Action: op.Spec.Action, DryRun: op.Spec.DryRun, State: op.State(),
		Filter: OperationScope{
			State: f.State, Label: f.Label, NamePrefix: f.NamePrefix, From: Time{f.From}, To: Time{f.To}, Task: f.Task, ErrorPattern: f.ErrorPattern, Error: f.Error,
			States: f.States, Labels: f.Labels, Job: f.Job, JobName: op.Spec.JobName, Host: f.Host, Late: f.Late, Key: f.Key,
		},
		Matched: p.Matched, Changed: p.Changed, Unchanged: p.Unchanged, Failed: p.Failed, Faults: p.Faults,
		CreatedAt: Time{op.ID.Time()}, CreatedBy: op.Spec.By, UpdatedAt: Time{p.Updated},
	}
	if b := op.Spec.Backfill; b != nil {
		out.Backfill = &BackfillScope{
			JobID: b.Job, JobName: b.JobName, From: Time{b.From}, To: Time{b.To}, MaxConcurrent: b.MaxConcurrent, Missing: len(b.Skip) > 0, Notes: b.Notes,
		}
		out.Matched, out.Running = b.Count, len(p.Unfinished)
	}
	if c := op.Cancelled; c != nil {
		out.CancelledAt, out.CancelledBy = Time{c.At}, c.By
	}
	return out
}

// OperationBegun is the answer to a new operation.
type OperationBegun struct {
	ID      schema.OperationID `json:"id"`
	Matched int64              `json:"matched" doc:"How much matches by now, as far as it was counted"`
	All     bool               `json:"all" doc:"Whether that is all that matches: counting ends after two seconds"`
}

type (
	operationCreate struct {
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same operation"`
		body
	}
	operationByID struct {
		ID string `path:"id" doc:"The operation's id" example:"01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"`
	}
	backfillCreate struct {
		ID  string `path:"id" doc:"The job's id, or its name"`
		Key string `header:"Idempotency-Key" maxLength:"260" doc:"At most 128 bytes, quoted or not, kept for 24 h: the same key and body give the same operation"`
		body
	}
	backfillAsk struct {
		ID string `path:"id" doc:"The job's id, or its name"`
		body
	}
	backfillAnswer struct{ Body BackfillPreview }
	backfillBegun  struct {
		Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
		Location string `header:"Location"`
		Body     Operation
	}
	operationBegun struct {
		Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
		Location string `header:"Location"`
		Body     OperationBegun
	}
	operationAnswer struct{ Body Operation }
	operationPage   struct {
		Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
		Cursor string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
		State  string `query:"state" enum:"running,done,cancelled" doc:"Only operations in this state"`
	}
	operationList struct {
		Body struct {
			Items      []Operation `json:"items"`
			NextCursor string      `json:"next_cursor,omitempty"`
		}
	}
)

const (
	operationsPath      = "/v1/operations"
	backfillsPath       = "/v1/jobs/{id}/backfills"
	backfillPreviewPath = backfillsPath + "/preview"
)

// operationRoutes serves operations and backfills.
type operationRoutes struct{ *Server }

func (s operationRoutes) route() {
	op := s.operation("begin-operation", http.MethodPost, operationsPath, "Do one thing to everything that matches, in the background", 202, 400, 404, 408, 413, 415, 422, 429, 503)
	op.Description = "A filter selects jobs that can have many runs (state, label, name_prefix) or, with from and to, runs by due time (state or states, label, labels, job, task, host, late, key, each as GET /v1/runs has it); an empty one selects every job. " +
		"Workflows are none of these; their runs are runs. " +
		"cancel is for both, pause, resume and trigger are for jobs, and retry is for runs that have ended: by default those that failed. It leaves their dead letters waiting; replay settles them. replay and discard are for dead letters, selected by due time, task, job, label, labels, error and error_pattern. " +
		"What matches is told when the operation comes to it: a run that is not late yet may be late then. " +
		"A dry run counts what matches, and changes nothing. What a node leaves undone another one takes up."
	huma.Register(s.api, op, s.beginOperation)
	s.describeBody(operationsPath, http.MethodPost, reflect.TypeFor[request.OperationRequest](), "application/json")
	list := s.operation("list-operations", http.MethodGet, operationsPath, "The operations and backfills of the tenant, newest first, of the last 30 days", 200, 422, 503)
	list.Description = "With a state, an answer may hold fewer items than limit, even none, and still have next_cursor."
	huma.Register(s.api, list, s.listOperations)
	huma.Register(s.api, s.operation("get-operation", http.MethodGet, operationsPath+"/{id}", "How far an operation has come; kept for 30 days", 200, 404, 409, 422, 503), s.getOperation)
	cancel := s.operation("cancel-operation", http.MethodDelete, operationsPath+"/{id}", "Cancel an operation that has not ended", 200, 404, 409, 422, 503)
	cancel.Description = "It goes no further than the page under way. What it did stays done, and the runs of a backfill that were asked for go on. Twice is the same as once; one that is done is 409."
	huma.Register(s.api, cancel, s.cancelOperation)
	backfill := s.operation("create-backfill", http.MethodPost, backfillsPath, "Run a stretch of a recurring job's past again, in the background", 202, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	backfill.Description = "One run for each nominal time from ≤ time < to that the schedule, as it is now, names, whether that ran or not, or with missing of those that have no run, such as the times of a pause; at most 100,000 times. " +
		"At most max_concurrent (5 if absent, at most 100) of them are unfinished at a time. They are due when they are asked for, have the trigger backfill and the priority low, " +
		"and no more are asked for while one of them waits for its start. A paused job may be backfilled; one that was cancelled or has finished is 409. The operation is done when all its runs have ended."
	huma.Register(s.api, backfill, s.createBackfill)
	s.describeBody(backfillsPath, http.MethodPost, reflect.TypeFor[request.BackfillRequest](), "application/json")
	preview := s.operation("preview-backfill", http.MethodPost, backfillPreviewPath, "How many runs a backfill would have", 200, 400, 404, 408, 409, 413, 415, 422, 429, 503)
	preview.Description = "The same body as of a backfill is answered with what that would do, and nothing is begun. No times at all, or none that is missing, is no fault here."
	huma.Register(s.api, preview, s.previewBackfill)
	s.describeBody(backfillPreviewPath, http.MethodPost, reflect.TypeFor[request.BackfillRequest](), "application/json")
}

func (s operationRoutes) beginOperation(ctx context.Context, in *operationCreate) (*operationBegun, error) {
	if s.deps.Operations == nil {
		return nil, notFound("This node keeps no operations.")
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	spec, err := d.Operation(text)
	key, faults := idempotencyKey(in.Key)
	unknown, failed := s.nameJob(ctx, &spec)
	if err = also(err, append(faults, unknown...)); err == nil {
		err = failed
	}
	if err != nil {
		return nil, s.fail(ctx, "begin operation", err)
	}
	if s.config.ReadOnly && !spec.DryRun {
		return nil, readOnly()
	}
	hash := ""
	if key != "" {
		hash = d.BodyHash()
	}
	spec.By = actorOf(ctx)
	begun, err := s.deps.Operations.Begin(ctx, tenantOf(ctx), spec, key, hash)
	if err != nil {
		return nil, s.fail(ctx, "begin operation", err)
	}
	out := &operationBegun{
		Location: operationsPath + "/" + begun.Operation.ID.String(),
		Body:     OperationBegun{ID: begun.Operation.ID, Matched: begun.Matched, All: begun.All},
	}
	if begun.Existing {
		out.Replayed = "true"
	} else if !spec.DryRun {
		shown := operationOf(&begun.Operation)
		s.note(ctx, spec.Action, "operation/"+begun.Operation.ID.String(), nil, shown.Filter, "")
	}
	return out, nil
}

// nameJob has a filter that asks for the runs of a job tell its id: the name may be given to another
// job meanwhile. The faults are those that reading the body did not find.
func (s operationRoutes) nameJob(ctx context.Context, spec *schema.OperationSpec) ([]bucketer.Fault, error) {
	text := spec.Filter.Job
	if text == "" || request.JobFault(text) != "" {
		return nil, nil
	}
	job, what, err := runRoutes(s).jobOfQuery(ctx, text)
	switch {
	case err != nil:
		return nil, err
	case what != "":
		return []bucketer.Fault{{Location: "body.filter.job", Message: what, Value: text}}, nil
	}
	if spec.Filter.Job = job.String(); spec.Filter.Job != strings.ToLower(text) {
		spec.JobName = text
	}
	return nil, nil
}

// onOperation answers with the operation that a request names, as do leaves it.
func (s operationRoutes) onOperation(ctx context.Context, act, text string, do func(id schema.OperationID) (schema.Operation, error)) (*operationAnswer, error) {
	id, err := schema.ParseOperationID(text)
	if err != nil {
		return nil, invalid(bucketer.Fault{Location: "path.id", Message: "is not the id of an operation"})
	}
	if s.deps.Operations == nil {
		return nil, notFound("This node keeps no operations.")
	}
	op, err := do(id)
	if err != nil {
		return nil, s.fail(ctx, act, err)
	}
	return &operationAnswer{operationOf(&op)}, nil
}

func (s operationRoutes) listOperations(ctx context.Context, in *operationPage) (*operationList, error) {
	out := new(operationList)
	out.Body.Items = []Operation{}
	if s.deps.Operations == nil {
		return out, nil
	}
	question := []string{"operations", tenantOf(ctx), in.State}
	var before schema.OperationID
	if in.Cursor != "" {
		if err := s.cursors.read(in.Cursor, question, &before); err != nil {
			return nil, s.fail(ctx, "list operations", err)
		}
	}
	ops, next, err := s.deps.Operations.List(ctx, tenantOf(ctx), in.State, before, in.Limit)
	if err == nil && next != nil {
		out.Body.NextCursor, err = s.cursors.make(question, next)
	}
	if err != nil {
		return nil, s.fail(ctx, "list operations", err)
	}
	for i := range ops {
		out.Body.Items = append(out.Body.Items, operationOf(&ops[i]))
	}
	return out, nil
}

func (s operationRoutes) getOperation(ctx context.Context, in *operationByID) (*operationAnswer, error) {
	return s.onOperation(ctx, "read operation", in.ID, func(id schema.OperationID) (schema.Operation, error) {
		return s.deps.Operations.Operation(ctx, tenantOf(ctx), id)
	})
}

func (s operationRoutes) cancelOperation(ctx context.Context, in *operationByID) (*operationAnswer, error) {
	return s.onOperation(ctx, "cancel operation", in.ID, func(id schema.OperationID) (schema.Operation, error) {
		began := s.config.Now().Truncate(time.Millisecond)
		op, err := s.deps.Operations.Cancel(ctx, tenantOf(ctx), id, actorOf(ctx))
		if err == nil && !op.Cancelled.At.Before(began) {
			// a run that was cancelled before is answered the same
			s.note(ctx, "cancel", "operation/"+id.String(), nil, nil, "")
		}
		return op, err
	})
}

func (s operationRoutes) createBackfill(ctx context.Context, in *backfillCreate) (*backfillBegun, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	r, err := d.Backfill(text, s.config.Now())
	key, faults := idempotencyKey(in.Key)
	f, err := s.jobToBackfill(ctx, in.ID, also(err, faults))
	if err != nil {
		return nil, s.fail(ctx, "create backfill", err)
	}
	hash := ""
	if key != "" {
		hash = "backfill " + f.job.ID.String() + " " + d.BodyHash()
	}
	begun, err := s.deps.Operations.Backfill(ctx, tenantOf(ctx), f.job.ID, r, actorOf(ctx), key, hash)
	if err != nil {
		return nil, s.fail(ctx, "create backfill", err)
	}
	out := &backfillBegun{Location: operationsPath + "/" + begun.Operation.ID.String(), Body: operationOf(&begun.Operation)}
	if begun.Existing {
		out.Replayed = "true"
		return out, nil
	}
	s.note(ctx, operations.ActionBackfill, objectOf(f.job), nil, out.Body.Backfill, "operation "+begun.Operation.ID.String())
	return out, nil
}

// jobToBackfill finds the job of a backfill, unless there is an error already.
func (s operationRoutes) jobToBackfill(ctx context.Context, id string, err error) (found, error) {
	if err != nil {
		return found{}, err
	}
	f, err := s.find(ctx, id)
	switch {
	case err == nil && f.job == nil:
		err = invalid(bucketer.Fault{Location: "path.id", Message: "is a one-off job: it has no schedule to run again"})
	case err == nil && s.deps.Operations == nil:
		err = notFound("This node keeps no operations.")
	}
	return f, err
}

func (s operationRoutes) previewBackfill(ctx context.Context, in *backfillAsk) (*backfillAnswer, error) {
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	r, err := d.Backfill(text, s.config.Now())
	f, err := s.jobToBackfill(ctx, in.ID, err)
	if err != nil {
		return nil, s.fail(ctx, "preview backfill", err)
	}
	end, ok := s.searches.begin(tenantOf(ctx)) // with missing it reads runs by the thousand
	if !ok {
		return nil, tooManySearches()
	}
	defer end()
	p, err := s.deps.Operations.PreviewBackfill(ctx, tenantOf(ctx), f.job.ID, r)
	if err != nil {
		return nil, s.fail(ctx, "preview backfill", err)
	}
	return &backfillAnswer{BackfillPreview{
		Matched: p.Count, Times: p.Named, First: Time{p.First}, Last: Time{p.Last}, From: Time{p.From}, To: Time{p.To}, Notes: p.Notes,
	}}, nil
}

package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Operations does one thing to everything that matches (bucketer.Operations).
type Operations interface {
	Begin(ctx context.Context, tenant string, spec schema.OperationSpec, key, bodyHash string) (bucketer.Begun, error)
	Operation(ctx context.Context, tenant string, id schema.OperationID) (schema.Operation, error)
}

// OperationScope is what an operation acts on, as the API answers it.
type OperationScope struct {
	State      string `json:"state,omitempty"`
	Label      string `json:"label,omitempty"`
	NamePrefix string `json:"name_prefix,omitempty"`
	From       Time   `json:"from,omitzero"`
	To         Time   `json:"to,omitzero"`
	Task       string `json:"task,omitempty"`
}

// Operation is an action on everything that matches, and how far it has come.
type Operation struct {
	ID        schema.OperationID `json:"id"`
	Tenant    string             `json:"tenant"`
	Action    string             `json:"action" enum:"cancel,pause,resume,trigger,retry"`
	Filter    OperationScope     `json:"filter"`
	DryRun    bool               `json:"dry_run,omitempty"`
	State     string             `json:"state" enum:"running,done"`
	Matched   int64              `json:"matched" doc:"Met so far"`
	Changed   int64              `json:"changed" doc:"Of those: done; none in a dry run"`
	Unchanged int64              `json:"unchanged" doc:"Of those: nothing was to be done"`
	Failed    int64              `json:"failed" doc:"Of those: could not be done"`
	Faults    []string           `json:"faults,omitempty" doc:"The first of those that failed, and why"`
	CreatedAt Time               `json:"created_at"`
	CreatedBy string             `json:"created_by,omitempty"`
	UpdatedAt Time               `json:"updated_at"`
}

func operationOf(op *schema.Operation) Operation {
	f, p := &op.Spec.Filter, &op.Progress
	out := Operation{
		ID: op.ID, Tenant: op.Tenant, Action: op.Spec.Action, DryRun: op.Spec.DryRun, State: "running",
		Filter:  OperationScope{State: f.State, Label: f.Label, NamePrefix: f.NamePrefix, From: Time{f.From}, To: Time{f.To}, Task: f.Task},
		Matched: p.Matched, Changed: p.Changed, Unchanged: p.Unchanged, Failed: p.Failed, Faults: p.Faults,
		CreatedAt: Time{op.ID.Time()}, CreatedBy: op.Spec.By, UpdatedAt: Time{p.Updated},
	}
	if p.Done {
		out.State = "done"
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
		ID string `path:"id" doc:"The job's id, or its name"`
		body
	}
	operationBegun struct {
		Replayed string `header:"Idempotency-Replayed" doc:"true, if the key was known"`
		Location string `header:"Location"`
		Body     OperationBegun
	}
	operationAnswer struct{ Body Operation }
)

const operationsPath = "/v1/operations"

func (s *Server) routeOperations() {
	op := s.operation("begin-operation", http.MethodPost, operationsPath, "Do one thing to everything that matches, in the background", 202, 400, 404, 408, 413, 415, 422, 429, 503)
	op.Description = "A filter selects jobs that can have many runs (state, label, name_prefix) or, with from and to, runs by due time (state, task); an empty one selects every job. " +
		"cancel is for both, pause, resume and trigger are for jobs, and retry is for runs that have ended: by default those that failed. " +
		"A dry run counts what matches, and changes nothing. What a node leaves undone another one takes up."
	huma.Register(s.api, op, s.beginOperation)
	s.describeBody(operationsPath, http.MethodPost, reflect.TypeFor[bucketer.OperationRequest](), "application/json")
	huma.Register(s.api, s.operation("get-operation", http.MethodGet, operationsPath+"/{id}", "How far an operation has come; kept for 30 days", 200, 404, 422, 503), s.getOperation)
	huma.Register(s.api, s.operation("create-backfill", http.MethodPost, "/v1/jobs/{id}/backfills", "Not supported yet: answers 422", 202, 400, 404, 408, 413, 415, 422, 429, 503), s.createBackfill)
}

func (s *Server) beginOperation(ctx context.Context, in *operationCreate) (*operationBegun, error) {
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
	if err := also(err, faults); err != nil {
		return nil, s.fail(ctx, "begin operation", err)
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

func (s *Server) getOperation(ctx context.Context, in *operationByID) (*operationAnswer, error) {
	id, err := schema.ParseOperationID(in.ID)
	if err != nil {
		return nil, invalid(bucketer.Fault{Location: "path.id", Message: "is not the id of an operation"})
	}
	if s.deps.Operations == nil {
		return nil, notFound("This node keeps no operations.")
	}
	op, err := s.deps.Operations.Operation(ctx, tenantOf(ctx), id)
	if err != nil {
		return nil, s.fail(ctx, "read operation", err)
	}
	return &operationAnswer{operationOf(&op)}, nil
}

// createBackfill refuses what is not built yet, and not as if nobody had heard of it.
func (s *Server) createBackfill(ctx context.Context, in *backfillCreate) (*operationBegun, error) {
	if _, err := in.text(); err != nil {
		return nil, err
	}
	if _, err := s.find(ctx, in.ID); err != nil {
		return nil, s.fail(ctx, "create backfill", err)
	}
	return nil, invalid(bucketer.Fault{Location: "body", Message: "backfills are not supported yet: trigger runs one by one"})
}

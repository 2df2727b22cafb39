package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// stubOperations are operations that are done as soon as they are begun.
type stubOperations struct {
	byID map[string]schema.Operation
	keys map[string]string
}

func (s *stubOperations) Begin(_ context.Context, tenant string, spec schema.OperationSpec, key, hash string) (bucketer.Begun, error) {
	if known, ok := s.keys[tenant+key]; ok && key != "" {
		op := s.byID[known]
		if op.Progress.At != hash {
			return bucketer.Begun{}, fmt.Errorf("begin: %w", bucketer.ErrKeyReused)
		}
		return bucketer.Begun{Operation: op, Matched: 3, All: true, Existing: true}, nil
	}
	op := schema.Operation{
		ID: schema.MakeOperationID(testNow, schema.RandomHash()), Tenant: tenant, Spec: spec,
		Progress: schema.Progress{Done: true, At: hash, Matched: 3, Changed: 1, Unchanged: 1, Failed: 1, Faults: []string{"job x: conflict"}, Updated: testNow.Add(time.Second)},
	}
	s.byID[tenant+op.ID.String()], s.keys[tenant+key] = op, tenant+op.ID.String()
	return bucketer.Begun{Operation: op, Matched: 3, All: true}, nil
}

func (s *stubOperations) Operation(_ context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	op, ok := s.byID[tenant+id.String()]
	if !ok {
		return op, fmt.Errorf("operation %s: %w", id, schema.ErrNotFound)
	}
	return op, nil
}

func withOperations(_ *Config, d *Deps) {
	d.Operations = &stubOperations{byID: map[string]schema.Operation{}, keys: map[string]string{}}
}

func TestOperationIsBegunAndRead(t *testing.T) {
	hs := serve(t, newStub(), withOperations)
	post := call{
		method: "POST", path: "/v1/operations", header: http.Header{keyHeader: {"k"}},
		body: `{"action":"cancel","filter":{"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z","state":"pending","task":"t"}}`,
	}
	var begun, again OperationBegun
	header := doJSON(t, hs, post, 202, &begun)
	if begun.Matched != 3 || !begun.All || header.Get("Location") != "/v1/operations/"+begun.ID.String() {
		t.Errorf("POST /v1/operations = %+v at %q, want 3 matched, and where it is", begun, header.Get("Location"))
	}
	if header := doJSON(t, hs, post, 202, &again); again.ID != begun.ID || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("POST /v1/operations again = %s, replayed %q; want %s", again.ID, header.Get("Idempotency-Replayed"), begun.ID)
	}
	var got Operation
	doJSON(t, hs, call{method: "GET", path: "/v1/operations/" + begun.ID.String()}, 200, &got)
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	want := Operation{
		ID: begun.ID, Tenant: "default", Action: "cancel", State: "done", Matched: 3, Changed: 1, Unchanged: 1, Failed: 1, Faults: []string{"job x: conflict"},
		Filter:    OperationScope{State: "pending", Task: "t", From: Time{from}, To: Time{from.Add(time.Hour)}},
		CreatedAt: Time{testNow}, CreatedBy: anonymous, UpdatedAt: Time{testNow.Add(time.Second)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET /v1/operations/{id} (-want +got):\n%s", diff)
	}
	post.body = `{"action":"pause","filter":{}}`
	if p := doProblem(t, hs, post, 422); p.Kind() != "key-reused" {
		t.Errorf("a key with another body: %+v, want key-reused", p)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/operations/" + begun.ID.String(), header: http.Header{tenantHeader: {"acme"}}}, 404)
	for _, id := range []string{"x", "0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/operations/" + id}, 422)
	}
	for _, body := range []string{`{}`, `{"action":"discard","filter":{}}`, `{"action":"cancel"}`, `{"action":"pause","filter":{"state":"pending"}}`} {
		if p := doProblem(t, hs, call{method: "POST", path: "/v1/operations", body: body}, 422); len(p.Errors) == 0 {
			t.Errorf("POST /v1/operations %s names no fault", body)
		}
	}
	bare := serve(t, newStub())
	doProblem(t, bare, call{method: "POST", path: "/v1/operations", body: `{"action":"pause","filter":{}}`}, 404)
}

func TestBackfillsAreRefusedInAWord(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	job := created(t, b, interval)
	path := "/v1/jobs/" + job.ID.String() + "/backfills"
	if p := doProblem(t, hs, call{method: "POST", path: path, body: `{}`}, 422); len(p.Errors) != 1 {
		t.Errorf("POST backfills: %+v, want a fault", p)
	}
	doProblem(t, hs, call{method: "POST", path: "/v1/jobs/none/backfills", body: `{}`}, 404)
}

func TestClientAwaitsAnOperation(t *testing.T) {
	c := newClient(t, serve(t, newStub(), withOperations).URL)
	begun, err := c.BeginOperation(t.Context(), bucketer.OperationRequest{Action: "pause"}, "k")
	if err != nil || begun.Matched != 3 {
		t.Fatalf("BeginOperation = %+v, %v; want 3 matched", begun, err)
	}
	looks := 0
	op, err := c.AwaitOperation(t.Context(), begun.ID, func(Operation) { looks++ })
	if err != nil || op.State != "done" || looks != 1 {
		t.Errorf("AwaitOperation = %+v after %d looks, %v; want it done after one", op, looks, err)
	}
}

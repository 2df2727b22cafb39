package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/operations"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// stubOperations are operations that are done as soon as they are begun.
type stubOperations struct {
	byID map[string]schema.Operation
	keys map[string]string
	err  error
}

func (s *stubOperations) Begin(_ context.Context, tenant string, spec schema.OperationSpec, key, hash string) (operations.Begun, error) {
	if s.err != nil {
		return operations.Begun{}, s.err
	}
	if known, ok := s.keys[tenant+key]; ok && key != "" {
		op := s.byID[known]
		if op.Progress.At != hash {
			return operations.Begun{}, fmt.Errorf("begin: %w", bucketer.ErrKeyReused)
		}
		return operations.Begun{Operation: op, Matched: 3, All: true, Existing: true}, nil
	}
	op := schema.Operation{
		ID: schema.MakeOperationID(testNow, schema.RandomHash()), Tenant: tenant, Spec: spec,
		Progress: schema.Progress{Done: true, At: hash, Matched: 3, Changed: 1, Unchanged: 1, Failed: 1, Faults: []string{"job x: conflict"}, Updated: testNow.Add(time.Second)},
	}
	s.byID[tenant+op.ID.String()], s.keys[tenant+key] = op, tenant+op.ID.String()
	return operations.Begun{Operation: op, Matched: 3, All: true}, nil
}

func (s *stubOperations) Operation(_ context.Context, tenant string, id schema.OperationID) (schema.Operation, error) {
	if s.err != nil {
		return schema.Operation{}, s.err
	}
	op, ok := s.byID[tenant+id.String()]
	if !ok {
		return op, fmt.Errorf("operation %s: %w", id, schema.ErrNotFound)
	}
	return op, nil
}

func (s *stubOperations) List(
	_ context.Context, tenant, state string, before schema.OperationID, limit int,
) ([]schema.Operation, *schema.OperationID, error) {
	if s.err != nil {
		return nil, nil, s.err
	}
	var list []schema.Operation
	for _, op := range s.byID {
		if op.Tenant == tenant && (state == "" || op.State() == state) && (before.IsZero() || schema.EntryID(op.ID).Compare(schema.EntryID(before)) < 0) {
			list = append(list, op)
		}
	}
	slices.SortFunc(list, func(x, y schema.Operation) int { return schema.EntryID(y.ID).Compare(schema.EntryID(x.ID)) })
	if len(list) > limit {
		return list[:limit], &list[limit-1].ID, nil
	}
	return list, nil, nil
}

func (s *stubOperations) Backfill(
	ctx context.Context, tenant string, id schema.JobID, r operations.Backfill, by, key, hash string,
) (operations.Begun, error) {
	if r.MaxConcurrent == 99 {
		return operations.Begun{}, fmt.Errorf("backfill: %w", bucketer.ErrFinished)
	}
	f := &schema.Backfill{Job: id, JobName: "nightly", From: r.From, To: r.To, MaxConcurrent: r.MaxConcurrent, Count: 7, Notes: []string{"a note"}}
	begun, err := s.Begin(ctx, tenant, schema.OperationSpec{Action: operations.ActionBackfill, Backfill: f, By: by}, key, hash)
	if err == nil && !begun.Existing { // it goes on until it is cancelled
		op := &begun.Operation
		op.Progress = schema.Progress{At: hash, Matched: 3, Changed: 3, Unfinished: make([]schema.RunID, 2), Updated: testNow}
		s.byID[tenant+op.ID.String()] = *op
	}
	return begun, err
}

func (s *stubOperations) PreviewBackfill(_ context.Context, _ string, id schema.JobID, r operations.Backfill) (operations.BackfillPreview, error) {
	if s.err != nil {
		return operations.BackfillPreview{}, s.err
	}
	if r.MaxConcurrent == 99 {
		return operations.BackfillPreview{}, fmt.Errorf("backfill: %w", bucketer.ErrFinished)
	}
	f := &schema.Backfill{Job: id, From: r.From, To: r.To, Count: 7, Notes: []string{"a note"}}
	if r.Missing {
		f.Count = 3
	}
	return operations.BackfillPreview{Backfill: f, Named: 7, First: r.From.Add(time.Hour), Last: r.To.Add(-time.Hour)}, nil
}

func (s *stubOperations) Cancel(ctx context.Context, tenant string, id schema.OperationID, by string) (schema.Operation, error) {
	op, err := s.Operation(ctx, tenant, id)
	switch {
	case err != nil || op.Cancelled != nil:
		return op, err
	case op.Progress.Done:
		return op, fmt.Errorf("cancel: %w", bucketer.ErrFinished)
	}
	op.Cancelled = &schema.Cancel{At: testNow, By: by}
	s.byID[tenant+id.String()] = op
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

// An operation on dead letters tells by what text of their errors it selects them.
func TestOperationOnDeadLettersWithAText(t *testing.T) {
	hs := serve(t, newStub(), withOperations)
	const due = `"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z"`
	post := call{method: "POST", path: operationsPath, header: http.Header{keyHeader: {"k"}}, body: `{"action":"replay","filter":{` + due + `,"error":"Card declined","error_pattern":"answered 402"}}`}
	var begun OperationBegun
	doJSON(t, hs, post, 202, &begun)
	var got Operation
	doJSON(t, hs, call{method: "GET", path: operationsPath + "/" + begun.ID.String()}, 200, &got)
	if got.Filter.Error != "Card declined" || got.Filter.ErrorPattern != "answered 402" {
		t.Errorf("the filter of an operation is %+v, want the text and the pattern", got.Filter)
	}
	post.body = `{"action":"replay","filter":{` + due + `,"error":"card","error_pattern":"answered 402"}}`
	if p := doProblem(t, hs, post, 422); p.Kind() != "key-reused" {
		t.Errorf("a key with another text: %+v, want key-reused", p)
	}
	p := doProblem(t, hs, call{method: "POST", path: operationsPath, body: `{"action":"retry","filter":{` + due + `,"error":"a"}}`}, 422)
	if len(p.Errors) != 1 || p.Errors[0].Location != "body.filter.error" {
		t.Errorf("runs by a text of their errors: faults %+v, want one at body.filter.error", p.Errors)
	}
}

// An operation is for the runs that a list with the same words has. The name of a job is read once.
func TestOperationOnRunsInDetail(t *testing.T) {
	b := newStub()
	hs := serve(t, b, withOperations)
	job := created(t, b, nightly)
	const due = `"from":"2026-11-21T00:00:00Z","to":"2026-11-21T01:00:00Z"`
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		filter string
		want   OperationScope
	}{
		"all of it": {
			`"states":["failed","missed"],"label":"team=a","labels":["b=c"],"job":"nightly","task":"t","host":"api.example.com:8443","late":"5s","key":"k 1"`,
			OperationScope{
				States: []string{"failed", "missed"}, Label: "team=a", Labels: []string{"b=c"}, Job: job.ID.String(), JobName: "nightly", Task: "t", Host: "api.example.com:8443", Late: "5s", Key: "k 1",
			},
		},
		"a job by its id": {`"job":"` + job.ID.String() + `"`, OperationScope{State: "failed", Job: job.ID.String()}},
	} {
		var begun OperationBegun
		doJSON(t, hs, call{method: "POST", path: operationsPath, body: `{"action":"retry","filter":{` + due + `,` + row.filter + `}}`}, 202, &begun)
		var got Operation
		doJSON(t, hs, call{method: "GET", path: operationsPath + "/" + begun.ID.String()}, 200, &got)
		row.want.From, row.want.To = Time{from}, Time{from.Add(time.Hour)}
		if diff := cmp.Diff(row.want, got.Filter); diff != "" {
			t.Errorf("%s: the filter of an operation (-want +got):\n%s", name, diff)
		}
	}
	for filter, location := range map[string]string{
		`"job":"none"`: "body.filter.job", `"job":"A b"`: "body.filter.job", `"labels":["a"]`: "body.filter.labels[0]", `"late":"-1s"`: "body.filter.late", `"host":"http://h"`: "body.filter.host",
		`"states":["failed","pending"]`: "body.filter.states[1]", `"key":""`: "body.filter.key",
	} {
		p := doProblem(t, hs, call{method: "POST", path: operationsPath, body: `{"action":"retry","filter":{` + due + `,` + filter + `}}`}, 422)
		if len(p.Errors) != 1 || p.Errors[0].Location != location {
			t.Errorf("a filter with %s: faults %+v, want one at %s", filter, p.Errors, location)
		}
	}
	// One answer names what reading the body finds and what only looking for the job does.
	for body, want := range map[string][]string{
		`"action":"retry","filter":{"job":"none","label":"a","late":"x",` + due + `}`:          {"body.filter.job", "body.filter.label", "body.filter.late"},
		`"action":"replay","filter":{"job":"none","labels":["a"],` + due + `}`:                 {"body.filter.job", "body.filter.labels[0]"},
		`"action":"retry","filter":{"job":"A b","label":"a",` + due + `}`:                      {"body.filter.job", "body.filter.label"},
		`"action":"retry","filter":{"job":"nightly","label":"a",` + due + `}`:                  {"body.filter.label"},
		`"action":"retries","filter":{"job":"none","from":"soon","to":"2026-11-21T01:00:00Z"}`: {"body.action", "body.filter.from", "body.filter.job"},
	} {
		var at []string
		for _, fault := range doProblem(t, hs, call{method: "POST", path: operationsPath, body: "{" + body + "}"}, 422).Errors {
			at = append(at, fault.Location)
		}
		if slices.Sort(at); !slices.Equal(at, want) {
			t.Errorf("%s: faults at %q, want %q", body, at, want)
		}
	}
}

func TestOperationsAreListed(t *testing.T) {
	b := newStub()
	ops := &stubOperations{byID: map[string]schema.Operation{}, keys: map[string]string{}}
	hs := serve(t, b, func(_ *Config, d *Deps) { d.Operations = ops })
	created(t, b, nightly)
	var ids []string
	for i := range 5 {
		var begun struct{ ID schema.OperationID }
		post := call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{}}`}
		if i == 2 {
			post = call{method: "POST", path: "/v1/jobs/nightly/backfills", body: `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}`}
		}
		doJSON(t, hs, post, 202, &begun)
		ids = append(ids, begun.ID.String())
	}
	for range 4 { // of the client's tenant
		doJSON(t, hs, call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{}}`, header: http.Header{tenantHeader: {"acme"}}}, 202, nil)
	}
	backfill := ids[2]
	slices.Sort(ids)
	slices.Reverse(ids)
	type list struct {
		Items      []Operation `json:"items"`
		NextCursor string      `json:"next_cursor"`
	}
	var got []string
	var cursor string
	for {
		var page list
		doJSON(t, hs, call{method: "GET", path: operationsPath + "?limit=2&cursor=" + cursor}, 200, &page)
		for _, op := range page.Items {
			got = append(got, op.ID.String())
			var one Operation
			doJSON(t, hs, call{method: "GET", path: operationsPath + "/" + op.ID.String()}, 200, &one)
			if diff := cmp.Diff(one, op); diff != "" {
				t.Errorf("an operation in a list (-alone +listed):\n%s", diff)
			}
		}
		if page.NextCursor == "" {
			break
		}
		cursor = page.NextCursor
	}
	if !slices.Equal(got, ids) {
		t.Errorf("GET %s page by page = %q, want %q", operationsPath, got, ids)
	}
	var running, done list
	doJSON(t, hs, call{method: "GET", path: operationsPath + "?state=running"}, 200, &running)
	doJSON(t, hs, call{method: "GET", path: operationsPath + "?state=done"}, 200, &done)
	if len(running.Items) != 1 || running.Items[0].ID.String() != backfill || len(done.Items) != 4 {
		t.Errorf("of those in a state: %+v running, %d done; want the backfill and 4", running.Items, len(done.Items))
	}
	for query, location := range map[string]string{
		"?state=open": "query.state", "?limit=0": "query.limit", "?cursor=x": "query.cursor", "?state=done&cursor=" + cursor: "query.cursor", "?tenant=a": "query.tenant",
	} {
		if p := doProblem(t, hs, call{method: "GET", path: operationsPath + query}, 422); len(p.Errors) != 1 || p.Errors[0].Location != location {
			t.Errorf("GET %s%s: faults %+v, want one at %s", operationsPath, query, p.Errors, location)
		}
	}
	doProblem(t, hs, call{method: "GET", path: operationsPath + "?limit=2&cursor=" + cursor, header: http.Header{tenantHeader: {"acme"}}}, 422)

	bad := schema.Operation{ID: schema.MakeOperationID(testNow.Add(time.Hour), 1), Tenant: "default", Fault: fmt.Errorf("operation: %w", schema.ErrNotUnderstood)}
	ops.byID["default"+bad.ID.String()] = bad
	var page list
	doJSON(t, hs, call{method: "GET", path: operationsPath + "?limit=1"}, 200, &page)
	if len(page.Items) != 1 || page.Items[0].ID != bad.ID || page.Items[0].Fault == "" || page.Items[0].Action != "unknown" || page.Items[0].State != "unknown" {
		t.Errorf("one that is not understood = %+v, want its fault", page.Items)
	}

	var bare list
	doJSON(t, serve(t, newStub()), call{method: "GET", path: operationsPath}, 200, &bare)
	if bare.Items == nil || len(bare.Items) != 0 {
		t.Errorf("GET %s of a node without operations = %+v, want none", operationsPath, bare)
	}

	read := 0
	for _, err := range newClient(t, hs.URL).Operations(t.Context(), OperationQuery{State: "done", Limit: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		read++
	}
	if read != 4 {
		t.Errorf("the client lists %d that are done, want 4", read)
	}
}

func TestBackfillIsBegunAndCancelled(t *testing.T) {
	b := newStub()
	hs := serve(t, b, withOperations)
	job := created(t, b, nightly)
	post := call{
		method: "POST", path: "/v1/jobs/nightly/backfills", header: http.Header{keyHeader: {"k"}},
		body: `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}`,
	}
	var begun, got Operation
	header := doJSON(t, hs, post, 202, &begun)
	want := Operation{
		ID: begun.ID, Tenant: "default", Action: "backfill", State: "running", Matched: 7, Changed: 3, Running: 2,
		Backfill: &BackfillScope{
			JobID: job.ID, JobName: "nightly", From: Time{testNow.Truncate(24 * time.Hour).Add(-7 * 24 * time.Hour)}, To: Time{testNow.Truncate(24 * time.Hour)},
			MaxConcurrent: 5, Notes: []string{"a note"},
		},
		CreatedAt: Time{testNow}, CreatedBy: anonymous, UpdatedAt: Time{testNow},
	}
	doJSON(t, hs, call{method: "GET", path: header.Get("Location")}, 200, &got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET %s (-want +got):\n%s", header.Get("Location"), diff)
	}
	if header := doJSON(t, hs, post, 202, &got); got.ID != begun.ID || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("POST backfills again = %s, replayed %q; want %s", got.ID, header.Get("Idempotency-Replayed"), begun.ID)
	}
	cancel := call{method: "DELETE", path: "/v1/operations/" + begun.ID.String()}
	foreign := cancel
	foreign.header = http.Header{tenantHeader: {"acme"}}
	doProblem(t, hs, foreign, 404)
	for range 2 { // twice is the same as once
		want.State, want.CancelledAt, want.CancelledBy = "cancelled", Time{testNow}, anonymous
		var cancelled Operation
		doJSON(t, hs, cancel, 200, &cancelled)
		if diff := cmp.Diff(want, cancelled); diff != "" {
			t.Errorf("DELETE of an operation (-want +got):\n%s", diff)
		}
	}
	var done OperationBegun
	doJSON(t, hs, call{method: "POST", path: "/v1/operations", body: `{"action":"pause","filter":{}}`}, 202, &done)
	doProblem(t, hs, call{method: "DELETE", path: "/v1/operations/" + done.ID.String()}, 409)
	doProblem(t, hs, call{method: "DELETE", path: "/v1/operations/x"}, 422)
}

// A preview says what a backfill would do, and begins none.
func TestBackfillIsPreviewed(t *testing.T) {
	b := newStub()
	ops := &stubOperations{byID: map[string]schema.Operation{}, keys: map[string]string{}}
	hs := serve(t, b, func(_ *Config, d *Deps) { d.Operations = ops })
	created(t, b, nightly)
	from, to := testNow.Add(-48*time.Hour), testNow.Add(-24*time.Hour)
	want := BackfillPreview{Matched: 3, Times: 7, First: Time{from.Add(time.Hour)}, Last: Time{to.Add(-time.Hour)}, From: Time{from}, To: Time{to}, Notes: []string{"a note"}}
	c, err := NewClient(ClientConfig{URLs: []string{hs.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := c.PreviewBackfill(t.Context(), "nightly", request.BackfillRequest{From: from, To: to, Missing: true})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("PreviewBackfill: %v (-want +got):\n%s", err, diff)
	}
	if len(ops.byID) > 0 {
		t.Errorf("a preview of a backfill began %d operations", len(ops.byID))
	}
	path := "/v1/jobs/nightly/backfills/preview"
	if p := doProblem(t, hs, call{method: "POST", path: path, body: `{"to":"2027-11-21T00:00:00Z","x":1}`}, 422); len(p.Errors) != 3 {
		t.Errorf("POST %s names %+v, want three faults", path, p.Errors)
	}
	doProblem(t, hs, call{method: "POST", path: path, body: `{"from":"2026-11-14T00:00:00Z","max_concurrent":99}`}, 409)
	doProblem(t, hs, call{method: "POST", path: "/v1/jobs/none/backfills/preview", body: `{"from":"2026-11-14T00:00:00Z"}`}, 404)
	doProblem(t, serve(t, b), call{method: "POST", path: path, body: `{"from":"2026-11-14T00:00:00Z"}`}, 404)
}

func TestBackfillsThatAreRefused(t *testing.T) {
	b := newStub()
	hs := serve(t, b, withOperations)
	job := created(t, b, interval)
	var once Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: `{"nats":{"subject":"a"},"schedule":{"at":"2026-11-21T10:00:00Z"}}`}, 201, &once)
	path := "/v1/jobs/" + job.ID.String() + "/backfills"
	const from, to = `"from":"2026-11-14T00:00:00Z"`, `"to":"2026-11-21T00:00:00Z"`
	for name, row := range map[string]struct {
		path, body string
		status     int
		faults     int
	}{
		"no body at all":          {path, ``, 400, 0},
		"an empty one":            {path, `{}`, 422, 1},
		"no from":                 {path, `{` + to + `}`, 422, 1},
		"all of it ahead":         {path, `{"from":"2026-11-21T10:00:00Z"}`, 422, 1},
		"reversed":                {path, `{"from":"2026-11-20T00:00:00Z","to":"2026-11-14T00:00:00Z"}`, 422, 1},
		"empty":                   {path, `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T00:00:00Z"}`, 422, 1},
		"ahead":                   {path, `{` + from + `,"to":"2026-11-21T09:30:00.001Z"}`, 422, 1},
		"no times":                {path, `{"from":"yesterday","to":7}`, 422, 2},
		"none at a time":          {path, `{` + from + `,` + to + `,"max_concurrent":0}`, 422, 1},
		"too many at a time":      {path, `{` + from + `,` + to + `,"max_concurrent":101}`, 422, 1},
		"every fault at once":     {path, `{"to":"2027-11-21T00:00:00Z","max_concurrent":1e9,"x":1,"missing":"yes"}`, 422, 5},
		"a one-off job":           {"/v1/jobs/" + once.ID.String() + "/backfills", `{` + from + `,` + to + `}`, 422, 1},
		"no such job":             {"/v1/jobs/none/backfills", `{` + from + `,` + to + `}`, 404, 0},
		"a job that has finished": {path, `{` + from + `,` + to + `,"max_concurrent":99}`, 409, 0},
	} {
		if p := doProblem(t, hs, call{method: "POST", path: row.path, body: row.body}, row.status); len(p.Errors) != row.faults {
			t.Errorf("%s: POST backfills %s names %d faults, want %d: %+v", name, row.body, len(p.Errors), row.faults, p.Errors)
		}
	}
	bare := serve(t, b)
	doProblem(t, bare, call{method: "POST", path: path, body: `{` + from + `,` + to + `}`}, 404)
	doProblem(t, bare, call{method: "DELETE", path: "/v1/operations/01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}, 404)
}

func TestClientAwaitsAnOperation(t *testing.T) {
	c := newClient(t, serve(t, newStub(), withOperations).URL)
	begun, err := c.BeginOperation(t.Context(), request.OperationRequest{Action: "pause"}, "k")
	if err != nil || begun.Matched != 3 {
		t.Fatalf("BeginOperation = %+v, %v; want 3 matched", begun, err)
	}
	looks := 0
	op, err := c.AwaitOperation(t.Context(), begun.ID, func(Operation) { looks++ })
	if err != nil || op.State != "done" || looks != 1 {
		t.Errorf("AwaitOperation = %+v after %d looks, %v; want it done after one", op, looks, err)
	}
}

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

func TestJobLife(t *testing.T) {
	b := newStub()
	hs := serve(t, b)

	var made Job
	header := doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &made)
	if header.Get("Location") != "/v1/jobs/"+made.ID.String() || header.Get("ETag") == "" || header.Get("Idempotency-Replayed") != "" {
		t.Errorf("POST /v1/jobs: header %v, want Location and ETag and no Idempotency-Replayed", header)
	}
	var read map[string]any
	again := doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + made.ID.String()}, 200, &read)
	if again.Get("ETag") != header.Get("ETag") {
		t.Errorf("GET job: ETag %s, want %s as when it was made", again.Get("ETag"), header.Get("ETag"))
	}
	want := map[string]any{
		"id": made.ID.String(), "tenant": "default", "schedule": map[string]any{"at": "2026-11-21T10:00:00.000Z"},
		"http":    map[string]any{"method": "POST", "url": "http://x.test/", "body": "payload"},
		"timeout": "30s", "guarantee": "at_least_once",
		"retry":   map[string]any{"max_attempts": 5.0, "initial": "1s", "factor": 2.0, "max": "10m0s", "jitter": "full"},
		"payload": map[string]any{"a": 1.0}, "priority": "normal", "misfire": map[string]any{"policy": "run_all"},
		"state": "active", "generation": 1.0, "created_at": "2026-11-21T09:30:00.000Z", "updated_at": "2026-11-21T09:30:00.000Z",
		"next_run": map[string]any{"id": made.ID.String(), "nominal_at": "2026-11-21T10:00:00.000Z", "due_at": "2026-11-21T10:00:00.000Z"},
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("GET job (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var first map[string]any
	if err := json.Unmarshal(text, &first); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read, first); diff != "" {
		t.Errorf("the answers of POST and GET differ (-get +post):\n%s", diff)
	}

	// A change with a stale ETag changes nothing; one with the right one does.
	path := "/v1/jobs/" + made.ID.String()
	p := doProblem(t, hs, call{method: "PATCH", path: path, body: `{"priority":"low"}`, header: http.Header{"If-Match": {`"x"`}}}, 412)
	if p.Kind() != "stale" {
		t.Errorf("PATCH with a stale ETag: kind %q, want stale", p.Kind())
	}
	var changed Job
	header = doJSON(t, hs, call{
		method: "PATCH", path: path, body: `{"schedule":{"at":"2026-11-21T11:00:00+01:00"},"payload":{"b":2}}`,
		header: http.Header{"If-Match": {`"x", ` + header.Get("ETag")}, "Content-Type": {"application/merge-patch+json"}},
	}, 200, &changed)
	if got := changed.NextRun.DueAt; !got.Equal(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)) || changed.NextRun.ID != schema.RunID(made.ID) {
		t.Errorf("PATCH: next run %+v, want %s at 10:00", changed.NextRun, made.ID)
	}
	if string(changed.Payload) != `{"a":1,"b":2}` || header.Get("ETag") == again.Get("ETag") {
		t.Errorf("PATCH: payload %s, ETag %s; want a merged payload and a new ETag", changed.Payload, header.Get("ETag"))
	}
	doJSON(t, hs, call{method: "PATCH", path: path, body: `{}`}, 200, nil)

	doProblem(t, hs, call{method: "DELETE", path: path, header: http.Header{"If-Match": {`"x"`}}}, 412)
	var cancelled, twice Job
	doJSON(t, hs, call{method: "DELETE", path: path}, 200, &cancelled)
	doJSON(t, hs, call{method: "DELETE", path: path}, 200, &twice)
	if cancelled.State != "cancelled" || cancelled.NextRun != nil {
		t.Errorf("DELETE: %+v, want state cancelled and no next run", cancelled)
	}
	if diff := cmp.Diff(cancelled, twice); diff != "" {
		t.Errorf("DELETE twice (-once +twice):\n%s", diff)
	}
	if p := doProblem(t, hs, call{method: "PATCH", path: path, body: `{"priority":"low"}`}, 409); p.Kind() != "finished" {
		t.Errorf("PATCH of a cancelled job: kind %q, want finished", p.Kind())
	}
}

func TestImmediateJob(t *testing.T) {
	hs := serve(t, newStub())
	for name, body := range map[string]string{
		"no schedule": `{"nats":{"subject":"a"}}`,
		"in the past": `{"nats":{"subject":"a"},"schedule":{"at":"2020-01-01T00:00:00Z"}}`,
	} {
		var j Job
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body}, 201, &j)
		if !j.NextRun.DueAt.Equal(testNow) {
			t.Errorf("%s: due at %s, want now (%s)", name, j.NextRun.DueAt, testNow)
		}
	}
}

func TestIdempotencyKeys(t *testing.T) {
	hs := serve(t, newStub())
	post := func(key, body string) call {
		return call{method: "POST", path: "/v1/jobs", body: body, header: http.Header{keyHeader: {key}}}
	}
	var first, second Job
	doJSON(t, hs, post("k1", jobBody), 201, &first)
	header := doJSON(t, hs, post(`"k1"`, " "+strings.ReplaceAll(jobBody, ",", " , ")), 201, &second)
	if diff := cmp.Diff(first.ID, second.ID); diff != "" || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same key and body again: id %s, replayed %q; want %s, true", second.ID, header.Get("Idempotency-Replayed"), first.ID)
	}
	if p := doProblem(t, hs, post("k1", `{"nats":{"subject":"a"}}`), 422); p.Kind() != "key-reused" || p.Errors[0].Location != "header.Idempotency-Key" {
		t.Errorf("the same key and another body: %+v, want key-reused", p)
	}
	for name, key := range map[string]string{
		"too long": strings.Repeat("k", 129), "an open quote": `"k`, "a lone quote": `"`, "empty quotes": `""`, "a control": "a\tb",
	} {
		p := doProblem(t, hs, post(key, `{"nats":{}}`), 422)
		if len(p.Errors) != 2 || p.Errors[0].Location != "header.Idempotency-Key" || p.Errors[1].Location != "body.nats.subject" {
			t.Errorf("%s: faults %+v, want those of the key and of the body", name, p.Errors)
		}
	}
	doJSON(t, hs, post(strings.Repeat("k", 128), jobBody), 201, nil)
	doJSON(t, hs, post(`"`+strings.Repeat("k", 128)+`"`, jobBody), 201, nil)
}

func TestRequestsThatAreRefused(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	const none = "01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"
	media := func(ct string) http.Header { return http.Header{"Content-Type": {ct}} }
	for name, row := range map[string]struct {
		call
		status   int
		location string // of the first fault
	}{
		"no such path":                   {call{method: "GET", path: "/v1/nothing"}, 404, ""},
		"a path with a slash too many":   {call{method: "GET", path: "/v1/tasks/"}, 404, ""},
		"no such method":                 {call{method: "PUT", path: "/v1/jobs", body: jobBody}, 405, ""},
		"a method nobody knows":          {call{method: "BREW", path: "/v1/jobs"}, 405, ""},
		"not JSON":                       {call{method: "POST", path: "/v1/jobs", body: `{`}, 400, ""},
		"no body":                        {call{method: "POST", path: "/v1/jobs"}, 400, ""},
		"invalid UTF-8":                  {call{method: "POST", path: "/v1/jobs", body: "{\"task\":\"\xff\"}"}, 400, ""},
		"trailing text":                  {call{method: "POST", path: "/v1/jobs", body: jobBody + "x"}, 400, ""},
		"ten thousand deep":              {call{method: "POST", path: "/v1/jobs", body: `{"payload":` + strings.Repeat("[", 10_000) + `}`}, 422, "body.payload" + strings.Repeat("[0]", 99)},
		"doubled names":                  {call{method: "POST", path: "/v1/jobs", body: `{"task":"a","task":"b"}`}, 422, "body.task"},
		"a form":                         {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/x-www-form-urlencoded")}, 415, ""},
		"another charset":                {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/json; charset=latin1")}, 415, ""},
		"a broken content type":          {call{method: "POST", path: "/v1/jobs", body: jobBody, header: media("application/json; =")}, 415, ""},
		"a compressed body":              {call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{"Content-Encoding": {"gzip"}}}, 415, ""},
		"over a MiB":                     {call{method: "POST", path: "/v1/jobs", body: strings.Repeat(" ", bucketer.MaxBody+1)}, 413, ""},
		"a task that is none":            {call{method: "POST", path: "/v1/jobs", body: `{"task":"t"}`}, 422, "body.task"},
		"an unknown query":               {call{method: "GET", path: "/v1/tasks?limits=5"}, 422, "query.limits"},
		"limit 0":                        {call{method: "GET", path: "/v1/tasks?limit=0"}, 422, "query.limit"},
		"limit 501":                      {call{method: "GET", path: "/v1/tasks?limit=501"}, 422, "query.limit"},
		"limit x":                        {call{method: "GET", path: "/v1/tasks?limit=x"}, 422, "query.limit"},
		"a tenant that cannot be":        {call{method: "GET", path: "/v1/tasks", header: http.Header{tenantHeader: {"A b"}}}, 422, "header.Carillon-Tenant"},
		"an id that cannot be":           {call{method: "GET", path: "/v1/runs/x"}, 422, "path.id"},
		"an id of a recurring job":       {call{method: "GET", path: "/v1/runs/01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}, 422, "path.id"},
		"a run that is none":             {call{method: "GET", path: "/v1/runs/" + none}, 404, ""},
		"a run of somebody else":         {call{method: "GET", path: "/v1/runs/" + j.ID.String(), header: http.Header{tenantHeader: {"other"}}}, 404, ""},
		"a job of somebody else":         {call{method: "DELETE", path: "/v1/jobs/" + j.ID.String(), header: http.Header{tenantHeader: {"other"}}}, 404, ""},
		"output of nothing":              {call{method: "GET", path: "/v1/runs/" + none + "/output"}, 404, ""},
		"cancel of nothing":              {call{method: "POST", path: "/v1/runs/" + none + "/cancel"}, 404, ""},
		"cancel with a body":             {call{method: "POST", path: "/v1/runs/" + none + "/cancel", body: `{"why":"x"}`}, 422, "body.why"},
		"retry of nothing":               {call{method: "POST", path: "/v1/runs/" + none + "/retry"}, 404, ""},
		"retry of what goes on":          {call{method: "POST", path: "/v1/runs/" + j.ID.String() + "/retry"}, 409, ""},
		"a job that is none":             {call{method: "GET", path: "/v1/jobs/" + none}, 404, ""},
		"a recurring job that is none":   {call{method: "GET", path: "/v1/jobs/01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"}, 404, ""},
		"a job by a name":                {call{method: "GET", path: "/v1/jobs/nightly"}, 404, ""},
		"a job by what is no name":       {call{method: "GET", path: "/v1/jobs/Night%2Fly"}, 422, "path.id"},
		"a patch of nothing":             {call{method: "PATCH", path: "/v1/jobs/" + none, body: `{}`}, 404, ""},
		"a patch that is wrong":          {call{method: "PATCH", path: "/v1/jobs/" + j.ID.String(), body: `{"priority":"x"}`}, 422, "body.priority"},
		"a task's name":                  {call{method: "GET", path: "/v1/tasks/A"}, 422, "path.name"},
		"a task to put":                  {call{method: "PUT", path: "/v1/tasks/A", body: `{}`}, 422, "path.name"},
		"no task":                        {call{method: "GET", path: "/v1/tasks/a"}, 404, ""},
		"no task to delete":              {call{method: "DELETE", path: "/v1/tasks/a"}, 404, ""},
		"runs without window":            {call{method: "GET", path: "/v1/runs"}, 422, "query.from"},
		"runs of a wrong time":           {call{method: "GET", path: "/v1/runs?from=now&to=2026-11-21T10:00:00Z"}, 422, "query.from"},
		"runs of more than an hour":      {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00.001Z"}, 422, "query.to"},
		"runs of an empty window":        {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:00:00Z"}, 422, "query.to"},
		"runs of an unknown state":       {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&state=done"}, 422, "query.state"},
		"runs of a forged cursor":        {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&cursor=abcd"}, 422, "query.cursor"},
		"runs of a task that cannot be":  {call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z&task=A"}, 422, "query.task"},
		"an import of JSON":              {call{method: "POST", path: "/v1/imports", body: `{}`}, 415, ""},
		"an import in another encoding":  {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"br"}}}, 415, ""},
		"an import with unknown results": {call{method: "POST", path: "/v1/imports?results=some", body: `{}`, header: media(ndjson)}, 422, "query.results"},
		"an import that is no gzip":      {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"gzip"}}}, 400, ""},
		"an import that is no zstd":      {call{method: "POST", path: "/v1/imports", body: `{}`, header: http.Header{"Content-Type": {ndjson}, "Content-Encoding": {"zstd"}}}, 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := doProblem(t, hs, row.call, row.status)
			if row.location != "" && (len(p.Errors) == 0 || p.Errors[0].Location != row.location) {
				t.Errorf("%s %s: faults %+v, want one at %s", row.method, row.path, p.Errors, row.location)
			}
		})
	}
}

func TestErrorsOfTheStore(t *testing.T) {
	secret := errors.New("gocql: no response from 10.1.2.3")
	for _, row := range []struct {
		err    error
		status int
		kind   string
	}{
		{bucketer.ErrPartitionFull, 429, "minute-full"},
		{bucketer.ErrOverloaded, 429, "overloaded"},
		{bucketer.ErrNotReady, 503, "not-ready"},
		{schema.ErrUnknown, 503, "unknown"},
		{schema.ErrUnavailable, 503, "unavailable"},
		{context.DeadlineExceeded, 503, "unknown"},
		{schema.ErrTooLarge, 413, "too-large"},
		{schema.ErrConflict, 409, "conflict"},
		{secret, 500, "internal"},
	} {
		b := newStub()
		b.err = fmt.Errorf("write row: %w (%w)", row.err, secret)
		hs := serve(t, b)
		for _, c := range []call{
			{method: "POST", path: "/v1/jobs", body: jobBody},
			{method: "GET", path: "/v1/jobs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"},
			{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z"},
			{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"a"}}`},
		} {
			p, want := doProblem(t, hs, c, row.status), row.kind
			if c.method == "GET" && want == "unknown" { // what only reads leaves nothing open
				want = "unavailable"
			}
			if p.Kind() != want || strings.Contains(p.Error(), "gocql") {
				t.Errorf("%s %s with %v: %s (%s), want kind %s and no word of the driver", c.method, c.path, row.err, p.Error(), p.Kind(), want)
			}
			if p.Kind() != "unknown" && strings.Contains(p.Detail+p.Title, "not known") {
				t.Errorf("%s %s with %v: %s, which leaves open whether something was written", c.method, c.path, row.err, p.Error())
			}
		}
	}
}

func TestPanicIsAProblem(t *testing.T) {
	b := newStub()
	b.onRun = func(context.Context) { panic("out of luck") }
	hs := serve(t, b)
	if p := doProblem(t, hs, call{method: "GET", path: "/v1/runs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60"}, 500); strings.Contains(p.Error(), "luck") {
		t.Errorf("the problem %v repeats the panic", p.Error())
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks"}, 200, nil)
}

func TestTasks(t *testing.T) {
	hs := serve(t, newStub())
	var task Task
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/b", body: `{"http":{"url":"http://x.test/"},"timeout":"5s"}`}, 201, &task)
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/b", body: `{"http":{"url":"http://y.test/"}}`}, 200, &task)
	if task.HTTP.URL != "http://y.test/" || task.HTTP.Method != "POST" || task.Timeout != schema.DefaultTimeout || task.Retry == nil || *task.Retry != schema.DefaultRetry {
		t.Errorf("PUT task: %+v, want the new one with defaults in force", task)
	}
	for _, name := range []string{"e", "a", "d", "c"} {
		doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/" + name, body: `{"nats":{"subject":"x"}}`}, 201, nil)
	}
	var names []string
	path, cursor := "/v1/tasks?limit=2", ""
	for range 10 {
		var list struct {
			Items      []Task `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: path + cursor}, 200, &list)
		for _, i := range list.Items {
			names = append(names, i.Name)
		}
		if list.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + list.NextCursor
	}
	if got := strings.Join(names, ""); got != "abcde" {
		t.Errorf("GET tasks, page by page: %s, want abcde", got)
	}
	// A cursor is good for its own list only: not for another tenant's, nor for another list.
	doProblem(t, hs, call{method: "GET", path: path + cursor, header: http.Header{tenantHeader: {"other"}}}, 422)
	doProblem(t, hs, call{method: "GET", path: "/v1/runs?from=2026-11-21T10:00:00Z&to=2026-11-21T10:30:00Z" + cursor}, 422)
	status, _, _ := do(t, hs, call{method: "DELETE", path: "/v1/tasks/b"})
	if status != 204 {
		t.Errorf("DELETE task = %d, want 204", status)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/tasks/b"}, 404)
}

func TestLimitsOfTasks(t *testing.T) {
	hs := serve(t, newStub())
	var task Task
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/a", body: `{"nats":{"subject":"x"},"payload_schema": {"type": "string"}}`}, 201, &task)
	if string(task.PayloadSchema) != refusing {
		t.Errorf("PUT task: payload_schema = %s, want %s", task.PayloadSchema, refusing)
	}
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/r", body: `{"nats":{"subject":"x"},"rate":"10/m","max_concurrent":7}`}, 201, &task)
	if task.Rate != "10/m" || task.MaxConcurrent != 7 {
		t.Errorf("PUT task: rate = %q, max_concurrent = %d, want 10/m and 7", task.Rate, task.MaxConcurrent)
	}
	task = Task{}
	if doJSON(t, hs, call{path: "/v1/tasks/r"}, 200, &task); task.MaxConcurrent != 7 {
		t.Errorf("GET task: max_concurrent = %d, want 7", task.MaxConcurrent)
	}
	p := doProblem(t, hs, call{method: "PUT", path: "/v1/tasks/b", body: `{"nats":{"subject":"x"},"payload_schema":{"properties":{"a":{"type":7}},"$ref":"https://example.com/"}}`}, 422)
	if len(p.Errors) != 1 || p.Errors[0].Location != "body.payload_schema/properties/a/type" {
		t.Errorf("PUT task with a bad schema: %+v, want one fault at its place", p.Errors)
	}
	p = doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: `{"task":"a","payload":7}`}, 422)
	if len(p.Errors) != 1 || p.Errors[0].Location != "body.payload/to" || p.Errors[0].Message != "must be string, is 7" {
		t.Errorf("POST job with a payload that does not fit: %+v", p.Errors)
	}
	for _, query := range []string{"", "?validate_only=true"} {
		for _, line := range sendImport(t, hs, query, "", strings.NewReader(`{"task":"a","payload":7}`)) {
			if line.Line == 1 && (line.Status != 422 || line.Error == nil || line.Error.Errors[0].Location != "body.payload/to") {
				t.Errorf("import%s of a payload that does not fit: %+v, want 422 at body.payload/to", query, line)
			}
		}
	}
}

func TestCursorsAreSigned(t *testing.T) {
	c := cursors{[]byte("0123456789abcdef")}
	made, err := c.make("question", "answer")
	if err != nil {
		t.Fatal(err)
	}
	var v string
	if err := c.read(made, "question", &v); err != nil || v != "answer" {
		t.Fatalf("read(make) = %q, %v; want answer", v, err)
	}
	if err := c.read(made, "another question", &v); err == nil {
		t.Error("a cursor serves another question")
	}
	if err := (cursors{[]byte("another key of 16")}).read(made, "question", &v); err == nil {
		t.Error("a cursor serves under another key")
	}
	for i := range made {
		forged := []byte(made)
		if forged[i]++; forged[i] > 'z' {
			forged[i] = 'A'
		}
		if err := c.read(string(forged), "question", &v); err == nil {
			t.Errorf("the cursor with byte %d changed is taken", i)
		}
	}
	if err := c.read(made[:len(made)-1], "question", &v); err == nil {
		t.Error("a cut cursor is taken")
	}
}

func TestListRuns(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{"nats":{"subject":"x"}}`}, 201, nil)
	var ids []string
	for i := range 7 {
		var j Job
		body := fmt.Sprintf(`{"task":"t","schedule":{"at":%q},"payload":%d}`, testNow.Add(time.Duration(30+10*i)*time.Minute).Format(time.RFC3339), i)
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body}, 201, &j)
		ids = append(ids, j.ID.String())
	}
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + ids[2]}, 200, nil)
	list := func(query string) string {
		t.Helper()
		var got []string
		cursor := ""
		for range 20 {
			var page struct {
				Items      []Run  `json:"items"`
				NextCursor string `json:"next_cursor"`
			}
			doJSON(t, hs, call{method: "GET", path: "/v1/runs?" + query + cursor}, 200, &page)
			if page.Items == nil {
				t.Fatalf("GET /v1/runs?%s: items is null, want an array", query)
			}
			for _, r := range page.Items {
				got = append(got, string(r.Payload))
			}
			if page.NextCursor == "" {
				return strings.Join(got, "")
			}
			cursor = "&cursor=" + page.NextCursor
		}
		t.Fatalf("GET /v1/runs?%s never ends", query)
		return ""
	}
	for query, want := range map[string]string{
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z":                                                  "012345",
		"from=2026-11-21T10:10:00Z&to=2026-11-21T10:30:00Z&limit=1":                                          "12",
		"from=2026-11-21T11:10:00%2B01:00&to=2026-11-21T11:30:00%2B01:00":                                    "12",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&state=cancelled&limit=2":                          "2",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&task=other&limit=3":                               "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&job=" + ids[4]:                                    "4",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T10:40:00Z&job=" + ids[4]:                                    "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&state=cancelled&job=" + ids[4]:                    "",
		"from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z&job=" + schema.EntryID{6: 0x80, 8: 0x80}.String(): "",
	} {
		if got := list(query); got != want {
			t.Errorf("GET /v1/runs?%s = %q, want %q", query, got, want)
		}
	}
}

func TestRunCancelRetryOutput(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	path := "/v1/runs/" + j.ID.String()
	var r Run
	doJSON(t, hs, call{method: "POST", path: path + "/cancel"}, 200, &r)
	doJSON(t, hs, call{method: "POST", path: path + "/cancel", body: `{}`}, 200, &r)
	if r.State != "cancelled" || !r.FinishedAt.Equal(testNow) || b.by != "api" {
		t.Errorf("cancel: state %s, finished %s, by %q; want cancelled now by api", r.State, r.FinishedAt, b.by)
	}
	key := http.Header{keyHeader: {"again"}}
	var again, replayed Run
	header := doJSON(t, hs, call{method: "POST", path: path + "/retry", header: key}, 201, &again)
	if again.Origin != r.ID || again.Trigger != "retry" || again.ID == r.ID || string(again.Payload) != `{"a":1}` || !again.DueAt.Equal(testNow) {
		t.Errorf("retry: %+v, want a new run now of the same payload, whose origin is %s", again, r.ID)
	}
	if header.Get("Location") != "/v1/runs/"+again.ID.String() {
		t.Errorf("retry: Location %s", header.Get("Location"))
	}
	header = doJSON(t, hs, call{method: "POST", path: path + "/retry", header: key}, 201, &replayed)
	if replayed.ID != again.ID || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("retry with the same key: %s, want %s again", replayed.ID, again.ID)
	}
	status, header, text := do(t, hs, call{method: "GET", path: path + "/output"})
	if status != 200 || string(text) != "<b>done</b>\n" || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("output = %d %q, %v; want the text as text", status, text, header)
	}
}

func TestReadiness(t *testing.T) {
	var down error
	hs := serve(t, newStub(), func(_ *Config, d *Deps) {
		d.Ready = func(context.Context) []Dependency {
			return []Dependency{{Name: "cassandra"}, {Name: "nats", Err: down}}
		}
		d.Cluster = func(context.Context) (Cluster, error) { return Cluster{Node: "n1"}, down }
		r := prometheus.NewRegistry()
		r.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "carillon_test"}))
		d.Gatherer = r
	})
	get := func(path string) string {
		status, _, text := do(t, hs, call{method: "GET", path: path})
		return fmt.Sprintf("%d %s", status, text)
	}
	if got := get("/readyz"); got != "200 cassandra: ok\nnats: ok\n" {
		t.Errorf("GET /readyz = %q", got)
	}
	down = errors.New("no\nservers")
	if got := get("/readyz"); got != "503 cassandra: ok\nnats: no servers\n" {
		t.Errorf("GET /readyz = %q, want 503 and a line for each", got)
	}
	if got := get("/healthz"); got != "200 ok\n" {
		t.Errorf("GET /healthz = %q", got)
	}
	if got := get("/metrics"); !strings.Contains(got, "carillon_test 0") {
		t.Errorf("GET /metrics = %q, want the gatherer's", got)
	}
	if got := get("/metrics?name[]=carillon_test&name[]=another"); !strings.Contains(got, "carillon_test 0") {
		t.Errorf("GET /metrics of two names = %q, want the one that there is", got)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/cluster"}, 500)
	down = nil
	var c Cluster
	doJSON(t, hs, call{method: "GET", path: "/v1/cluster"}, 200, &c)
	if c.Node != "n1" {
		t.Errorf("GET /v1/cluster = %+v", c)
	}
}

func TestMetricsCount(t *testing.T) {
	r := prometheus.NewRegistry()
	hs := serve(t, newStub(), func(c *Config, d *Deps) { c.Registerer, d.Gatherer = r, r })
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks"}, 200, nil)
	doProblem(t, hs, call{method: "GET", path: "/v1/tasks/none"}, 404)
	doProblem(t, hs, call{method: "X" + "YZ", path: "/elsewhere"}, 404)
	_, _, text := do(t, hs, call{method: "GET", path: "/metrics"})
	for _, want := range []string{
		`carillon_http_requests_total{method="GET",route="/v1/tasks",status="200"} 1`,
		`carillon_http_requests_total{method="GET",route="/v1/tasks/:name",status="404"} 1`,
		`carillon_http_requests_total{method="any",route="none",status="404"} 1`,
		`carillon_import_lines_total{status="201"} 0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{CursorKey: []byte("short"), ChunkLines: bucketer.MaxChunk + 1, MaxImports: -1, ImportIdle: -1}, Deps{})
	for _, want := range []string{"cursor key", "chunk lines", "imports", "import idle", "needs jobs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New of a bad configuration = %v, want a word on %s", err, want)
		}
	}
}

func TestRunStops(t *testing.T) {
	b := newStub()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	b.onRun = func(context.Context) { close(entered); <-leave }
	ctx, cancel := context.WithCancel(context.Background())
	ran, answered := make(chan error, 1), make(chan int, 1)
	go func() { ran <- s.Run(ctx, l) }()
	tr := &http.Transport{DisableKeepAlives: true}
	go func() {
		resp, err := (&http.Client{Transport: tr}).Get("http://" + l.Addr().String() + "/v1/runs/01932e5a-7c00-8003-8d2f-5a1b9c3e7f60")
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-entered
	cancel()
	<-s.stopping
	close(leave)
	if got := <-answered; got != 404 {
		t.Errorf("the request under way was answered %d, want 404 as always", got)
	}
	if err := <-ran; err != nil {
		t.Errorf("Run = %v, want nil when told to stop", err)
	}
	if c, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
		_ = c.Close()
		t.Error("the listener is open after Run")
	}
}

// A run of a job that can have many runs is no job of its own: cancelling it by that id would look like cancelling the job.
func TestRunOfARecurringJobIsNoJob(t *testing.T) {
	b := newStub()
	hs := serve(t, b)
	var j Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody}, 201, &j)
	b.runs[schema.RunID(j.ID)].Entry.Spec.Job = schema.MakeJobID(testNow, 3, 9)
	for _, method := range []string{"GET", "DELETE", "PATCH"} {
		c := call{method: method, path: "/v1/jobs/" + j.ID.String()}
		if method == "PATCH" {
			c.body = `{}`
		}
		doProblem(t, hs, c, 404)
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/runs/" + j.ID.String()}, 200, nil)
}

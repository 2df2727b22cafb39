package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// A run of a job that can have many runs is no job of its own: cancelling it by that id would look
// like cancelling the job.
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

package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

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

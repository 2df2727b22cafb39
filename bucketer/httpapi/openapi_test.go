package httpapi

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// described is the OpenAPI document as it is served.
func described(t *testing.T) (map[string]any, *jsonschema.Compiler) {
	t.Helper()
	hs := serve(t, newStub())
	status, header, text := do(t, hs, call{method: "GET", path: "/openapi.json"})
	if status != 200 || header.Get("Content-Type") != "application/openapi+json" {
		t.Fatalf("GET /openapi.json = %d %s", status, header.Get("Content-Type"))
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return doc.(map[string]any), c
}

func TestDocumentDescribesEveryOperation(t *testing.T) {
	doc, c := described(t)
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi is %v, want 3.1.0", doc["openapi"])
	}
	b := newStub()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		t.Fatal(err)
	}
	paths := doc["paths"].(map[string]any)
	for _, route := range s.engine.Routes() {
		if strings.HasPrefix(route.Path, "/docs/") || strings.HasPrefix(route.Path, "/console") || route.Path == "/" || route.Path == LogInPath {
			continue // files for browsers, and what leads to them
		}
		if route.Method == "HEAD" {
			continue // GET without the text
		}
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}")
		item, _ := paths[path].(map[string]any)
		op, _ := item[strings.ToLower(route.Method)].(map[string]any)
		if op == nil {
			t.Errorf("%s %s is not described", route.Method, path)
			continue
		}
		if groups, _ := op["tags"].([]any); len(groups) != 1 || (groups[0] == "node") == strings.HasPrefix(path, "/v1/") {
			t.Errorf("%s %s is in the groups %v, want that of its noun", route.Method, path, groups)
		}
		responses := op["responses"].(map[string]any)
		success := 0
		for status := range responses {
			if strings.HasPrefix(status, "2") {
				success++
			}
		}
		if success == 0 {
			t.Errorf("%s %s: no success is described", route.Method, path)
		}
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		want := []string{"500", "503"}
		if strings.Contains(path, "{") {
			want = append(want, "422")
		}
		if body, ok := op["requestBody"]; ok {
			want = append(want, "400", "415", "422")
			if len(body.(map[string]any)["content"].(map[string]any)) == 0 {
				t.Errorf("%s %s: a body of no type", route.Method, path)
			}
		} else if route.Method == http.MethodPut || route.Method == http.MethodPatch || path == "/v1/jobs" && route.Method == http.MethodPost {
			t.Errorf("%s %s: its body is not described", route.Method, path)
		}
		for _, status := range want {
			r, ok := responses[status].(map[string]any)
			if !ok {
				t.Errorf("%s %s: %s is not described", route.Method, path, status)
			} else if _, ok := r["content"].(map[string]any)[problemJSON]; !ok {
				t.Errorf("%s %s: %s is not %s", route.Method, path, status, problemJSON)
			}
		}
	}
	for name := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if _, err := c.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Errorf("the schema %s does not compile: %v", name, err)
		}
	}
}

// What the server takes and answers is what the document says.
func TestDocumentAgreesWithTheServer(t *testing.T) {
	_, c := described(t)
	check := func(name, what string, text []byte, valid bool) {
		t.Helper()
		schema, err := c.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
		if err := schema.Validate(v); (err == nil) != valid {
			t.Errorf("%s %s as %s: %v, want valid %v", what, text, name, err, valid)
		}
	}
	b := newStub()
	hs := serve(t, b)
	ok := func(schema string, status int, cl call) []byte {
		t.Helper()
		got, _, text := do(t, hs, cl)
		if got != status {
			t.Fatalf("%s %s = %d %s, want %d", cl.method, cl.path, got, text, status)
		}
		check(schema, "the answer", text, true)
		return text
	}
	task := `{"http":{"method":"PUT","url":"http://x.test/","headers":{"a":"b"},"body":"none"},"timeout":"1m30s","description":"d",
		"retry":{"max_attempts":3,"initial":"250ms","factor":1.5,"max":"1h","jitter":"none"},"guarantee":"at_least_once"}`
	check("TaskRequest", "a request", []byte(task), true)
	ok("Task", 201, call{method: "PUT", path: "/v1/tasks/t", body: task})
	for _, job := range []string{
		jobBody,
		`{"task":"t","schedule":{},"payload":[1],"priority":"low","labels":{"a":"b"},"misfire":{"policy":"skip","deadline":"1h0m0s"}}`,
		`{"nats":{"subject":"a"}}`, nightly, interval,
		`{"name":"full","task":"t","schedule":{"cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin","gap":"skip","overlap_hour":"both"},"start":"2026-11-21T10:00:00Z",
		"end":"2027-11-21T10:00:00Z","max_runs":100,"jitter":"30s","concurrency":{"limit":1,"on_limit":"skip"}}`,
	} {
		check("JobRequest", "a request", []byte(job), true)
		ok("Job", 201, call{method: "POST", path: "/v1/jobs", body: job})
	}
	id := slices.Collect(func(yield func(string) bool) {
		for _, id := range b.order {
			if !yield(id.String()) {
				return
			}
		}
	})[0]
	ok("Job", 200, call{method: "GET", path: "/v1/jobs/" + id})
	ok("Run", 200, call{method: "GET", path: "/v1/runs/" + id})
	ok("Cluster", 200, call{method: "GET", path: "/v1/cluster"})
	ok("Regions", 200, call{method: "GET", path: "/v1/regions"})
	ok("Problem", 404, call{method: "GET", path: "/v1/tasks/none"})
	ok("Problem", 405, call{method: "PUT", path: "/v1/jobs"})
	ok("Problem", 422, call{method: "GET", path: "/v1/tasks?limit=x"})

	for _, job := range []string{
		`{"http":{"url":"http://x.test/"},"x":1}`, `{"task":5}`, `{"task":"A"}`, `{"task":"t","priority":"urgent"}`,
		`{"http":{"method":"POST"}}`, `{"task":"t","schedule":{"at":"soon"}}`, `{"task":"t","schedule":{"cron":5}}`, `{"task":"t","schedule":{"every":"1d"}}`,
		`{"task":"t","labels":{"a":1}}`, `{"nats":{"subject":"a"},"retry":{"max_attempts":0}}`, `{"nats":{"subject":"a"},"timeout":"1d"}`,
		`{"nats":{"subject":"a"},"guarantee":"exactly_once"}`,
	} {
		check("JobRequest", "a request", []byte(job), false)
		doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: job}, 422)
	}
}

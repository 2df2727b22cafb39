package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestKeysCannotBeLookedUp(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	admin := o.key("a/admin")
	for _, err := range []error{schema.ErrUnavailable, errors.New("no words of a driver")} {
		o.err = err
		status, _, text := do(t, hs, call{method: "GET", path: "/v1/tasks", header: admin})
		if want := map[bool]int{true: 503, false: 500}[errors.Is(err, schema.ErrUnavailable)]; status != want || bytes.Contains(text, []byte("driver")) {
			t.Errorf("GET with a key that cannot be looked up (%v) = %d %s, want %d", err, status, text, want)
		}
	}
	if _, err := New(Config{Auth: true}, Deps{Jobs: newStub(), Runs: newStub(), Tasks: newStub()}); err == nil {
		t.Error("New of a node that asks for keys and has none = nil, want an error")
	}
}

// A key is said once, to whoever made it, and is never logged.
func TestKeysAreNotRepeated(t *testing.T) {
	var logged bytes.Buffer
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk, func(c *Config, _ *Deps) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	admin := o.key("a/admin")
	var made NewAPIKey
	header := doJSON(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"k","role":"viewer","expires_at":"2027-01-01T00:00:00+01:00"}`, header: admin}, 201, &made)
	if header.Get("Cache-Control") != "no-store" || header.Get("Location") != "/v1/api-keys/k" || made.Key == "" || made.Role != schema.Viewer ||
		!made.ExpiresAt.Equal(time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)) || made.CreatedBy != "admin-key" {
		t.Errorf("POST /v1/api-keys = %+v, header %v", made, header)
	}
	var all strings.Builder
	for _, c := range []call{
		{method: "GET", path: "/v1/api-keys", header: admin},
		{method: "GET", path: "/v1/tasks", header: bearer(made.Key)},
		{method: "PUT", path: "/v1/tasks/x", header: bearer(made.Key)},
		{method: "GET", path: "/v1/tasks", header: bearer(made.Key + "x")},
		{method: "GET", path: "/v1/tasks/" + made.Key, header: bearer(made.Key)},
	} {
		_, header, text := do(t, hs, c)
		fmt.Fprintln(&all, header, string(text))
	}
	acts := o.noted()
	fmt.Fprintln(&all, acts, logged.String())
	// whoever puts it there says it themselves
	said := strings.ReplaceAll(all.String(), "/v1/tasks/"+made.Key, "")
	for _, key := range []string{secret("a/admin"), made.Key} {
		if strings.Contains(said, key) {
			t.Errorf("the key %q is repeated in\n%s", key, said)
		}
	}
	if len(acts) != 1 || acts[0].Action != "create" {
		t.Errorf("noted was %+v, want that the key was made", acts)
	}
	doProblem(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"k","role":"viewer"}`, header: admin}, 409)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/api-keys/k", header: admin}, 204, nil)
	doProblem(t, hs, call{method: "DELETE", path: "/v1/api-keys/k", header: admin}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/tasks", header: bearer(made.Key)}, 401)
}

func TestKeysAreListedByName(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps) // a node that asks for no keys makes them all the same
	for _, name := range []string{"c", "a", "b"} {
		doJSON(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"` + name + `","role":"admin"}`}, 201, nil)
	}
	var names []string
	path := "/v1/api-keys?limit=2"
	for next := path; next != ""; {
		var page struct {
			Items      []APIKey `json:"items"`
			NextCursor string   `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: next}, 200, &page)
		for _, k := range page.Items {
			names = append(names, k.Name+" by "+k.CreatedBy)
		}
		if next = ""; page.NextCursor != "" {
			next = path + "&cursor=" + page.NextCursor
		}
	}
	if want := []string{"a by anonymous", "b by anonymous", "c by anonymous"}; !slices.Equal(names, want) {
		t.Errorf("GET /v1/api-keys = %q, want %q", names, want)
	}
}

func TestWrongRequestsAboutKeysAndTenants(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.deps)
	for _, test := range []struct {
		name, method, path, body string
		status                   int
		locations                []string
	}{
		{"nothing", "POST", "/v1/api-keys", `{}`, 422, []string{"body.name", "body.role"}},
		{"no JSON", "POST", "/v1/api-keys", `{`, 400, nil},
		{"no object", "POST", "/v1/api-keys", `[]`, 422, []string{"body"}},
		{"all wrong", "POST", "/v1/api-keys", `{"name":"A","role":"root","expires_at":"2020-01-01T00:00:00Z","x":1}`, 422, []string{"body.name", "body.role", "body.expires_at", "body.x"}},
		{"types", "POST", "/v1/api-keys", `{"name":1,"role":[],"expires_at":5}`, 422, []string{"body.name", "body.role", "body.expires_at"}},
		{"nulls", "POST", "/v1/api-keys", `{"name":null,"role":null,"expires_at":null}`, 422, []string{"body.name", "body.role"}},
		{"far future", "POST", "/v1/api-keys", `{"name":"a","role":"viewer","expires_at":"9999-12-31T23:59:59-01:00"}`, 422, []string{"body.expires_at"}},
		{"a role of spaces", "POST", "/v1/api-keys", `{"name":"a","role":" admin"}`, 422, []string{"body.role"}},
		{"no such name", "DELETE", "/v1/api-keys/A", ``, 422, []string{"path.name"}},
		{"no such key", "DELETE", "/v1/api-keys/a", ``, 404, nil},
		{"no method", "PUT", "/v1/api-keys", `{}`, 405, nil},
		{"limit", "GET", "/v1/api-keys?limit=0", ``, 422, []string{"query.limit"}},
		{"limit", "GET", "/v1/api-keys?limit=1000000000", ``, 422, []string{"query.limit"}},
		{"forged", "GET", "/v1/api-keys?cursor=abc", ``, 422, []string{"query.cursor"}},
		{"weight", "PUT", "/v1/tenants/a", `{"weight":0}`, 422, []string{"body.weight"}},
		{"weight", "PUT", "/v1/tenants/a", `{"weight":1001}`, 422, []string{"body.weight"}},
		{"quotas", "PUT", "/v1/tenants/a", `{"quotas":{"jobs":-1,"runs_per_minute":1.5,"concurrency":1000001,"import_lines_per_second":"1","payload_bytes_per_minute":1e99,"x":1}}`, 422, []string{
			"body.quotas.jobs", "body.quotas.runs_per_minute", "body.quotas.concurrency", "body.quotas.import_lines_per_second", "body.quotas.payload_bytes_per_minute", "body.quotas.x",
		}},
		{"quotas of what", "PUT", "/v1/tenants/a", `{"quotas":[]}`, 422, []string{"body.quotas"}},
		{"name", "PUT", "/v1/tenants/A", `{}`, 422, []string{"path.name"}},
		{"name", "GET", "/v1/tenants/A", ``, 422, []string{"path.name"}},
		{"window", "GET", "/v1/audit?from=2026-11-21T10:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/audit?from=2024-11-21T10:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/stats?from=2026-11-20T09:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/stats?from=2027-11-20T09:00:00Z", ``, 422, []string{"query.to"}},
		{"time", "GET", "/v1/stats?from=yesterday", ``, 422, []string{"query.from"}},
		{"scope", "GET", "/v1/stats?scope=mine", ``, 422, []string{"query.scope"}},
		{"by what", "GET", "/v1/stats/top", ``, 422, []string{"query.by"}},
		{"by what", "GET", "/v1/stats/top?by=team", ``, 422, []string{"query.by"}},
		{"all wrong", "GET", "/v1/stats/top?by=&limit=501&from=1&scope=x&order=name", ``, 422, []string{"query.by", "query.limit", "query.from", "query.scope", "query.order"}},
		{"window", "GET", "/v1/stats/top?by=job&from=2026-11-20T09:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"minutes", "GET", "/v1/stats/upcoming?minutes=0", ``, 422, []string{"query.minutes"}},
		{"minutes", "GET", "/v1/stats/upcoming?minutes=1441", ``, 422, []string{"query.minutes"}},
		{"past", "GET", "/v1/stats/upcoming?from=2026-11-21T08:29:59Z", ``, 422, []string{"query.from"}},
		{"future", "GET", "/v1/stats/upcoming?from=2037-01-01T00:00:00Z", ``, 422, []string{"query.from"}},
		{"unknown", "GET", "/v1/audit?who=me", ``, 422, []string{"query.who"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := doProblem(t, hs, call{method: test.method, path: test.path, body: test.body}, test.status)
			var got []string
			for _, f := range p.Errors {
				got = append(got, f.Location)
			}
			if !slices.Equal(got, test.locations) {
				t.Errorf("%s %s %s: faults at %q, want %q", test.method, test.path, test.body, got, test.locations)
			}
		})
	}
	if acts := o.noted(); len(acts) != 0 {
		t.Errorf("noted was %+v of requests that were refused", acts)
	}
}

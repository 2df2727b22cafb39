package httpapi

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// filled returns the path of a route with its parameters filled in.
func filled(route string, with map[string]string) string {
	return regexp.MustCompile(`:\w+`).ReplaceAllStringFunc(route, func(param string) string {
		if v, ok := with[route]; ok {
			return v
		}
		return with[param]
	})
}

// routesOf returns the method and path of every route of a node under /v1, with its parameters as
// gin writes them.
func routesOf(t *testing.T, b *stub) (routes [][2]string) {
	t.Helper()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.engine.Routes() {
		if strings.HasPrefix(r.Path, "/v1/") {
			routes = append(routes, [2]string{r.Method, r.Path})
		}
	}
	if len(routes) < 20 {
		t.Fatalf("the node has %d routes under /v1, want all", len(routes))
	}
	return routes
}

const somewhere = "0192e5a0-7c00-8003-8d2f-5a1b9c3e7f60"

// Every route under /v1 asks for a key, and for one that may.
func TestTheDocumentSaysWhoMay(t *testing.T) {
	s, b := &Server{}, newStub()
	for _, r := range routesOf(t, b) {
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(r[1], "{$1}") // as the document writes it
		asked, _ := s.accessOf(r[0], r[1])
		if said, _ := s.accessOf(r[0], path); said != asked {
			t.Errorf("%s %s: the document says %+v may, and it is %+v", r[0], r[1], said, asked)
		}
	}
}

func TestEveryRouteAsksForAKey(t *testing.T) {
	// What is asked for if it is not as usual: a viewer for what reads, an operator for what
	// writes.
	unusual := map[string]string{
		"POST /v1/api-keys": "admin", "GET /v1/api-keys": "admin", "DELETE /v1/api-keys/:name": "admin", "GET /v1/audit": "admin",
		"POST /v1/signing-keys": "admin", "GET /v1/signing-keys": "admin", "DELETE /v1/signing-keys/:name": "admin", "POST /v1/signing-keys/:name/rotate": "admin",
		"PUT /v1/secrets/:name": "admin", "DELETE /v1/secrets/:name": "admin",
		"GET /v1/targets": "viewer", "POST /v1/targets/reset": "operator",
		"PUT /v1/tenants/:name": "system/admin", "GET /v1/cluster": "system/viewer", "GET /v1/stats/upcoming": "system/viewer",
		"POST /v1/schedules/preview": "viewer", "POST /v1/jobs/:id/backfills/preview": "viewer",
		"GET /v1/admin/regions": "system/viewer", "POST /v1/admin/regions/:home/move": "system/admin", "POST /v1/admin/regions/:home/failover": "system/admin",
	}
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	var keys []string
	for _, tenant := range []string{"a", "system"} {
		for _, role := range schema.Roles {
			keys = append(keys, tenant+"/"+string(role))
		}
	}
	o.key(keys...)
	for _, r := range routesOf(t, b) {
		if r[1] == sessionPath {
			continue // a log-in brings its key in the body, and a log-out needs none
		}
		path := filled(r[1], map[string]string{":id": somewhere, ":name": "n", ":run": somewhere, ":home": "eu"})
		need := unusual[r[0]+" "+r[1]]
		if need == "" {
			need = map[bool]string{true: "viewer", false: "operator"}[r[0] == http.MethodGet]
		}
		role, system := strings.CutPrefix(need, "system/")
		for name, header := range map[string]http.Header{
			"no key": {}, "another scheme": {"Authorization": {"Basic " + secret("a/admin")}}, "a wrong key": bearer("nonsense"),
			"two": {"Authorization": {"Bearer " + secret("a/admin"), "Bearer " + secret("a/admin")}}, "an empty key": bearer(""),
			"a long one": bearer(strings.Repeat("x", 10_000)),
		} {
			p, answer := problemAnd(t, hs, call{method: r[0], path: path, header: header}, 401)
			challenge := answer.Get("WWW-Authenticate")
			if want := name != "no key"; !strings.HasPrefix(challenge, "Bearer") || strings.Contains(challenge, "invalid_token") != want || p.Kind() != "unauthenticated" {
				t.Errorf("%s %s with %s: problem %+v, WWW-Authenticate %q", r[0], r[1], name, p, challenge)
			}
		}
		for _, key := range keys {
			tenant, has, _ := strings.Cut(key, "/")
			status, _, text := do(t, hs, call{method: r[0], path: path, header: bearer(secret(key))})
			may := schema.Role(has).Covers(schema.Role(role)) && (!system || tenant == "system")
			if (status == 403) == may || status == 401 {
				t.Errorf("%s %s with the key of %s = %d %s, want that it may: %v", r[0], r[1], key, status, text, may)
			}
		}
	}
}

// problemAnd is doProblem that also returns the header.
func problemAnd(t *testing.T, hs *httptest.Server, c call, status int) (Problem, http.Header) {
	t.Helper()
	p := doProblem(t, hs, c, status)
	_, header, _ := do(t, hs, c)
	return p, header
}

// with returns a header that has the entries of both.
func with(a, b http.Header) http.Header {
	all := a.Clone()
	for name, values := range b {
		all[name] = values
	}
	return all
}

// Nothing of another tenant is found by an id or a name, and nothing of it is in a list or goes on
// from its cursor.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	o.key("system/admin", "theirs/admin", "theirs/viewer", "ours/admin")
	theirs, ours := bearer(secret("theirs/admin")), bearer(secret("ours/admin"))

	var job Job
	var task Task
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: theirs}, 201, &job)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: theirs}, 201, nil)
	for _, name := range []string{"n", "n2"} {
		doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/" + name, body: `{"nats":{"subject":"a"}}`, header: theirs}, 201, &task)
		doJSON(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"` + name + `","role":"viewer"}`, header: theirs}, 201, nil)
	}
	o.entries = []schema.AuditEntry{{ID: schema.MakeAuditID(testNow, 0, 1)}, {ID: schema.MakeAuditID(testNow, 1, 1)}}

	var workflow Workflow
	doJSON(t, hs, call{method: "PUT", path: "/v1/workflows/w", body: small, header: theirs}, 201, &workflow)
	var recurring Job
	for _, name := range []string{"n", "n2"} {
		body := `{"name":"` + name + `","schedule":{"every":"1m"},"nats":{"subject":"a"}}`
		doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: body, header: theirs}, 201, &recurring)
	}

	bodies := map[string]string{"PUT": `{"nats":{"subject":"a"}}`, "PATCH": `{"priority":"low"}`}
	found := 0
	for _, r := range routesOf(t, b) {
		if !strings.Contains(r[1], ":") {
			continue
		}
		want, ids := 404, []string{job.ID.String()}
		switch {
		case r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/tenants/"), strings.HasPrefix(r[1], "/v1/admin/"):
			want = 403
		case r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/tasks/"), r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/jobs/"),
			r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/workflows/"), r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/notifications/"), r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/calendars/"), strings.HasPrefix(r[1], "/v1/events/"):
			continue // names are each tenant's own: it makes ours
		case strings.HasPrefix(r[1], "/v1/jobs/"):
			ids = append(ids, recurring.ID.String(), "n")
		case strings.HasPrefix(r[1], "/v1/workflows/"):
			ids = []string{workflow.ID.String(), "w"}
		case strings.HasPrefix(r[1], "/v1/operations/"):
			ids = []string{recurring.ID.String()} // of the same form
		}
		for _, id := range ids {
			name := "n"
			if strings.HasPrefix(r[1], "/v1/workflows/") {
				name = id
			}
			path := filled(r[1], map[string]string{":id": id, ":name": name, ":run": id, ":step": "a", ":home": "eu", "/v1/tenants/:name": "theirs"})
			body := bodies[r[0]]
			if strings.Contains(path, "/backfills") {
				body = `{"from":"2026-11-14T00:00:00Z","to":"2026-11-21T00:00:00Z"}`
			}
			if status, _, text := do(t, hs, call{method: r[0], path: path, body: body, header: ours}); status != want {
				t.Errorf("%s %s of another tenant = %d %s, want %d", r[0], path, status, text, want)
			}
			if status, _, text := do(t, hs, call{method: r[0], path: path, header: with(ours, http.Header{tenantHeader: {"theirs"}})}); status != 403 {
				t.Errorf("%s %s for another tenant by header = %d %s, want 403", r[0], path, status, text)
			}
		}
		found++
	}
	if found < 10 {
		t.Errorf("%d routes with a parameter were tried, want all", found)
	}
	if got := b.runs[schema.RunID(job.ID)].State; got != schema.StatePending {
		t.Errorf("the job of the other tenant is %s, want pending", got)
	}
	if _, err := b.Task(t.Context(), "theirs", "n"); err != nil {
		t.Errorf("the task of the other tenant: %v, want that it is there", err)
	}

	window := "&from=2026-11-21T09:30:00Z&to=2026-11-21T10:30:00Z"
	for _, list := range []string{"/v1/tasks?limit=1", "/v1/jobs?limit=1", "/v1/runs?limit=1" + window, "/v1/api-keys?limit=1", "/v1/audit?limit=1" + window} {
		var page struct {
			Items      []struct{} `json:"items"`
			NextCursor string     `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: list, header: theirs}, 200, &page)
		if len(page.Items) != 1 || page.NextCursor == "" {
			t.Fatalf("GET %s of their own = %+v, want one item and a cursor", list, page)
		}
		next := list + "&cursor=" + page.NextCursor
		p := doProblem(t, hs, call{method: "GET", path: next, header: ours}, 422)
		if len(p.Errors) != 1 || p.Errors[0].Location != "query.cursor" {
			t.Errorf("GET %s with the cursor of another tenant: %+v, want a fault of the cursor", list, p)
		}
		doJSON(t, hs, call{method: "GET", path: next, header: theirs}, 200, nil)
	}
	for _, list := range []string{"/v1/tasks", "/v1/jobs", "/v1/jobs?name_prefix=n", "/v1/runs?job=" + job.ID.String() + window, "/v1/runs?" + window[1:], "/v1/runs?task=n" + window} {
		var page struct {
			Items []struct{} `json:"items"`
		}
		if doJSON(t, hs, call{method: "GET", path: list, header: ours}, 200, &page); len(page.Items) != 0 {
			t.Errorf("GET %s has %d items of another tenant", list, len(page.Items))
		}
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/audit", header: ours}, 200, nil)
	if o.asked.Tenant != "ours" {
		t.Errorf("GET /v1/audit asks for the log of %q, want ours", o.asked.Tenant)
	}
	// Keys of one name in two tenants are two keys.
	doJSON(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"n","role":"viewer"}`, header: ours}, 201, nil)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/api-keys/n", header: ours}, 204, nil)
	if keys, err := o.List(t.Context(), "theirs", "", 10); err != nil || len(keys) != 4 {
		t.Errorf("the other tenant has %d keys, want its 4", len(keys))
	}
}

// A key of the system tenant speaks for the tenant that the header names, and the log says so.
func TestSystemKeysSpeakForAnyTenant(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	system := o.key("system/admin", "a/admin")
	var made NewAPIKey
	doJSON(t, hs, call{method: "POST", path: "/v1/api-keys", body: `{"name":"first","role":"admin"}`, header: with(system, http.Header{tenantHeader: {"a"}})}, 201, &made)
	if made.Tenant != "a" || made.CreatedBy != "system/admin-key" || made.Key == "" {
		t.Errorf("a key made for another tenant is %+v, want one of a, made by system/admin-key", made)
	}
	if acts := o.noted(); len(acts) != 1 || acts[0].Tenant != "a" || acts[0].Actor != "system/admin-key" || acts[0].Object != "key/first" {
		t.Errorf("noted was %+v, want that the system's key made it", acts)
	}
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: bearer(made.Key)}, 201, &job)
	if job.Tenant != "a" {
		t.Errorf("a job made with that key is of %q, want a", job.Tenant)
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/jobs/" + job.ID.String(), header: with(system, http.Header{tenantHeader: {"a"}})}, 200, nil)
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs/" + job.ID.String(), header: system}, 404)
	doProblem(t, hs, call{method: "GET", path: "/v1/tasks", header: with(system, http.Header{tenantHeader: {"A B"}})}, 422)
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks", header: with(bearer(made.Key), http.Header{tenantHeader: {"a"}})}, 200, nil)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + job.ID.String(), header: bearer(made.Key)}, 200, nil)
	if b.by != "first" {
		t.Errorf("the run was cancelled by %q, want first", b.by)
	}
}

func TestWhatIsOpenWithoutAKey(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/", "/console", "/console/"} {
		if status, _, _ := do(t, hs, call{method: "GET", path: path}); status != 200 {
			t.Errorf("GET %s without a key = %d, want 200", path, status)
		}
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/nothing"}, 404)
	guarded := serve(t, newStub(), o.desk, func(c *Config, _ *Deps) { c.ProtectMetrics = true })
	system := o.key("system/viewer", "a/admin")
	doProblem(t, guarded, call{method: "GET", path: "/metrics"}, 401)
	doProblem(t, guarded, call{method: "GET", path: "/metrics", header: bearer(secret("a/admin"))}, 403)
	if status, _, _ := do(t, guarded, call{method: "GET", path: "/metrics", header: system}); status != 200 {
		t.Errorf("GET /metrics with a key of the system = %d, want 200", status)
	}
}

// A viewer sees that there is a header, and not what it says; who may change it sees that.
func TestViewersDoNotSeeSecrets(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.desk)
	operator, viewer := o.key("a/operator", "a/viewer"), bearer(secret("a/viewer"))
	work := `"http":{"url":"http://x.test/","headers":{"Authorization":"hush"}}`
	doJSON(t, hs, call{method: "PUT", path: "/v1/tasks/t", body: `{` + work + `}`, header: operator}, 201, nil)
	var one, many Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: `{` + work + `,"schedule":{"at":"2026-11-21T10:00:00Z"}}`, header: operator}, 201, &one)
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: `{"name":"n","schedule":{"every":"1m"},` + work + `}`, header: operator}, 201, &many)
	for _, path := range []string{
		"/v1/tasks/t", "/v1/tasks", "/v1/jobs/" + one.ID.String(), "/v1/jobs/" + many.ID.String(), "/v1/jobs/n", "/v1/jobs",
	} {
		_, _, text := do(t, hs, call{method: "GET", path: path, header: viewer})
		if !bytes.Contains(text, []byte(`"Authorization":"…"`)) || bytes.Contains(text, []byte("hush")) {
			t.Errorf("GET %s by a viewer = %s, want the header without its value", path, text)
		}
		if _, _, text := do(t, hs, call{method: "GET", path: path, header: operator}); !bytes.Contains(text, []byte("hush")) {
			t.Errorf("GET %s by an operator = %s, want the header and its value", path, text)
		}
	}
	// What a viewer was shown has not become what is kept.
	if task, err := b.Task(t.Context(), "a", "t"); err != nil || task.Work.HTTP.Headers["Authorization"] != "hush" {
		t.Errorf("the task is now %+v, %v", task.Work.HTTP, err)
	}
}

// TestAKeyWhereNoneIsAskedFor: the request may do what the key may, and is not refused for other
// headers Authorization.
func TestAKeyWhereNoneIsAskedFor(t *testing.T) {
	b, o := newStub(), newAdminStub()
	hs := serve(t, b, o.deps)
	reader := admin.KeyPrefix + "reader"
	o.keys[reader] = schema.APIKey{Tenant: "acme", Name: "reader", Role: schema.Viewer, CreatedAt: testNow}
	for name, row := range map[string]struct {
		header http.Header
		method string
		path   string
		want   int
	}{
		"it may read":                {bearer(reader), "GET", "/v1/tasks", 200},
		"it may not write":           {bearer(reader), "PUT", "/v1/tasks/t", 403},
		"it is of its tenant":        {http.Header{"Authorization": {"Bearer " + reader}, tenantHeader: {"other"}}, "GET", "/v1/tasks", 403},
		"it was revoked":             {bearer(admin.KeyPrefix + "gone"), "GET", "/v1/tasks", 401},
		"none":                       {http.Header{}, "PUT", "/v1/tasks/t", 201},
		"a token of somebody else's": {bearer("nonsense"), "PUT", "/v1/tasks/u", 201},
		"it reads its tenant":        {bearer(reader), "GET", "/v1/whoami", 200},
		"after one of a proxy":       {http.Header{"Authorization": {"Basic eDp5", "Bearer " + reader}}, "PUT", "/v1/tasks/t", 401},
		"of another scheme":          {http.Header{"Authorization": {"Token " + reader}}, "PUT", "/v1/tasks/w", 201},
		"of a proxy":                 {http.Header{"Authorization": {"Basic eDp5"}}, "PUT", "/v1/tasks/v", 201},
	} {
		c := call{method: row.method, path: row.path, header: row.header}
		if row.method == "PUT" {
			c.body = `{"nats":{"subject":"a"}}`
		}
		if status, _, text := do(t, hs, c); status != row.want {
			t.Errorf("%s: %s %s = %d %s, want %d", name, row.method, row.path, status, text, row.want)
		} else if row.path == whoamiPath && !strings.Contains(string(text), `"acme"`) {
			t.Errorf("%s: %s, want the tenant of the key", name, text)
		}
	}
}

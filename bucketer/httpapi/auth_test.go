package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

var (
	_ Keys    = (*bucketer.Keys)(nil)
	_ Tenants = (*bucketer.Tenants)(nil)
	_ Quotas  = (*bucketer.Tenants)(nil)
	_ Audit   = (*bucketer.Audit)(nil)
	_ Stats   = bucketer.Stats{}
)

// office keeps keys, tenants, quotas, the audit log and counts in memory.
type office struct {
	mu      sync.Mutex
	keys    map[string]schema.APIKey // by secret
	tenants map[string]schema.Tenant
	acts    []bucketer.Act
	minutes []bucketer.Minute
	made    int
	err     error

	signing Signing

	admit func(tenant string, bytes int) error
	line  func() time.Duration
	jobs  int // quota

	asked    bucketer.AuditQuery // by the last list of the log
	askedPos *bucketer.AuditPosition
	entries  []schema.AuditEntry
}

func newOffice() *office {
	return &office{keys: map[string]schema.APIKey{}, tenants: map[string]schema.Tenant{}}
}

// desk makes a node that asks for keys, which the office keeps.
func (o *office) desk(c *Config, d *Deps) {
	c.Auth = true
	o.deps(c, d)
}

// deps gives a node everything that the office keeps.
func (o *office) deps(_ *Config, d *Deps) {
	d.Keys, d.Tenants, d.Quotas, d.Audit, d.Stats = o, o, o, o, o
	d.Signing = o.signing
}

// secret is the key of a name: "tenant/role" names both.
func secret(of string) string { return "secret-" + strings.ReplaceAll(of, "/", "-") }

// key makes a key for each name "tenant/role" and returns the header that carries the first.
func (o *office) key(names ...string) http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range names {
		tenant, role, _ := strings.Cut(of, "/")
		o.keys[secret(of)] = schema.APIKey{Tenant: tenant, Name: role + "-key", Role: schema.Role(role), CreatedAt: testNow}
	}
	return bearer(secret(names[0]))
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func (o *office) Authenticate(_ context.Context, key string) (schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.APIKey{}, o.err
	}
	k, ok := o.keys[key]
	if !ok {
		return schema.APIKey{}, bucketer.ErrNoKey
	}
	return k, nil
}

func (o *office) Create(_ context.Context, key schema.APIKey) (string, schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return "", schema.APIKey{}, o.err
	}
	for _, k := range o.keys {
		if k.Tenant == key.Tenant && k.Name == key.Name {
			return "", schema.APIKey{}, fmt.Errorf("create key: %w", schema.ErrConflict)
		}
	}
	o.made++
	key.CreatedAt = testNow
	made := fmt.Sprint("made-", o.made)
	o.keys[made] = key
	return made, key, nil
}

func (o *office) List(_ context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	var out []schema.APIKey
	for _, k := range o.keys {
		if k.Tenant == tenant && k.Name > after {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b schema.APIKey) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(limit, len(out))], nil
}

func (o *office) Revoke(_ context.Context, tenant, name string) (schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.APIKey{}, o.err
	}
	for secret, k := range o.keys {
		if k.Tenant == tenant && k.Name == name {
			delete(o.keys, secret)
			return k, nil
		}
	}
	return schema.APIKey{}, fmt.Errorf("revoke key: %w", schema.ErrNotFound)
}

func (o *office) Tenant(_ context.Context, name string) (schema.Tenant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.Tenant{}, o.err
	}
	if t, ok := o.tenants[name]; ok {
		return t, nil
	}
	return schema.Tenant{Name: name, Weight: 1}, nil
}

func (o *office) Tenants(_ context.Context, after string, limit int) ([]schema.Tenant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []schema.Tenant
	for _, name := range slices.Sorted(maps.Keys(o.tenants)) {
		if name > after && len(out) < limit {
			out = append(out, o.tenants[name])
		}
	}
	return out, o.err
}

func (o *office) PutTenant(ctx context.Context, t schema.Tenant) (stored, was schema.Tenant, err error) {
	if was, err = o.Tenant(ctx, t.Name); err != nil {
		return t, was, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.CreatedAt, t.UpdatedAt = testNow, testNow
	o.tenants[t.Name] = t
	return t, was, err
}

func (o *office) AdmitRun(_ context.Context, tenant string, bytes int) error {
	if o.admit == nil {
		return nil
	}
	return o.admit(tenant, bytes)
}

func (o *office) AdmitLine(context.Context, string) (time.Duration, error) {
	if o.line == nil {
		return 0, nil
	}
	return o.line(), nil
}

func (o *office) AdmitJob(ctx context.Context, tenant string, count func(ctx context.Context, most int) (int, error)) error {
	if o.jobs == 0 {
		return nil
	}
	n, err := count(ctx, o.jobs)
	if err == nil && n >= o.jobs {
		err = &bucketer.QuotaError{Quota: "jobs", Limit: int64(o.jobs), RetryAfter: time.Second}
	}
	return err
}

func (o *office) Note(act bucketer.Act) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts = append(o.acts, act)
}

// noted returns what was noted, and forgets it.
func (o *office) noted() []bucketer.Act {
	o.mu.Lock()
	defer o.mu.Unlock()
	acts := o.acts
	o.acts = nil
	return acts
}

func (o *office) Entries(_ context.Context, q bucketer.AuditQuery, pos *bucketer.AuditPosition, limit int) ([]schema.AuditEntry, *bucketer.AuditPosition, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked, o.askedPos = q, pos
	if pos == nil && len(o.entries) > limit {
		return o.entries[:limit], &bucketer.AuditPosition{Day: 7, Before: o.entries[limit-1].ID}, nil
	}
	if pos != nil {
		return o.entries[min(limit, len(o.entries)):], nil, o.err
	}
	return o.entries, nil, o.err
}

func (o *office) Minutes(context.Context, time.Time, time.Time) ([]bucketer.Minute, error) {
	return o.minutes, o.err
}

// filled returns the path of a route with its parameters filled in.
func filled(route string, with map[string]string) string {
	return regexp.MustCompile(`:\w+`).ReplaceAllStringFunc(route, func(param string) string {
		if v, ok := with[route]; ok {
			return v
		}
		return with[param]
	})
}

// routesOf returns the method and path of every route of a node under /v1, with its parameters as gin writes them.
func routesOf(t *testing.T, b *stub) (routes [][2]string) {
	t.Helper()
	s, err := New(Config{}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b})
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
func TestEveryRouteAsksForAKey(t *testing.T) {
	// What is asked for if it is not as usual: a viewer for what reads, an operator for what writes.
	unusual := map[string]string{
		"POST /v1/api-keys": "admin", "GET /v1/api-keys": "admin", "DELETE /v1/api-keys/:name": "admin", "GET /v1/audit": "admin",
		"POST /v1/signing-keys": "admin", "GET /v1/signing-keys": "admin", "DELETE /v1/signing-keys/:name": "admin", "POST /v1/signing-keys/:name/rotate": "admin",
		"PUT /v1/tenants/:name": "system/admin", "GET /v1/cluster": "system/viewer", "GET /v1/stats": "system/viewer",
		"POST /v1/schedules/preview": "viewer",
	}
	b, o := newStub(), newOffice()
	hs := serve(t, b, o.desk)
	var keys []string
	for _, tenant := range []string{"a", "system"} {
		for _, role := range schema.Roles {
			keys = append(keys, tenant+"/"+string(role))
		}
	}
	o.key(keys...)
	for _, r := range routesOf(t, b) {
		path := filled(r[1], map[string]string{":id": somewhere, ":name": "n", ":run": somewhere})
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

// Nothing of another tenant is found by an id or a name, and nothing of it is in a list or goes on from its cursor.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	b, o := newStub(), newOffice()
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
		case r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/tenants/"):
			want = 403
		case r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/tasks/"), r[0] == "PUT" && strings.HasPrefix(r[1], "/v1/jobs/"):
			continue // names are each tenant's own: it makes ours
		case strings.HasPrefix(r[1], "/v1/jobs/"):
			ids = append(ids, recurring.ID.String(), "n")
		case strings.HasPrefix(r[1], "/v1/operations/"):
			ids = []string{recurring.ID.String()} // of the same form
		}
		for _, id := range ids {
			path := filled(r[1], map[string]string{":id": id, ":name": "n", ":run": id, "/v1/tenants/:name": "theirs"})
			body := bodies[r[0]]
			if strings.HasSuffix(path, "/backfills") {
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
	b, o := newStub(), newOffice()
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
	o := newOffice()
	hs := serve(t, newStub(), o.desk)
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"} {
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

func TestKeysCannotBeLookedUp(t *testing.T) {
	o := newOffice()
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
	o := newOffice()
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
	said := strings.ReplaceAll(all.String(), "/v1/tasks/"+made.Key, "") // whoever puts it there says it themselves
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
	o := newOffice()
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
	o := newOffice()
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
		{"quotas", "PUT", "/v1/tenants/a", `{"quotas":{"jobs":-1,"runs_per_minute":1.5,"import_lines_per_second":"1","payload_bytes_per_minute":1e99,"x":1}}`, 422, []string{
			"body.quotas.jobs", "body.quotas.runs_per_minute", "body.quotas.import_lines_per_second", "body.quotas.payload_bytes_per_minute", "body.quotas.x",
		}},
		{"quotas of what", "PUT", "/v1/tenants/a", `{"quotas":[]}`, 422, []string{"body.quotas"}},
		{"name", "PUT", "/v1/tenants/A", `{}`, 422, []string{"path.name"}},
		{"name", "GET", "/v1/tenants/A", ``, 422, []string{"path.name"}},
		{"window", "GET", "/v1/audit?from=2026-11-21T10:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/audit?from=2024-11-21T10:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/stats?from=2026-11-20T09:00:00Z&to=2026-11-21T10:00:00Z", ``, 422, []string{"query.to"}},
		{"window", "GET", "/v1/stats?from=2027-11-20T09:00:00Z", ``, 422, []string{"query.to"}},
		{"time", "GET", "/v1/stats?from=yesterday", ``, 422, []string{"query.from"}},
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

func TestTenantsAreStatedAndRead(t *testing.T) {
	o := newOffice()
	hs := serve(t, newStub(), o.desk)
	system, own := o.key("system/admin", "a/admin", "a/viewer"), bearer(secret("a/viewer"))
	var got Tenant
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants/a", header: own}, 200, &got); got.Name != "a" || got.Weight != 1 || got.Quotas != (schema.Quotas{}) {
		t.Errorf("GET a tenant of which nothing was stated = %+v, want the defaults", got)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/tenants/b", header: own}, 404)
	body := `{"weight":3,"quotas":{"runs_per_minute":60,"payload_bytes_per_minute":1099511627776}}`
	doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/a", body: body, header: system}, 200, &got)
	want := schema.Quotas{RunsPerMinute: 60, PayloadBytesPerMinute: 1 << 40}
	var read Tenant
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants/a", header: own}, 200, &read); read != got || read.Weight != 3 || read.Quotas != want {
		t.Errorf("GET = %+v, PUT = %+v; want weight 3 and %+v of both", read, got, want)
	}
	acts := o.noted()
	if len(acts) != 1 || acts[0].Tenant != "a" || acts[0].Actor != "system/admin-key" || acts[0].Object != "tenant/a" || acts[0].Before == nil || acts[0].After == nil {
		t.Errorf("noted was %+v, want the change in the log of the tenant", acts)
	}
}

// Whoever runs the system sees all tenants, page by page; a tenant sees itself.
func TestTenantsAreListed(t *testing.T) {
	o := newOffice()
	hs := serve(t, newStub(), o.desk)
	system, own := o.key("system/admin", "b/viewer"), bearer(secret("b/viewer"))
	for _, name := range []string{"c", "a", "b"} {
		doJSON(t, hs, call{method: "PUT", path: "/v1/tenants/" + name, body: `{"weight":2}`, header: system}, 200, nil)
	}
	var names []string
	for query := "?limit=2"; query != ""; {
		var page struct {
			Items      []Tenant
			NextCursor string `json:"next_cursor"`
		}
		doJSON(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: system}, 200, &page)
		for _, tenant := range page.Items {
			names = append(names, tenant.Name)
		}
		if query = ""; page.NextCursor != "" {
			query = "?limit=2&cursor=" + page.NextCursor
			doProblem(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: own}, 422)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("GET /v1/tenants by the system = %q, want %q", names, want)
	}
	var mine struct{ Items []Tenant }
	if doJSON(t, hs, call{method: "GET", path: "/v1/tenants", header: own}, 200, &mine); len(mine.Items) != 1 || mine.Items[0].Name != "b" || mine.Items[0].Weight != 2 {
		t.Errorf("GET /v1/tenants by a tenant = %+v, want itself", mine.Items)
	}
	for _, query := range []string{"?limit=0", "?limit=-1", "?limit=1000000000", "?cursor=x", "?name=a"} {
		doProblem(t, hs, call{method: "GET", path: "/v1/tenants" + query, header: system}, 422)
	}
}

// A viewer sees that there is a header, and not what it says; who may change it sees that.
func TestViewersDoNotSeeSecrets(t *testing.T) {
	b, o := newStub(), newOffice()
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

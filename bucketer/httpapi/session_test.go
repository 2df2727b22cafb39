package httpapi

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

func TestSessionsAreSealed(t *testing.T) {
	s, err := newSessions([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSessions([]byte("another key of 16"))
	if err != nil {
		t.Fatal(err)
	}
	const key = "carillon_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"
	value := s.seal(key, testNow)
	if got, ok := s.open(value, testNow); !ok || got != key {
		t.Fatalf("open(seal) = %q, %v; want the key", got, ok)
	}
	if again := s.seal(key, testNow); again == value || strings.Contains(value, key) || len(value) > maxSession {
		t.Errorf("two sessions of a key are %q and %q, want that they differ and do not show it", value, again)
	}
	if longest := s.seal(strings.Repeat("k", maxAuthorization), testNow); len(longest) > maxSession {
		t.Errorf("the session of the longest key has %d bytes, more than %d", len(longest), maxSession)
	}
	for age, want := range map[time.Duration]bool{
		sessionSpan - time.Millisecond: true, sessionSpan: false, 1000 * time.Hour: false, -sessionSkew: true, -sessionSkew - time.Millisecond: false,
	} {
		if got, ok := s.open(value, testNow.Add(age)); ok != want || (got == key) != want {
			t.Errorf("open after %s = %q, %v; want that it is good: %v", age, got, ok, want)
		}
	}
	if _, ok := other.open(value, testNow); ok {
		t.Error("a session is good under another key")
	}
	for i := range value {
		forged := []byte(value)
		if forged[i]++; forged[i] > 'z' {
			forged[i] = 'A'
		}
		if _, ok := s.open(string(forged), testNow); ok {
			t.Errorf("the session with byte %d changed is taken", i)
		}
		if _, ok := s.open(value[:i], testNow); ok {
			t.Errorf("the session cut at %d is taken", i)
		}
	}
	for _, value := range []string{value + "AAAA", value + "=", strings.Repeat("A", 1<<20), "é"} {
		if _, ok := s.open(value, testNow); ok {
			t.Errorf("open(%.20q) is taken", value)
		}
	}
}

func TestWhereBrowsersKeepTheCookie(t *testing.T) {
	for _, row := range []struct {
		origin, host, proto string
		tls                 bool
		want                bool
	}{
		{"https://carillon.example", "10.0.0.7:8080", "", false, true}, // a proxy with TLS that sets its own Host
		{"http://carillon.example", "carillon.example", "https", false, false},
		{"http://localhost:8080", "localhost:8080", "", false, true},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "", false, true},
		{"http://[::1]:8080", "[::1]:8080", "", false, true},
		{"http://10.0.0.7:8080", "10.0.0.7:8080", "", false, false},
		{"http://10.0.0.7:8080", "localhost", "", false, false}, // a proxy without TLS on another machine
		{"http://localhost.example", "localhost.example", "", false, false},
		{"", "carillon.example", "", true, true},
		{"", "carillon.example", "https", false, true},
		{"", "carillon.example", "HTTPS , http", false, true},
		{"", "carillon.example", "http", false, false},
		{"", "carillon.example", "", false, false},
		{"", "LOCALHOST:8080", "", false, true},
		{"", "127.3.2.1", "", false, true},
		{"", "[::ffff:127.0.0.1]:80", "", false, true},
		{"", "", "", false, false},
		{"null", "carillon.example", "", false, false},
		{"null", "localhost", "", false, true},
		{"%zz", "carillon.example", "", false, false},
	} {
		if got := keepsCookie(row.origin, row.host, row.proto, row.tls); got != row.want {
			t.Errorf("keepsCookie(%q, %q, %q, %v) = %v, want %v", row.origin, row.host, row.proto, row.tls, got, row.want)
		}
	}
}

// logIn logs in with a key and returns the cookie.
func logIn(t *testing.T, hs *httptest.Server, key string) *http.Cookie {
	t.Helper()
	status, header, text := do(t, hs, call{method: "POST", path: sessionPath, body: `{"key":"` + key + `"}`})
	if status != 204 || len(text) > 0 {
		t.Fatalf("POST %s = %d %s, want 204 and no body", sessionPath, status, text)
	}
	cookie, err := http.ParseSetCookie(header.Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

// withCookie returns the header of a request that has a cookie of that value.
func withCookie(value string) http.Header {
	return http.Header{"Cookie": {"theme=dark; " + sessionCookie + "=" + value}}
}

// removed reports whether an answer has the browser remove the cookie.
func removed(header http.Header) bool {
	return header.Get("Set-Cookie") == sessionCookie+"=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict"
}

// lines is a log that tests read. Requests write to it at once.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A session is as good as its key: no better, and no longer.
func TestASessionIsAKeyInACookie(t *testing.T) {
	b, o, logged := newStub(), newAdminStub(), new(lines)
	now := testNow
	hs := serve(t, b, o.desk, func(c *Config, _ *Deps) {
		c.Now = func() time.Time { return now }
		c.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	operator := o.key("a/operator", "a/viewer", "b/operator", "system/admin")
	cookie := logIn(t, hs, secret("a/viewer"))
	want := http.Cookie{
		Name: "__Host-carillon", Value: cookie.Value, Path: "/", MaxAge: 43200, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode, Raw: cookie.Raw,
	}
	if diff := cmp.Diff(want, *cookie); diff != "" || len(cookie.Value) < 40 {
		t.Errorf("the cookie (-want +got):\n%s", diff)
	}
	var who Whoami
	doJSON(t, hs, call{method: "GET", path: whoamiPath, header: withCookie(cookie.Value)}, 200, &who)
	if !who.Session || who.Tenant != "a" || who.Role != schema.Viewer || who.Actor != "viewer-key" || who.TenantsAll {
		t.Errorf("GET %s with the cookie = %+v, want the viewer of a, by a session", whoamiPath, who)
	}
	if answer := doJSON(t, hs, call{method: "GET", path: "/v1/jobs", header: withCookie(cookie.Value)}, 200, nil); answer.Get("Cache-Control") != "no-store" {
		t.Errorf("an answer to a session has Cache-Control %q, want that no cache keeps it for another one", answer.Get("Cache-Control"))
	}

	// A viewer stays one, and a tenant stays in its bounds.
	if p := doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: withCookie(cookie.Value)}, 403); p.Kind() != "forbidden" {
		t.Errorf("POST /v1/jobs by a viewer's session: %+v, want forbidden", p)
	}
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs", header: with(withCookie(cookie.Value), http.Header{tenantHeader: {"b"}})}, 403)

	// The header counts where there is one, also if it is wrong.
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: with(withCookie(cookie.Value), operator)}, 201, nil)
	doProblem(t, hs, call{method: "GET", path: "/v1/jobs", header: with(withCookie(cookie.Value), bearer("nonsense"))}, 401)

	// What another site makes a browser send is refused, however good the cookie is.
	writer := logIn(t, hs, secret("a/operator")).Value
	o.noted()
	before := len(b.order)
	for name, header := range map[string]http.Header{
		"a form of another site": {"Sec-Fetch-Site": {"cross-site"}, "Content-Type": {"text/plain"}},
		"a sibling":              {"Sec-Fetch-Site": {"same-site"}},
		"another origin":         {"Origin": {"https://evil.example"}},
		"no origin":              {"Origin": {"null"}},
	} {
		for _, made := range []call{
			{method: "POST", path: "/v1/jobs", body: jobBody},
			{method: "DELETE", path: "/v1/tasks/t"},
			{method: "POST", path: sessionPath, body: `{"key":"` + secret("b/operator") + `"}`},
			{method: "DELETE", path: sessionPath},
		} {
			made.header = with(withCookie(writer), header)
			if _, answer := problemAnd(t, hs, made, 403); answer.Get("Set-Cookie") != "" {
				t.Errorf("%s %s of %s is refused, and sets a cookie", made.method, made.path, name)
			}
		}
	}
	if len(b.order) != before || len(o.noted()) != 0 {
		t.Errorf("requests of other sites made %d jobs", len(b.order)-before)
	}
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: with(withCookie(writer), http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {hs.URL}})}, 201, &job)
	doJSON(t, hs, call{method: "DELETE", path: "/v1/jobs/" + job.ID.String(), header: withCookie(writer)}, 200, nil)
	if b.by != "operator-key" {
		t.Errorf("the job was cancelled by %q, want the name of the session's key", b.by)
	}

	refused := func(what string, header http.Header) {
		t.Helper()
		p, answer := problemAnd(t, hs, call{method: "GET", path: whoamiPath, header: header}, 401)
		if p.Kind() != "unauthenticated" || !removed(answer) || !strings.Contains(answer.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%s: %+v, Set-Cookie %q; want unauthenticated, and the cookie removed", what, p, answer.Get("Set-Cookie"))
		}
	}
	elsewhere, err := newSessions([]byte("the key of another node"))
	if err != nil {
		t.Fatal(err)
	}
	ours, err := newSessions([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	forged := []byte(writer)
	if forged[20]++; forged[20] > 'z' || forged[20] == '`' || forged[20] == ':' || forged[20] == '[' || forged[20] == '.' {
		forged[20] = 'A'
	}
	refused("a forged cookie", withCookie(string(forged)))
	refused("a cut cookie", withCookie(writer[:20]))
	refused("an empty cookie", withCookie(""))
	refused("a cookie of another node", withCookie(elsewhere.seal(secret("a/operator"), now)))
	refused("a cookie of the future", withCookie(ours.seal(secret("a/operator"), now.Add(time.Hour))))
	refused("a cookie that holds no key", withCookie(ours.seal("nonsense", now)))
	refused("two cookies", http.Header{"Cookie": {sessionCookie + "=" + writer + "; " + sessionCookie + "=" + writer}})
	p, answer := problemAnd(t, hs, call{method: "GET", path: whoamiPath, header: http.Header{"Cookie": {"theme=dark"}}}, 401)
	if removed(answer) || strings.Contains(answer.Get("WWW-Authenticate"), "invalid_token") {
		t.Errorf("no cookie of ours: %+v, %v; want that a key is needed", p, answer)
	}

	// The store does not answer: that says nothing of the session.
	o.befall(schema.ErrUnavailable)
	if _, answer := problemAnd(t, hs, call{method: "GET", path: whoamiPath, header: withCookie(writer)}, 503); answer.Get("Set-Cookie") != "" {
		t.Errorf("the cookie is removed since the store did not answer: %q", answer.Get("Set-Cookie"))
	}
	o.befall(nil)

	if _, err := o.Revoke(t.Context(), "a", "operator-key"); err != nil {
		t.Fatal(err)
	}
	refused("a revoked key", withCookie(writer))
	now = testNow.Add(sessionSpan - time.Second)
	doJSON(t, hs, call{method: "GET", path: whoamiPath, header: withCookie(cookie.Value)}, 200, nil)
	now = testNow.Add(sessionSpan)
	refused("an old cookie", withCookie(cookie.Value))

	status, header, _ := do(t, hs, call{method: "DELETE", path: sessionPath, header: withCookie(cookie.Value)})
	if status != 204 || !removed(header) {
		t.Errorf("DELETE %s = %d, Set-Cookie %q; want the cookie removed", sessionPath, status, header.Get("Set-Cookie"))
	}
	text := logged.String()
	for _, kept := range []string{cookie.Value, writer, secret("a/viewer"), secret("a/operator")} {
		if strings.Contains(text, kept) {
			t.Errorf("the log has %q", kept)
		}
	}
	if !strings.Contains(text, sessionPath) {
		t.Errorf("the log has not the log-in itself:\n%s", text)
	}
}

func TestLogInsThatAreRefused(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	o.key("a/viewer")
	for name, row := range map[string]struct {
		body   string
		status int
		kind   string
	}{
		"a wrong key":   {`{"key":"carillon_hush"}`, 401, "unauthenticated"},
		"an empty key":  {`{"key":""}`, 422, "invalid"},
		"a long key":    {`{"key":"` + strings.Repeat("hush", 100) + `"}`, 422, "invalid"},
		"a number":      {`{"key":4711}`, 422, "invalid"},
		"no key":        {`{}`, 422, "invalid"},
		"null":          {`{"key":null}`, 422, "invalid"},
		"a list":        {`["hush"]`, 422, "invalid"},
		"another field": {`{"key":"secret-a-viewer","token":"hush"}`, 422, "invalid"},
		"a field twice": {`{"key":"hush","key":"hush"}`, 422, "invalid"},
		"every fault":   {`{"key":"","token":"hush"}`, 422, "invalid"},
		"not JSON":      {`{"key":"hush`, 400, "not-json"},
		"an empty body": {``, 400, "not-json"},
		"a string":      {`"hush"`, 422, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			made := call{method: "POST", path: sessionPath, body: row.body, header: http.Header{"Content-Type": {"application/json"}}}
			p, header := problemAnd(t, hs, made, row.status)
			if p.Kind() != row.kind || header.Get("Set-Cookie") != "" || (row.status == 401) != (header.Get("WWW-Authenticate") != "") {
				t.Errorf("POST %s %s: %+v, %v; want %s, and no cookie", sessionPath, row.body, p, header, row.kind)
			}
			if row.status == 422 && len(p.Errors) == 0 || name == "every fault" && len(p.Errors) != 2 {
				t.Errorf("POST %s %s names the faults %+v", sessionPath, row.body, p.Errors)
			}
			if text := p.Error(); strings.Contains(text, "hush") || strings.Contains(text, "4711") {
				t.Errorf("POST %s %s says back what may be a key: %s", sessionPath, row.body, text)
			}
		})
	}
	if acts := o.noted(); len(acts) != 0 {
		t.Errorf("noted was %+v of log-ins", acts)
	}

	// Where a browser would drop the cookie it is told so.
	from := func(host, origin string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", hs.URL+sessionPath, strings.NewReader(`{"key":"`+secret("a/viewer")+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header = http.Header{"Content-Type": {"application/json"}, "Origin": {origin}}
		resp, err := hs.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	if status, header, text := from("carillon.example", "http://carillon.example"); status != 422 || !strings.Contains(text, "needs-tls") || header.Get("Set-Cookie") != "" {
		t.Errorf("a log-in in plain text = %d %s, want 422 needs-tls", status, text)
	}
	if status, header, text := from("carillon.example", "https://carillon.example"); status != 204 || header.Get("Set-Cookie") == "" {
		t.Errorf("a log-in through a proxy with TLS = %d %s, want a session", status, text)
	}
	if status, _, text := from("carillon.example", "https://evil.example"); status != 403 {
		t.Errorf("a log-in of another origin = %d %s, want 403", status, text)
	}

	open := serve(t, newStub(), o.deps)
	if p := doProblem(t, open, call{method: "POST", path: sessionPath, body: `{"key":"` + secret("a/viewer") + `"}`}, 409); p.Kind() != "auth-off" {
		t.Errorf("a log-in where no keys are asked for: %+v, want auth-off", p)
	}
	if status, _, _ := do(t, open, call{method: "DELETE", path: sessionPath}); status != 204 {
		t.Errorf("DELETE %s where no keys are asked for = %d, want 204", sessionPath, status)
	}
}

func TestWhoami(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk, func(c *Config, _ *Deps) { c.Node, c.Version = "n1", "1.2.3" })
	system := o.key("system/admin", "a/operator")
	for name, row := range map[string]struct {
		header http.Header
		want   Whoami
	}{
		"an operator":             {bearer(secret("a/operator")), Whoami{Tenant: "a", Role: schema.Operator, Actor: "operator-key", Auth: true}},
		"the system":              {system, Whoami{Tenant: "system", TenantsAll: true, Role: schema.Admin, Actor: "admin-key", Auth: true}},
		"the system for a tenant": {with(system, http.Header{tenantHeader: {"a"}}), Whoami{Tenant: "a", TenantsAll: true, Role: schema.Admin, Actor: "system/admin-key", Auth: true}},
	} {
		var got Whoami
		doJSON(t, hs, call{method: "GET", path: whoamiPath, header: row.header}, 200, &got)
		row.want.Node, row.want.Version, row.want.Time = "n1", "1.2.3", Time{testNow}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("GET %s of %s (-want +got):\n%s", whoamiPath, name, diff)
		}
	}
	doProblem(t, hs, call{method: "GET", path: whoamiPath}, 401)
	doProblem(t, hs, call{method: "GET", path: whoamiPath, header: with(bearer(secret("a/operator")), http.Header{tenantHeader: {"b"}})}, 403)

	var got Whoami
	open := serve(t, newStub(), func(c *Config, _ *Deps) { c.ReadOnly = true })
	doJSON(t, open, call{method: "GET", path: whoamiPath, header: http.Header{tenantHeader: {"acme"}}}, 200, &got)
	want := Whoami{Tenant: "acme", TenantsAll: true, Role: schema.Admin, Actor: anonymous, ReadOnly: true, Version: "dev", Time: Time{testNow}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET %s where no keys are asked for (-want +got):\n%s", whoamiPath, diff)
	}
}

func TestClientLogsInAndOut(t *testing.T) {
	o := newAdminStub()
	hs := serve(t, newStub(), o.desk)
	o.key("a/viewer")
	c := newClient(t, hs.URL)
	cookie, err := c.LogIn(t.Context(), secret("a/viewer"))
	if err != nil || cookie.Name != sessionCookie || cookie.Value == "" {
		t.Fatalf("LogIn = %+v, %v; want a cookie", cookie, err)
	}
	doJSON(t, hs, call{method: "GET", path: whoamiPath, header: withCookie(cookie.Value)}, 200, nil)
	if err := c.LogOut(t.Context()); err != nil {
		t.Errorf("LogOut = %v", err)
	}
	if cookie, err := c.LogIn(t.Context(), "nonsense"); err == nil {
		t.Errorf("LogIn with nonsense = %v, want an error", cookie)
	}
	if who, err := c.Whoami(t.Context()); err == nil {
		t.Errorf("Whoami without a key = %+v, want an error", who)
	}
}

// A read-only node refuses what changes something, and nothing else.
func TestAReadOnlyNodeChangesNothing(t *testing.T) {
	b, o := newStub(), newAdminStub()
	ops := &stubOperations{byID: map[string]schema.Operation{}, keys: map[string]string{}}
	hs := serve(t, b, o.desk, func(c *Config, d *Deps) { c.ReadOnly, d.Operations = true, ops })
	admin := o.key("system/admin", "system/viewer")
	changing := 0
	for _, r := range routesOf(t, b) {
		path := filled(r[1], map[string]string{":id": somewhere, ":name": "n", ":run": somewhere, ":step": "a", ":home": "eu"})
		status, _, text := do(t, hs, call{method: r[0], path: path, header: admin})
		kept := r[0] == http.MethodGet || r[1] == previewPath || r[1] == backfillPreviewRoute || r[1] == sessionPath || r[0] == http.MethodPost && r[1] == operationsPath
		if got := status == 403 && bytes.Contains(text, []byte(problemType+"read-only")); got == kept {
			t.Errorf("%s %s of a read-only node = %d %s, want it refused: %v", r[0], path, status, text, !kept)
		}
		if kept {
			continue
		}
		changing++
		// what may not be done at all is told first
		if p := doProblem(t, hs, call{method: r[0], path: path, header: bearer(secret("system/viewer"))}, 403); p.Kind() != "forbidden" {
			t.Errorf("%s %s by a viewer of a read-only node: %+v, want forbidden", r[0], path, p)
		}
	}
	if changing < 20 {
		t.Errorf("%d routes change something, want all that do", changing)
	}
	lines := with(admin, http.Header{"Content-Type": {ndjson}})
	for _, row := range []struct {
		call
		status int
	}{
		{call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{},"dry_run":true}`, header: admin}, 202},
		{call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{},"dry_run":false}`, header: admin}, 403},
		{call{method: "POST", path: operationsPath, body: `{"action":"pause","filter":{}}`, header: admin}, 403},
		{call{method: "POST", path: operationsPath, body: `{}`, header: admin}, 422},
		{call{method: "PUT", path: "/v1/workflows/w?dry_run=true", body: small, header: admin}, 200},
		{call{method: "PUT", path: "/v1/workflows/w?dry_run=false", body: small, header: admin}, 403},
		{call{method: "PUT", path: "/v1/workflows/w?dry_run=maybe", body: small, header: admin}, 403},
		{call{method: "PUT", path: "/v1/workflows/w", body: small, header: admin}, 403},
		{call{method: "POST", path: importPath + "?validate_only=true", body: jobBody, header: lines}, 200},
		{call{method: "POST", path: importPath + "?validate_only=false", body: jobBody, header: lines}, 403},
		{call{method: "POST", path: importPath, body: jobBody, header: lines}, 403},
		{call{method: "POST", path: "/v1/jobs?dry_run=true", body: jobBody, header: admin}, 403},
		{call{method: "POST", path: previewPath, body: `{"schedule":{"every":"15m"}}`, header: admin}, 200},
		{call{method: "POST", path: sessionPath, body: `{"key":"` + secret("system/viewer") + `"}`}, 204},
		{call{method: "POST", path: "/v1/nothing", header: admin}, 404},
	} {
		if status, _, text := do(t, hs, row.call); status != row.status {
			t.Errorf("%s %s %s of a read-only node = %d %s, want %d", row.method, row.path, row.body, status, text, row.status)
		}
	}
	if acts := o.noted(); len(b.order) != 0 || len(acts) != 0 {
		t.Errorf("a read-only node made %d jobs and noted %+v", len(b.order), acts)
	}
}

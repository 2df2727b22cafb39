package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// loginDesk is a provider at which everybody logs in as who.
type loginDesk struct {
	who         admin.Identity
	err         error
	nonce, with string // of the log-in that was begun last: nonce and verifier
}

func (d *loginDesk) LogInURL(_ context.Context, state, nonce, verifier string) (string, error) {
	d.nonce, d.with = nonce, verifier
	return "https://login.test/authorize?state=" + url.QueryEscape(state), d.err
}

func (d *loginDesk) LoggedIn(_ context.Context, code, nonce, verifier string) (admin.Identity, error) {
	if code != "good" || nonce != d.nonce || verifier != d.with {
		return admin.Identity{}, &admin.TokenError{Reason: "was not given"}
	}
	return d.who, d.err
}

func (d *loginDesk) Identify(_ context.Context, token string) (admin.Identity, error) {
	switch token {
	case "good.to.ken":
		return d.who, nil
	case "grant.less.ken":
		return admin.Identity{}, admin.ErrNoGrant
	case "pro.vid.er":
		return admin.Identity{}, admin.ErrProvider
	}
	return admin.Identity{}, &admin.TokenError{Reason: "has expired"}
}

func TestTokensAreTakenAsKeysAre(t *testing.T) {
	b, o := newStub(), newAdminStub()
	d := &loginDesk{who: admin.Identity{Tenant: "a", Name: "oidc:ann", Role: schema.Operator}}
	hs := serve(t, b, o.desk, func(_ *Config, deps *Deps) { deps.Tokens = d })
	key := o.key("a/viewer")
	var job Job
	doJSON(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: bearer("good.to.ken")}, 201, &job)
	if job.Tenant != "a" || job.CreatedBy != "oidc:ann" {
		t.Errorf("a job by a token is of %s by %q, want a, oidc:ann", job.Tenant, job.CreatedBy)
	}
	for token, want := range map[string]struct {
		status       int
		kind, detail string
	}{
		"ex.pi.red":      {401, "unauthenticated", "The token has expired."},
		"grant.less.ken": {403, "forbidden", "grants"},
		"pro.vid.er":     {503, "no-provider", "does not answer"},
		"a.b." + strings.Repeat("x", maxWithToken): {401, "unauthenticated", "The token is too long."},
		"no token": {401, "unauthenticated", "The key is not known"},
	} {
		p := doProblem(t, hs, call{method: "GET", path: "/v1/tasks", header: bearer(token)}, want.status)
		if p.Kind() != want.kind || !strings.Contains(p.Detail, want.detail) {
			t.Errorf("token %.20q: %+v, want %s, %q", token, p, want.kind, want.detail)
		}
	}
	doJSON(t, hs, call{method: "GET", path: "/v1/tasks", header: key}, 200, nil) // keys go on
	o.desk(&Config{}, &Deps{})
	off := serve(t, b, o.desk)
	if p := doProblem(t, off, call{method: "GET", path: "/v1/tasks", header: bearer("good.to.ken")}, 401); !strings.Contains(p.Detail, "key") {
		t.Errorf("a token where none is taken: %+v, want that the key is not known", p)
	}
}

func TestBrowsersLogInAtTheProvider(t *testing.T) {
	b, o := newStub(), newAdminStub()
	d := &loginDesk{who: admin.Identity{Tenant: "a", Name: "oidc:" + strings.Repeat("n", admin.MaxIdentity-5), Role: schema.Viewer}}
	now := testNow
	hs := serve(t, b, o.desk, func(c *Config, deps *Deps) {
		deps.LogIn = d
		c.Now = func() time.Time { return now }
	})
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(path, cookie string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, hs.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
		}
		a, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		return a
	}
	cookieOf := func(a *http.Response, name string) string {
		for _, c := range a.Cookies() {
			if c.Name == name && c.MaxAge > 0 {
				if !c.Secure || !c.HttpOnly || c.Path != "/" {
					t.Errorf("the cookie is %+v, want one that is Secure, HttpOnly and of the whole host", c)
				}
				return name + "=" + c.Value
			}
		}
		return ""
	}
	sent := get(LogInPath, "") //nolint:bodyclose // it was read
	at, err := sent.Location()
	began := cookieOf(sent, logInCookie)
	if sent.StatusCode != 302 || err != nil || at.Host != "login.test" || began == "" {
		t.Fatalf("GET %s = %d to %v, cookie %q, want that the browser goes to the provider with a cookie", LogInPath, sent.StatusCode, at, began)
	}
	back := func(state, code, cookie string) *http.Response {
		return get(LogInCallback+"?state="+url.QueryEscape(state)+"&code="+code, cookie)
	}
	state := at.Query().Get("state")
	for name, a := range map[string]func() *http.Response{
		"another state":   func() *http.Response { return back("x", "good", began) },
		"no state":        func() *http.Response { return back("", "good", began) },
		"no cookie":       func() *http.Response { return back(state, "good", "") },
		"another cookie":  func() *http.Response { return back(state, "good", began+"x") },
		"a wrong code":    func() *http.Response { return back(state, "bad", began) },
		"no code":         func() *http.Response { return back(state, "", began) },
		"its two cookies": func() *http.Response { return back(state, "good", began+"; "+began) },
	} {
		if a := a(); a.StatusCode != 401 || cookieOf(a, sessionCookie) != "" { //nolint:bodyclose // likewise
			t.Errorf("%s: %d, want 401 and no session", name, a.StatusCode)
		}
	}
	in := back(state, "good", began) //nolint:bodyclose // likewise
	session := cookieOf(in, sessionCookie)
	if in.StatusCode != 302 || in.Header.Get("Location") != "../console/" || session == "" {
		t.Fatalf("back from the provider: %d to %q, session %q, want the console and a session", in.StatusCode, in.Header.Get("Location"), session)
	}
	var who Whoami
	doJSON(t, hs, call{method: "GET", path: whoamiPath, header: http.Header{"Cookie": {session}}}, 200, &who)
	if who.Actor != d.who.Name || who.Tenant != "a" || who.Role != schema.Viewer || !who.Session {
		t.Errorf("the session is %+v, want the one who logged in", who)
	}
	doProblem(t, hs, call{method: "POST", path: "/v1/jobs", body: jobBody, header: http.Header{"Cookie": {session}}}, 403)

	now = now.Add(logInSpan)
	if a := back(state, "good", began); a.StatusCode != 401 { //nolint:bodyclose // likewise
		t.Errorf("back from the provider after 10 minutes: %d, want 401", a.StatusCode)
	}
	now = now.Add(sessionSpan)
	doProblem(t, hs, call{method: "GET", path: whoamiPath, header: http.Header{"Cookie": {session}}}, 401)
	d.err = errors.Join(admin.ErrProvider)
	if a := get(LogInPath, ""); a.StatusCode != 503 { //nolint:bodyclose // likewise
		t.Errorf("a log-in while the provider is away: %d, want 503", a.StatusCode)
	}
	plain := httptest.NewRequest(http.MethodGet, "http://10.0.0.7"+LogInPath, nil)
	w := httptest.NewRecorder()
	if hs.Config.Handler.ServeHTTP(w, plain); w.Code != 422 {
		t.Errorf("a log-in in plain text: %d, want 422: the browser would not keep the cookie", w.Code)
	}
	off := serve(t, b, o.desk)
	if p := doProblem(t, off, call{method: "GET", path: LogInPath}, 404); !strings.Contains(p.Detail, "api.oidc") {
		t.Errorf("GET %s without a provider = %+v, want that it says what is not configured", LogInPath, p)
	}
	for hs, want := range map[*httptest.Server]string{hs: LogInPath, off: ""} {
		if p := doProblem(t, hs, call{method: "GET", path: whoamiPath}, 401); p.LogIn != want {
			t.Errorf("401 with log_in %q, want %q", p.LogIn, want)
		}
	}
	doProblem(t, off, call{method: "GET", path: whoamiPath, header: http.Header{"Cookie": {session}}}, 401)
}

package target

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-oauth2/oauth2/v4"
	"github.com/go-oauth2/oauth2/v4/manage"
	"github.com/go-oauth2/oauth2/v4/models"
	"github.com/go-oauth2/oauth2/v4/server"
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// issuer is a token server of a library, and a resource that asks for its tokens. It is the store
// of its tokens: those of client credentials are found by access token alone.
type issuer struct {
	*httptest.Server
	oauth2.TokenStore // the methods that are not called

	mu     sync.Mutex
	tokens map[string]oauth2.TokenInfo
	scope  string // of the last token

	asked, called atomic.Int64 // answers with a token, and calls that were let in
}

const clientSecret = "client-s3cret"

var errNoSuch = errors.New("there is none")

func (s *issuer) Create(_ context.Context, info oauth2.TokenInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[info.GetAccess()], s.scope = info, info.GetScope()
	s.asked.Add(1)
	return nil
}

func (s *issuer) GetByAccess(_ context.Context, access string) (oauth2.TokenInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, ok := s.tokens[access]; ok {
		return info, nil
	}
	return nil, errNoSuch
}

func (s *issuer) GetByID(_ context.Context, id string) (oauth2.ClientInfo, error) {
	if id != "client-1" {
		return nil, errNoSuch
	}
	return &models.Client{ID: id, Secret: clientSecret}, nil
}

// revoke has every token that was given be refused.
func (s *issuer) revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// newIssuer starts an issuer whose tokens live that long, and that takes a client's secret so.
func newIssuer(t *testing.T, life time.Duration, takes server.ClientInfoHandler) *issuer {
	t.Helper()
	s := &issuer{tokens: make(map[string]oauth2.TokenInfo)}
	m := manage.NewDefaultManager()
	m.MapTokenStorage(s)
	m.MapClientStorage(s)
	m.SetClientTokenCfg(&manage.Config{AccessTokenExp: life})
	tokens := server.NewDefaultServer(m)
	tokens.SetClientInfoHandler(takes)
	s.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if err := tokens.HandleTokenRequest(w, r); err != nil {
				t.Errorf("HandleTokenRequest: %v", err)
			}
			return
		}
		if _, err := tokens.ValidationBearerToken(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.called.Add(1)
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, string(body)+r.Header.Get("Authorization")) // it says back what it was sent
	})
	return s
}

// callWith returns an attempt that posts {"a":1} to the issuer's resource with a token.
func (s *issuer) callWith(secret string) Call {
	c := callTo(s.URL + "/resource")
	c.Work.HTTP.Auth = &schema.HTTPAuth{OAuth2: &schema.ClientCredentials{
		TokenURL: s.URL + "/token", ClientID: "client-1", Secret: "client", Scopes: []string{"a", "b"}, Params: map[string]string{"audience": "x"},
	}}
	c.Values = auth.Values{"client": {[]byte(secret)}}
	return c
}

func (s *issuer) wantCounts(t *testing.T, when string, asked, called int64) {
	t.Helper()
	if a, c := s.asked.Load(), s.called.Load(); a != asked || c != called {
		t.Errorf("%s: %d tokens were given and %d calls let in, want %d and %d", when, a, c, asked, called)
	}
}

// Tokens of a real server: kept, refreshed before they expire, asked for again where the callee
// does not take one any more, whichever way the server takes the client's secret.
func TestHTTPCallsWithATokenOfAServer(t *testing.T) {
	for name, takes := range map[string]server.ClientInfoHandler{"a secret in a header": server.ClientBasicHandler, "a secret in the form": server.ClientFormHandler} {
		t.Run(name, func(t *testing.T) {
			s := newIssuer(t, time.Hour, takes)
			var ahead atomic.Int64
			h := newHTTP(t, HTTPConfig{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			run := func(when string) Result {
				t.Helper()
				res := h.Run(t.Context(), s.callWith(clientSecret))
				if res.Outcome != schema.Succeeded || string(res.Output) != `{"a":1}Bearer …` {
					t.Errorf("%s: Run: got %s %q, output %q; want a success that does not say the token", when, res.Outcome, res.Error, res.Output)
				}
				return res
			}
			run("the first call")
			s.wantCounts(t, "after one call", 1, 1)
			if s.scope != "a b" {
				t.Errorf("asked for the scope %q, want a and b", s.scope)
			}
			for range 10 {
				run("another call")
			}
			s.wantCounts(t, "after eleven calls", 1, 11)
			s.revoke()
			run("a call after the token was revoked")
			s.wantCounts(t, "after the token was revoked", 2, 12)
			ahead.Store(int64(time.Hour - 61*time.Second))
			run("a call before the reserve")
			s.wantCounts(t, "before the reserve", 2, 13)
			ahead.Store(int64(time.Hour - 59*time.Second))
			run("a call within the reserve")
			s.wantCounts(t, "within the reserve", 3, 14)

			var wg sync.WaitGroup
			s.revoke()
			other := newHTTP(t, HTTPConfig{})
			for range 50 {
				wg.Go(func() {
					if res := other.Run(t.Context(), s.callWith(clientSecret)); res.Outcome != schema.Succeeded {
						t.Errorf("one of many calls: %s %q", res.Outcome, res.Error)
					}
				})
			}
			wg.Wait()
			s.wantCounts(t, "after 50 calls at once", 4, 64)
		})
	}
}

// A server that gives no token: the call is not made, the attempt fails and may be repeated, and
// nothing that it says holds the secret.
func TestHTTPCallsWithoutAToken(t *testing.T) {
	real := newIssuer(t, time.Hour, server.ClientBasicHandler)
	called := make(chan struct{}, 10)
	callee := serve(t, func(http.ResponseWriter, *http.Request) { called <- struct{}{} })
	echo := func(status int, form string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(form, "$", clientSecret))
		}
	}
	for name, c := range map[string]struct {
		url    string
		answer func(w http.ResponseWriter, r *http.Request)
		secret string
		want   string
		status int
		final  bool
		after  time.Duration
	}{
		"a wrong secret":        {url: real.URL + "/token", secret: "wrong-s3cret", want: "not called: the token endpoint answered 401 Unauthorized: invalid_client"},
		"it says the secret":    {answer: echo(400, `{"error":"$","error_description":"$","error_uri":"$"}`), want: "not called: the token endpoint answered 400 Bad Request"},
		"a text that says it":   {answer: echo(500, `the secret $ is wrong`), want: "not called: the token endpoint answered 500 Internal Server Error"},
		"an error within a 200": {answer: echo(200, `{"error":"invalid_scope"}`), want: "not called: the token endpoint answered 200 OK: invalid_scope"},
		"no token":              {answer: echo(200, `{"token_type":"$"}`), want: "not called: the token endpoint gave no token"},
		"no JSON":               {answer: echo(200, `{"$`), want: "not called: the token endpoint gave no token"},
		"a token of two lines":  {answer: echo(200, `{"access_token":"a\r\nX-Evil: $"}`), want: "not called: the token endpoint gave no token"},
		"it is asked too often": {
			answer: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Retry-After", "70"); w.WriteHeader(429) },
			want:   "not called: the token endpoint answered 429 Too Many Requests", after: 70 * time.Second,
		},
		"it redirects": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", callee.URL)
				w.WriteHeader(307)
			},
			want: "not called: the token endpoint answered 307 Temporary Redirect",
		},
		"it closes the connection": {answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: "not called: no token: the connection was closed"},
		"nobody listens":           {url: "http://127.0.0.1:1/token?x=" + clientSecret, want: "not called: no token: connection refused"},
		"a denied address":         {url: "http://169.254.169.254/token", want: "not called: no token: 169.254.169.254: address is not allowed", final: true},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			h := newHTTP(t, HTTPConfig{Registerer: reg})
			odd := serve(t, c.answer)
			secret := c.secret
			if secret == "" {
				secret = clientSecret
			}
			call := real.callWith(secret)
			call.Work.HTTP.URL, call.Work.HTTP.Auth.OAuth2.TokenURL = callee.URL, odd.URL+"/token"
			if c.url != "" {
				call.Work.HTTP.Auth.OAuth2.TokenURL = c.url
			}
			res := h.Run(t.Context(), call)
			if res.Outcome != schema.Failed || res.Error != c.want || res.Final != c.final || res.RetryAfter != c.after || res.Status != 0 || !res.Uncalled {
				t.Errorf("Run: got %+v, want a failure of %q", res, c.want)
			}
			if health := res.Health(); health != UnknownHealth {
				t.Errorf("Health: got %v, want that nothing is known of the target", health)
			}
			if strings.Contains(res.Error+string(res.Output), "s3cret") {
				t.Errorf("Run: got %+v, which holds the secret", res)
			}
			select {
			case <-called:
				t.Error("the target was called")
			default:
			}
		})
	}
}

// The time-out of an attempt, and its cancel, end the wait for a token.
func TestHTTPStopsToWaitForAToken(t *testing.T) {
	asked, end := make(chan struct{}, 1), make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	defer close(end)
	h := newHTTP(t, HTTPConfig{})
	for cause, want := range map[error]schema.Outcome{ErrTimeout: schema.TimedOut, ErrCancelled: schema.Cancelled} {
		ctx, cancel := context.WithCancelCause(t.Context())
		call := (&issuer{Server: s}).callWith(clientSecret)
		go func() {
			<-asked
			cancel(cause)
		}()
		res := h.Run(ctx, call)
		if res.Outcome != want || !res.Uncalled || res.Health() != UnknownHealth {
			t.Errorf("Run that is ended by %v: got %+v, want %s", cause, res, want)
		}
	}
}

// A callee that takes no token costs one more call where a token was there before, and none where
// it was just made: what is wrong is not the token's age.
func TestHTTPAsksForAnotherTokenOnce(t *testing.T) {
	s := newIssuer(t, time.Hour, server.ClientBasicHandler)
	var calls atomic.Int64
	strict := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusUnauthorized)
	})
	h := newHTTP(t, HTTPConfig{})
	call := s.callWith(clientSecret)
	if res := h.Run(t.Context(), call); res.Outcome != schema.Succeeded {
		t.Fatalf("Run: %+v", res)
	}
	call.Work.HTTP.URL = strict.URL
	for _, want := range []struct{ calls, asked int64 }{{2, 2}, {3, 3}, {4, 4}} {
		res := h.Run(t.Context(), call)
		if res.Outcome != schema.Failed || res.Status != 401 || !res.Final || res.Uncalled || calls.Load() != want.calls || s.asked.Load() != want.asked {
			t.Errorf("Run: got %+v after %d calls and %d tokens, want a final failure after %d and %d", res, calls.Load(), s.asked.Load(), want.calls, want.asked)
		}
	}
}

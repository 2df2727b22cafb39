package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// server is a token server as its transport.
type server struct {
	asked  atomic.Int64
	forms  chan url.Values
	answer func(n int64) (status int, body string, err error)
	hold   chan struct{} // an answer waits until it is closed; nil: none does
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	n := s.asked.Add(1)
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	text, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(text))
	id, password, _ := r.BasicAuth()
	form.Set("basic", id+":"+password)
	select {
	case s.forms <- form:
	default:
	}
	status, body, err := s.answer(n)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"7"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

func given(life int) func(int64) (int, string, error) {
	return func(n int64) (int, string, error) {
		return 200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":%d}`, n, life), nil
	}
}

// inTokens runs f in a bubble with Tokens of a server.
func inTokens(t *testing.T, answer func(int64) (int, string, error), f func(t *testing.T, s *server, tokens *Tokens, counts map[string]int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: answer, forms: make(chan url.Values, 1)}
		var mu sync.Mutex
		counts := make(map[string]int)
		f(t, s, NewTokens(s, time.Now, func(result string) {
			mu.Lock()
			defer mu.Unlock()
			counts[result]++
		}), counts)
	})
}

var (
	client = &schema.ClientCredentials{TokenURL: "http://id.test/token", ClientID: "c", Secret: "s", Scopes: []string{"a", "b"}, Params: map[string]string{"audience": "x"}}
	held   = Values{"s": valuesOf(secret)}
)

func wantToken(t *testing.T, tokens *Tokens, tenant string, a *schema.ClientCredentials, v Values, want string) {
	t.Helper()
	if got, _, err := tokens.Token(t.Context(), tenant, a, v); err != nil || got != want {
		t.Errorf("Token = %q, %v; want %q", got, err, want)
	}
}

func TestTokenIsUsedUntilShortlyBeforeItExpires(t *testing.T) {
	for name, c := range map[string]struct {
		life int // s; 0: not said
		used time.Duration
	}{
		"an hour": {3600, 59 * time.Minute}, "a minute": {60, 54 * time.Second}, "a day": {86400, 59 * time.Minute}, "not said": {0, 59 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inTokens(t, given(c.life), func(t *testing.T, s *server, tokens *Tokens, counts map[string]int) {
				for range 10 {
					wantToken(t, tokens, "acme", client, held, "token-1")
				}
				form := <-s.forms
				if form.Get("grant_type") != "client_credentials" || form.Get("scope") != "a b" || form.Get("audience") != "x" || form.Get("basic") != "c:"+secret {
					t.Errorf("asked with %v", form)
				}
				time.Sleep(c.used - time.Millisecond)
				wantToken(t, tokens, "acme", client, held, "token-1")
				time.Sleep(time.Millisecond)
				wantToken(t, tokens, "acme", client, held, "token-2")
				if counts[TokenFetched] != 2 || counts[TokenCached] != 10 {
					t.Errorf("counted %v, want two that were asked for and ten that were there", counts)
				}
			})
		})
	}
}

// A token is whose secret it was had with: another tenant, another value of the secret and another
// scope have their own.
func TestTokenBelongsToItsSecret(t *testing.T) {
	inTokens(t, given(3600), func(t *testing.T, _ *server, tokens *Tokens, _ map[string]int) {
		scoped := *client
		scoped.Scopes = []string{"c"}
		wantToken(t, tokens, "acme", client, held, "token-1")
		wantToken(t, tokens, "umbrella", client, held, "token-2")
		wantToken(t, tokens, "acme", client, Values{"s": valuesOf("rotated", secret)}, "token-3")
		wantToken(t, tokens, "acme", &scoped, held, "token-4")
		wantToken(t, tokens, "acme", client, held, "token-1")
		_, _, err := tokens.Token(t.Context(), "acme", client, Values{})
		wantFault(t, "missing", err, "there is no secret s")
	})
}

func TestTokenThatIsRejectedIsNotUsedAgain(t *testing.T) {
	inTokens(t, given(3600), func(t *testing.T, _ *server, tokens *Tokens, counts map[string]int) {
		wantToken(t, tokens, "acme", client, held, "token-1")
		tokens.Reject("umbrella", client, held, "token-1")
		tokens.Reject("acme", client, held, "token-0")
		tokens.Reject("acme", client, Values{}, "token-1")
		if got, cached, err := tokens.Token(t.Context(), "acme", client, held); got != "token-1" || !cached || err != nil {
			t.Errorf("Token after another was rejected = %q, cached %t, %v", got, cached, err)
		}
		tokens.Reject("acme", client, held, "token-1")
		if got, cached, err := tokens.Token(t.Context(), "acme", client, held); got != "token-2" || cached || err != nil {
			t.Errorf("Token after it was rejected = %q, cached %t, %v; want another", got, cached, err)
		}
		if counts[TokenRejected] != 3 {
			t.Errorf("counted %v", counts)
		}
	})
}

// Of many calls that need a token one asks; where it is refused they do not all ask in turn.
func TestTokenIsAskedForByOneOfMany(t *testing.T) {
	refused := func(int64) (int, string, error) { return 401, `{"error":"invalid_client"}`, nil }
	for name, c := range map[string]struct {
		answer func(int64) (int, string, error)
		asked  int64 // a refusal makes the library ask in another way
	}{"given": {given(3600), 1}, "refused": {refused, 2}} {
		t.Run(name, func(t *testing.T) {
			inTokens(t, c.answer, func(t *testing.T, s *server, tokens *Tokens, _ map[string]int) {
				s.hold = make(chan struct{})
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						got, _, err := tokens.Token(t.Context(), "acme", client, held)
						var e *TokenError
						if name == "given" && (got != "token-1" || err != nil) || name == "refused" && (!errors.As(err, &e) || e.Code != "invalid_client") {
							t.Errorf("Token = %q, %v", got, err)
						}
					})
				}
				synctest.Wait()
				time.Sleep(time.Second)
				close(s.hold)
				wg.Wait()
				if n := s.asked.Load(); n != c.asked {
					t.Errorf("the server was asked %d times, want %d", n, c.asked)
				}
				// A later call asks again: what was refused may be mended.
				time.Sleep(time.Second)
				s.answer = given(3600)
				if _, _, err := tokens.Token(t.Context(), "acme", client, held); err != nil {
					t.Errorf("Token, later: %v", err)
				}
			})
		})
	}
}

// A call that gives up takes nothing from those that wait behind it.
func TestTokenOutlivesWhoAskedForIt(t *testing.T) {
	inTokens(t, given(3600), func(t *testing.T, s *server, tokens *Tokens, _ map[string]int) {
		s.hold = make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("time-out")
		first, second := make(chan error), make(chan error)
		go func() {
			_, _, err := tokens.Token(ctx, "acme", client, held)
			first <- err
		}()
		synctest.Wait()
		go func() {
			_, _, err := tokens.Token(t.Context(), "acme", client, held)
			second <- err
		}()
		synctest.Wait()
		cancel(cause)
		if err := <-first; !errors.Is(err, cause) {
			t.Errorf("Token of a call that ended = %v, want %v", err, cause)
		}
		synctest.Wait()
		close(s.hold)
		if err := <-second; err != nil {
			t.Errorf("Token of the call behind it = %v", err)
		}
		waits, stop := context.WithCancelCause(t.Context())
		stop(cause)
		if _, _, err := tokens.Token(waits, "umbrella", client, held); !errors.Is(err, cause) {
			t.Errorf("Token of a call that has ended = %v, want %v", err, cause)
		}
	})
}

// No error says what a server, or a library, says.
func TestTokenErrorsHoldNothingOfASecret(t *testing.T) {
	dial := fmt.Errorf("dial %s", secret)
	for name, c := range map[string]struct {
		status int
		body   string
		err    error
		want   string
	}{
		"a code":             {400, `{"error":"invalid_scope","error_description":"` + secret + `"}`, nil, "the token endpoint answered 400 Bad Request: invalid_scope"},
		"a code of its own":  {400, `{"error":"` + secret + `"}`, nil, "the token endpoint answered 400 Bad Request"},
		"a text":             {503, secret, nil, "the token endpoint answered 503 Service Unavailable"},
		"an unknown status":  {599, secret, nil, "the token endpoint answered 599"},
		"no token":           {200, `{"x":"` + secret + `"}`, nil, "the token endpoint gave no token"},
		"broken":             {200, `{"access_token":"` + secret, nil, "the token endpoint gave no token"},
		"a header injection": {200, `{"access_token":"a\n` + secret + `"}`, nil, "the token endpoint gave no token"},
		"the transport's":    {0, "", dial, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inTokens(t, func(int64) (int, string, error) { return c.status, c.body, c.err }, func(t *testing.T, _ *server, tokens *Tokens, counts map[string]int) {
				_, _, err := tokens.Token(t.Context(), "acme", client, held)
				var e *TokenError
				switch {
				case c.err != nil:
					if !errors.Is(err, dial) || strings.Contains(err.Error(), "id.test") {
						t.Errorf("Token = %v, want the transport's error, without the URL", err)
					}
				case !errors.As(err, &e) || e.Error() != c.want || e.Status != c.status:
					t.Errorf("Token = %v, want %q", err, c.want)
				case e.RetryAfter != "7" && c.status != 200:
					t.Errorf("Token = %+v, want when to ask again", e)
				}
				if counts[TokenFailed] != 1 {
					t.Errorf("counted %v", counts)
				}
			})
		})
	}
}

func TestTokensAreBounded(t *testing.T) {
	inTokens(t, given(3600), func(t *testing.T, _ *server, tokens *Tokens, _ map[string]int) {
		for i := range 2*maxTokens + 10 {
			tokens.of(keyOf(fmt.Sprint(i), client, nil), client, nil)
			if n := len(tokens.held); n > maxTokens {
				t.Fatalf("%d tokens are kept, want at most %d", n, maxTokens)
			}
		}
	})
}

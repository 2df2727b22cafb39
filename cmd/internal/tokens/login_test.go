package tokens

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// token answers the exchange of a code, as RFC 7636 and OpenID Connect Core have it: code and
// verifier must be those of the log-in that was begun at the URL.
func exchange(i *issuer, key jose.JSONWebKey, begun *url.URL, change map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := begun.Query()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		id, secret, _ := r.BasicAuth()
		switch {
		case r.PostFormValue("code") != "good", r.PostFormValue("grant_type") != "authorization_code",
			asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]), asked.Get("code_challenge_method") != "S256",
			r.PostFormValue("redirect_uri") != asked.Get("redirect_uri"), id != "console" || secret != "hush":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		claims := map[string]any{"aud": "console", "nonce": asked.Get("nonce")}
		for name, value := range change {
			claims[name] = value
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": i.token(key, claims)})
	}
}

func TestBrowsersLogIn(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	i.names(key)
	p, _ := i.open(func(c *Config) {
		c.ClientID, c.ClientSecret, c.Redirect, c.Scopes = "console", "hush", "https://carillon.test/login/callback", []string{"groups"}
	})
	verifier := strings.Repeat("v", 52)
	at, err := p.LogInURL(t.Context(), "the state", "the nonce", verifier)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := begun.Query()
	if !strings.HasPrefix(at, i.url+"/authorize?") || q.Get("state") != "the state" || q.Get("nonce") != "the nonce" || q.Get("client_id") != "console" ||
		q.Get("scope") != "openid groups" || q.Get("response_type") != "code" || strings.Contains(at, verifier) {
		t.Errorf("browsers are sent to %s, want the provider with state, nonce and challenge, and without the verifier", at)
	}
	for name, row := range map[string]struct {
		code, nonce, verifier string
		claims                map[string]any
		want                  string // "": it is ann
	}{
		"a good one":           {"good", "the nonce", verifier, nil, ""},
		"another code":         {"bad", "the nonce", verifier, nil, "does not know the code"},
		"another verifier":     {"good", "the nonce", strings.Repeat("w", 52), nil, "does not know the code"},
		"of another log-in":    {"good", "another", verifier, nil, "of another log-in"},
		"a token for others":   {"good", "the nonce", verifier, map[string]any{"aud": "carillon"}, "another audience"},
		"a token that expired": {"good", "the nonce", verifier, map[string]any{"exp": testNow.Unix() - 3600}, "has expired"},
		"no grant":             {"good", "the nonce", verifier, map[string]any{"groups": nil}, "grant"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := exchange(i, key, begun, row.claims)
			i.exchange.Store(&answers)
			who, err := p.LoggedIn(t.Context(), row.code, row.nonce, row.verifier)
			if row.want == "" {
				if want := (admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Operator}); err != nil || who != want {
					t.Errorf("LoggedIn = %+v, %v, want %+v", who, err, want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "hush") || who != (admin.Identity{}) {
				t.Errorf("LoggedIn = %+v, %v, want nobody, and an error with %q", who, err, row.want)
			}
		})
	}
	i.down.Store(true)
	if _, err := p.LoggedIn(t.Context(), "good", "the nonce", verifier); !errors.Is(err, admin.ErrProvider) {
		t.Errorf("LoggedIn while the provider is away = %v, want ErrProvider", err)
	}
}

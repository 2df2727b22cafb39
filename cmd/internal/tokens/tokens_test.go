package tokens

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is an OpenID Connect provider of a test: its discovery, its keys, and tokens by them.
type issuer struct {
	t   *testing.T
	url string

	mu   sync.Mutex
	keys []jose.JSONWebKey // that it names

	exchange atomic.Pointer[http.HandlerFunc] // of codes

	down        atomic.Bool
	huge        atomic.Bool // its keys are
	asked       atomic.Int64
	askedOfKeys atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.url, "jwks_uri": i.url + "/keys", "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.askedOfKeys.Add(1)
		if i.huge.Load() {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxAnswer))
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { (*i.exchange.Load())(w, r) })
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(hs.Close)
	i.url = hs.URL
	return i
}

// key makes a private key.
func (i *issuer) key(id string) jose.JSONWebKey {
	i.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

// names has the issuer name these keys, and no others.
func (i *issuer) names(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = nil
	for _, k := range keys {
		i.keys = append(i.keys, k.Public())
	}
}

// token signs claims: those of a good token, with these over them. A nil claim is left out.
func (i *issuer) token(key jose.JSONWebKey, claims map[string]any) string {
	i.t.Helper()
	return i.signed(jose.SigningKey{Algorithm: jose.ES256, Key: key}, claims)
}

func (i *issuer) signed(by jose.SigningKey, claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{"iss": i.url, "aud": "carillon", "sub": "ann", "exp": testNow.Add(time.Hour).Unix(), "groups": []string{"ops"}}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(by, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	s, err := signer.Sign(text)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := s.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

var testNow = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time { return testNow.Add(time.Duration(c.ns.Load())) }

func (c *clock) pass(d time.Duration) { c.ns.Add(int64(d)) }

// open makes the provider that takes the issuer's tokens.
func (i *issuer) open(change ...func(*Config)) (*Provider, *clock) {
	i.t.Helper()
	now := new(clock)
	cfg := Config{Issuer: i.url, Audience: "carillon", Skew: time.Minute, Now: now.now}
	for _, text := range []string{"realm_access.roles=root=system/admin", "groups=ops=acme/operator", "groups=a=b=acme/viewer", "plan=7=acme/viewer", "email=*=acme/viewer"} {
		g, err := ParseGrant(text)
		if err != nil {
			i.t.Fatal(err)
		}
		cfg.Grants = append(cfg.Grants, g)
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(p.Close)
	return p, now
}

func TestTokensSayWhoCalls(t *testing.T) {
	i := newIssuer(t)
	key := i.key("1")
	i.names(key)
	p, now := i.open()
	for name, row := range map[string]struct {
		claims map[string]any
		want   admin.Identity
		err    error
	}{
		"a group":              {nil, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Operator}, nil},
		"the first that fits":  {map[string]any{"realm_access": map[string]any{"roles": []string{"x", "root"}}}, admin.Identity{Tenant: "system", Name: "oidc:ann", Role: schema.Admin}, nil},
		"one text, not a list": {map[string]any{"groups": "ops"}, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Operator}, nil},
		"an equals sign":       {map[string]any{"groups": "a=b"}, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Viewer}, nil},
		"a number":             {map[string]any{"groups": nil, "plan": 7}, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Viewer}, nil},
		"any value":            {map[string]any{"groups": nil, "email": "ann@x.test"}, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Viewer}, nil},
		"several audiences":    {map[string]any{"aud": []string{"other", "carillon"}}, admin.Identity{Tenant: "acme", Name: "oidc:ann", Role: schema.Operator}, nil},
		"no grant fits":        {map[string]any{"groups": []string{"dev"}}, admin.Identity{}, admin.ErrNoGrant},
		"part of a value":      {map[string]any{"groups": []string{"ops2"}}, admin.Identity{}, admin.ErrNoGrant},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.Identify(t.Context(), i.token(key, row.claims))
			if got != row.want || !errors.Is(err, row.err) || row.err == nil && err != nil {
				t.Errorf("Identify = %+v, %v, want %+v, %v", got, err, row.want, row.err)
			}
		})
	}
	now.pass(time.Hour + 59*time.Second)
	if _, err := p.Identify(t.Context(), i.token(key, nil)); err != nil {
		t.Errorf("Identify within the skew after the end = %v, want that it is good", err)
	}
	mail, _ := i.open(func(c *Config) { c.NameClaim = "email" })
	if got, err := mail.Identify(t.Context(), i.token(key, map[string]any{"email": "ann@x.test"})); err != nil || got.Name != "oidc:ann@x.test" {
		t.Errorf("Identify by another claim = %+v, %v, want oidc:ann@x.test", got, err)
	}
}

func TestTokensThatDoNotCount(t *testing.T) {
	i := newIssuer(t)
	key, stranger := i.key("1"), i.key("1")
	i.names(key)
	p, _ := i.open()
	good := i.token(key, nil)
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	encode := base64.RawURLEncoding.EncodeToString
	forged := encode([]byte(`{"iss":"` + i.url + `","aud":"carillon","sub":"root","exp":9999999999,"groups":["ops"]}`))
	public, err := json.Marshal(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ token, want string }{
		"expired":             {i.token(key, map[string]any{"exp": testNow.Add(-time.Minute).Unix()}), "has expired"},
		"without an end":      {i.token(key, map[string]any{"exp": nil}), "has expired"},
		"not good yet":        {i.token(key, map[string]any{"nbf": testNow.Add(2 * time.Minute).Unix()}), "is not good yet"},
		"for somebody else":   {i.token(key, map[string]any{"aud": "other"}), "another audience"},
		"for nobody":          {i.token(key, map[string]any{"aud": nil}), "another audience"},
		"of another issuer":   {i.token(key, map[string]any{"iss": "https://x.test"}), "another issuer"},
		"of another key":      {i.token(stranger, nil), "not signed by a key"},
		"alg none":            {encode([]byte(`{"alg":"none"}`)) + "." + payload + ".", "no JWT, or not signed"},
		"alg HS256":           {i.signed(jose.SigningKey{Algorithm: jose.HS256, Key: public}, nil), "not signed by an algorithm"},
		"other claims":        {head + "." + forged + "." + signature, "not signed by a key"},
		"no token":            {"a.b.c", "is no JWT"},
		"an empty one":        {"..", "is no JWT"},
		"a long one":          {i.token(key, map[string]any{"x": strings.Repeat("x", MaxToken)}), "is longer than 8192 bytes"},
		"without a name":      {i.token(key, map[string]any{"sub": nil}), "no claim sub"},
		"a name that is none": {i.token(key, map[string]any{"sub": "a\nb"}), "no claim sub"},
		"a long name":         {i.token(key, map[string]any{"sub": strings.Repeat("x", admin.MaxIdentity)}), "no claim sub"},
		"claims of no kind":   {i.token(key, map[string]any{"nbf": "soon"}), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := p.Identify(t.Context(), row.token)
			var refusal *admin.TokenError
			if !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, row.want) || who != (admin.Identity{}) {
				t.Errorf("Identify = %+v, %v, want nobody, and that the token %s", who, err, row.want)
			}
			for part := range strings.SplitSeq(row.token, ".") {
				if len(part) > 3 && strings.Contains(err.Error(), part) {
					t.Errorf("the error repeats the token: %v", err)
				}
			}
		})
	}
	if _, err := p.Identify(t.Context(), good); err != nil {
		t.Errorf("Identify of the good one = %v", err)
	}
}

// Keys that the provider has anew are known within seconds, those that it has given up are not for
// long, and tokens of unknown keys do not have it asked more often.
func TestKeysAreRotated(t *testing.T) {
	i := newIssuer(t)
	old, next := i.key("old"), i.key("next")
	i.names(old)
	p, now := i.open()
	good := func(key jose.JSONWebKey) error {
		_, err := p.Identify(t.Context(), i.token(key, map[string]any{"exp": now.now().Add(time.Hour).Unix()}))
		return err
	}
	if err := good(old); err != nil {
		t.Fatal(err)
	}
	i.names(next, old)
	var refusal *admin.TokenError
	for range 100 {
		if err := good(next); !errors.As(err, &refusal) {
			t.Fatalf("a token of a key that is not known yet: %v, want that it is refused", err)
		}
	}
	if n := i.askedOfKeys.Load(); n != 1 {
		t.Errorf("the provider was asked for its keys %d times within a moment, want once", n)
	}
	now.pass(askEvery)
	if err := errors.Join(good(next), good(old)); err != nil {
		t.Errorf("tokens of both keys, seconds later: %v", err)
	}
	i.names(next)
	if err := good(old); err != nil {
		t.Errorf("a token of a key that was just given up: %v, want that it is still good", err)
	}
	now.pass(keysAge)
	if err := good(old); !errors.As(err, &refusal) {
		t.Errorf("a token of a key that was given up an hour ago: %v, want that it is refused", err)
	}
	if err := good(next); err != nil {
		t.Errorf("a token of the key that is left: %v", err)
	}
}

func TestTheProviderIsAway(t *testing.T) {
	i := newIssuer(t)
	key, other := i.key("1"), i.key("2")
	i.names(key)
	p, now := i.open()
	good := func(key jose.JSONWebKey) error {
		_, err := p.Identify(t.Context(), i.token(key, map[string]any{"exp": now.now().Add(time.Hour).Unix()}))
		return err
	}
	i.down.Store(true)
	if err := good(key); !errors.Is(err, admin.ErrProvider) {
		t.Errorf("before it was ever there: %v, want ErrProvider", err)
	}
	i.down.Store(false)
	if err := good(key); !errors.Is(err, admin.ErrProvider) || i.asked.Load() != 0 {
		t.Errorf("a moment later: %v, asked %d times, want that it is not asked again yet", err, i.asked.Load())
	}
	now.pass(askEvery)
	i.huge.Store(true)
	if err := good(key); !errors.Is(err, admin.ErrProvider) {
		t.Errorf("keys without an end: %v, want ErrProvider", err)
	}
	i.huge.Store(false)
	now.pass(askEvery)
	if err := good(key); err != nil {
		t.Errorf("when it is there: %v", err)
	}
	i.down.Store(true)
	now.pass(2 * keysAge)
	if err := good(key); err != nil {
		t.Errorf("a key that is known, while it is away: %v, want that it is good", err)
	}
	if err := good(other); !errors.Is(err, admin.ErrProvider) {
		t.Errorf("a key that is not known, while it is away: %v, want ErrProvider", err)
	}
}

func TestFaultsOfTheConfigurationAreNamed(t *testing.T) {
	_, err := New(Config{Issuer: "http://login.x.test", Skew: time.Hour})
	for _, want := range []string{"has no TLS", "no audience", "no grants", "skew"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want a fault with %q", err, want)
		}
	}
	for _, text := range []string{"", "groups", "groups=ops", "groups=ops=acme", "groups=ops=acme/cook", "=ops=acme/viewer", "groups=ops=ACME/viewer"} {
		if g, err := ParseGrant(text); err == nil {
			t.Errorf("ParseGrant(%q) = %+v, want an error", text, g)
		}
	}
}

package tokens

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"carillon.dev/carillon/bucketer/admin"
)

const (
	// MaxToken bounds a token, bytes.
	MaxToken = 8 << 10
	// MaxSkew bounds Config.Skew: a token is not good for long after its end.
	MaxSkew = 5 * time.Minute
	// askTimeout bounds a request to the provider.
	askTimeout = 5 * time.Second
	// askEvery is the least time between two requests to the provider about one thing.
	askEvery = 5 * time.Second
	// maxAnswer bounds what is read of an answer of the provider, bytes.
	maxAnswer = 1 << 20
)

// algorithms are those of signatures that are accepted: of public keys alone.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Config says whose tokens count, and what for.
type Config struct {
	Issuer   string // URL of the provider, as its tokens have it
	Audience string // that a token must be for
	// NameClaim is the claim by which the audit log calls the caller; default "sub".
	NameClaim string
	Grants    []Grant // the first that fits counts
	// ClientID is ours at the provider, for log-ins of browsers; "": there are none. ClientSecret
	// is "" for a public client.
	ClientID, ClientSecret string
	// Redirect is the URL at which browsers come back.
	Redirect string
	Scopes   []string // that are asked for besides openid

	// Skew is how far the provider's clock may be off ours.
	Skew time.Duration

	Now func() time.Time // default time.Now
}

// Grant gives a tenant and a role to tokens with a claim.
type Grant struct {
	// Claim is the name of a claim, or a path into it with dots, such as realm_access.roles.
	Claim string
	// Value is what the claim is, or has in its list; "*": it is there.
	Value string
	Who   admin.Identity // without a name
}

// ParseGrant reads "claim=value=tenant/role".
func ParseGrant(text string) (Grant, error) {
	claim, rest, _ := strings.Cut(text, "=")
	at := strings.LastIndexByte(rest, '=') // a value may have some, too
	if at <= 0 || strings.TrimSpace(claim) == "" {
		return Grant{}, fmt.Errorf("%q is not a claim, a value, and a tenant and role, such as groups=ops=acme/operator", text)
	}
	who, err := admin.ParseGrant(rest[at+1:])
	if err != nil {
		return Grant{}, fmt.Errorf("%q: %w", text, err)
	}
	return Grant{Claim: strings.TrimSpace(claim), Value: strings.TrimSpace(rest[:at]), Who: who}, nil
}

// Validate reports every fault of c.
func (c *Config) Validate() error {
	var faults []error
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != "":
		faults = append(faults, fmt.Errorf("tokens: the issuer %q is not an https URL", c.Issuer))
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		faults = append(faults, fmt.Errorf("tokens: the issuer %q has no TLS: whoever stands between could give it keys of theirs", c.Issuer))
	}
	if c.Audience == "" {
		faults = append(faults, errors.New("tokens: there is no audience: tokens for others would count"))
	}
	if u, err := url.Parse(c.Redirect); c.ClientID != "" && (err != nil || u.Host == "" || u.Scheme != "https" && !isLoopback(u.Hostname())) {
		faults = append(faults, fmt.Errorf("tokens: browsers cannot come back to %q: it is no https URL, nor of this machine", c.Redirect))
	}
	if len(c.Grants) == 0 {
		faults = append(faults, errors.New("tokens: there are no grants: no token would be good for anything"))
	}
	if c.Skew < 0 || c.Skew > MaxSkew {
		faults = append(faults, fmt.Errorf("tokens: a skew of %v is not between 0 and %v", c.Skew, MaxSkew))
	}
	return errors.Join(faults...)
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// Provider knows callers by their tokens. Its methods may be called concurrently.
type Provider struct {
	cfg  Config
	http *http.Client
	keys keySet

	mu    sync.Mutex
	found *oidc.Provider // nil: it has not answered yet
	asked time.Time      // when it was asked last
	err   error          // why it did not answer then
}

// New makes a Provider. It asks for nothing.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.NameClaim == "" {
		cfg.NameClaim = "sub"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	client := &http.Client{Timeout: askTimeout, Transport: bounded{&http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}}}
	return &Provider{cfg: cfg, http: client, keys: keySet{http: client, now: cfg.Now}}, nil
}

// Close lets go of idle connections.
func (p *Provider) Close() { p.http.CloseIdleConnections() }

// bounded cuts answers off that are longer than maxAnswer.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}

// refused says why a token does not count. The reason goes on after "The token".
func refused(reason string) error { return &admin.TokenError{Reason: reason} }

// Identify returns who calls with a token. The error is an *admin.TokenError, admin.ErrNoGrant, or
// admin.ErrProvider.
func (p *Provider) Identify(ctx context.Context, token string) (admin.Identity, error) {
	claims, err := p.verify(ctx, token, p.cfg.Audience)
	if err != nil {
		return admin.Identity{}, err
	}
	return p.identity(claims)
}

// identity returns whom claims name, with what the grants give them.
func (p *Provider) identity(claims map[string]any) (admin.Identity, error) {
	name, _ := claimOf(claims, p.cfg.NameClaim).(string)
	if name == "" || len("oidc:")+len(name) > admin.MaxIdentity || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return admin.Identity{}, refused("has no claim " + p.cfg.NameClaim + " that names the caller")
	}
	for _, g := range p.cfg.Grants {
		if has(claimOf(claims, g.Claim), g.Value) {
			who := g.Who
			who.Name = "oidc:" + name
			return who, nil
		}
	}
	return admin.Identity{}, admin.ErrNoGrant
}

// verify returns the claims of a token of the provider that is for an audience, and good now.
func (p *Provider) verify(ctx context.Context, token, audience string) (map[string]any, error) {
	if len(token) > MaxToken {
		return nil, refused(fmt.Sprintf("is longer than %d bytes", MaxToken))
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, refused("is no JWT, or not signed by an algorithm that is accepted")
	}
	provider, err := p.provider(ctx)
	if err != nil {
		return nil, err
	}
	var at struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&at); err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrProvider, err)
	}
	payload, err := p.keys.verify(ctx, at.Keys, signed)
	if err != nil {
		return nil, err
	}
	now := p.cfg.Now()
	id, err := oidc.NewVerifier(p.cfg.Issuer, verified(payload), &oidc.Config{
		SkipClientIDCheck: true, SkipIssuerCheck: true, SkipExpiryCheck: true, SupportedSigningAlgs: names(algorithms),
	}).Verify(ctx, token)
	var says struct {
		NotBefore float64 `json:"nbf"`
	}
	var claims map[string]any
	if err == nil {
		err = errors.Join(id.Claims(&says), id.Claims(&claims))
	}
	switch {
	case err != nil:
		return nil, refused("has claims that cannot be read")
	case id.Issuer != p.cfg.Issuer:
		return nil, refused("is of another issuer than api.oidc.issuer")
	case !slices.Contains(id.Audience, audience):
		return nil, refused("is for another audience than api.oidc.audience")
	case !now.Before(id.Expiry.Add(p.cfg.Skew)):
		return nil, refused("has expired")
	case float64(now.Add(p.cfg.Skew).Unix()) < says.NotBefore:
		return nil, refused("is not good yet")
	}
	return claims, nil
}

// verified is the key set of a token whose signature was verified: it has that payload.
type verified []byte

// VerifySignature implements oidc.KeySet.
func (v verified) VerifySignature(context.Context, string) ([]byte, error) { return v, nil }

func names(algs []jose.SignatureAlgorithm) []string {
	all := make([]string, len(algs))
	for i, a := range algs {
		all[i] = string(a)
	}
	return all
}

// provider returns what the provider says of itself. It is asked until it has answered.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.cfg.Now()
	if p.found != nil {
		return p.found, nil
	}
	if p.err == nil || now.Sub(p.asked) >= askEvery {
		p.asked = now
		bounded, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), p.http), askTimeout)
		defer cancel()
		p.found, p.err = oidc.NewProvider(bounded, p.cfg.Issuer)
	}
	if p.err != nil {
		return nil, fmt.Errorf("%w: %w", admin.ErrProvider, p.err)
	}
	return p.found, nil
}

// claimOf returns a claim by its name, or by a path into it; nil: there is none.
func claimOf(claims map[string]any, path string) any {
	if value, there := claims[path]; there {
		return value
	}
	name, rest, deeper := strings.Cut(path, ".")
	inner, _ := claims[name].(map[string]any)
	if !deeper || inner == nil {
		return nil
	}
	return claimOf(inner, rest)
}

// has reports whether a claim is value, or has it in its list.
func has(claim any, value string) bool {
	switch claim := claim.(type) {
	case nil:
		return false
	case []any:
		return slices.ContainsFunc(claim, func(one any) bool { return has(one, value) })
	case string:
		return value == "*" || claim == value
	default:
		text, err := json.Marshal(claim)
		return err == nil && (value == "*" || string(text) == value)
	}
}

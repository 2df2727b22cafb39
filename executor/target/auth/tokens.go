package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"carillon.dev/carillon/schema"
)

const (
	// maxTokens bounds the tokens that are kept. Beyond it those that have expired go first, then
	// all.
	maxTokens = 10_000
	// maxTokenLife is how long a token is used whose server does not say when it expires, or says a
	// later time.
	maxTokenLife = time.Hour
	// tokenReserve is how long before it expires a token is not used any more, or a tenth of its
	// life if that is less: the call must arrive while it is good.
	tokenReserve = time.Minute
)

// The results of asking for a token.
const (
	TokenCached   = "cached"   // it was there
	TokenFetched  = "fetched"  // the server gave it
	TokenFailed   = "failed"   // the server did not
	TokenRejected = "rejected" // the callee answered 401: another one is asked for
)

// TokenResults are all results.
var TokenResults = []string{TokenCached, TokenFetched, TokenFailed, TokenRejected}

// TokenError says that the server answered and gave no token.
type TokenError struct {
	Status     int    // of its answer
	Code       string // of RFC 6749, section 5.2, or ""
	RetryAfter string // as its header says it
}

// Error says what was answered, without the words of the server: those may hold what it was sent.
func (e *TokenError) Error() string {
	text := "the token endpoint "
	if e.Status >= 200 && e.Status < 300 && e.Code == "" {
		return text + "gave no token"
	}
	text += fmt.Sprintf("answered %d", e.Status)
	if words := http.StatusText(e.Status); words != "" {
		text += " " + words
	}
	if e.Code != "" {
		text += ": " + e.Code
	}
	return text
}

// codes are the errors that a server may name (RFC 6749, sections 4.1.2.1 and 5.2; RFC 8707).
// Anything else is not repeated.
var codes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target",
	"access_denied", "server_error", "temporarily_unavailable", "slow_down",
}

// Tokens asks for tokens, and keeps each until shortly before it expires. Its methods may be called
// from any goroutine. Of several calls that need a token at once one asks, and the others wait for
// it.
type Tokens struct {
	client *http.Client
	now    func() time.Time
	count  func(result string)

	mu   sync.Mutex
	held map[tokenKey]*heldToken
}

// tokenKey is what a token was asked for with, without holding it.
type tokenKey [sha256.Size]byte

// heldToken is a token, and who may ask for it.
type heldToken struct {
	config clientcredentials.Config // remembers how the server takes the secret
	turn   chan struct{}            // cap 1: whoever fills it may ask

	token    string // "": none. Tokens.mu guards these
	until    time.Time
	failed   error // of the last time that the server was asked, if it gave none …
	failedAt time.Time
}

// NewTokens returns Tokens that ask through a transport. count hears of each result; nil: nobody.
func NewTokens(through http.RoundTripper, now func() time.Time, count func(result string)) *Tokens {
	if count == nil {
		count = func(string) {}
	}
	return &Tokens{
		client: &http.Client{
			Transport:     through,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: now, count: count, held: make(map[tokenKey]*heldToken),
	}
}

// keyOf returns the key of a token of a tenant.
func keyOf(tenant string, a *schema.ClientCredentials, secret []byte) tokenKey {
	text, _ := json.Marshal([]any{tenant, a, secret}) // strings, and maps in the order of their keys
	return sha256.Sum256(text)
}

// of returns what is held under a key.
func (t *Tokens) of(key tokenKey, a *schema.ClientCredentials, secret []byte) *heldToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.held[key]
	if h != nil {
		return h
	}
	if len(t.held) >= maxTokens {
		now := t.now()
		for k, h := range t.held {
			if !now.Before(h.until) {
				delete(t.held, k)
			}
		}
		if len(t.held) >= maxTokens {
			clear(t.held)
		}
	}
	params := make(url.Values, len(a.Params))
	for name, value := range a.Params {
		params.Set(name, value)
	}
	h = &heldToken{turn: make(chan struct{}, 1), config: clientcredentials.Config{
		ClientID: a.ClientID, ClientSecret: string(secret), TokenURL: a.TokenURL, Scopes: slices.Clone(a.Scopes), EndpointParams: params,
	}}
	t.held[key] = h
	return h
}

// Token returns a token for a call of a tenant, and whether it was there already. An error is a
// Fault, a *TokenError, the context's cause, or the transport's: the text of the last is not for
// records.
func (t *Tokens) Token(ctx context.Context, tenant string, a *schema.ClientCredentials, v Values) (token string, cached bool, err error) {
	secret, err := v.newest(a.Secret)
	if err != nil {
		return "", false, err
	}
	h, began := t.of(keyOf(tenant, a, secret), a, secret), t.now()
	if token = t.good(h); token != "" {
		t.count(TokenCached)
		return token, true, nil
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if token = t.good(h); token != "" { // somebody else's, meanwhile: as fresh as can be
		t.count(TokenCached)
		return token, false, nil
	}
	if err := t.failedSince(h, began); err != nil {
		return "", false, err
	}
	token, until, err := t.fetch(ctx, &h.config)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.count(TokenFailed)
		if ctx.Err() != nil { // which says nothing about the server
			return "", false, context.Cause(ctx)
		}
		h.failed, h.failedAt = err, t.now()
		return "", false, err
	}
	t.count(TokenFetched)
	h.token, h.until, h.failed = token, until, nil
	return token, false, nil
}

// good returns a token that is held and good, or "".
func (t *Tokens) good(h *heldToken) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.token == "" || !t.now().Before(h.until) {
		return ""
	}
	return h.token
}

// failedSince returns what became of the last question, if it was answered after began: those who
// waited for it do not ask again, one after the other.
func (t *Tokens) failedSince(h *heldToken, began time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.failed != nil && h.failedAt.After(began) {
		return h.failed
	}
	return nil
}

// fetch asks for a token, and says until when it is used.
func (t *Tokens) fetch(ctx context.Context, c *clientcredentials.Config) (string, time.Time, error) {
	began := t.now()
	got, err := c.Token(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	var (
		refused *oauth2.RetrieveError
		asking  *url.Error
	)
	switch {
	case errors.As(err, &refused):
		e := &TokenError{}
		if refused.Response != nil {
			e.Status, e.RetryAfter = refused.Response.StatusCode, refused.Response.Header.Get("Retry-After")
		}
		if slices.Contains(codes, refused.ErrorCode) {
			e.Code = refused.ErrorCode
		}
		return "", time.Time{}, e
	case errors.As(err, &asking):
		return "", time.Time{}, asking.Err // without the URL
	case err != nil, !isHeaderValue(got.AccessToken):
		return "", time.Time{}, &TokenError{Status: http.StatusOK}
	}
	life := maxTokenLife
	if !got.Expiry.IsZero() {
		life = min(time.Until(got.Expiry), maxTokenLife)
	}
	return got.AccessToken, began.Add(life - min(tokenReserve, life/10)), nil
}

// Reject has a token not be used any more: its callee does not take it.
func (t *Tokens) Reject(tenant string, a *schema.ClientCredentials, v Values, token string) {
	secret, err := v.newest(a.Secret)
	if err != nil {
		return
	}
	t.count(TokenRejected)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.held[keyOf(tenant, a, secret)]; h != nil && h.token == token {
		h.token = ""
	}
}

// BearerHeader returns the header that carries a token.
func BearerHeader(token string) (name, value string) { return authorization, bearer(token) }

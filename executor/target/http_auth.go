package target

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// maxIdentities bounds the certificates whose connections are kept: beyond it those of the one that
// was not used for longest go.
const maxIdentities = 64

// caller is how the calls of one attempt show who makes them. Where http.auth is nil they do not.
type caller struct {
	h      *HTTP
	tenant string
	auth   *schema.HTTPAuth
	values auth.Values
	hide   *auth.Redactor

	transport *http.Transport // to the task's own origin
	token     string          // of OAuth 2
	cached    bool            // the token was there before the attempt: it may have been revoked
	name      string          // of the header, "" for none
	value     string
}

// identify finds out what a call needs to show who makes it; it may ask for a token.
func (w *caller) identify(ctx context.Context) (err error) {
	switch {
	case w.auth == nil, w.auth.SigV4 != nil, w.auth.Field != nil:
	case w.auth.MTLS != nil:
		w.transport, err = w.h.identities.of(w.auth.MTLS, w.values)
	case w.auth.OAuth2 != nil:
		if w.token, w.cached, err = w.h.tokens.Token(withDials(ctx), w.tenant, w.auth.OAuth2, w.values); err == nil {
			w.hide.Add(w.token)
			w.name, w.value = auth.BearerHeader(w.token)
		}
	default:
		w.name, w.value, err = auth.Header(w.auth, w.values)
		if encoded, ok := strings.CutPrefix(w.value, "Basic "); ok && w.auth.Basic != nil {
			w.hide.Add(strings.TrimRight(encoded, "="))
		}
	}
	return err
}

// request makes the request of a hop, and says by which transport. It goes to another origin than
// the task names without anything that shows who calls.
func (w *caller) request(ctx context.Context, at *hop) (*http.Request, *http.Transport, error) {
	if w.auth == nil || at.left {
		return at.request(ctx), w.h.transport, nil
	}
	if w.name != "" {
		at.setSecret(w.name, w.value)
	}
	if w.auth.Field != nil {
		if err := at.setField(w.auth.Field, w.values); err != nil {
			return nil, nil, err
		}
	}
	r := at.request(ctx)
	if w.auth.SigV4 != nil {
		if err := auth.Sign(r, at.body, w.auth.SigV4, w.values, at.at); err != nil {
			return nil, nil, err
		}
		at.task = append(at.task, auth.SignedHeaders()...)
	}
	return r, w.transport, nil
}

// renew asks for another token, once in an attempt, if the callee does not take the one that was
// there. It reports whether the call is to be made again.
func (w *caller) renew(ctx context.Context, at *hop) (again bool, err error) {
	if w.token == "" || at.left {
		return false, nil
	}
	w.h.tokens.Reject(w.tenant, w.auth.OAuth2, w.values, w.token)
	if !w.cached {
		return false, nil
	}
	if err := w.identify(ctx); err != nil {
		return false, err
	}
	w.cached = false              // there is no third
	at.header = at.header.Clone() // the transport may still read the one it was given
	return true, nil
}

// uncalled says how an attempt ended whose call was not made, as it cannot show who makes it. That
// is no fault of the run and may be mended, so another attempt may follow.
func (h *HTTP) uncalled(ctx context.Context, c *Call, err error) Result {
	var (
		fault   *auth.Fault
		refused *auth.TokenError
		res     = Result{Outcome: schema.Failed}
	)
	switch {
	case ctx.Err() != nil:
		res = Ended(ctx)
	case errors.As(err, &fault):
		res.Error = "not called: " + fault.Error()
	case errors.As(err, &refused):
		res.Error = "not called: " + refused.Error()
		res.RetryAfter = StatusResult(refused.Status, refused.RetryAfter, h.now()).RetryAfter
	default:
		host := ""
		if u, err := url.Parse(c.Work.HTTP.Auth.OAuth2.TokenURL); err == nil {
			host = u.Hostname()
		}
		res = h.unanswered(ctx, c, host, err)
		res.Error = "not called: no token: " + res.Error
	}
	res.Uncalled = true
	return res
}

// setSecret sets a header that goes to the task's own origin alone.
func (h *hop) setSecret(name, value string) {
	name = sentName(name)
	h.header[name] = []string{value}
	if !slices.Contains(h.task, name) {
		h.task = append(h.task, name)
	}
}

// setField sets a member of the body, which goes to the task's own origin alone.
func (h *hop) setField(a *schema.BodyFieldAuth, v auth.Values) error {
	if h.bare != nil || len(h.body) == 0 && (h.method == http.MethodGet || h.method == http.MethodHead) {
		return nil // it is there; or a redirect has left no body
	}
	body, err := auth.WithField(h.body, a, v)
	if err != nil {
		return err
	}
	h.bare, h.body = h.body, body
	h.sign() // another body
	return nil
}

// sentName returns the name of a task's header as it is sent: see xIdempotencyKey.
func sentName(name string) string {
	if name = textproto.CanonicalMIMEHeaderKey(name); name == "X-Idempotency-Key" {
		return xIdempotencyKey
	}
	return name
}

// identities keeps a transport for each certificate that calls show: a connection belongs to whom
// it was made for.
type identities struct {
	make func(configure func(*tls.Config) error) (*http.Transport, error)

	mu    sync.Mutex
	byKey map[auth.IdentityKey]*list.Element
	used  list.List // of *identity, the latest first
}

type identity struct {
	key       auth.IdentityKey
	transport *http.Transport
}

// of returns the transport that shows a certificate.
func (i *identities) of(a *schema.MTLSAuth, v auth.Values) (*http.Transport, error) {
	t, last, err := i.take(auth.KeyOfIdentity(a, v), func(c *tls.Config) error { return auth.Configure(c, a, v) })
	if last != nil {
		last.CloseIdleConnections()
	}
	return t, err
}

// take returns the transport of a key, and the one that had to make room for it, if there is one.
func (i *identities) take(key auth.IdentityKey, configure func(*tls.Config) error) (t, last *http.Transport, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, ok := i.byKey[key]; ok {
		i.used.MoveToFront(e)
		return e.Value.(*identity).transport, nil, nil
	}
	if t, err = i.make(configure); err != nil {
		return nil, nil, err
	}
	if i.byKey == nil {
		i.byKey = make(map[auth.IdentityKey]*list.Element)
	}
	i.byKey[key] = i.used.PushFront(&identity{key, t})
	if i.used.Len() > maxIdentities {
		out := i.used.Remove(i.used.Back()).(*identity)
		delete(i.byKey, out.key)
		last = out.transport
	}
	return t, last, nil
}

// closeIdle closes the idle connections.
func (i *identities) closeIdle() {
	i.mu.Lock()
	var all []*http.Transport
	for e := i.used.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*identity).transport)
	}
	i.mu.Unlock()
	for _, t := range all {
		t.CloseIdleConnections()
	}
}

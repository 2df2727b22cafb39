package target

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/executor/target/auth"
	"carillon.dev/carillon/schema"
)

// Bounds of HTTP calls.
const (
	DefaultMaxBody         = 1 << 20
	DefaultMaxConnsPerHost = 2048 // as many as an executor has slots, if it is not told
	// maxRedirects bounds the redirects followed in one attempt.
	maxRedirects = 5
	// maxDiscard bounds what is read of the body of a redirect to keep its connection, bytes.
	maxDiscard = 4 << 10
	// maxAnswerHeaders bounds the headers of an answer, bytes.
	maxAnswerHeaders = 64 << 10
	// maxIdle bounds the idle connections of all hosts together, of HTTP/1.1 and of HTTP/2.
	maxIdle = 2 * DefaultMaxConnsPerHost
	// connectTimeout bounds look-up and connecting, and once more the TLS handshake, where the
	// attempt leaves that long.
	connectTimeout = 10 * time.Second
	// idleTimeout is how long an idle connection is kept.
	idleTimeout = 30 * time.Second
	// pingAfter is how long an HTTP/2 connection may be silent before it is pinged, and how long it
	// may take nothing of what is written: a peer that speaks but reads nothing would keep the
	// connection for good.
	pingAfter = 15 * time.Second
)

// HTTPConfig says how HTTP tasks are called. The zero value calls public addresses only.
type HTTPConfig struct {
	AllowPrefixes   []netip.Prefix   // non-public addresses that may be called
	DenyPrefixes    []netip.Prefix   // addresses that may not be called, though public or allowed
	DenyAddresses   []netip.AddrPort // nor these; an unspecified address stands for every one of this machine
	MaxBody         int              // bytes read of an answer's body, after which the connection is dropped; default DefaultMaxBody
	MaxOutput       int              // bytes of it that are kept; default DefaultMaxOutput
	Budget          *ByteBudget      // for what is kept beyond 64 KiB of each
	MaxConnsPerHost int              // connections to one host, in use, idle or being made; default DefaultMaxConnsPerHost
	Now             func() time.Time
	Logger          *slog.Logger
	Registerer      prometheus.Registerer // nil: no metrics

	resolver   *net.Resolver // of tests
	tls        *tls.Config   // of tests
	maxOrphans int           // of tests; default MaxOrphanedDials
	patience   time.Duration // of tests; default pingAfter
	maxIdle    int           // of tests; default maxIdle, or MaxConnsPerHost if that is more
}

// HTTP is the Target of tasks of the kind http. It keeps connections between calls.
//
// An attempt is one request, as far as HTTP lets it be: a request other than GET, HEAD and OPTIONS
// that was written to a connection is never repeated by the client itself, so a call that a closing
// connection swallowed is a failed attempt, counted and retried like any other.
//
// # Redirects
//
// At most maxRedirects are followed, to http and https URLs only and never from https to http. 307
// and 308 repeat method and body, 301, 302 and 303 become a GET without a body (a HEAD stays one).
// Carillon's own headers go to every hop: they say which run this is and open nothing. The task's
// headers may be credentials: from the first hop of another origin on (scheme, host or port differ)
// they are left out, also if a later hop leads back.
//
// # Who calls
//
// What http.auth says is shown to the task's own origin alone, as its headers are. A token of
// OAuth 2 that was there before is asked for once more if the answer is 401: that is no attempt of
// its own. A secret that the callee says back is taken out of output and error. So is the URL that
// lies in a secret, and its path.
//
// # What errors say
//
// Texts of ours, about hosts as the task or a redirect names them: no URL, no header, nothing that
// a name resolved to.
type HTTP struct {
	transport  *http.Transport
	identities identities
	tokens     *auth.Tokens
	maxBody    int
	maxOutput  int
	budget     *ByteBudget
	now        func() time.Time
	log        *slog.Logger
}

// NewHTTP returns an HTTP that has no connections yet. The error names every fault of c.
func NewHTTP(c HTTPConfig) (*HTTP, error) {
	denied := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "executor",
		Name: "http_denied_total", Help: "Connections refused because tasks may not call the address.",
	})
	g, err := newGuard(c.AllowPrefixes, c.DenyPrefixes, c.DenyAddresses, denied.Inc)
	if c.MaxBody < 0 {
		err = errors.Join(err, errors.New("executor: the largest body must not be negative"))
	}
	if c.MaxConnsPerHost < 0 {
		err = errors.Join(err, errors.New("executor: connections per host must not be negative"))
	}
	if err != nil {
		return nil, err
	}
	if c.Registerer != nil {
		if err := c.Registerer.Register(denied); err != nil {
			return nil, fmt.Errorf("executor: register metrics: %w", err)
		}
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	if c.MaxBody == 0 {
		c.MaxBody = max(DefaultMaxBody, c.MaxOutput)
	}
	if c.MaxConnsPerHost == 0 {
		c.MaxConnsPerHost = DefaultMaxConnsPerHost
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.maxOrphans == 0 {
		c.maxOrphans = MaxOrphanedDials
	}
	if c.patience == 0 {
		c.patience = pingAfter
	}
	if c.maxIdle == 0 {
		c.maxIdle = max(maxIdle, c.MaxConnsPerHost)
	}
	tokens := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "executor", Name: "tokens_total", Help: "Tokens of OAuth 2 that calls needed, by what came of them.",
	}, []string{"result"})
	for _, result := range auth.TokenResults {
		tokens.WithLabelValues(result)
	}
	if c.Registerer != nil {
		if err := c.Registerer.Register(tokens); err != nil {
			return nil, fmt.Errorf("executor: register metrics: %w", err)
		}
	}
	d := newDialer(g.dialContext(net.Dialer{Timeout: connectTimeout, Resolver: c.resolver}), c.tls, c.maxOrphans)
	transport := func(config *tls.Config, idle int) *http.Transport {
		return &http.Transport{
			Proxy:                  nil, // a proxy would dial in our stead, past the guard
			DialContext:            d.dial,
			DialTLSContext:         d.dialTLS(config),
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: c.patience, PingTimeout: c.patience, WriteByteTimeout: c.patience},
			DisableCompression:     true, // a bomb stays as small as it was sent
			MaxResponseHeaderBytes: maxAnswerHeaders,
			MaxConnsPerHost:        c.MaxConnsPerHost,
			MaxIdleConnsPerHost:    min(c.MaxConnsPerHost, idle),
			MaxIdleConns:           idle,
			IdleConnTimeout:        idleTimeout,
		}
	}
	h := &HTTP{
		maxBody: c.MaxBody, maxOutput: min(c.MaxOutput, c.MaxBody), budget: c.Budget, now: c.Now, log: c.Logger,
		transport: transport(d.tls, c.maxIdle),
	}
	h.tokens = auth.NewTokens(h.transport, c.Now, func(result string) { tokens.WithLabelValues(result).Inc() })
	h.identities.make = func(configure func(*tls.Config) error) (*http.Transport, error) {
		own := d.tls.Clone()
		if err := configure(own); err != nil {
			return nil, err
		}
		return transport(own, max(c.maxIdle/maxIdentities, 1)), nil
	}
	d.endIdle, d.maxIdle = h.Close, int64(c.maxIdle)
	return h, nil
}

// Close closes the idle connections. Calls may still be made.
func (h *HTTP) Close() {
	h.transport.CloseIdleConnections()
	h.identities.closeIdle()
}

// Run implements Target. 2xx is a success. 429 and 503 are retried after their Retry-After; 408,
// 425, all outside 4xx and all that goes wrong on the way, as the policy says. Other 4xx and a
// denied address are final. The caller ends ctx when Run has returned: its dials become orphans
// then.
func (h *HTTP) Run(ctx context.Context, c Call) Result {
	if c.Work.HTTP == nil {
		return Result{Outcome: schema.Failed, Error: "not an HTTP task", Final: true}
	}
	url, err := auth.URL(c.Work.HTTP, c.Values)
	if err != nil {
		return h.uncalled(ctx, &c, err)
	}
	at, err := firstHop(&c, url, h.now())
	if err != nil {
		return Result{Outcome: schema.Failed, Error: err.Error(), Final: true}
	}
	if c.Work.HTTP.Auth == nil && c.Work.HTTP.URLSecret == "" {
		return h.run(ctx, &c, at, &caller{h: h})
	}
	hide := auth.NewRedactor(c.Values)
	if c.Work.HTTP.URLSecret != "" {
		hide.AddURL(at.url)
	}
	res := h.run(ctx, &c, at, &caller{h: h, tenant: c.Tenant, auth: c.Work.HTTP.Auth, values: c.Values, hide: hide, transport: h.transport})
	res.Error, res.Output = hide.Text(res.Error), hide.Bytes(res.Output, res.OutputCut)
	return res
}

// run makes the calls of an attempt.
func (h *HTTP) run(ctx context.Context, c *Call, at *hop, who *caller) Result {
	if err := who.identify(ctx); err != nil {
		return h.uncalled(ctx, c, err)
	}
	with := withDials(ctx)
	for redirects := 0; ; {
		request, transport, err := who.request(with, at)
		if err != nil {
			return h.uncalled(ctx, c, err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			return h.unanswered(ctx, c, who.hide.Text(at.url.Hostname()), err)
		}
		if answer.StatusCode == http.StatusUnauthorized {
			again, err := who.renew(ctx, at)
			if again || err != nil {
				discard(answer)
			}
			if err != nil {
				return h.uncalled(ctx, c, err)
			}
			if again {
				continue
			}
		}
		location := answer.Header.Get("Location")
		if !redirecting(answer.StatusCode) || location == "" {
			return h.read(ctx, c.Tenant, answer)
		}
		discard(answer)
		if redirects == maxRedirects {
			return Result{Outcome: schema.Failed, Status: answer.StatusCode, Error: fmt.Sprintf("more than %d redirects", maxRedirects)}
		}
		if err := at.follow(answer.StatusCode, location); err != nil {
			return Result{Outcome: schema.Failed, Status: answer.StatusCode, Error: err.Error()}
		}
		redirects++
	}
}

// unanswered says how an attempt ended that got no answer.
func (h *HTTP) unanswered(ctx context.Context, c *Call, host string, err error) Result {
	if ctx.Err() != nil {
		return Ended(ctx)
	}
	denied := errors.Is(err, errDenied)
	if denied {
		h.log.Info("call to a denied address", "tenant", c.Tenant, "run", c.Run, "host", boundedHost(host))
	}
	text, final := explain(err, host)
	return Result{Outcome: schema.Failed, Error: text, Final: denied || final}
}

// Ended says how an attempt ended whose context did.
func Ended(ctx context.Context) Result {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrCancelled):
		return Result{Outcome: schema.Cancelled, Error: ErrCancelled.Error()}
	case errors.Is(cause, ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		return Result{Outcome: schema.TimedOut, Error: "no complete answer before the time-out"}
	}
	return Result{Outcome: schema.Failed, Error: ErrStopped.Error(), Stopped: true}
}

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
// # What errors say
//
// Texts of ours, about hosts as the task or a redirect names them: no URL, no header, nothing that
// a name resolved to.
type HTTP struct {
	transport *http.Transport
	maxBody   int
	maxOutput int
	budget    *ByteBudget
	now       func() time.Time
	log       *slog.Logger
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
	d := newDialer(g.dialContext(net.Dialer{Timeout: connectTimeout, Resolver: c.resolver}), c.tls, c.maxOrphans)
	h := &HTTP{
		maxBody: c.MaxBody, maxOutput: min(c.MaxOutput, c.MaxBody), budget: c.Budget, now: c.Now, log: c.Logger,
		transport: &http.Transport{
			Proxy:                  nil, // a proxy would dial in our stead, past the guard
			DialContext:            d.dial,
			DialTLSContext:         d.dialTLS,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: c.patience, PingTimeout: c.patience, WriteByteTimeout: c.patience},
			DisableCompression:     true, // a bomb stays as small as it was sent
			MaxResponseHeaderBytes: maxAnswerHeaders,
			MaxConnsPerHost:        c.MaxConnsPerHost,
			MaxIdleConnsPerHost:    c.MaxConnsPerHost,
			MaxIdleConns:           c.maxIdle,
			IdleConnTimeout:        idleTimeout,
		},
	}
	d.endIdle, d.maxIdle = h.Close, int64(c.maxIdle)
	return h, nil
}

// Close closes the idle connections. Calls may still be made.
func (h *HTTP) Close() { h.transport.CloseIdleConnections() }

// Run implements Target. 2xx is a success. 429 and 503 are retried after their Retry-After; 408,
// 425, all outside 4xx and all that goes wrong on the way, as the policy says. Other 4xx and a
// denied address are final. The caller ends ctx when Run has returned: its dials become orphans
// then.
func (h *HTTP) Run(ctx context.Context, c Call) Result {
	if c.Work.HTTP == nil {
		return Result{Outcome: schema.Failed, Error: "not an HTTP task", Final: true}
	}
	at, err := firstHop(&c, h.now())
	if err != nil {
		return Result{Outcome: schema.Failed, Error: err.Error(), Final: true}
	}
	with := withDials(ctx)
	for redirects := 0; ; redirects++ {
		answer, err := h.transport.RoundTrip(at.request(with))
		if err != nil {
			return h.unanswered(ctx, &c, at.url.Hostname(), err)
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

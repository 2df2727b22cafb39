// Package forward sends requests on to the region that serves what they are about.
//
// It knows addresses, bounds and whether a request has left; what is to be sent on, and what an
// error means to the caller, package httpapi decides.
//
// # Invariants
//
//  1. A request without an idempotency key is sent at most once. One with a key net/http may send
//     again on another connection of the same address, if the first was lost. Another address of
//     the region is tried only while nothing was sent.
//  2. Header says who sent it on, so that it is not sent on again: one hop.
//  3. A region that is away costs a request at most twice dialTimeout (the dial, the handshake of
//     TLS) for each of its addresses, and at most Timeout. One that is cut off costs Timeout those
//     requests that find a connection of before the cut. Once a request has found the region away
//     or cut off, requests are refused at once for the time Rest, and then a new connection is
//     tried.
//  4. At most Most requests to one region are under way, so one that is slow does not use up what
//     this node has for the others.
//
// # Why a client may send again
//
// An answer may be lost on either hop, and then nobody here knows whether the request was carried
// out. What a client sends with an idempotency key it may send again, and to any region: the key is
// kept at the home of its tenant, so wherever the request arrives, the region that serves that home
// decides, and it finds the key. After a fail-over the next region finds it too, unless the last
// moments of the lost one had not been replicated. The SDK draws a key for each request that
// creates something. A request without one is answered "unknown", and nobody repeats it.
package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Header marks a request that another region sent on, and names that region. It gives no rights:
// who sends it is answered as everybody is, but never by a third region.
const Header = "Carillon-Forwarded"

var (
	// ErrUnreachable: no address of the region took a connection; nothing was sent.
	ErrUnreachable = errors.New("the region cannot be reached")
	// ErrBusy: too many requests to the region are under way; nothing was sent.
	ErrBusy = errors.New("too many requests to the region are under way")
	// ErrUnknown: the request was sent, and no answer came; it may have been carried out.
	ErrUnknown = errors.New("the region did not answer")
)

// Config sets up a Forwarder. The zero value of a field is its default.
type Config struct {
	Region string // ours, which the others are told
	// APIs are the base URLs of the APIs of other regions, by region. One without is never sent to.
	APIs map[string][]string

	// Timeout bounds a request from the first dial to the end of its answer; default 10 s. It is
	// below the 15 s that a node has for an answer, so the caller hears what became of it.
	Timeout time.Duration
	Most    int           // requests under way to one region; default 256
	Rest    time.Duration // for how long a region is left alone that took no connection, or gave no answer in time; default 1 s

	Now        func() time.Time // default time.Now
	Registerer prometheus.Registerer
}

// dialTimeout bounds the dial of one address, and the handshake of TLS after it.
const dialTimeout = 2 * time.Second

// pingAfter is for how long a connection of HTTP/2 is silent before the other side is asked whether
// it is there, and then has for its answer. All requests share that connection, so one that is dead
// must not stay.
const pingAfter = 2 * time.Second

// idleFor is for how long an unused connection is kept: less than proxies keep theirs (60 s and
// more), so that they do not close it under a request.
const idleFor = 30 * time.Second

// CheckURL returns what is wrong with the base URL of an API.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is not an http or https URL", text)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q has more than a scheme, a host and a path", text)
	}
	return nil
}

// Forwarder sends requests on. Its methods may be called concurrently.
type Forwarder struct {
	cfg     Config
	regions map[string]*region
	http    *http.Transport
}

// region is where one region is reached.
type region struct {
	bases []string
	at    atomic.Uint32 // index of the address that took a connection last
	slots chan struct{}
	until atomic.Int64 // unix ns; it is left alone until then
	sent  map[outcome]prometheus.Counter
}

// outcome is what became of a request that was to be sent on.
type outcome string

const (
	answered    outcome = "answered" // by that region, whatever it said
	unreachable outcome = "unreachable"
	busy        outcome = "busy"
	unknown     outcome = "unknown"
)

// New makes a Forwarder. It starts nothing.
func New(cfg Config) (*Forwarder, error) {
	var faults []error
	for name, bases := range cfg.APIs {
		for _, base := range bases {
			if err := CheckURL(base); err != nil {
				faults = append(faults, fmt.Errorf("forward: region %s: %w", name, err))
			}
		}
	}
	if cfg.Region == "" {
		faults = append(faults, errors.New("forward: our region has no name"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Most <= 0 {
		cfg.Most = 256
	}
	if cfg.Rest <= 0 {
		cfg.Rest = time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "region", Name: "forwarded_total",
		Help: "Requests that were to be sent on to the region that serves their home, by what became of them: answered by it, unreachable, busy (too many under way), unknown (sent, and not answered).",
	}, []string{"region", "outcome"})
	f := &Forwarder{cfg: cfg, regions: make(map[string]*region), http: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: cfg.Most,
		IdleConnTimeout:     idleFor,
		DisableCompression:  true, // answers are passed on as they are
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
	}}
	for name, bases := range cfg.APIs {
		if len(bases) == 0 {
			continue
		}
		r := &region{slots: make(chan struct{}, cfg.Most), sent: make(map[outcome]prometheus.Counter)}
		for _, base := range bases {
			r.bases = append(r.bases, strings.TrimSuffix(base, "/"))
		}
		for _, o := range []outcome{answered, unreachable, busy, unknown} {
			r.sent[o] = counts.WithLabelValues(name, string(o))
		}
		f.regions[name] = r
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(counts); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return f, nil
}

// Close lets go of idle connections.
func (f *Forwarder) Close() { f.http.CloseIdleConnections() }

// Knows reports whether there is an address of the region.
func (f *Forwarder) Knows(region string) bool { return f.regions[region] != nil }

// Request is what is sent on.
type Request struct {
	Method string
	Target string // path and query, from the first slash
	Header http.Header
	Body   []byte
}

// Send sends a request to a region and calls answer with what it answers; answer may read the body,
// and the request is under way until it returns. The error is ErrUnreachable, ErrBusy or
// ErrUnknown, and answer was not called then.
func (f *Forwarder) Send(ctx context.Context, to string, r Request, answer func(*http.Response)) error {
	at := f.regions[to]
	if at == nil {
		return fmt.Errorf("%w: no address of it is known", ErrUnreachable)
	}
	if f.cfg.Now().UnixNano() < at.until.Load() {
		at.sent[unreachable].Inc()
		return fmt.Errorf("%w: it could not a moment ago", ErrUnreachable)
	}
	select {
	case at.slots <- struct{}{}:
		defer func() { <-at.slots }()
	default:
		at.sent[busy].Inc()
		return ErrBusy
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	first := at.at.Load()
	var failed []error
	for i := range at.bases {
		n := (first + uint32(i)) % uint32(len(at.bases)) // #nosec G115 -- some addresses
		response, left, err := f.once(ctx, at.bases[n], r)
		switch {
		case err == nil:
			at.at.Store(n)
			at.until.Store(0)
			at.sent[answered].Inc()
			func() {
				defer func() { _ = response.Body.Close() }()
				answer(response)
			}()
			return nil
		case left:
			if ctx.Err() != nil && caller.Err() == nil || refused(err) {
				f.rest(at)
			}
			at.sent[unknown].Inc()
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	if caller.Err() == nil { // else the caller left, or had no time
		f.rest(at)
	}
	at.sent[unreachable].Inc()
	return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(failed...))
}

// rest leaves a region alone for a while. What is connected may be dead: after that new connections
// are made.
func (f *Forwarder) rest(r *region) {
	now := f.cfg.Now()
	if was := r.until.Swap(now.Add(f.cfg.Rest).UnixNano()); was <= now.UnixNano() {
		f.http.CloseIdleConnections()
	}
}

// refused reports whether err is that of a dial.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// once sends the request to one address. left reports whether it may have arrived.
//
// net/http tries again by itself if it wrote nothing on the connection, and, if the request has a
// key, also if it wrote and heard nothing. So without a key a second try says that the first has
// not arrived.
func (f *Forwarder) once(ctx context.Context, base string, r Request) (response *http.Response, left bool, err error) {
	var wrote atomic.Bool
	keyed := r.Header.Get("Idempotency-Key") != ""
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			if !keyed {
				wrote.Store(false)
			}
		},
		WroteHeaders: func() { wrote.Store(true) },
	})
	var body io.Reader = http.NoBody
	if len(r.Body) > 0 {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, base+r.Target, body)
	if err != nil {
		return nil, false, err
	}
	for name, values := range r.Header {
		request.Header[name] = values
	}
	request.Header.Set(Header, f.cfg.Region)
	response, err = f.http.RoundTrip(request) // not a client: no redirects, no cookies
	return response, wrote.Load(), err
}

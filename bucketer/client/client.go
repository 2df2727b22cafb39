package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The bounds of one call, unless an option says otherwise.
const (
	defaultTimeout = 30 * time.Second // of one try
	defaultRetries = 5                // tries after the first
	maxWait        = 10 * time.Second // between two tries, whatever Retry-After says
	maxAnswer      = 64 << 20         // bytes of an answer that are read
	maxPage        = 500              // items of one answer of a list
)

// Client calls the API of one cluster. Its methods may be called from any goroutine.
type Client struct {
	Jobs      Jobs
	Runs      Runs
	Workflows Workflows
	Events    Events
	Tasks     Tasks

	Notifications Notifications
	Calendars     Calendars

	node *node
}

// Option changes what New makes.
type Option func(*node)

// WithKey has the client show an API key.
func WithKey(key string) Option { return func(n *node) { n.key = key } }

// WithTenant states the tenant, where the API asks for no key. The default is the API's.
func WithTenant(name string) Option { return func(n *node) { n.tenant = name } }

// WithHTTPClient has h send the requests. The caller closes it.
func WithHTTPClient(h *http.Client) Option { return func(n *node) { n.http, n.own = h, false } }

// WithRetries states how often a request is sent again after its first try; the default is 5, and 0
// or less means never.
func WithRetries(times int) Option { return func(n *node) { n.retries = times } }

// WithTimeout bounds each try of a request; the default is 30 s.
func WithTimeout(d time.Duration) Option { return func(n *node) { n.timeout = d } }

// New makes a Client of a node, or of a load balancer before several, by its base URL, such as
// "http://127.0.0.1:8080". It sends nothing. Close it at the end.
func New(base string, options ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("carillon: %q is not the http or https URL of a node", base)
	}
	n := &node{
		base: strings.TrimSuffix(base, "/"), own: true, retries: defaultRetries, timeout: defaultTimeout,
		http: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		}},
	}
	for _, o := range options {
		o(n)
	}
	if n.timeout <= 0 {
		return nil, fmt.Errorf("carillon: a time-out of %s", n.timeout)
	}
	return &Client{Jobs: Jobs{n}, Runs: Runs{n}, Workflows: Workflows{n}, Events: Events{n}, Tasks: Tasks{n}, Notifications: Notifications{n}, Calendars: Calendars{n}, node: n}, nil
}

// Close lets go of idle connections. What WithHTTPClient gave stays as it is.
func (c *Client) Close() {
	if c.node.own {
		c.node.http.CloseIdleConnections()
	}
}

// CreateOption says how something is created.
type CreateOption func(http.Header)

// WithIdempotencyKey states the key of what is created, at most 128 bytes: within 24 h the same key
// and the same request create the same thing once, whoever sends it and how often. The same key
// with another request is an *Error of the kind "key-reused". Without this option a call has a key
// of its own.
func WithIdempotencyKey(key string) CreateOption {
	return func(h http.Header) {
		h.Set("Idempotency-Key", `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key)+`"`)
	}
}

// node is how requests are sent. Every request may be sent twice: see doc.go.
type node struct {
	base, key, tenant string
	http              *http.Client
	own               bool // http was made by New
	retries           int
	timeout           time.Duration
}

// question is a request.
type question struct {
	method string
	path   []string // below /v1; none may be empty
	query  url.Values
	body   any    // as JSON; nil: none
	text   []byte // the body as it is, if there is no body; header says what it is
	header http.Header
}

// answer is what came back, if it is no error.
type answer struct {
	header http.Header
	body   []byte
}

// create returns q as a request that creates something, once.
func (q question) create(options []CreateOption) question {
	q.method, q.header = http.MethodPost, make(http.Header)
	WithIdempotencyKey(rand.Text())(q.header)
	for _, o := range options {
		o(q.header)
	}
	return q
}

// url returns where to send q.
func (n *node) url(q *question) (string, error) {
	at := n.base + "/v1"
	for _, part := range q.path {
		if part == "" { // it would be another path: that of a list, say
			return "", Faults{{Location: "path", Message: "must have a name or an id, which is empty"}}
		}
		at += "/" + url.PathEscape(part)
	}
	if len(q.query) > 0 {
		at += "?" + q.query.Encode()
	}
	return at, nil
}

// ask sends q and decodes the answer.
func ask[T any](ctx context.Context, n *node, q question) (T, error) {
	var out T
	a, err := n.send(ctx, &q)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		return out, fmt.Errorf("carillon: decode answer of %s %s: %w", q.method, strings.Join(q.path, "/"), err)
	}
	return out, nil
}

// send sends q until it is answered for good.
func (n *node) send(ctx context.Context, q *question) (answer, error) {
	at, err := n.url(q)
	if err != nil {
		return answer{}, err
	}
	body := q.text
	if q.body != nil {
		if body, err = encode(q.body); err != nil {
			return answer{}, fmt.Errorf("carillon: encode %s: %w", strings.Join(q.path, "/"), err)
		}
	}
	for try := 0; ; try++ {
		a, err := n.once(ctx, q, at, body)
		if err == nil {
			return a, nil
		}
		wait, again := retryAfter(err, try)
		if !again || try >= n.retries || ctx.Err() != nil {
			return answer{}, err
		}
		if ended := sleep(ctx, wait); ended != nil {
			return answer{}, fmt.Errorf("%w; before that: %w", ended, err)
		}
	}
}

// once sends q one time.
func (n *node) once(ctx context.Context, q *question, at string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, q.method, at, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("carillon: %w", err)
	}
	maps.Copy(req.Header, q.header)
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if n.key != "" {
		req.Header.Set("Authorization", "Bearer "+n.key)
	}
	if n.tenant != "" {
		req.Header.Set("Carillon-Tenant", n.tenant)
	}
	resp, err := n.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("carillon: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return answer{}, errorOf(resp, text)
	}
	if err != nil {
		return answer{}, fmt.Errorf("carillon: read answer of %s %s: %w", q.method, at, err)
	}
	return answer{resp.Header, text}, nil
}

// errorOf returns the error that an answer is.
func errorOf(resp *http.Response, text []byte) *Error {
	var problem struct {
		Type, Title, Detail string
		Errors              Faults
	}
	if json.Unmarshal(text, &problem) != nil || problem.Title == "" { // not an answer of the API
		problem.Title, problem.Detail = http.StatusText(resp.StatusCode), strings.ToValidUTF8(string(text[:min(len(text), 200)]), "?")
	}
	e := &Error{Status: resp.StatusCode, Title: problem.Title, Detail: problem.Detail, Faults: problem.Errors}
	if kind, ok := strings.CutPrefix(problem.Type, "urn:carillon:problem:"); ok {
		e.Kind = kind
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, 86400)) * time.Second
	}
	return e
}

// retryAfter reports whether a request that ended in err may be sent again after its try (from 0),
// and how long to wait.
func retryAfter(err error, try int) (time.Duration, bool) {
	backoff := 100 * time.Millisecond << min(try, 6)
	backoff = backoff/2 + mathrand.N(backoff/2) // #nosec G404 -- only spreads load
	var e *Error
	if !errors.As(err, &e) {
		return backoff, true
	}
	if temporary(e.Status) {
		return min(max(backoff, e.RetryAfter), maxWait), true
	}
	return 0, false
}

// temporary reports whether a request with such an answer may be sent again.
func temporary(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// list returns the items of a list, page by page. It ends with the first error.
func list[T any](ctx context.Context, n *node, query url.Values, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		params := maps.Clone(query)
		if params == nil {
			params = make(url.Values)
		}
		params.Set("limit", strconv.Itoa(maxPage))
		for {
			page, err := ask[struct {
				Items      []T    `json:"items"`
				NextCursor string `json:"next_cursor"`
			}](ctx, n, question{method: http.MethodGet, path: path, query: params})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			params.Set("cursor", page.NextCursor)
		}
	}
}

// maxWindow is the longest window of one list of runs or events.
const maxWindow = time.Hour

// listWindow is list of a window of any length, hour by hour.
func listWindow[T any](ctx context.Context, n *node, from, to time.Time, query url.Values, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := from; ; {
			until := to
			if until.Sub(at) > maxWindow {
				until = at.Add(maxWindow)
			}
			params := maps.Clone(query)
			params.Set("from", instant(at))
			params.Set("to", instant(until))
			for item, err := range list[T](ctx, n, params, path...) {
				if !yield(item, err) || err != nil {
					return
				}
			}
			if at = until; !at.Before(to) { // of a window that is empty the API has said what is wrong
				return
			}
		}
	}
}

// stated returns the parameters that are not empty.
func stated(params map[string]string) url.Values {
	query := make(url.Values)
	for name, v := range params {
		if v != "" {
			query.Set(name, v)
		}
	}
	return query
}

// instant returns t as a parameter; the zero time is "".
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ClientConfig sets up a Client. The zero value of a field is its default.
type ClientConfig struct {
	// URLs are base URLs of nodes, such as "http://127.0.0.1:8080". The client stays with one that
	// answers and goes on to the next when it does not.
	URLs   []string
	Tenant string // the tenant, where the server asks for no key; default: the server's
	Key    string // API key, sent as a bearer token

	Timeout time.Duration // of one try, imports left out; default 30 s
	Retries int           // tries after the first; default 5, negative none
	// the longest wait between two tries, whatever Retry-After says; default 10 s
	MaxWait time.Duration

	// TLS says how nodes with TLS are verified, and what they are shown. HTTP has its own.
	TLS TLSFiles

	// HTTP sends the requests; nil means a client of its own. Its Timeout bounds imports too: leave
	// it zero.
	HTTP *http.Client
}

// Client calls the API. Its methods may be called from any goroutine. An answer that is an error is
// a *Problem.
//
// What was refused for now (429, 503) or could not be sent is tried again, at another node where
// there is one, but only if trying again cannot do anything twice: so a request that creates
// something wants an idempotency key.
type Client struct {
	config ClientConfig
	bases  []string
	at     atomic.Uint32 // index of the node that answered last
	http   *http.Client
}

// NewClient makes a Client. It reads the files of TLS, and starts nothing.
func NewClient(c ClientConfig) (*Client, error) {
	client := &Client{http: c.HTTP}
	var faults []error
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			faults = append(faults, fmt.Errorf("httpapi: %q is not the http or https URL of a node", text))
			continue
		}
		client.bases = append(client.bases, strings.TrimSuffix(text, "/"))
	}
	if len(c.URLs) == 0 {
		faults = append(faults, errors.New("httpapi: a client needs the URL of a node"))
	}
	secure, err := c.TLS.Config()
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	switch {
	case c.Retries == 0:
		c.Retries = 5
	case c.Retries < 0:
		c.Retries = 0
	}
	if c.MaxWait == 0 {
		c.MaxWait = 10 * time.Second
	}
	if client.http == nil {
		client.http = &http.Client{Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			TLSClientConfig:     secure,
			// An import that is refused is then not sent.
			ExpectContinueTimeout: 5 * time.Second,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
		}}
	}
	client.config = c
	return client, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ask is what a method of the client asks.
type ask struct {
	method, path string
	header       http.Header
	body         any  // as JSON; nil means none
	repeatable   bool // doing it twice is the same as once
}

// maxAnswer bounds the answers that the client reads into memory, in bytes.
const maxAnswer = 64 << 20

// call sends a request until it is answered for good, and decodes the answer into v unless that is
// nil.
func (c *Client) call(ctx context.Context, r ask, v any) (http.Header, error) {
	var text []byte
	if r.body != nil {
		var err error
		if text, err = json.Marshal(r.body); err != nil {
			return nil, fmt.Errorf("encode %s %s: %w", r.method, r.path, err)
		}
	}
	for try := 0; ; try++ {
		node := c.at.Load()
		header, err := c.once(ctx, node, r, text, v)
		if err == nil {
			return header, nil
		}
		again, wait := c.again(ctx, err, r.repeatable)
		if !again || try >= c.config.Retries {
			return nil, err
		}
		c.next(node)
		if other := len(c.bases) > 1 && (try+1)%len(c.bases) != 0; other {
			wait = 0 // another node may do at once what this one cannot
		} else if wait == 0 {
			wait = backoff(try)
		}
		if err := sleep(ctx, min(wait, c.config.MaxWait)); err != nil {
			return nil, err
		}
	}
}

// next turns from a node to the one after it, unless another call has done so.
func (c *Client) next(node uint32) {
	c.at.CompareAndSwap(node, (node+1)%uint32(len(c.bases))) // #nosec G115 -- a handful
}

// again reports whether a request that ended in err may be tried again, and when if the server said
// so.
func (c *Client) again(ctx context.Context, err error, repeatable bool) (bool, time.Duration) {
	if ctx.Err() != nil {
		return false, 0
	}
	var p *Problem
	if !errors.As(err, &p) {
		return repeatable || neverSent(err), 0
	}
	switch p.Status {
	case http.StatusTooManyRequests:
		return true, p.RetryAfter
	case http.StatusServiceUnavailable:
		return repeatable || p.Kind() == "not-ready", p.RetryAfter
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return repeatable, p.RetryAfter
	}
	return false, 0
}

// neverSent reports whether err says that no connection came about.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// backoff returns how long to wait after try (from 0) if nobody says: 0.1 s doubling, half of it
// random.
func backoff(try int) time.Duration {
	d := 100 * time.Millisecond << min(try, 10)
	return d/2 + rand.N(d/2) // #nosec G404 -- only spreads load
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// once sends a request to a node once.
func (c *Client) once(ctx context.Context, node uint32, r ask, text []byte, v any) (_ http.Header, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	req, err := c.request(ctx, node, r.method, r.path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		return nil, readProblemOf(resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s %s: %w", r.method, r.path, err)
	}
	switch into := v.(type) {
	case nil:
	case *[]byte:
		*into = body
	default:
		if err := json.Unmarshal(body, v); err != nil {
			return nil, fmt.Errorf("decode answer of %s %s: %w", r.method, r.path, err)
		}
	}
	return resp.Header, nil
}

// request makes a request to a node.
func (c *Client) request(ctx context.Context, node uint32, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.bases[int(node)%len(c.bases)]+path, body)
	if err != nil {
		return nil, fmt.Errorf("make %s %s: %w", method, path, err)
	}
	if c.config.Tenant != "" {
		req.Header.Set(tenantHeader, c.config.Tenant)
	}
	if c.config.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.config.Key)
	}
	return req, nil
}

// readProblemOf makes a Problem of an answer that is an error.
func readProblemOf(resp *http.Response) *Problem {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is what there is to say
	p := new(Problem)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), problemJSON) || json.Unmarshal(text, p) != nil {
		p = plain(resp.StatusCode, strings.ToValidUTF8(string(text[:min(len(text), 200)]), "?"))
	}
	p.Status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		p.RetryAfter = time.Duration(min(s, 86400)) * time.Second
	}
	return p
}

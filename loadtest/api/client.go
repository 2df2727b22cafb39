package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/loadtest/wait"
)

const (
	// RequestTimeout bounds one request that reads, with its body.
	RequestTimeout = 15 * time.Second
	// TriesPerNode bounds how often a read is tried, per node.
	TriesPerNode = 4
	// MaxAnswer bounds the body of one answer, in bytes: a page of 500 runs with payloads of 64 KiB
	// and their attempts.
	MaxAnswer = 64 << 20

	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 3 * time.Second
)

// ErrRefused says that the API does not let us in (401, 403), or refuses an import as a whole.
// Repeating does not help.
var ErrRefused = errors.New("refused")

// ErrUnreadable says that no node gave an answer within the bounds. Nothing may be concluded from
// it.
var ErrUnreadable = errors.New("no node gave an answer")

// A Client reads from the nodes of a cluster. It is safe for concurrent use.
type Client struct {
	// URLs are the bases of the nodes' APIs, such as "http://127.0.0.1:8080". At least one.
	URLs []string
	// Token and Tenant go into each request, if set.
	Token, Tenant string
	// HTTP must have no Timeout, because imports take long.
	HTTP *http.Client
	Log  *slog.Logger
	// Timeout bounds one request that reads; 0 = RequestTimeout.
	Timeout time.Duration

	next atomic.Uint64
}

// node returns the next base URL, in turn.
func (c *Client) node() string {
	return strings.TrimSuffix(c.URLs[(c.next.Add(1)-1)%uint64(len(c.URLs))], "/")
}

// headers are the credentials of a request.
func (c *Client) headers() map[string]string {
	h := map[string]string{"Carillon-Tenant": c.Tenant}
	if c.Token != "" {
		h["Authorization"] = "Bearer " + c.Token
	}
	return h
}

// get reads path from one node after the other until one answers 200 or 404. The error is
// ErrRefused, ErrUnreadable or that of ctx.
func (c *Client) get(ctx context.Context, path string) (status int, body []byte, err error) {
	backoff := firstBackoff
	tries := TriesPerNode * len(c.URLs)
	var last error
	for try := 1; try <= tries; try++ {
		a, err := Ask(ctx, c.HTTP, Request{URL: c.node() + path, Header: c.headers(), Timeout: cmp.Or(c.Timeout, RequestTimeout), Most: MaxAnswer})
		switch {
		case ctx.Err() != nil:
			return 0, nil, fmt.Errorf("get %s: %w", path, ctx.Err())
		case err != nil:
			last = err
		case a.Status == http.StatusOK || a.Status == http.StatusNotFound:
			return a.Status, a.Body, nil
		case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
			return 0, nil, fmt.Errorf("get %s: %w: %d %s", path, ErrRefused, a.Status, firstBytes(a.Body))
		case final(a.Status): // asking again brings the same
			return 0, nil, fmt.Errorf("get %s: %w: %d %s", path, ErrUnreadable, a.Status, firstBytes(a.Body))
		default:
			last = fmt.Errorf("%d %s", a.Status, firstBytes(a.Body))
		}
		if try%len(c.URLs) == 0 && try < tries { // every node has had its turn
			if err := wait.For(ctx, max(backoff, min(a.RetryAfter, maxBackoff))); err != nil {
				return 0, nil, fmt.Errorf("get %s: %w", path, err)
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
	return 0, nil, fmt.Errorf("get %s: %w, tried %d times, last: %w", path, ErrUnreadable, tries, last)
}

// final reports whether every node would give the same answer again.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

func firstBytes(b []byte) string { return string(b[:min(len(b), 300)]) }

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// RequestTimeout bounds one request that reads, with its body.
	RequestTimeout = 15 * time.Second
	// TriesPerNode bounds how often a read is tried, per node.
	TriesPerNode = 4
	// MaxAnswer bounds the body of one answer, in bytes: a page of 500 runs with payloads of 64 KiB and their attempts.
	MaxAnswer = 64 << 20

	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 3 * time.Second
)

// ErrRefused says that the API does not let us in (401, 403), or takes no import of ours at all. Nothing else will go better.
var ErrRefused = errors.New("refused")

// ErrUnreadable says that no node gave an answer within the bounds. Nothing may be concluded from it.
var ErrUnreadable = errors.New("no node gave an answer")

// Client knows the nodes and how to be let in. It is safe for concurrent use.
type Client struct {
	// URLs are the bases of the nodes' APIs, such as "http://127.0.0.1:8080". At least one.
	URLs []string
	// Token and Tenant go into each request, if set.
	Token, Tenant string
	// HTTP is used as it is; it must have no Timeout of its own, because imports take long.
	HTTP *http.Client
	Log  *slog.Logger

	next atomic.Uint64
}

// node returns the next base URL, in turn.
func (c *Client) node() string {
	return strings.TrimSuffix(c.URLs[(c.next.Add(1)-1)%uint64(len(c.URLs))], "/")
}

func (c *Client) request(ctx context.Context, method, url string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Tenant != "" {
		req.Header.Set("Carillon-Tenant", c.Tenant)
	}
	return req, nil
}

// get reads path from one node after the other until one answers 200 or 404. The error is ErrRefused, ErrUnreadable or that of ctx.
func (c *Client) get(ctx context.Context, path string) (status int, body []byte, err error) {
	backoff := firstBackoff
	tries := TriesPerNode * len(c.URLs)
	var last error
	for try := 1; try <= tries; try++ {
		var wait time.Duration
		status, body, wait, err = c.getOnce(ctx, path)
		switch {
		case ctx.Err() != nil:
			return 0, nil, fmt.Errorf("get %s: %w", path, ctx.Err())
		case err != nil:
			last = err
		case status == http.StatusOK || status == http.StatusNotFound:
			return status, body, nil
		case status == http.StatusUnauthorized || status == http.StatusForbidden:
			return 0, nil, fmt.Errorf("get %s: %w: %d %s", path, ErrRefused, status, firstBytes(body))
		case final(status): // asking again brings the same
			return 0, nil, fmt.Errorf("get %s: %w: %d %s", path, ErrUnreadable, status, firstBytes(body))
		default:
			last = fmt.Errorf("%d %s", status, firstBytes(body))
		}
		if try%len(c.URLs) == 0 && try < tries { // every node has had its turn
			if err := sleep(ctx, max(backoff, wait)); err != nil {
				return 0, nil, fmt.Errorf("get %s: %w", path, err)
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
	return 0, nil, fmt.Errorf("get %s: %w, tried %d times, last: %w", path, ErrUnreadable, tries, last)
}

func (c *Client) getOnce(ctx context.Context, path string) (status int, body []byte, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, c.node()+path, nil)
	if err != nil {
		return 0, nil, 0, err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return 0, nil, 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	body, err = io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return 0, nil, 0, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > MaxAnswer {
		return 0, nil, 0, fmt.Errorf("answer of more than %d bytes", MaxAnswer)
	}
	return resp.StatusCode, body, retryAfter(resp), nil
}

// final reports whether an answer will be the same next time and from another node.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// retryAfter reads the header in seconds, which is what Carillon sends, at most maxBackoff.
func retryAfter(resp *http.Response) time.Duration {
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(s)*time.Second, maxBackoff)
}

func firstBytes(b []byte) string { return string(b[:min(len(b), 300)]) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

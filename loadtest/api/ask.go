package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// mostAnswer bounds the body of an answer where a Request states nothing, in bytes.
const mostAnswer = 1 << 20

// A Request is one HTTP request to a node, a sink or another member.
type Request struct {
	Method string // "" = GET
	URL    string
	Body   []byte
	// Type is the content type of Body, Header what else the request carries; empty values are
	// left out.
	Type   string
	Header map[string]string
	// Timeout bounds the request with its answer; 0 = only ctx does.
	Timeout time.Duration
	// Most bounds the body of the answer, in bytes; 0 = 1 MiB. A longer one is an error.
	Most int64
}

// An Answer is the response to a Request. RetryAfter is the wait that it asks for; 0 = none.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration
}

// Ask makes one request and reads the answer, whatever its status, to its end.
func Ask(ctx context.Context, client *http.Client, q Request) (Answer, error) {
	if q.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return Answer{}, fmt.Errorf("make request: %w", err)
	}
	if q.Type != "" {
		req.Header.Set("Content-Type", q.Type)
	}
	for name, value := range q.Header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	most := q.Most
	if most == 0 {
		most = mostAnswer
	}
	a := Answer{Status: resp.StatusCode, RetryAfter: retryAfter(resp)}
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, most+1)); err != nil {
		return Answer{}, fmt.Errorf("read answer: %w", err)
	}
	if int64(len(a.Body)) > most {
		return Answer{}, fmt.Errorf("answer of more than %d bytes", most)
	}
	return a, nil
}

// AskJSON makes a request, wants 200 as its status, and decodes the answer.
func AskJSON(ctx context.Context, client *http.Client, q Request, into any) error {
	a, err := AskOK(ctx, client, q)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a, into); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// AskOK makes a request, wants 200 as its status, and returns the body of the answer.
func AskOK(ctx context.Context, client *http.Client, q Request) ([]byte, error) {
	a, err := Ask(ctx, client, q)
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("answered %d %s", a.Status, firstBytes(a.Body))
	}
	return a.Body, err
}

// PostLines sends lines of jobs to POST /v1/imports of a node. The caller reads the answer, line by
// line while the lines are still sent, and closes it.
func PostLines(ctx context.Context, client *http.Client, node string, header map[string]string, lines io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, node+"/v1/imports", io.NopCloser(lines))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	for name, value := range header {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return client.Do(req)
}

// NotSent reports whether a request failed before any node can have read it.
func NotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// retryAfter reads the header in seconds, which is what Carillon sends.
func retryAfter(resp *http.Response) time.Duration {
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return time.Duration(s) * time.Second
}

package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/executor/trace"
	"carillon.dev/carillon/executor/webhook"
	"carillon.dev/carillon/schema"
)

// dueForm is how times are written: RFC 3339 in UTC with milliseconds.
const dueForm = "2006-01-02T15:04:05.000Z"

// These names of headers are in lower case, on purpose: net/http takes a POST with one of them in
// its canonical form for one that it may repeat by itself, and such an execution would not be
// counted. To a callee case makes no difference.
const (
	idempotencyKey  = "idempotency-key"
	xIdempotencyKey = "x-idempotency-key" // a task may state it
)

// ignored are headers of a task that are not sent: they belong to a connection, or to what HTTP
// frames itself.
var ignored = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Idempotency-Key", "Traceparent", "Tracestate",
}

// facts is what a callee is told of an attempt, as header values.
type facts struct {
	run, job, attempt, fence, due, trace string

	nominal string // "" in a one-off job
}

func factsOf(c *Call) facts {
	f := facts{
		run: c.Run.String(), attempt: strconv.Itoa(c.Number), fence: strconv.FormatInt(int64(c.Fence), 10),
		due: c.Due.UTC().Format(dueForm), trace: trace.Parent(c.Run, trace.AttemptSpan(c.Run, c.Number, c.Fence), c.Sampled),
	}
	f.job = f.run
	if c.Job != (schema.JobID{}) {
		f.job = c.Job.String()
	}
	if !c.Nominal.IsZero() {
		f.nominal = c.Nominal.UTC().Format(dueForm)
	}
	return f
}

// hop is one request of a chain of redirects.
type hop struct {
	method string
	url    *url.URL
	body   []byte
	header http.Header // as sent
	task   []string    // the names that the task gave, as they are in header

	run     string
	at      time.Time
	secrets [][]byte
	bare    []byte // the body without its secret; nil: body has none
	left    bool   // it does not go to the task's own origin, or came from another
}

// firstHop makes the request that the task asks for, with the facts of the attempt.
func firstHop(c *Call, to string, now time.Time) (*hop, error) {
	t := c.Work.HTTP
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("the task's URL is not an absolute http or https URL")
	}
	u.User = nil
	h := &hop{method: t.Method, url: u, header: make(http.Header, len(t.Headers)+13), at: now, secrets: c.Secrets}
	if h.method == "" {
		h.method = http.MethodPost
	}
	if !isMethod(h.method) {
		return nil, errors.New("the task's method is not valid")
	}
	for name, value := range t.Headers {
		name = sentName(name)
		if slices.Contains(ignored, name) || strings.HasPrefix(name, "Carillon-") || strings.HasPrefix(name, "Webhook-") {
			continue
		}
		h.header[name] = []string{value}
		h.task = append(h.task, name)
	}
	f := factsOf(c)
	h.run = f.run
	h.setFacts(f, now)
	if t.Body != "none" && c.Payload != nil {
		h.body = c.Payload
		if _, stated := h.header["Content-Type"]; !stated {
			h.header["Content-Type"] = []string{"application/json"}
		}
	}
	h.sign()
	return h, nil
}

// sign signs what is sent (Standard Webhooks). The signature goes to every hop, as Carillon's other
// headers do: it does not let its reader make another one.
func (h *hop) sign() {
	if len(h.secrets) > 0 {
		h.header[webhook.HeaderSignature] = []string{webhook.Sign(h.run, h.at, h.body, h.secrets...)}
	}
}

// setFacts sets the headers that Carillon sends. Id and timestamp of the Standard Webhooks scheme
// are there also where nothing is signed.
func (h *hop) setFacts(f facts, now time.Time) {
	stated := [...]struct{ name, value string }{
		{"Carillon-Run-Id", f.run},
		{"Carillon-Job-Id", f.job},
		{"Carillon-Attempt", f.attempt},
		{"Carillon-Fence", f.fence},
		{"Carillon-Due-At", f.due},
		{idempotencyKey, f.run},
		{"Traceparent", f.trace},
		{webhook.HeaderID, f.run},
		{webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10)},
	}
	values := make([]string, len(stated)) // one allocation for all
	for i, v := range stated {
		values[i] = v.value
		h.header[v.name] = values[i : i+1 : i+1]
	}
	if f.nominal != "" {
		h.header["Carillon-Nominal-At"] = []string{f.nominal}
	}
	if _, stated := h.header["User-Agent"]; !stated {
		h.header["User-Agent"] = []string{"carillon"}
	}
}

// request makes the request of the hop. Its header is shared by hops that are sent one after the
// other.
func (h *hop) request(ctx context.Context) *http.Request {
	r := &http.Request{Method: h.method, URL: h.url, Host: h.url.Host, Header: h.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if body := h.body; len(body) > 0 {
		r.ContentLength = int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody() // never fails
	}
	return r.WithContext(ctx)
}

// redirecting reports whether a Location is followed.
func redirecting(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow turns h into the request that a redirect asks for.
func (h *hop) follow(status int, location string) error {
	to, err := h.url.Parse(location)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" || to.Opaque != "" {
		return errors.New("redirected to something that is not an http or https URL")
	}
	if h.url.Scheme == "https" && to.Scheme == "http" {
		return fmt.Errorf("redirected from https to http at %s", boundedHost(to.Hostname()))
	}
	to.User = nil
	h.header = h.header.Clone() // the transport may still read the one it was given
	if to.Scheme != h.url.Scheme || !strings.EqualFold(to.Host, h.url.Host) {
		for _, name := range h.task {
			delete(h.header, name)
		}
		if len(h.body) > 0 {
			h.header["Content-Type"] = []string{"application/json"}
		}
		h.header["User-Agent"] = []string{"carillon"}
		h.task, h.left = nil, true
		if h.bare != nil {
			h.body, h.bare = h.bare, nil
			h.sign() // another body
		}
	}
	if status != http.StatusTemporaryRedirect && status != http.StatusPermanentRedirect {
		if h.method != http.MethodHead {
			h.method = http.MethodGet
		}
		h.body, h.bare = nil, nil
		delete(h.header, "Content-Type")
		h.sign() // another body
	}
	h.url = to
	return nil
}

// isMethod reports whether s is a token of upper-case letters, as every registered method is but
// for hyphens.
func isMethod(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' }) && s != http.MethodConnect
}

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

const (
	// askPatient bounds all tries of one request about a recurring job, askTimeout one of them.
	askPatient = time.Minute
	askTimeout = 10 * time.Second
	// askPause is how long an asker waits before it tries again, unless the answer says how long (at most askMostPause).
	askPause     = 200 * time.Millisecond
	askMostPause = 5 * time.Second
	// mostAnswer bounds an answer, in bytes.
	mostAnswer = 1 << 20
	// mostEvent bounds a line of a file of events, in bytes.
	mostEvent = 1 << 20
)

// An asker makes requests about recurring jobs and writes down what came of each, as one check.JobEvent a line.
type asker struct {
	urls   []string // bases of the nodes' APIs
	http   *http.Client
	tenant string // "" = the default one

	mu  sync.Mutex // guards what follows
	out io.Writer
}

// A jobRequest is what is to be asked for about a job.
type jobRequest struct {
	ref  check.Ref
	kind check.JobEventKind
	id   string // of the job; "" for its creation
	body []byte // of a creation or an update
}

// endpoint returns how the API is asked.
func (q jobRequest) endpoint() (method, path string) {
	job := "/v1/jobs/" + url.PathEscape(q.id)
	switch q.kind {
	case check.JobCreated:
		return http.MethodPost, "/v1/jobs"
	case check.JobUpdated:
		return http.MethodPatch, job
	case check.JobPaused:
		return http.MethodPost, job + "/pause"
	case check.JobResumed:
		return http.MethodPost, job + "/resume"
	default:
		return http.MethodDelete, job
	}
}

// ask asks one node after the other, from number first on, until one gives an answer that tells, and no longer than askPatient, and writes
// the event down. An error is an answer that no node should give, or what kept the event from being written.
func (a *asker) ask(ctx context.Context, q jobRequest, first int) (check.JobEvent, error) {
	e := check.JobEvent{Ref: q.ref, Kind: q.kind, Requested: time.Now().UTC()}
	doubt := false // an earlier try may have been accepted
	for try := 0; ; try++ {
		status, body, wait, reached, err := a.once(ctx, a.urls[(first+try)%len(a.urls)], q)
		switch {
		case err == nil && status/100 == 2:
			e.Acked = time.Now().UTC()
			if err := json.Unmarshal(body, &e.Job); err != nil {
				return e, fmt.Errorf("%s job %s: read answer: %w", q.kind, q.ref, err)
			}
			return e, a.write(e)
		case err == nil && status == http.StatusConflict && q.kind != check.JobCreated:
			e.Refused = !doubt // in doubt: perhaps because of ourselves
			return e, a.write(e)
		case err == nil && status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			return e, fmt.Errorf("%s job %s: answered %d %.300s", q.kind, q.ref, status, body)
		case err == nil && status == http.StatusTooManyRequests:
		default:
			doubt = doubt || reached
		}
		if time.Since(e.Requested) > askPatient || sleepUntil(ctx, time.Now().Add(max(askPause, wait))) != nil {
			e.Refused = !doubt // else it is unknown
			return e, errors.Join(a.write(e), ctx.Err())
		}
	}
}

// once makes one request. reached is false if it is known that no node took it.
func (a *asker) once(ctx context.Context, base string, q jobRequest) (status int, body []byte, wait time.Duration, reached bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	method, path := q.endpoint()
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(q.body))
	if err != nil {
		return 0, nil, 0, false, err
	}
	if a.tenant != "" {
		req.Header.Set("Carillon-Tenant", a.tenant)
	}
	switch q.kind {
	case check.JobCreated:
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", q.ref.Source, q.ref.Line))
	case check.JobUpdated:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		var op *net.OpError
		return 0, nil, 0, !errors.As(err, &op) || op.Op != "dial", err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if body, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer)); err != nil {
		return 0, nil, 0, true, err
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		wait = min(time.Duration(s)*time.Second, askMostPause)
	}
	return resp.StatusCode, body, wait, true, nil
}

func (a *asker) write(e check.JobEvent) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

// ReadEvents reads what was written down of requests about recurring jobs, one check.JobEvent a line.
func ReadEvents(r io.Reader) ([]check.JobEvent, error) {
	var events []check.JobEvent
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), mostEvent)
	for line := 1; sc.Scan(); line++ {
		var e check.JobEvent
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read events, line %d: %w", line, err)
		}
		events = append(events, e)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return events, nil
}

// differs says in which of the stated fields the answer shows another job than was asked for; "" if in none.
func differs(asked []byte, shown *check.JobView) (string, error) {
	var a struct {
		check.JobView
		Jitter *check.Span `json:"jitter"`
	}
	if err := json.Unmarshal(asked, &a); err != nil {
		return "", fmt.Errorf("read what was asked: %w", err)
	}
	s, t := a.Schedule, shown.Schedule
	switch {
	case s.Every != t.Every:
		return fmt.Sprintf("asked for every %s, got %s", time.Duration(s.Every), time.Duration(t.Every)), nil
	case s.Cron != t.Cron || s.Timezone != "" && s.Timezone != t.Timezone:
		return fmt.Sprintf("asked for cron %q in %q, got %q in %q", s.Cron, s.Timezone, t.Cron, t.Timezone), nil
	case !s.Anchor.IsZero() && !s.Anchor.Equal(t.Anchor):
		return fmt.Sprintf("asked for the anchor %s, got %s", s.Anchor, t.Anchor), nil
	case !a.Start.Equal(shown.Start) || !a.End.Equal(shown.End):
		return fmt.Sprintf("asked for times from %s up to %s, got from %s up to %s", a.Start, a.End, shown.Start, shown.End), nil
	case a.Concurrency != nil && (shown.Concurrency == nil || *a.Concurrency != *shown.Concurrency):
		return fmt.Sprintf("asked for the concurrency %+v, got %+v", a.Concurrency, shown.Concurrency), nil
	case a.Jitter != nil && *a.Jitter != shown.Jitter:
		return fmt.Sprintf("asked for a jitter of %s, got %s", time.Duration(*a.Jitter), time.Duration(shown.Jitter)), nil
	case a.Misfire.Policy != "" && a.Misfire.Policy != shown.Misfire.Policy || a.Misfire.Deadline != shown.Misfire.Deadline:
		return fmt.Sprintf("asked for %s (deadline %s), got %s (deadline %s)", a.Misfire.Policy, time.Duration(a.Misfire.Deadline),
			shown.Misfire.Policy, time.Duration(shown.Misfire.Deadline)), nil
	}
	return "", nil
}

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/wait"
)

const (
	// askPatient bounds all tries of one request about a recurring job, askTimeout one of them.
	askPatient = time.Minute
	askTimeout = 10 * time.Second
	// askPause lies between two tries, unless the answer asks for more (at most askMostPause).
	askPause     = 200 * time.Millisecond
	askMostPause = 5 * time.Second
)

// An outcome is the result of a request.
type outcome struct {
	body    []byte    // of the answer that accepted it
	acked   time.Time // when that was read; zero: no such answer came
	refused bool      // it is known that nothing was changed
}

// askUntil asks one node after the other, from number first on, until one accepts or refuses, at
// most for patience. refusals are the statuses of a request that cannot be done. An error is an
// answer that no node should give.
func askUntil(ctx context.Context, client *http.Client, nodes []string, q api.Request, first int, patience time.Duration, refusals ...int) (outcome, error) {
	began, path := time.Now(), q.URL
	doubt := false // an earlier try may have been accepted
	for try := 0; ; try++ {
		q.URL = nodes[(first+try)%len(nodes)] + path
		a, err := api.Ask(ctx, client, q)
		switch {
		case err != nil:
			doubt = doubt || !api.NotSent(err)
		case a.Status/100 == 2:
			return outcome{body: a.Body, acked: time.Now().UTC()}, nil
		case slices.Contains(refusals, a.Status):
			// in doubt it may be refused because of an earlier try
			return outcome{refused: !doubt}, nil
		case a.Status == http.StatusTooManyRequests:
		case a.Status/100 == 4 && a.Status != http.StatusRequestTimeout:
			return outcome{}, fmt.Errorf("answered %d %.300s", a.Status, a.Body)
		default:
			doubt = true
		}
		pause := max(askPause, min(a.RetryAfter, askMostPause))
		if time.Since(began) > patience || wait.For(ctx, pause) != nil {
			return outcome{refused: !doubt}, nil
		}
	}
}

// An asker makes requests about recurring jobs and records the result of each, one check.JobEvent a
// line.
type asker struct {
	urls   []string // bases of the nodes' APIs
	http   *http.Client
	tenant string // "" = the default one

	mu  sync.Mutex // guards what follows
	out io.Writer
}

// A jobRequest is one request about a job.
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

// ask asks from node number first on, and records the event. It fails on an answer that no node
// should give, and if the event cannot be recorded.
func (a *asker) ask(ctx context.Context, q jobRequest, first int) (check.JobEvent, error) {
	e := check.JobEvent{Ref: q.ref, Kind: q.kind, Requested: time.Now().UTC()}
	method, path := q.endpoint()
	req := api.Request{Method: method, URL: path, Body: q.body, Timeout: askTimeout, Header: map[string]string{"Carillon-Tenant": a.tenant}}
	refusals := []int{http.StatusConflict}
	switch q.kind {
	case check.JobCreated:
		req.Type, refusals = "application/json", nil
		req.Header["Idempotency-Key"] = fmt.Sprintf("%s-%d", q.ref.Source, q.ref.Line)
	case check.JobUpdated:
		req.Type = "application/merge-patch+json"
	}
	o, err := askUntil(ctx, a.http, a.urls, req, first, askPatient, refusals...)
	if err != nil {
		return e, fmt.Errorf("%s job %s: %w", q.kind, q.ref, err)
	}
	e.Acked, e.Refused = o.acked, o.refused
	if o.acked.IsZero() {
		return e, errors.Join(a.write(e), ctx.Err())
	}
	if err := json.Unmarshal(o.body, &e.Job); err != nil {
		return e, fmt.Errorf("%s job %s: read answer: %w", q.kind, q.ref, err)
	}
	return e, a.write(e)
}

func (a *asker) write(e check.JobEvent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return journal.WriteLine(a.out, e)
}

// differs names the first stated field that the answer shows otherwise; "" = none.
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

package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const jobID = "018f3a5c-7d2e-7b1a-9c4d-0123456789ab"

// node answers as a node does. It stands in for the transport, so that time need not pass.
type node struct {
	mu       sync.Mutex // guards what follows
	answer   func(r *http.Request) (status int, body string)
	requests []*http.Request
	bodies   []string
}

func (n *node) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	n.requests, n.bodies = append(n.requests, r), append(n.bodies, string(text))
	status, body := n.answer(r)
	if status == 0 {
		return nil, errors.New("nobody listens")
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// well is how a node answers with which all is well.
func well(r *http.Request) (int, string) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/upcoming") && strings.HasPrefix(r.URL.Path, "/v1/stats"):
		return 200, `{"items":[{"runs":3,"estimated":true},{"runs":4,"estimated":true}]}`
	case strings.HasSuffix(r.URL.Path, "/v1/runs"):
		var items []string
		for i := range 60 {
			items = append(items, fmt.Sprintf(`{"due_at":%q}`, instant(time.Now().Add(-time.Duration(i)*time.Millisecond))))
		}
		return 200, `{"items":[` + strings.Join(items, ",") + `]}`
	case strings.HasSuffix(r.URL.Path, "/v1/jobs"):
		return 200, `{"items":[{"id":"x"}]}`
	case strings.HasPrefix(r.URL.Path, "/v1/jobs/") && strings.Count(r.URL.Path, "/") == 3:
		return 200, `{"id":"` + jobID + `","jitter":"2s","schedule":{"every":"5s","anchor":"2027-01-01T00:00:00Z","paused":false}}`
	}
	return 200, `{}`
}

// open returns a console of a node.
func open(n *node, cfg Config) *Console {
	cfg.Node, cfg.Tally = "http://node", new(Tally)
	c := New(cfg)
	c.client.Transport = n
	return c
}

// TestViewsAskAtTheirIntervals: what a view asks in a minute and a second.
func TestViewsAskAtTheirIntervals(t *testing.T) {
	shell := map[string]int{
		"GET /console/": 1, "GET /console/theme.js": 1, "GET /console/app.js": 1, "GET /console/app.css": 1, "GET /console/icon.svg": 1,
		"GET /v1/whoami": 3, "GET /v1/tenants limit": 1,
	}
	for _, row := range []struct {
		view View
		want map[string]int
	}{
		{Overview, map[string]int{
			"GET /v1/stats from to 3m0s": 31, "GET /v1/stats from to 1h0m0s": 3, "GET /v1/stats from to 6h0m0s": 3, "GET /v1/cluster": 31,
			"GET /v1/stats/upcoming minutes": 3, "GET /v1/stats/top by from to": 16, "GET /v1/workflows limit waiting": 3,
		}},
		{Runs, map[string]int{"GET /v1/runs from limit to": 13}},
		{NextHour, map[string]int{"GET /v1/runs from limit to": 13}},
		{Jobs, map[string]int{"GET /v1/jobs limit": 13}},
		{Cluster, map[string]int{"GET /v1/cluster": 31, "GET /v1/regions": 1}},
		{Job, map[string]int{
			"GET /v1/jobs/watched": 13, "GET /v1/jobs/{id}/upcoming count": 13, "GET /v1/jobs/{id}/runs limit": 13, "POST /v1/schedules/preview": 1,
		}},
	} {
		t.Run(string(row.view), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{answer: well}
				c := open(n, Config{View: row.view, Job: "watched", Tenant: "team"})
				ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
				defer cancel()
				c.Stay(ctx)
				seen := c.cfg.Tally.Summary()
				for key, times := range shell {
					row.want[key] = times
				}
				for key, times := range row.want {
					if seen.Asked[key] != times {
						t.Errorf("%s was asked %d times, want %d", key, seen.Asked[key], times)
					}
					delete(seen.Asked, key)
				}
				if len(seen.Asked) > 0 || seen.Failed > 0 {
					t.Errorf("also asked %v; %d failed: %s", seen.Asked, seen.Failed, seen.Fault)
				}
				for i, r := range n.requests {
					want := "team"
					if r.URL.Path == whoamiPath || !strings.HasPrefix(r.URL.Path, "/v1/") {
						want = ""
					}
					if got := r.Header.Get("Carillon-Tenant"); got != want {
						t.Errorf("%s is for the tenant %q, want %q", r.URL, got, want)
					}
					if r.URL.Path == previewPath && n.bodies[i] != `{"count":1,"jitter":"2s","schedule":{"anchor":"2027-01-01T00:00:00Z","every":"5s"}}` {
						t.Errorf("the preview is asked for with %s", n.bodies[i])
					}
				}
			})
		})
	}
}

// TestMinutesThatWereNotCountedAreAskedForSoon: every 2 s until they were counted.
func TestMinutesThatWereNotCountedAreAskedForSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := &node{answer: func(r *http.Request) (int, string) {
			if r.URL.Path == upcomingPath && time.Since(began) < 5*time.Second {
				return 200, `{"items":[{"runs":3},{}]}`
			}
			return well(r)
		}}
		c := open(n, Config{View: Overview})
		ctx, cancel := context.WithTimeout(t.Context(), 31*time.Second)
		defer cancel()
		c.Stay(ctx)
		if got := c.cfg.Tally.Summary().Asked["GET /v1/stats/upcoming minutes"]; got != 4 {
			t.Errorf("coming minutes were asked for %d times, want 4: after 0, 2, 4 and 6 s", got)
		}
	})
}

// TestANodeInTroubleIsAskedLessOften: and as before when it is well.
func TestANodeInTroubleIsAskedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		n := &node{answer: func(r *http.Request) (int, string) {
			if r.URL.Path == clusterPath && time.Since(began) < 10*time.Second {
				return 503, `{"title":"no"}`
			}
			return well(r)
		}}
		c := open(n, Config{View: Cluster})
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Second)
		defer cancel()
		c.Stay(ctx)
		seen := c.cfg.Tally.Summary()
		// after 0, 5 and 10 s, then 12, 14 and 16 s
		if got := seen.Asked["GET /v1/cluster"]; got != 6 || seen.Failed != 2 || !strings.Contains(seen.Fault, "GET /v1/cluster: answered 503") {
			t.Errorf("asked %d times, %d failed (%s), want 6 and 2", got, seen.Failed, seen.Fault)
		}
	})
}

// TestOpenAsksEverythingOnce: opening takes as long as the page, who asks, and the slowest question.
func TestOpenAsksEverythingOnce(t *testing.T) {
	n := &node{answer: well}
	c := open(n, Config{View: Overview})
	seen, err := c.Open(t.Context())
	if err != nil || seen.Due != 7 || len(n.requests) != len(files)+1+1+len(views[Overview]) {
		t.Errorf("Open = %+v, %v after %d requests, want 7 runs due, and everything asked once", seen, err, len(n.requests))
	}
	if seen, err := open(&node{answer: well}, Config{View: Runs}).Ask(t.Context()); err != nil || seen.Items < 50 {
		t.Errorf("Ask = %+v, %v, want a page of runs", seen, err)
	}
	refused := open(&node{answer: func(*http.Request) (int, string) { return 503, "no" }}, Config{View: Overview})
	if _, err := refused.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Open of a page that is refused = %v, want the refusal", err)
	}
	cut := open(&node{answer: func(*http.Request) (int, string) { return 200, `{"items":[` }}, Config{View: Runs})
	if _, err := cut.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "read the answer") {
		t.Errorf("Ask with half an answer = %v, want it refused", err)
	}
}

// TestGzipIsTaken: the transport asks for gzip, as browsers do, and keeps its connection.
func TestGzipIsTaken(t *testing.T) {
	var mu sync.Mutex // guards what follows
	var takes []string
	from := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		takes, from[r.RemoteAddr] = append(takes, r.Header.Get("Accept-Encoding")), true
		mu.Unlock()
		_, _ = io.Copy(w, bytes.NewReader([]byte(`{"items":[]}`))) // the client sees it
	}))
	defer server.Close()
	c := New(Config{Node: server.URL, View: Jobs})
	defer c.Close()
	for range 3 {
		if _, err := c.Ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(takes) != 3 || takes[0] != "gzip" || len(from) != 1 {
		t.Errorf("requests take %q over %d connections, want gzip over one", takes, len(from))
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// loadTenant is whose runs most of the load is, and which the dashboard Tenant is asked about.
const loadTenant = "shop"

// otherTenant has a few runs beside it.
const otherTenant = "bank"

// loader puts load on Carillon, and receives its calls.
type loader struct {
	sys      system
	receiver string // base URL
	down     bool   // the node that is asked may be away
}

// receive serves calls: /ok answers at once, /slow in a moment, /flaky fails the first time of each
// run, /broken for good, /hang never answers.
func receive() (origin string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var mu sync.Mutex
	seen := make(map[string]bool)
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { pause(r.Context(), 400*time.Millisecond) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { pause(r.Context(), time.Minute) })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such account", http.StatusBadRequest) })
	mux.HandleFunc("/flaky", func(w http.ResponseWriter, r *http.Request) {
		run := r.Header.Get("Carillon-Run-Id")
		mu.Lock()
		again := seen[run]
		seen[run] = true
		mu.Unlock()
		if !again {
			http.Error(w, "try again", http.StatusInternalServerError)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// load puts load on sys for a span: runs that succeed, fail, are retried, time out and are given up
// as dead letters; a rate, limits, workflows, events, jobs after others; a node that is killed and
// comes back; dead letters that are replayed and discarded.
func load(ctx context.Context, sys system, span time.Duration) error {
	origin, stop, err := receive()
	if err != nil {
		return err
	}
	defer stop()
	l := &loader{sys: sys, receiver: origin}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	// By when what happens; a node that is killed is away for a while.
	crash, revive, letters := span/4, span/2, span*3/4
	if _, one := sys.(*dev); one {
		revive = crash + 3*time.Second
	}
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; time.Since(began) < span; n++ {
		at := time.Since(began)
		switch {
		case crash > 0 && at >= crash:
			say("a node is killed")
			crash, l.down = 0, true
			if err := sys.crash(ctx); err != nil {
				return err
			}
		case crash == 0 && revive > 0 && at >= revive:
			say("it comes back")
			revive = 0
			if err := sys.revive(ctx); err != nil {
				return err
			}
			l.down = false
		case letters > 0 && at >= letters:
			letters = 0
			if err := l.letters(ctx); err != nil {
				return err
			}
		}
		if err := l.second(ctx, n); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// prepare makes what has a name.
func (l *loader) prepare(ctx context.Context) error {
	call := func(path string) map[string]any { return map[string]any{"url": l.receiver + path} }
	for _, c := range []struct {
		path string
		body any
	}{
		{"/v1/tasks/paced", map[string]any{"http": call("/ok"), "rate": "3/s"}},
		{"/v1/tasks/narrow", map[string]any{"http": call("/slow"), "max_concurrent": 2}},
		{"/v1/jobs/upstream", map[string]any{"http": call("/ok"), "schedule": map[string]any{"every": "5s"}}},
		{"/v1/jobs/downstream", map[string]any{"http": call("/ok"), "after": map[string]any{"jobs": []string{"upstream"}, "when": "all_done"}}},
		{"/v1/jobs/heard", map[string]any{"http": call("/ok"), "on": map[string]any{"event": "file.uploaded"}}},
		{"/v1/jobs/limited", map[string]any{
			"http": call("/slow"), "schedule": map[string]any{"every": "10s"},
			"concurrency": map[string]any{"limit": 1, "on_limit": "queue"},
		}},
		{"/v1/workflows/chain", map[string]any{"steps": []any{
			map[string]any{"name": "first", "http": call("/ok")},
			map[string]any{"name": "second", "after": []string{"first"}, "http": call("/ok")},
			map[string]any{"name": "third", "after": []string{"second"}, "http": call("/broken")},
		}}},
	} {
		if err := l.want(ctx, 2, http.MethodPut, c.path, loadTenant, c.body); err != nil {
			return err
		}
	}
	return nil
}

// second is what is asked in each second.
func (l *loader) second(ctx context.Context, n int) error {
	due := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	add := func(times int, job map[string]any) {
		job["schedule"] = map[string]any{"at": due}
		for range times {
			_ = enc.Encode(job) // into memory
		}
	}
	to := func(path string) map[string]any {
		return map[string]any{"http": map[string]any{"url": l.receiver + path}}
	}
	for _, p := range []string{"critical", "high", "normal", "low"} {
		job := to("/ok")
		job["priority"] = p
		add(5, job)
	}
	flaky := to("/flaky")
	flaky["retry"] = map[string]any{"max_attempts": 3, "initial": "200ms"}
	add(2, flaky)
	add(1, to("/broken"))
	hang := to("/hang")
	hang["timeout"], hang["retry"] = "500ms", map[string]any{"max_attempts": 1}
	add(1, hang)
	add(4, map[string]any{"task": "paced"})
	add(2, map[string]any{"task": "narrow"})
	if n%15 == 5 { // more at once than there are slots
		add(150, to("/slow"))
	}
	if err := l.want(ctx, 2, http.MethodPost, "/v1/imports", loadTenant, lines.Bytes()); err != nil {
		return err
	}
	if err := l.want(ctx, 2, http.MethodPost, "/v1/jobs", otherTenant, to("/ok")); err != nil || n%3 != 0 {
		return err
	}
	return errors.Join(
		l.want(ctx, 2, http.MethodPost, "/v1/jobs/limited/trigger", loadTenant, nil),
		l.want(ctx, 2, http.MethodPost, "/v1/jobs/limited/trigger", loadTenant, nil),
		l.want(ctx, 2, http.MethodPost, "/v1/workflows/chain/trigger", loadTenant, nil),
		l.want(ctx, 2, http.MethodPost, "/v1/events/file.uploaded", loadTenant, map[string]any{"name": "a"}),
		l.want(ctx, 4, http.MethodPost, "/v1/jobs", loadTenant, map[string]any{"schedule": map[string]any{"cron": "whenever"}}),
		l.want(ctx, 4, http.MethodGet, "/v1/jobs/nobody", loadTenant, nil),
	)
}

// letters replays a dead letter, discards another, and has an operation discard the rest.
func (l *loader) letters(ctx context.Context) error {
	var list struct {
		Items []struct {
			Run struct {
				ID string `json:"id"`
			} `json:"run"`
			ID string `json:"id"`
		}
	}
	_, body, err := l.ask(ctx, http.MethodGet, "/v1/dead-letters", loadTenant, nil)
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil || len(list.Items) < 2 {
		return fmt.Errorf("%d dead letters, want some (%w): %s", len(list.Items), err, body)
	}
	id := func(i int) string { return "/v1/dead-letters/" + list.Items[i].ID + list.Items[i].Run.ID }
	return errors.Join(
		l.want(ctx, 2, http.MethodPost, id(0)+"/replay", loadTenant, nil),
		l.want(ctx, 2, http.MethodDelete, id(1), loadTenant, nil),
		l.want(ctx, 2, http.MethodPost, "/v1/operations", loadTenant, map[string]any{
			"action": "discard", "filter": map[string]any{"from": time.Now().Add(-time.Hour).UTC(), "to": time.Now().Add(time.Hour).UTC()},
		}),
	)
}

// want asks, and wants a status of a hundred. What a node does not answer while one was killed, or
// answers with 5xx, is no fault of the load.
func (l *loader) want(ctx context.Context, hundred int, method, path, tenant string, body any) error {
	status, text, err := l.ask(ctx, method, path, tenant, body)
	switch {
	case (err != nil || status >= 500) && l.down, status >= 500, status/100 == hundred:
		return ctx.Err()
	case err != nil:
		return err
	}
	return fmt.Errorf("%s %s answers %d: %s", method, path, status, text)
}

func (l *loader) ask(ctx context.Context, method, path, tenant string, body any) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var content io.Reader = http.NoBody
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		content, kind = bytes.NewReader(b), "application/x-ndjson"
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		content = strings.NewReader(string(encoded))
	}
	req, err := http.NewRequestWithContext(ctx, method, l.sys.api()+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Carillon-Tenant", tenant)
	if body != nil {
		req.Header.Set("content-type", kind)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, text, err
}

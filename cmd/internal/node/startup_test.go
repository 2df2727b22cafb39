package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/internal/config"
	"carillon.dev/carillon/schema"
)

func TestStartupServerAnswers(t *testing.T) {
	var g startupServer
	g.waitFor("the store")
	for name, row := range map[string]struct {
		method, path string
		status       int
		media, body  string
	}{
		"alive":        {"GET", "/healthz", 200, "", "ok\n"},
		"not ready":    {"GET", "/readyz", 503, "", "starting: waiting for the store\n"},
		"a write":      {"POST", "/v1/jobs", 503, "application/problem+json", "it waits for the store"},
		"a read":       {"GET", "/v1/runs", 503, "application/problem+json", `"status":503`},
		"a console":    {"GET", "/console/", 200, "text/html; charset=utf-8", "<!doctype html>"},
		"its script":   {"GET", "/console/app.js", 200, "text/javascript; charset=utf-8", ""},
		"the start":    {"GET", "/", 302, "", ""},
		"who asks":     {"GET", "/v1/whoami", 503, "application/problem+json", "it waits for the store"},
		"another file": {"GET", "/console/none.js", 503, "application/problem+json", `"title":"Service Unavailable"`},
		"a form":       {"POST", "/console/", 503, "application/problem+json", "it waits for the store"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), row.method, row.path, nil))
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.body) || row.media != "" && w.Header().Get("Content-Type") != row.media {
				t.Errorf("%s %s answers %d %v %q, want %d %s %q", row.method, row.path, w.Code, w.Header(), w.Body, row.status, row.media, row.body)
			}
			if after := w.Header().Get("Retry-After"); row.status == 503 && row.media != "" && after == "" {
				t.Errorf("%s %s has no Retry-After", row.method, row.path)
			}
		})
	}
}

// held is an opener whose store opens when release is called, and that tells when it is asked.
func held(o Opener) (_ Opener, asked <-chan struct{}, release func()) {
	ask, open := make(chan struct{}, 1), make(chan struct{})
	inner := o.Store
	o.Store = func(ctx context.Context) (schema.Store, error) {
		ask <- struct{}{}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-open:
			return inner(ctx)
		}
	}
	return o, ask, func() { close(open) }
}

func TestNodeWaitsForItsStore(t *testing.T) {
	open, asked, release := held(newWorld(t, "a").opener("a"))
	r := start(t, "a", open, nil)
	<-asked
	if status, body := get(t, r.url+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz while the node waits: %d %q, want 200", status, body)
	}
	if status, body := get(t, r.url+"/readyz"); status != 503 || !strings.Contains(body, "waiting for the store") {
		t.Errorf("/readyz while the node waits: %d %q, want 503 and for what", status, body)
	}
	if status, _ := get(t, r.url+"/v1/runs"); status != 503 {
		t.Errorf("/v1/runs while the node waits: %d, want 503", status)
	}
	release()
	r.up()
	await(t, "the node is ready", func() bool { status, _ := get(t, r.url+"/readyz"); return status == 200 })
}

func TestNodeThatWaitsCanBeStopped(t *testing.T) {
	open, asked, _ := held(newWorld(t, "a").opener("a"))
	r := start(t, "a", open, nil)
	<-asked
	r.stop()
	if c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://")); err == nil {
		_ = c.Close()
		t.Error("the listener of a node that ended is open")
	}
}

func TestNodeThatCannotStartSaysWhy(t *testing.T) {
	for name, breakIt := range map[string]func(o *Opener){
		"store": func(o *Opener) { o.Store = func(context.Context) (schema.Store, error) { return nil, errBroken } },
		"queue": func(o *Opener) { o.Queue = func(context.Context) (Queue, error) { return nil, errBroken } },
		"ring":  func(o *Opener) { o.Ring = func(int, string) (Ring, error) { return nil, errBroken } },
	} {
		t.Run(name, func(t *testing.T) {
			open := newWorld(t, "a").opener("a")
			breakIt(&open)
			cfg := config.Default()
			cfg.Node.Name, cfg.API.Listen = "a", "127.0.0.1:0"
			if err := New(cfg, Options{Opener: open}).Run(t.Context()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), name) {
				t.Errorf("Run with a broken %s = %v, want why", name, err)
			}
		})
	}
}

// While the listener is handed over, every caller gets an answer, from one server or the other.
func TestHandOverOfTheListenerLosesNoConnection(t *testing.T) {
	open, asked, release := held(newWorld(t, "a").opener("a"))
	r := start(t, "a", open, nil)
	<-asked
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	var callers sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range cap(begun) {
		callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if status, body, err := fetch(t.Context(), r.url+"/healthz"); err != nil || status != http.StatusOK {
					t.Errorf("/healthz while the listener changes hands: %d %q, %v, want 200", status, body, err)
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range cap(begun) {
		select {
		case <-begun:
		case <-time.After(patience):
			t.Fatal("callers are not answered")
		}
	}
	release()
	r.up()
	enough()
	callers.Wait()
}

// http.Server.Shutdown takes a connection without a request for busy in its first five seconds. The
// start must not wait for it.
func TestSilentConnectionDoesNotBreakTheStart(t *testing.T) {
	open, asked, release := held(newWorld(t, "a").opener("a"))
	r := start(t, "a", open, nil)
	<-asked
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	get(t, r.url+"/healthz") // the connection before it is accepted by now
	release()
	r.up()
	if _, err := c.Write([]byte("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(answer), "store: ok\n") {
		t.Errorf("a connection from before the start is answered %q, %v; want what the API says", answer, err)
	}
}

package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Sink is what jobs call, on the loopback interface. The first part of the path says how it answers:
//
//	/ok/…      200, {"path": …}
//	/fail/…    500: it is tried again
//	/refuse/…  422: final
//	/first/…   500 to the first call of a run, 200 to the others
//	/once/…    422 to the first call of all, 200 to the others
//	/big/…     200, 1 MiB of text without a space
//	/hold/…    200, once the test says Release
//	/echo/…    200, with the body that came
//	/list/…    200, {"files": […]}: what a workflow fans out over
type Sink struct {
	URL string

	mu    sync.Mutex
	calls []SinkCall
	seen  map[string]int // calls by path and run
	gates map[string]chan struct{}
	gone  chan struct{}
}

// SinkCall is a call that came.
type SinkCall struct {
	Path string
	Body string
	Run  string
	At   time.Time
}

// StartSink starts a sink, which ends with the test.
func StartSink(t testing.TB) *Sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen for calls: %v", err)
	}
	s := &Sink{URL: "http://" + l.Addr().String(), seen: map[string]int{}, gates: map[string]chan struct{}{}, gone: make(chan struct{})}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		close(s.gone)
		_ = server.Close()
		<-served
	})
	return s
}

// ServeHTTP is what jobs call.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 2<<20))
	if err != nil {
		return
	}
	run := r.Header.Get("Carillon-Run-Id")
	s.mu.Lock()
	s.calls = append(s.calls, SinkCall{r.URL.Path, string(body), run, time.Now()})
	s.seen[r.URL.Path]++
	s.seen[r.URL.Path+" "+run]++
	ever, times := s.seen[r.URL.Path], s.seen[r.URL.Path+" "+run]
	s.mu.Unlock()

	how, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	status, answer := http.StatusOK, []byte(fmt.Sprintf(`{"path": %q}`, r.URL.Path))
	switch how {
	case "fail":
		status, answer = http.StatusInternalServerError, []byte("the mail server is on fire")
	case "refuse":
		status, answer = http.StatusUnprocessableEntity, []byte("no such customer")
	case "first":
		if times == 1 {
			status, answer = http.StatusInternalServerError, []byte("not yet")
		}
	case "once":
		if ever == 1 {
			status, answer = http.StatusUnprocessableEntity, []byte("the books are closed")
		}
	case "big":
		answer = bytes.Repeat([]byte("<b>0123456789"), 1<<20/13)
	case "hold":
		select {
		case <-s.gate(r.URL.Path):
		case <-s.gone:
		case <-r.Context().Done():
			return
		}
	case "echo":
		answer = body
	case "list":
		answer, _ = json.Marshal(map[string]any{"files": []string{"a.csv", "b.csv", "c.csv", "d.csv"}}) // strings
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // who has gone needs none
}

func (s *Sink) gate(path string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[path] == nil {
		s.gates[path] = make(chan struct{})
	}
	return s.gates[path]
}

// Release answers the calls of a path that are held, and lets later ones through.
func (s *Sink) Release(path string) {
	gate := s.gate(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// Calls returns the calls of a path so far, in the order in which they came.
func (s *Sink) Calls(path string) []SinkCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []SinkCall
	for _, c := range s.calls {
		if c.Path == path {
			calls = append(calls, c)
		}
	}
	return slices.Clip(calls)
}

// Await waits until so many calls of a path have come, and returns them.
func (s *Sink) Await(t testing.TB, path string, n int) []SinkCall {
	t.Helper()
	_, ok := await(patience, func() (bool, string) { return len(s.Calls(path)) >= n, "" })
	calls := s.Calls(path)
	if !ok {
		t.Fatalf("waited %v for %d calls of %s; there are %d", patience, n, path, len(calls))
	}
	return calls
}

package k6_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// faults is what a stub does wrong. Its zero value is a cluster as it should be.
type faults struct {
	refuse    bool // every second call is answered 429
	hasty     bool // … without Retry-After
	fail      bool // every second call is answered 500
	garble    bool // every second job is answered with something that is not JSON
	move      bool // every second job is answered with another instant
	lose      bool // one run never starts
	late      bool // every tenth run starts 2 to 5 s late
	early     bool // one run is counted as early
	miscarry  bool // one attempt fails
	restart   bool // the counters start anew in the middle
	cut       bool // imports are answered without summary
	lineFails bool // one line of an import is answered 422
	lineWaits bool // one line of an import is answered 429
	forget    bool // keyed lines sent again are made again
}

// A stub answers as the one node of a cluster in which every job has started as soon as it is acknowledged.
type stub struct {
	faults

	mu             sync.Mutex // guards what follows
	calls          int
	jobs, lines    int // answered 201
	knownKeyedLine map[string]bool
}

// ServeHTTP answers like a node, with faults.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /readyz":
	case "GET /stats":
		_, _ = fmt.Fprintf(w, `{"seen": %d}`, s.jobs+s.lines)
	case "GET /metrics":
		s.metrics(w)
	case "POST /v1/jobs":
		s.calls++
		s.create(w, r)
	case "POST /v1/imports":
		s.calls++
		body, err := io.ReadAll(r.Body)
		if err == nil && !s.refused(w) {
			s.take(w, body)
		}
	default:
		http.Error(w, "the stub does not know this call", http.StatusTeapot)
	}
}

// metrics writes what the nodes of a real cluster have under these names. A rename there must be followed here and in
// lib/cluster.js: it shows when `make k6` says that no node has the metrics of an executor.
func (s *stub) metrics(w http.ResponseWriter) {
	n := s.jobs + s.lines
	if n > 0 && s.lose {
		n--
	}
	onTime, early, failed := n, 0, 0
	if s.late {
		onTime -= n / 10
	}
	if n > 0 && s.early {
		early = 1
	}
	if n > 0 && s.miscarry {
		failed = 1
	}
	jobs := s.jobs
	before := 7 // something ran before the test
	if s.calls > 0 && s.restart {
		before, jobs, onTime, n = 0, 0, 0, 0
	}
	_, _ = fmt.Fprintf(w, `# TYPE carillon_executor_lateness_seconds histogram
carillon_http_requests_total{method="GET",route="/v1/jobs/:id",status="200"} 1000
carillon_http_requests_total{method="POST",route="/v1/jobs",status="201"} %d
carillon_http_requests_total{method="POST",route="/v1/jobs",status="429"} 1000
carillon_import_lines_total{status="200"} 1000
carillon_import_lines_total{status="201"} %d
carillon_executor_attempts_total{outcome="succeeded"} %d
carillon_executor_attempts_total{outcome="failed"} %d
carillon_executor_early_total %d
carillon_executor_lateness_seconds_bucket{le="0.005"} %d
carillon_executor_lateness_seconds_bucket{le="2"} %[6]d
carillon_executor_lateness_seconds_bucket{le="5"} %[7]d
carillon_executor_lateness_seconds_bucket{le="+Inf"} %[7]d
carillon_executor_lateness_seconds_count %[7]d
`, before+jobs, s.lines, before+n-failed, failed, early, before+onTime, before+n)
}

// refused answers a call that does not get through, and reports whether it was one.
func (s *stub) refused(w http.ResponseWriter) bool {
	switch {
	case s.calls%2 == 0 && (s.refuse || s.hasty):
		if !s.hasty {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	case s.calls%2 == 0 && s.fail:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		return false
	}
	return true
}

func (s *stub) create(w http.ResponseWriter, r *http.Request) {
	var job struct {
		Schedule struct {
			At string `json:"at"`
		} `json:"schedule"`
	}
	if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.refused(w) {
		return
	}
	s.jobs++
	w.WriteHeader(http.StatusCreated)
	if s.calls%2 == 0 && s.garble {
		_, _ = w.Write([]byte(`{"id": "`))
		return
	}
	if s.calls%2 == 0 && s.move {
		job.Schedule.At = "2030-01-01T10:00:00.000Z"
	}
	_, _ = fmt.Fprintf(w, `{"id": "0192e5a0-7c00-8003-8d2f-%012d", "schedule": {"at": %q}}`, s.calls, job.Schedule.At)
}

func (s *stub) take(w http.ResponseWriter, body []byte) {
	var read, created, existing, failed int
	for text := range bytes.Lines(body) {
		read++
		var line struct {
			Key string `json:"key"`
		}
		if err := json.Unmarshal(text, &line); err != nil {
			failed++
			continue
		}
		switch {
		case line.Key != "" && s.knownKeyedLine[line.Key] && !s.forget:
			existing++
			continue
		case line.Key != "":
			s.knownKeyedLine[line.Key] = true
		case read == 1 && s.lineFails:
			failed++
			_, _ = w.Write([]byte(`{"line": 1, "status": 422, "error": {"status": 422}}` + "\n"))
			continue
		case read == 1 && s.lineWaits:
			failed++
			_, _ = w.Write([]byte(`{"line": 1, "status": 429, "error": {"status": 429}}` + "\n"))
			continue
		}
		created++
	}
	s.lines += created
	if s.calls%2 == 0 && s.cut {
		_, _ = w.Write([]byte(`{"line": 1, "sta`))
		return
	}
	_, _ = fmt.Fprintf(w, `{"summary": {"lines": %d, "created": %d, "existing": %d, "failed": %d}}`+"\n", read, created, existing, failed)
}

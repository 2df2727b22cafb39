package k6_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// faults is what a stub does wrong. Its zero value is a cluster as it should be.
type faults struct {
	refuse    bool // every second creation or import is answered 429
	hasty     bool // … without Retry-After
	shut      bool // every creation and import is answered 429
	fail      bool // every second creation or import is answered 500
	hangUp    bool // every second import is taken, and the connection closed without an answer
	garble    bool // every second job is answered with something that is not JSON
	move      bool // every second job is answered with another instant
	lose      bool // every tenth run never starts
	late      bool // every tenth run starts 2 to 5 s late
	early     bool // one run is counted as early
	miscarry  bool // one attempt fails
	restart   bool // the counters start anew in the middle
	cut       bool // every second import is answered without summary
	lineFails bool // every tenth line without key is answered 422
	lineWaits bool // every tenth line without key is answered 429
	// keyed lines and jobs sent again are made again; of a job it is said that it was not
	forget    bool
	unsaid    bool // a keyed job sent again is not said to be replayed
	mute      bool // a cancelled run does not say so
	stick     bool // a rescheduled job is answered with its old instant
	mistake   bool // a read is answered with another job or run
	disorder  bool // lists are in the order of due time from last to first
	overshoot bool // lists have what is due after their window
	skip      bool // lists lack the first run

	// how much later than it could a kind of call is answered, by the scripts' names of them
	slow map[string]time.Duration
}

// A job is kept with what is told of its run.
type job struct {
	id        string
	due       string // as it was sent, with ms: in order as text is in order of time
	payload   json.RawMessage
	nth       int // from 1, in order of creation
	cancelled bool
}

// A stub answers as the one node of a cluster in which every job has started and succeeded as soon
// as it is acknowledged, and can be changed all the same.
type stub struct {
	faults

	mu     sync.Mutex // guards what follows
	calls  int        // creations and imports
	posted int        // jobs created by single calls; the others in made were imported
	made   map[string]*job
	keyed  map[string]*job
}

func newStub(f faults) *stub {
	return &stub{faults: f, made: map[string]*job{}, keyed: map[string]*job{}}
}

// ServeHTTP answers like a node, with faults.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if delay := s.slow[s.answer(w, r)]; delay > 0 {
		select { // the end of the answer is sent when this returns
		case <-time.After(delay):
		case <-r.Context().Done():
		}
	}
}

// answer answers a call and returns its kind.
func (s *stub) answer(w http.ResponseWriter, r *http.Request) (kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	route, id := r.URL.Path, ""
	for _, prefix := range []string{"/v1/jobs/", "/v1/runs/"} {
		if rest, ok := strings.CutPrefix(route, prefix); ok {
			route, id = prefix, rest
		}
	}
	switch r.Method + " " + route {
	case "GET /readyz":
	case "GET /stats":
		_, _ = fmt.Fprintf(w, `{"seen": %d}`, len(s.made))
	case "GET /metrics":
		s.metrics(w)
	case "POST /v1/jobs":
		kind = "create"
		if r.Header.Get("Idempotency-Key") != "" {
			kind = "create keyed"
		}
		s.create(w, r)
	case "POST /v1/imports":
		return s.take(w, r)
	case "GET /v1/runs":
		kind = "list"
		s.list(w, r)
	case "GET /v1/jobs/", "GET /v1/runs/", "DELETE /v1/jobs/", "PATCH /v1/jobs/":
		j := s.made[id]
		if j == nil {
			http.NotFound(w, r)
			return ""
		}
		switch {
		case r.Method == http.MethodDelete:
			kind = "cancel"
			j.cancelled = true
			s.tellJob(w, j, j.due)
		case r.Method == http.MethodPatch:
			kind = "reschedule"
			s.reschedule(w, r, j)
		case route == "/v1/jobs/":
			kind = "read jobs"
			s.tellJob(w, s.orAnother(j), j.due)
		default:
			kind = "read runs"
			_ = json.NewEncoder(w).Encode(s.run(s.orAnother(j)))
		}
	default:
		http.Error(w, "the stub does not know this call", http.StatusTeapot)
	}
	return kind
}

// metrics writes what the nodes of a real cluster have under these names. A rename there must be
// followed here and in lib/cluster.js: it shows when `make k6` says that no node has the metrics of
// an executor.
func (s *stub) metrics(w http.ResponseWriter) {
	n := len(s.made)
	if s.lose {
		n -= n / 10
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
	jobs := s.posted
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
`, before+jobs, len(s.made)-s.posted, before+n-failed, failed, early, before+onTime, before+n)
}

// refused counts a creation or an import, answers one that does not get through, and reports
// whether it was one.
func (s *stub) refused(w http.ResponseWriter) bool {
	s.calls++
	switch {
	case s.shut, s.second() && (s.refuse || s.hasty):
		if !s.hasty {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(http.StatusTooManyRequests)
	case s.second() && s.fail:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		return false
	}
	return true
}

// second reports whether this is a call of which something goes wrong with every second.
func (s *stub) second() bool { return s.calls%2 == 0 }

// A request is what is sent for a job, as far as it matters here.
type request struct {
	Key      string          `json:"key"`
	Payload  json.RawMessage `json:"payload"`
	Schedule struct {
		At string `json:"at"`
	} `json:"schedule"`
}

// add makes the job of a request and returns it, or with replayed that which its key has made.
func (s *stub) add(req request) (j *job, replayed bool) {
	if known := s.keyed[req.Key]; known != nil && !s.forget {
		return known, true
	}
	nth := len(s.made) + 1
	j = &job{id: fmt.Sprintf("0192e5a0-7c00-8003-8d2f-%012d", nth), due: req.Schedule.At, payload: req.Payload, nth: nth}
	s.made[j.id] = j
	if req.Key != "" {
		s.keyed[req.Key] = j
	}
	return j, false
}

func (s *stub) create(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.refused(w) {
		return
	}
	req.Key = r.Header.Get("Idempotency-Key")
	if s.keyed[req.Key] != nil && !s.unsaid {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	j, replayed := s.add(req)
	if !replayed {
		s.posted++
	}
	w.WriteHeader(http.StatusCreated)
	switch {
	case s.second() && s.garble:
		_, _ = w.Write([]byte(`{"id": "`))
	case s.second() && s.move:
		s.tellJob(w, j, "2030-01-01T10:00:00.000Z")
	default:
		s.tellJob(w, j, j.due)
	}
}

func (s *stub) reschedule(w http.ResponseWriter, r *http.Request, j *job) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !s.stick {
		j.due = req.Schedule.At
	}
	s.tellJob(w, j, j.due)
}

func (s *stub) tellJob(w http.ResponseWriter, j *job, due string) {
	_, _ = fmt.Fprintf(w, `{"id": %q, "schedule": {"at": %q}}`, j.id, due)
}

// orAnother returns the job that is read instead of j.
func (s *stub) orAnother(j *job) *job {
	if !s.mistake {
		return j
	}
	other := *j
	other.id = strings.Replace(j.id, "0192", "0193", 1)
	return &other
}

// run is what is told of a job's run.
func (s *stub) run(j *job) map[string]any {
	run := map[string]any{"id": j.id, "due_at": j.due, "payload": j.payload}
	switch {
	case j.cancelled && !s.mute:
		run["state"] = "cancelled"
	case j.nth%10 == 0 && s.lose:
		run["state"] = "pending"
	default:
		run["state"], run["lateness_ms"] = "succeeded", 3
		if j.nth%10 == 0 && s.late {
			run["lateness_ms"] = 4000
		}
	}
	return run
}

// list answers a page of runs. A cursor is where the page before ended, so it stays right when jobs
// are made and moved.
func (s *stub) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	place := func(j *job) string { return j.due + " " + j.id }
	runs := slices.SortedFunc(maps.Values(s.made), func(a, b *job) int { return strings.Compare(place(a), place(b)) })
	runs = slices.DeleteFunc(runs, func(j *job) bool {
		return j.due < query.Get("from") || j.due >= query.Get("to") && !s.overshoot ||
			place(j) <= query.Get("cursor") || s.skip && j.nth == 1
	})
	var page struct {
		Items      []map[string]any `json:"items"`
		NextCursor string           `json:"next_cursor,omitempty"`
	}
	if len(runs) > limit {
		runs = runs[:limit]
		page.NextCursor = place(runs[limit-1])
	}
	page.Items = make([]map[string]any, 0, len(runs))
	for _, j := range runs {
		page.Items = append(page.Items, s.run(j))
	}
	if s.disorder {
		slices.Reverse(page.Items)
	}
	_ = json.NewEncoder(w).Encode(page)
}

// take answers an import, and returns its kind: one with keys that are known is sent again.
func (s *stub) take(w http.ResponseWriter, r *http.Request) (kind string) {
	kind = "import"
	body, err := io.ReadAll(r.Body)
	if err != nil || s.refused(w) {
		return kind
	}
	var read, created, existing, failed int
	for text := range bytes.Lines(body) {
		read++
		var req request
		if err := json.Unmarshal(text, &req); err != nil {
			failed++
			continue
		}
		if s.keyed[req.Key] != nil {
			kind = "resend"
		}
		if status := s.lineStatus(); read%10 == 0 && req.Key == "" && status > 0 {
			failed++
			_, _ = fmt.Fprintf(w, `{"line": %d, "status": %d, "error": {"status": %[2]d}}`+"\n", read, status)
			continue
		}
		if _, replayed := s.add(req); replayed {
			existing++
		} else {
			created++
		}
	}
	if s.second() && s.hangUp {
		panic(http.ErrAbortHandler)
	}
	if s.second() && s.cut {
		_, _ = w.Write([]byte(`{"line": 1, "sta`))
		return kind
	}
	_, _ = fmt.Fprintf(w, `{"summary": {"lines": %d, "created": %d, "existing": %d, "failed": %d}}`+"\n", read, created, existing, failed)
	return kind
}

// lineStatus is the status of a line that is not taken, or 0.
func (s *stub) lineStatus() int {
	switch {
	case s.lineFails:
		return http.StatusUnprocessableEntity
	case s.lineWaits:
		return http.StatusTooManyRequests
	}
	return 0
}

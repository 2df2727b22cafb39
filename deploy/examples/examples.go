// Package examples holds workflows to learn from, and in Go what they call: `carillon dev
// --demo-workflows` and the tests run them as they lie here.
package examples

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Origin is what the steps of the workflows call.
const Origin = "http://127.0.0.1:9000"

//go:embed etl.yaml approval.yaml saga.yaml
var files embed.FS

// Workflow returns a workflow as YAML: "etl", "approval" or "saga". Its steps call origin instead of
// Origin.
func Workflow(name, origin string) (string, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return "", fmt.Errorf("there is no example %q: %w", name, err)
	}
	return strings.ReplaceAll(string(text), Origin, origin), nil
}

// Call is a call that Services received.
type Call struct {
	Path   string
	Body   string
	Run    string // whose call it was, as its Idempotency-Key says
	Beside int    // how many others were under way when it came
}

// Services is what the steps of the workflows call. It answers as services.py does, and keeps what it
// was asked. The zero value is ready.
type Services struct {
	// Pause is how long each answer takes, so that one can watch.
	Pause time.Duration

	mu       sync.Mutex
	calls    []Call
	underWay int
}

// Calls returns the calls so far, in the order in which they came.
func (s *Services) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// maxBody is how much of a call is read, bytes.
const maxBody = 1 << 20

func (s *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.begin(Call{Path: r.URL.Path, Body: string(text), Run: r.Header.Get("Idempotency-Key")})
	defer s.end() // before the answer leaves, as it is short
	timer := time.NewTimer(s.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return
	}
	status, body, err := answer(r.URL.Path, text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a caller that is gone needs no answer
}

func (s *Services) begin(c Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Beside = s.underWay
	s.underWay++
	s.calls = append(s.calls, c)
}

func (s *Services) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
}

// answer returns the status and the body with which a call is answered. A status other than 5xx is
// final: the call is not tried again.
func answer(path string, text []byte) (status int, body any, err error) {
	if len(text) == 0 {
		text = []byte("{}")
	}
	var all any
	var said struct {
		Date   any
		File   any
		Number int
		Parts  []struct{ Rows int }
		Trip   struct {
			Trip any
			Fail string
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return 0, nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	what, act, _ := strings.Cut(strings.Trim(path, "/"), "/")
	if act != "book" && what != "extract" && what != "transform" && what != "load" {
		return http.StatusOK, map[string]any{"done": path, "said": all}, nil
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return 0, nil, fmt.Errorf("the body does not fit: %w", err)
	}
	switch {
	case act == "book" && said.Trip.Fail == what:
		return http.StatusConflict, map[string]any{"error": "there is no " + what + " left"}, nil
	case act == "book":
		return http.StatusOK, map[string]any{"booked": what, "trip": said.Trip.Trip}, nil
	case what == "extract":
		found := make([]string, 8)
		for i := range found {
			found[i] = fmt.Sprintf("part-%d.csv", i)
		}
		return http.StatusOK, map[string]any{"date": said.Date, "files": found}, nil
	case what == "transform":
		return http.StatusOK, map[string]any{"file": said.File, "rows": 100 * (said.Number + 1)}, nil
	}
	rows := 0
	for _, part := range said.Parts {
		rows += part.Rows
	}
	return http.StatusOK, map[string]any{"rows": rows}, nil
}

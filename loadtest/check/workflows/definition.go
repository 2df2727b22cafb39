package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A Workflow is a workflow as it was put. Its JSON is the name and the body of the request.
type Workflow struct {
	Name       string     `json:"name"`
	Definition Definition `json:"body"`
}

// A Definition is the part of a workflow that is judged; its JSON is that of the API.
type Definition struct {
	Steps []Step `json:"steps"`
}

// A Step calls a URL, or waits. Each stands behind those that it comes after.
type Step struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"`
	When  string   `json:"when,omitempty"` // "" = all_succeeded
	If    string   `json:"if,omitempty"`

	HTTP  *Target `json:"http,omitempty"`
	Retry *Retry  `json:"retry,omitempty"`
	// Timeout bounds one attempt; it is not judged.
	Timeout string   `json:"timeout,omitempty"`
	Wait    *Wait    `json:"wait,omitempty"`
	ForEach *ForEach `json:"for_each,omitempty"`
	// Payload is a template; it is not judged.
	Payload json.RawMessage `json:"payload,omitempty"`
}

// A Target is what a step calls.
type Target struct {
	URL string `json:"url"`
}

// A Retry is how often a step is tried, in the words of the API.
type Retry struct {
	MaxAttempts int    `json:"max_attempts"`
	Initial     string `json:"initial,omitempty"`
	Max         string `json:"max,omitempty"`
}

// A Wait is how long a step waits.
type Wait struct {
	For check.Span `json:"for"`
}

// A ForEach makes a run of a step for each item of a list in the payload of the workflow run: of the
// member that Input names, such as "/items".
type ForEach struct {
	Input         string `json:"input"`
	MaxConcurrent int    `json:"max_concurrent,omitempty"`
}

// A Trigger is a request to run a workflow, with its answer.
type Trigger struct {
	// Ref names the workflow, and the request among those of all workflows, from 1.
	Ref     check.Ref       `json:"ref"`
	Payload json.RawMessage `json:"payload"`
	// Requested is when it was sent first, Acked when an answer named its run; zero: none did.
	Requested time.Time `json:"requested"`
	Acked     time.Time `json:"acked,omitzero"`
	Run       string    `json:"run,omitempty"`
}

// maxAttempts is how often a run of the step is tried at most.
func (s *Step) maxAttempts() int {
	if s.Retry == nil || s.Retry.MaxAttempts == 0 {
		return check.DefaultMaxAttempts
	}
	return s.Retry.MaxAttempts
}

// graph is a definition whose references are looked up.
type graph struct {
	name  string
	steps []node
}

// node is a step of a graph.
type node struct {
	*Step
	before []int     // the steps that it comes after
	holds  condition // nil: it has no if
	ref    check.Ref // that its URL names; zero: it waits
}

// newGraph looks up what a workflow refers to. The error is check.ErrHistory: the judge does not
// understand it.
func newGraph(w *Workflow) (*graph, error) {
	g := &graph{name: w.Name, steps: make([]node, len(w.Definition.Steps))}
	index := make(map[string]int)
	for i := range g.steps {
		s := &w.Definition.Steps[i]
		fault := func(format string, args ...any) error {
			return fmt.Errorf("%w: workflow %s, step %s: %s", check.ErrHistory, w.Name, s.Name, fmt.Sprintf(format, args...))
		}
		n := node{Step: s}
		for _, name := range s.After {
			k, ok := index[name]
			if !ok {
				return nil, fault("%q does not stand before it", name)
			}
			n.before = append(n.before, k)
		}
		if s.If != "" {
			var err error
			if n.holds, err = parseCondition(s.If, index); err != nil {
				return nil, fault("%v", err)
			}
		}
		switch {
		case (s.HTTP == nil) == (s.Wait == nil):
			return nil, fault("it neither calls nor waits, or both")
		case s.HTTP != nil:
			u, err := url.Parse(s.HTTP.URL)
			if err != nil {
				return nil, fault("%v", err)
			}
			if n.ref, _ = check.ParseRef(u.Path); n.ref.IsZero() {
				return nil, fault("its URL %s names nothing", s.HTTP.URL)
			}
		}
		index[s.Name] = i
		g.steps[i] = n
	}
	return g, nil
}

// items returns how many items a step has in a run with that payload. It is an error of the test if
// the payload has no such list.
func (f *ForEach) items(payload json.RawMessage) (int, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return 0, fmt.Errorf("%w: payload: %w", check.ErrHistory, err)
	}
	text, ok := members[strings.TrimPrefix(f.Input, "/")]
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); !ok || err != nil {
		return 0, fmt.Errorf("%w: %s of the payload is no list", check.ErrHistory, f.Input)
	}
	return len(list), nil
}

// number returns a whole number in a payload.
func number(payload json.RawMessage, name string) (int, bool) {
	var members map[string]json.RawMessage
	var n int
	if json.Unmarshal(payload, &members) != nil || len(bytes.TrimSpace(members[name])) == 0 {
		return 0, false
	}
	return n, json.Unmarshal(members[name], &n) == nil
}

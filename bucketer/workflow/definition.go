package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// Bounds of a definition. What else is bounded stands beside the code that checks it.
const (
	MaxSteps    = 1000
	MaxItems    = 10_000              // runs of one step
	MaxDeadline = 90 * 24 * time.Hour // of a run, a step and a wait; also the longest wait
	// MaxStored is how large the stored form may be, in bytes: less than a row takes. Compile does
	// not check it; who accepts definitions does.
	MaxStored = schema.MaxRow / 2
)

// When says what must have become of the steps before one, for it to start. The zero value is
// AllSucceeded.
type When string

// The conditions. Each is monotone: once it is met, or cannot be met any more, more knowledge does
// not change that.
const (
	AllSucceeded When = "all_succeeded"
	AllDone      When = "all_done"      // all have ended, however
	AnySucceeded When = "any_succeeded" // one has, and the step does not wait for the others
	AnyFailed    When = "any_failed"    // one has, and the step does not wait for the others
	Always       When = "always"        // all have ended, however; also after a cancel of the run
)

// Whens are all conditions. Do not modify.
var Whens = []When{AllSucceeded, AllDone, AnySucceeded, AnyFailed, Always}

// Or returns w, or AllSucceeded for the zero value.
func (w When) Or() When {
	if w == "" {
		return AllSucceeded
	}
	return w
}

// Verdict says how a step ended, for what comes after it. "" means that it has not ended.
type Verdict string

// The verdicts.
const (
	Succeeded Verdict = "succeeded"
	Failed    Verdict = "failed"
	Cancelled Verdict = "cancelled"
)

// Definition is a graph of steps, as a workflow says it. Its JSON is what stores hold and what the
// API answers with.
type Definition struct {
	Steps []Step `json:"steps"`
	// Deadline is how long a run may take as a whole; 0: as long as it takes.
	Deadline schema.Duration `json:"deadline,omitempty"`
}

// Step is a node of the graph. It has exactly one kind of work: Task, Work, Wait or Workflow.
type Step struct {
	Name  string   `json:"name"`
	After []string `json:"after,omitempty"` // names of the steps before it; none: it starts at once
	When  When     `json:"when,omitempty"`
	If    string   `json:"if,omitempty"` // a CEL expression; false: the step is skipped

	Task string `json:"task,omitempty"`
	// Work is http, nats, script, lambda or a message, inline. Its fields stand beside those of the
	// step, as they do in a job. It is nil for other kinds: do not read its fields through the
	// step.
	*schema.Work
	Wait     *Wait  `json:"wait,omitempty"`
	Workflow string `json:"workflow,omitempty"` // a child, by name

	ForEach *ForEach `json:"for_each,omitempty"`
	// Payload is a template: objects that are references are replaced. See doc.go.
	Payload  json.RawMessage `json:"payload,omitempty"`
	Priority schema.Priority `json:"priority,omitempty"`
	Deadline schema.Duration `json:"deadline,omitempty"` // how long the step may take as a whole
}

// ForEach makes one run of a step for each item of a list. The list is exactly one of From, Input
// and Items.
type ForEach struct {
	From    string            `json:"from,omitempty"`    // a step, whose output is the list …
	Pointer string            `json:"pointer,omitempty"` // … or holds it, there
	Input   *string           `json:"input,omitempty"`   // a pointer into the payload of the run
	Items   []json.RawMessage `json:"items,omitzero"`    // the list itself; empty is not absent
	// MaxConcurrent is how many runs of the step may be under way at once; 0: all.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
}

// Wait holds a step up: for a time, or until an event. It is exactly one of For, Until and Event.
type Wait struct {
	For   schema.Duration `json:"for,omitempty"`
	Until string          `json:"until,omitempty"` // RFC 3339
	Event string          `json:"event,omitempty"` // the name of an event
	// Filter is a CEL expression over event and input, and Deadline how long to wait: of Event.
	Filter   string          `json:"filter,omitempty"`
	Deadline schema.Duration `json:"deadline,omitempty"`
}

// Due returns when a wait for a time that began at start is over, to the ms, rounded up. It is
// false for a wait for an event. The definition must have been compiled.
func (w *Wait) Due(start time.Time) (time.Time, bool) {
	due := start.Add(w.For.Std())
	switch {
	case w.Until != "":
		due, _ = time.Parse(time.RFC3339, w.Until)
	case w.For == 0:
		return time.Time{}, false
	}
	due = due.UTC()
	if ms := due.Truncate(time.Millisecond); !ms.Equal(due) {
		due = ms.Add(time.Millisecond)
	}
	return due, true
}

// Encode returns the stored form of d. Of a definition that compiles, decoding and encoding it
// again gives the same bytes.
func Encode(d *Definition) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it would change payloads
	if err := e.Encode(d); err != nil {
		return nil, fmt.Errorf("encode workflow: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// Decode is the inverse of Encode. It checks nothing but that the text can be understood; Compile
// does. Its error is schema.ErrNotUnderstood.
func Decode(text []byte) (*Definition, error) {
	var d *Definition
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("decode workflow: %w: %w", schema.ErrNotUnderstood, err)
	}
	if d == nil {
		return nil, fmt.Errorf("decode workflow: %w: null", schema.ErrNotUnderstood)
	}
	return d, nil
}

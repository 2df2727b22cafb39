package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/common/types/ref"
)

// Bounds of what a step reads and becomes.
const (
	MaxOutput   = 8 << 20  // bytes of an output, or of all outputs of a step with for_each
	maxPrepared = 32 << 20 // bytes of the payloads of all items of a step
)

// Input is what a step may refer to.
type Input struct {
	Payload json.RawMessage // of the run
	RunID   string
	Nominal time.Time
	// Output returns the output of a step, nothing if it has none. That of a step with for_each is
	// an array of the outputs of its items, in their order. It is called at most once for a step,
	// and only for those of Needs.
	Output func(step int) (json.RawMessage, error)
	// State returns what expressions see as steps.NAME.state; nil: all are "".
	State func(step int) string
}

// Prepared is what a step has become.
type Prepared struct {
	Skip bool // its if was false: it is skipped, and counts as Succeeded
	// Items are the payloads of its runs: one for a step without for_each. Nil is no payload. They
	// may share memory.
	Items []json.RawMessage
}

// Failure says that a step cannot be started, and never can with this input: it has failed.
type Failure struct{ Reason string }

// Error returns the reason.
func (f *Failure) Error() string { return f.Reason }

func failuref(format string, args ...any) error { return &Failure{fmt.Sprintf(format, args...)} }

// Prepare evaluates the if of step i, the list of its items and their payloads. A *Failure says why
// the step fails. Any other error is one of in.Output, and decides nothing.
func (g *Graph) Prepare(i int, in Input) (Prepared, error) {
	p := &g.plans[i]
	if p.condition == nil && p.payload == nil && g.steps[i].ForEach == nil {
		return Prepared{Items: make([]json.RawMessage, 1)}, nil
	}
	return g.prepare(i, p, in)
}

func (g *Graph) prepare(i int, p *plan, in Input) (Prepared, error) {
	e := evaluation{g: g, in: &in}
	if p.condition != nil {
		switch holds, err := e.holds(p.condition); {
		case err != nil:
			return Prepared{}, err
		case !holds:
			return Prepared{Skip: true}, nil
		}
	}
	items := make([]json.RawMessage, 1)
	if f := g.steps[i].ForEach; f != nil {
		var err error
		if items, err = e.items(f, p); err != nil {
			return Prepared{}, err
		}
	}
	if p.payload != nil {
		if err := e.fill(p.payload, items); err != nil {
			return Prepared{}, err
		}
		return Prepared{Items: items}, nil
	}
	clear(items)
	return Prepared{Items: items}, nil
}

// evaluation is the state of one call of Prepare.
type evaluation struct {
	g       *Graph
	in      *Input
	outputs map[int]*output
	broken  error // of in.Output
}

// output is an output that was read.
type output struct {
	text  []byte
	err   error
	value ref.Val // nil: not yet taken apart
}

// output returns the output of a step as JSON.
func (e *evaluation) output(step int) *output {
	if o := e.outputs[step]; o != nil {
		return o
	}
	o := new(output)
	if e.outputs == nil {
		e.outputs = make(map[int]*output)
	}
	e.outputs[step] = o
	text, err := e.in.Output(step)
	if err != nil {
		e.broken = fmt.Errorf("output of step %q: %w", e.g.steps[step].Name, err)
		o.err = e.broken
		return o
	}
	if text = trim(text); len(text) == 0 {
		text = []byte("null")
	}
	o.text = text
	if len(text) > MaxOutput {
		o.err = failuref("the output of step %q is %d bytes, and may be at most %d", e.g.steps[step].Name, len(text), MaxOutput)
	} else if what := jsonFault(text); what != "" {
		o.err = failuref("the output of step %q %s", e.g.steps[step].Name, what)
	}
	return o
}

// input returns the payload of the run as JSON.
func (e *evaluation) input() ([]byte, error) {
	text := trim(e.in.Payload)
	if len(text) == 0 {
		return []byte("null"), nil
	}
	if what := jsonFault(text); what != "" {
		return nil, failuref("the payload of the run %s", what)
	}
	return text, nil
}

// items returns the items of a step with for_each, in memory of their own.
func (e *evaluation) items(f *ForEach, p *plan) ([]json.RawMessage, error) {
	if f.Items != nil {
		return slices.Clone(p.items), nil
	}
	var text []byte
	var err error
	what := "the payload of the run"
	if f.From != "" {
		what = fmt.Sprintf("the output of step %q", f.From)
		o := e.output(p.list.step)
		text, err = o.text, o.err
	} else {
		text, err = e.input()
	}
	if err != nil {
		return nil, within("for_each", err)
	}
	list, missing := find(text, p.list.at)
	switch {
	case missing != "":
		return nil, failuref("for_each: %s %s", what, missing)
	case list[0] != '[' && len(p.list.at) > 0:
		return nil, failuref("for_each: %s has %s at %s, not an array", what, kindOf(list), short(p.list.at.String()))
	case list[0] != '[':
		return nil, failuref("for_each: %s is %s, not an array", what, kindOf(list))
	}
	var items []json.RawMessage
	n := 0
	for item := range elements(list) {
		if n++; n <= MaxItems {
			items = append(items, item)
		}
	}
	if n > MaxItems {
		return nil, failuref("for_each: %s has %d items, and may have at most %d", what, n, MaxItems)
	}
	return items, nil
}

// fill replaces items by their payloads.
func (e *evaluation) fill(t *template, items []json.RawMessage) error {
	f, err := fillerOf(t, e.lookUp)
	if err != nil {
		return within("payload", err)
	}
	total := 0
	for i, item := range items {
		if i > 0 && !f.perItem {
			items[i] = items[0]
			continue
		}
		if items[i], err = f.fill(item, i); err != nil {
			return err
		}
		if total += len(items[i]); total > maxPrepared {
			return failuref("payload: those of all items are more than %d bytes together", maxPrepared)
		}
	}
	return nil
}

// lookUp returns what a reference stands for that is the same for each item.
func (e *evaluation) lookUp(r *reference) ([]byte, error) {
	var text []byte
	var err error
	what := "the payload of the run"
	switch r.kind {
	case refRun:
		return runFact(r.at, e.in.RunID, e.in.Nominal), nil
	case refFrom:
		what = fmt.Sprintf("the output of step %q", e.g.steps[r.step].Name)
		o := e.output(r.step)
		text, err = o.text, o.err
	default:
		text, err = e.input()
	}
	if err != nil {
		return nil, err
	}
	part, missing := find(text, r.at)
	if missing != "" {
		return nil, failuref("%s %s", what, missing)
	}
	return part, nil
}

// within says of which part of a step a failure is.
func within(part string, err error) error {
	if f, ok := err.(*Failure); ok { //nolint:errorlint // it is never wrapped here
		return failuref("%s: %s", part, f.Reason)
	}
	return err
}

// runFact returns a fact of a run that $run names.
func runFact(at pointer, id string, nominal time.Time) []byte {
	text := id
	if at[0] == "nominal_at" {
		text = nominal.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	quoted, _ := json.Marshal(text) // of a string, always
	return quoted
}

// CheckRunPayload returns what is wrong with the payload of a workflow, in which only $run can be
// referred to. Pointers are into the payload.
func CheckRunPayload(payload json.RawMessage) []Fault {
	_, faults := readRunPayload(payload)
	return faults
}

// ResolveRunPayload returns the payload of a run of a workflow that states payload, with references
// to $run replaced. The error says what is wrong with the payload.
func ResolveRunPayload(payload json.RawMessage, runID string, nominal time.Time) (json.RawMessage, error) {
	t, faults := readRunPayload(payload)
	if len(faults) > 0 {
		return nil, failuref("payload: %s %s", faults[0].Pointer, faults[0].Message)
	}
	if t == nil {
		return nil, nil
	}
	f, err := fillerOf(t, func(r *reference) ([]byte, error) { return runFact(r.at, runID, nominal), nil })
	if err != nil {
		return nil, err
	}
	return f.fill(nil, 0)
}

func readRunPayload(payload json.RawMessage) (*template, []Fault) {
	var faults []Fault
	r := templateReader{allowed: []refKind{refRun}, fault: func(at, message string, value any) {
		if len(faults) < maxFaults {
			faults = append(faults, Fault{Pointer: at, Message: message, Value: value})
		}
	}}
	return r.read(payload, ""), faults
}

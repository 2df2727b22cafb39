package client

import (
	"encoding/json"
	"fmt"
)

// A Reference stands in the payload of a step for a value that is known when the step starts.
// Input, Item, Index, CurrentRun, NominalTime and Step.Output return one. Pointers are JSON
// pointers (RFC 6901): "/files/0" is a part of the value, "" the whole.
type Reference interface {
	json.Marshaler
	standsIn()
}

// reference is an object that the API replaces.
type reference map[string]any

func (r reference) standsIn() {}

// MarshalJSON returns the object.
func (r reference) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any(r)) }

// Item stands for a part of the item of a step with ForEach.
func Item(pointer string) Reference { return reference{"$item": pointer} }

// Index stands for the number of the item of a step with ForEach, from 0.
func Index() Reference { return reference{"$index": true} }

// CurrentRun stands for the id of the workflow run.
func CurrentRun() Reference { return reference{"$run": "/id"} }

// NominalTime stands for the instant that the schedule names for the workflow run.
func NominalTime() Reference { return reference{"$run": "/nominal_at"} }

// List is what ForEach goes through: Input, Step.Output or Items.
type List interface {
	fillList(f *forEachBody, of *Workflow, n *notes)
}

// RunInput is what Input returns: a Reference, and a List.
type RunInput struct {
	reference
	pointer string
}

// Input stands for a part of the payload of the workflow run.
func Input(pointer string) RunInput { return RunInput{reference{"$input": pointer}, pointer} }

func (i RunInput) fillList(f *forEachBody, _ *Workflow, _ *notes) { f.Input = &i.pointer }

// StepOutput is what Step.Output returns: a Reference, and a List.
type StepOutput struct {
	reference
	step    *Step
	pointer string
}

// Output stands for a part of the output of a step, which must run before the step that refers to
// it. The output of a step with ForEach is an array of those of its items.
func (s *Step) Output(pointer string) StepOutput {
	return StepOutput{reference{"$from": s.name, "pointer": pointer}, s, pointer}
}

func (o StepOutput) fillList(f *forEachBody, of *Workflow, n *notes) {
	if o.step == nil || o.step.of != of {
		n.fault("for_each.from", "must be a step of this workflow")
		return
	}
	f.From, f.Pointer = o.step.name, o.pointer
}

type items []any

// Items is a list that is known now.
func Items[T any](values ...T) List {
	list := make(items, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}

func (l items) fillList(f *forEachBody, _ *Workflow, n *notes) {
	f.Items = make([]json.RawMessage, len(l))
	for i, v := range l {
		f.Items[i] = n.json(fmt.Sprintf("for_each.items[%d]", i), v)
	}
}

// forEachBody is ForEach in a request.
type forEachBody struct {
	From          string            `json:"from,omitempty"`
	Pointer       string            `json:"pointer,omitempty"`
	Input         *string           `json:"input,omitempty"`
	Items         []json.RawMessage `json:"items,omitzero"` // empty is not absent
	MaxConcurrent int               `json:"max_concurrent,omitempty"`
}

// ForEachOption says more about ForEach.
type ForEachOption func(*forEachBody, *notes)

// MaxConcurrent is how many runs of the step may be under way at once; without it all may.
func MaxConcurrent(number int) ForEachOption {
	return func(f *forEachBody, n *notes) { f.MaxConcurrent = n.number("for_each.max_concurrent", number) }
}

package client

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Step builds a step of a workflow. Workflow.Step makes one.
type Step struct {
	notes
	of    *Workflow
	name  string
	work  StepWork
	after []*Step
	list  List
	each  []ForEachOption
	says  stepBody
}

// stepBody is a step in a request.
type stepBody struct {
	Name  string    `json:"name"`
	After []string  `json:"after,omitempty"`
	When  Condition `json:"when,omitempty"`
	If    string    `json:"if,omitempty"`
	workBody
	ForEach  *forEachBody    `json:"for_each,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	Priority Priority        `json:"priority,omitempty"`
	Deadline Duration        `json:"deadline,omitempty"`
}

func (s *Step) build(n *notes) stepBody {
	n.take("", &s.notes)
	body := s.says
	body.Name = s.name
	for i, before := range s.after {
		switch {
		case before == nil || !slices.Contains(s.of.steps, before):
			n.fault(fmt.Sprintf("after[%d]", i), "must be a step of this workflow")
		case before == s:
			n.fault(fmt.Sprintf("after[%d]", i), "is the step itself")
		default:
			body.After = append(body.After, before.name)
		}
	}
	fillWork(&body.workBody, s.work, n)
	if s.list != nil {
		body.ForEach = new(forEachBody)
		s.list.fillList(body.ForEach, s.of, n)
		for _, o := range s.each {
			o(body.ForEach, n)
		}
	}
	return body
}

// After has the step wait for others, which must have succeeded unless When says otherwise.
func (s *Step) After(steps ...*Step) *Step {
	s.after = append(s.after, steps...)
	return s
}

// When says what must have become of the steps before this one.
func (s *Step) When(c Condition) *Step {
	s.says.When = Condition(s.text("when", string(c)))
	return s
}

// If has the step run only if a CEL expression is true, such as
// "size(steps.extract.output.files) > 0". Otherwise it is skipped, and counts as succeeded.
func (s *Step) If(expression string) *Step {
	s.says.If = s.text("if", expression)
	return s
}

// ForEach makes a run of the step for each item of a list.
func (s *Step) ForEach(list List, options ...ForEachOption) *Step {
	if list == nil {
		s.fault("for_each", "must not be nil")
	}
	s.list, s.each = list, options
	return s
}

// Payload states what the step gets: anything that encodes as JSON, and may hold References.
func (s *Step) Payload(v any) *Step {
	s.says.Payload = s.json("payload", v)
	return s
}

// Priority orders the runs of the step among others that are due; the default is the workflow's.
func (s *Step) Priority(p Priority) *Step {
	s.says.Priority = Priority(s.text("priority", string(p)))
	return s
}

// Deadline has the step end so long after its start at the latest, with all its attempts.
func (s *Step) Deadline(d time.Duration) *Step {
	s.says.Deadline = s.span("deadline", d)
	return s
}

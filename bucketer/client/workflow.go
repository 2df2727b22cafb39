package client

import (
	"fmt"
	"time"
)

// Workflow builds a workflow: a named graph of steps. Its methods, and those of its steps, return
// what they belong to, so that they can be written one after the other; what is wrong is said when
// the workflow is sent. One goroutine may use it at a time. Sending does not change it.
type Workflow struct {
	common
	deadline Duration
	steps    []*Step
}

// NewWorkflow returns a workflow of a name. Unless more is said it runs when it is triggered.
func NewWorkflow(name string) *Workflow {
	w := new(Workflow)
	w.says.Name = w.text("name", name)
	return w
}

// workflowBody is a workflow in a request.
type workflowBody struct {
	Settings
	Deadline Duration   `json:"deadline,omitempty"`
	Steps    []stepBody `json:"steps"`
}

func (w *Workflow) build() (workflowBody, error) {
	n := notes{}
	n.take("", &w.notes)
	body := workflowBody{Settings: w.says, Deadline: w.deadline, Steps: make([]stepBody, len(w.steps))}
	for i, s := range w.steps {
		var of notes
		body.Steps[i] = s.build(&of)
		n.take(fmt.Sprintf("steps[%d].", i), &of)
	}
	return body, n.err()
}

// Step adds a step that does the work, and returns it. It starts at once, unless it comes After
// others.
func (w *Workflow) Step(name string, work StepWork) *Step {
	s := &Step{of: w, name: name, work: work}
	s.text("name", name)
	w.steps = append(w.steps, s)
	return s
}

// Schedule has the workflow run again and again.
func (w *Workflow) Schedule(s *Schedule) *Workflow {
	w.schedule(s)
	return w
}

// On has events of a name start a run each. The payload of the run is the body of the event.
func (w *Workflow) On(event string, options ...OnOption) *Workflow {
	w.on(event, options)
	return w
}

// Deadline has a run end so long after its due time at the latest.
func (w *Workflow) Deadline(d time.Duration) *Workflow {
	w.deadline = w.span("deadline", d)
	return w
}

// Payload states the input of runs that state none: anything that encodes as JSON, and may hold
// CurrentRun and NominalTime.
func (w *Workflow) Payload(v any) *Workflow {
	w.says.Payload = w.json("payload", v)
	return w
}

// Priority orders the runs of the workflow among others that are due.
func (w *Workflow) Priority(p Priority) *Workflow {
	w.says.Priority = Priority(w.text("priority", string(p)))
	return w
}

// Label adds a label, by which workflows can be listed.
func (w *Workflow) Label(name, value string) *Workflow {
	w.label(name, value)
	return w
}

// Concurrency bounds how many runs of the workflow may be under way at once.
func (w *Workflow) Concurrency(limit int, then OnLimit) *Workflow {
	w.concurrency(limit, then)
	return w
}

// ConcurrencyBy has the bound of Concurrency count for each value that payloads have at a JSON
// pointer, as that of a Job.
func (w *Workflow) ConcurrencyBy(pointer string) *Workflow {
	w.concurrencyBy(pointer)
	return w
}

// PauseOnFailure has the workflow pause when so many of its runs in a row have failed, until it is
// resumed.
func (w *Workflow) PauseOnFailure(runs int) *Workflow {
	w.pauseOnFailure(runs)
	return w
}

// Misfire says what becomes of runs that cannot begin when they are due. A run that cannot begin
// within the deadline is missed; 0: however late it is, it begins.
func (w *Workflow) Misfire(p MisfirePolicy, deadline time.Duration) *Workflow {
	w.misfire(p, deadline)
	return w
}

// Durability says when the workflow and its changes are acknowledged, where there are regions.
func (w *Workflow) Durability(d Durability) *Workflow {
	w.says.Durability = Durability(w.text("durability", string(d)))
	return w
}

// MarshalJSON returns the body of the request that puts the workflow, which is also what `carillon
// workflow apply` takes.
func (w *Workflow) MarshalJSON() ([]byte, error) {
	body, err := w.build()
	if err != nil {
		return nil, err
	}
	return encode(body)
}

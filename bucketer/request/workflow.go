package request

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// WorkflowRequest is the body of PUT /v1/workflows/{name}.
type WorkflowRequest struct {
	Name        string              `json:"name,omitempty"`      // absent, or that of the path
	Schedule    *Schedule           `json:"schedule,omitempty"`  // with cron or every
	Schedules   []Schedule          `json:"schedules,omitempty"` // instead of one: due when any of them is
	Start       time.Time           `json:"start,omitzero"`
	End         time.Time           `json:"end,omitzero"`
	MaxRuns     int                 `json:"max_runs,omitempty"`
	Jitter      *schema.Duration    `json:"jitter,omitempty"` // nil: the default; 0: none
	Concurrency *schema.Concurrency `json:"concurrency,omitempty"`
	// PauseOnFailure: it pauses when so many runs in a row have failed.
	PauseOnFailure *PauseOnFailure `json:"pause_on_failure,omitempty"`
	// On: events start runs, instead of a schedule.
	On *schema.EventTrigger `json:"on,omitempty"`

	Payload  json.RawMessage   `json:"payload,omitempty"`
	Priority schema.Priority   `json:"priority,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Misfire  *schema.Misfire   `json:"misfire,omitempty"`
	// Durability is when it is acknowledged, and its runs that are asked for.
	Durability schema.Durability `json:"durability,omitempty"`

	workflow.Definition
}

// Workflow is a workflow that was read: what it says as a recurring job does (all but the task and
// the work, and no Schedule if none was stated), and its graph.
type Workflow struct {
	schema.JobSpec // its Payload is a template: workflow.ResolveRunPayload
	Definition     workflow.Definition
}

// OfWorkflow returns a workflow as a body that asks for it, with the fields that were stated.
func OfWorkflow(w *Workflow) WorkflowRequest {
	r := OfSpec(&w.JobSpec)
	return WorkflowRequest{
		Name: r.Name, Schedule: r.Schedule, Schedules: r.Schedules, Start: r.Start, End: r.End, MaxRuns: r.MaxRuns, Jitter: r.Jitter, Concurrency: r.Concurrency,
		PauseOnFailure: r.PauseOnFailure,
		On:             w.On, Payload: r.Payload, Priority: r.Priority, Labels: r.Labels, Misfire: r.Misfire, Durability: r.Durability, Definition: w.Definition,
	}
}

// Workflow reads the body of PUT /v1/workflows/{name}. A fault of the name is located at path.name.
// What workflow.Compile finds wrong is among the faults.
func (d *Decoder) Workflow(tenant, name string, body []byte, now time.Time) (Workflow, error) {
	if !d.begin(body) {
		return Workflow{}, d.err()
	}
	d.faults = append(pathFaults("path.name", name), d.faults...)
	r := workflowReader{jobReader: jobReader{
		jobForm: jobForm{tenant: tenant, now: now, anchor: now}, d: d,
		when: scheduleReader{d: d, now: now, otherwise: now},
	}}
	for c := range d.members(0) {
		r.field(string(d.doc.name(c)), c)
	}
	r.finish(name)
	r.checkSize()
	if err := d.err(); err != nil {
		return Workflow{}, err
	}
	w := Workflow{JobSpec: r.spec, Definition: r.definition}
	j := &r.job
	w.On, w.Durability = r.on, j.Durability
	w.Tenant, w.Name, w.Priority, w.Labels, w.Misfire, w.Payload = tenant, name, j.Priority, j.Labels, j.Misfire, j.Payload
	if r.when.recurring() {
		stated := r.when.stated()
		w.Schedule = &stated
	}
	return w, nil
}

// workflowReader gathers the fields of a workflow. Those that it has in common with a job are read
// as there.
type workflowReader struct {
	jobReader
	definition workflow.Definition
}

func (r *workflowReader) field(name string, c int32) {
	d := r.d
	switch name {
	case "name", "schedule", "schedules", "start", "end", "max_runs", "jitter", "concurrency", "pause_on_failure", "on", "priority", "labels", "misfire", "durability":
		r.jobReader.field(name, c)
	case "payload":
		r.jobReader.field(name, c)
		for _, f := range workflow.CheckRunPayload(r.job.Payload) {
			r.graphFault("/payload"+f.Pointer, f)
		}
	case "deadline":
		r.definition.Deadline = d.duration(c, time.Second, workflow.MaxDeadline)
	case "steps":
		r.steps(c)
	default:
		d.faultQuietly(c, "is not a field of a workflow")
	}
}

// finish checks what concerns several fields, and the graph.
func (r *workflowReader) finish(name string) {
	d := r.d
	switch {
	case r.when.recurring():
		r.when.finish()
	case r.when.once:
		d.faultAt("body.schedule", "must have cron or every: a workflow is run once by a trigger")
	case r.when.node > 0 && !r.when.faulty:
		d.faultAt("body.schedule", "must have cron or every")
	}
	for _, c := range r.many {
		switch field := string(d.doc.name(c)); {
		case field == "name" && r.spec.Name != name:
			d.faultAt("body.name", "must be the name in the path, or absent")
		case field != "name" && field != "concurrency" && field != "pause_on_failure" && r.when.node == 0:
			d.faultQuietly(c, "goes with a schedule alone")
		}
	}
	r.onlyOne("schedule and on")
	read := d.faults
	_, faults := workflow.Compile(&r.definition)
	for _, f := range faults {
		if d.full() {
			return
		}
		if location := r.locate(f.Pointer); !spokenOf(read, location) {
			d.faults = append(d.faults, bucketer.Fault{Location: location, Message: f.Message, Value: f.Value})
		}
	}
}

// checkSize checks that the graph can be stored, if nothing else is wrong with it.
func (r *workflowReader) checkSize() {
	if r.d.err() != nil {
		return
	}
	text, err := workflow.Encode(&r.definition)
	switch {
	case err != nil:
		r.d.faultAt("body.steps", "cannot be stored: %s", err)
	case len(text) > workflow.MaxStored:
		r.d.faultAt("body.steps", "must be at most %d bytes together, as compact JSON, not %d", workflow.MaxStored, len(text))
	}
}

// spokenOf reports whether something was found wrong at a location or around it: what follows from
// that is of no use to anybody.
func spokenOf(faults bucketer.Faults, location string) bool {
	for _, f := range faults {
		if rest, ok := strings.CutPrefix(location, f.Location); ok && f.Location != "body" && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// graphFault notes a fault of package workflow, at a pointer into the body.
func (r *workflowReader) graphFault(pointer string, f workflow.Fault) {
	if d := r.d; !d.full() {
		d.faults = append(d.faults, bucketer.Fault{Location: r.locate(pointer), Message: f.Message, Value: f.Value})
	}
}

// locate returns the location of a JSON pointer into the body; its end may be missing there.
func (r *workflowReader) locate(pointer string) string {
	at, missing := int32(0), ""
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if pointer == "" {
			break
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if missing == "" {
			if next := r.child(at, token); next > 0 {
				at = next
				continue
			}
		}
		missing += "." + string(bucketer.Shorten([]byte(token), bucketer.MaxName))
	}
	return r.d.doc.location(at) + missing
}

// child returns the member or the element of node i that a token of a pointer names, or 0.
func (r *workflowReader) child(i int32, token string) int32 {
	d, n := r.d, 0
	if !d.is(i, kindObject) && !d.is(i, kindArray) {
		return 0
	}
	for c := range d.allMembers(i) {
		if d.is(i, kindArray) && strconv.Itoa(n) == token || d.is(i, kindObject) && string(d.doc.name(c)) == token {
			return c
		}
		n++
	}
	return 0
}

// stated returns the string that node i is, or another that has no fault if it is none: of what has
// a fault of its own nothing else is to be said.
func (r *workflowReader) stated(i int32, otherwise string) string {
	if s := r.notEmpty(i); s != "" {
		return s
	}
	return otherwise
}

// span returns the duration that node i is, or low if it is none.
func (r *workflowReader) span(i int32, low time.Duration) schema.Duration {
	if v := r.d.duration(i, low, workflow.MaxDeadline); v != 0 {
		return v
	}
	return schema.Duration(low)
}

func (r *workflowReader) steps(i int32) {
	d := r.d
	if !d.is(i, kindArray) {
		d.fault(i, "must be an array of steps")
		return
	}
	for c := range d.allMembers(i) {
		if len(r.definition.Steps) <= workflow.MaxSteps { // Compile says that there are too many
			r.definition.Steps = append(r.definition.Steps, r.step(c))
		}
	}
}

func (r *workflowReader) step(i int32) workflow.Step {
	d := r.d
	s := workflow.Step{}
	w := workReader{d: d, tenant: r.tenant}
	for c := range d.object(i) {
		switch name := string(d.doc.name(c)); name {
		case "name":
			s.Name = d.string(c)
		case "after":
			s.After = r.strings(c)
		case "when":
			s.When = workflow.When(r.stated(c, ""))
		case "if":
			s.If = r.notEmpty(c)
		case "task":
			s.Task = r.stated(c, "t")
		case "workflow":
			s.Workflow = r.stated(c, "w")
		case "wait":
			s.Wait = r.wait(c)
		case "for_each":
			s.ForEach = r.forEach(c)
		case "payload":
			s.Payload = d.payload(c)
		case "priority":
			s.Priority = schema.Priority(d.oneOf(c, priorities))
		case "deadline":
			s.Deadline = d.duration(c, time.Second, workflow.MaxDeadline)
		default:
			if !w.field(name, c) {
				d.faultQuietly(c, "is not a field of a step")
			}
		}
	}
	w.finishRetry()
	w.finishPreemptible()
	if w.targets > 0 || len(w.limits) > 0 {
		work := w.work
		s.Work = &work
	}
	return s
}

// strings returns the strings of an array. One that is none is "".
func (r *workflowReader) strings(i int32) []string {
	d := r.d
	if !d.is(i, kindArray) {
		d.fault(i, "must be an array of strings")
		return nil
	}
	var list []string
	for c := range d.allMembers(i) {
		list = append(list, d.string(c))
	}
	return list
}

func (r *workflowReader) wait(i int32) *workflow.Wait {
	d, w := r.d, new(workflow.Wait)
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "for":
			w.For = r.span(c, time.Millisecond)
		case "until":
			if w.Until = "2000-01-01T00:00:00Z"; d.instant(c, lastInstant).IsZero() {
				continue
			}
			w.Until = d.string(c)
		case "event":
			w.Event = r.stated(c, "e")
		case "filter":
			w.Filter = r.notEmpty(c)
		case "deadline":
			w.Deadline = d.duration(c, time.Second, workflow.MaxDeadline)
		default:
			d.faultQuietly(c, "is not a field of wait")
		}
	}
	return w
}

func (r *workflowReader) forEach(i int32) *workflow.ForEach {
	d, f := r.d, new(workflow.ForEach)
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "from":
			f.From = r.stated(c, "x")
		case "pointer":
			f.Pointer = d.string(c)
		case "input":
			text := d.string(c)
			f.Input = &text
		case "items":
			f.Items = []json.RawMessage{}
			if !d.is(c, kindArray) {
				d.fault(c, "must be an array")
				continue
			}
			for item := range d.allMembers(c) {
				f.Items = append(f.Items, append(json.RawMessage(nil), d.doc.raw(item)...))
			}
		case "max_concurrent":
			f.MaxConcurrent = d.integer(c, 0, workflow.MaxItems)
		default:
			d.faultQuietly(c, "is not a field of for_each")
		}
	}
	return f
}

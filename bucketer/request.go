package bucketer

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// Bounds of a request, besides schema.MaxPayload. Those of one field stand beside the code that checks it.
const (
	MaxBody    = 1 << 20   // bytes of a request body
	MaxLine    = 256 << 10 // bytes of a line of an import
	MaxKey     = 128       // bytes of an idempotency key
	MaxHorizon = 10        // years from now to the latest due time
)

// Schedule says when a one-off job is due.
type Schedule struct {
	// At is the instant asked for; absent or in the past means now. It is kept to the ms, rounded up.
	At time.Time `json:"at,omitzero"`
}

// JobRequest is the body of POST /v1/jobs and, with Key, a line of an import.
type JobRequest struct {
	Key         string `json:"key,omitempty"`  // idempotency key of a line of an import; a single request has a header
	Task        string `json:"task,omitempty"` // the task to run, or else …
	schema.Work        // … the work itself, inline

	Schedule *Schedule         `json:"schedule,omitempty"` // absent: now
	Payload  json.RawMessage   `json:"payload,omitempty"`
	Priority schema.Priority   `json:"priority,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Misfire  *schema.Misfire   `json:"misfire,omitempty"`
}

// TaskRequest is the body of PUT /v1/tasks/{name}.
type TaskRequest struct {
	schema.Work
	Description string `json:"description,omitempty"`
}

// Request returns the job as a body that asks for it, with the fields that were stated.
func (j *Job) Request() JobRequest {
	r := JobRequest{
		Task: j.Task, Payload: j.Payload, Priority: j.Priority, Labels: j.Labels, Misfire: j.Misfire,
	}
	if j.Work != nil {
		r.Work = *j.Work
	}
	if !j.At.IsZero() {
		r.Schedule = &Schedule{At: j.At}
	}
	return r
}

// Rules are what an operator decides about requests. The zero value allows no scripts.
type Rules struct {
	Scripts bool // script tasks are enabled
}

// Decoder reads requests strictly and validates them: unknown fields, doubled names, invalid UTF-8
// and trailing text are refused, and every fault is reported. A field that is null counts as absent.
//
// Its methods return *NotJSONError for what is not JSON and Faults for what is wrong. The zero Decoder works, with
// the zero Rules. It reuses its memory: use it again, from one goroutine at a time. What it returns is
// the caller's and shares nothing with the text.
type Decoder struct {
	Rules Rules

	doc     document
	notJSON *NotJSONError
	faults  Faults
}

// Job reads the body of POST /v1/jobs for a tenant. now is the time of the request.
func (d *Decoder) Job(tenant string, body []byte, now time.Time) (Job, error) {
	return d.job(tenant, body, now, false)
}

// Line reads a line of an import, which may have a key. Job.BodyHash is then the hash of the line without it.
func (d *Decoder) Line(tenant string, line []byte, now time.Time) (Job, error) {
	return d.job(tenant, line, now, true)
}

// BodyHash returns the hash of the last body that Job read without fault: SHA-256 over its compact text with sorted
// members and least escapes, without a member "key" of the root. So space, order of members and escapes do not matter;
// the spelling of numbers and times does.
func (d *Decoder) BodyHash() string {
	return hashText(d.doc.canonical(nil, 0, "key"))
}

// EmptyBody checks the body of a request that takes none: nothing, or an empty object.
func (d *Decoder) EmptyBody(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	if !d.begin(body) {
		return d.err()
	}
	for c := range d.members(0) {
		d.fault(c, "is not a field of this request, which takes none")
	}
	return d.err()
}

// begin parses a body that must be an object, and reports whether it is worth looking into. When it is not,
// err says why.
func (d *Decoder) begin(body []byte) bool {
	d.faults, d.notJSON = nil, nil
	err := d.doc.parse(body)
	var deep *nestingError
	switch {
	case errors.As(err, &d.notJSON):
		return false
	case errors.As(err, &deep):
		d.faultAt(d.doc.location(deep.node), "%s", deep.Error())
		return false
	}
	for _, i := range d.doc.doubles {
		d.faultQuietly(i, "is there twice")
	}
	if d.doc.nodes[0].kind != kindObject {
		d.fault(0, "must be an object")
		return false
	}
	return true
}

// err returns what was found wrong, or nil.
func (d *Decoder) err() error {
	switch {
	case d.notJSON != nil:
		return d.notJSON
	case len(d.faults) > 0:
		return d.faults
	}
	return nil
}

func (d *Decoder) job(tenant string, body []byte, now time.Time, line bool) (Job, error) {
	j := Job{Tenant: tenant}
	if !d.begin(body) {
		return Job{}, d.err()
	}
	w := workReader{d: d}
	task := int32(-1)
	for c := range d.members(0) {
		switch name := d.doc.name(c); string(name) {
		case "key":
			if !line {
				d.faultQuietly(c, "belongs to the lines of an import; a single request has the header Idempotency-Key")
				continue
			}
			if j.Key = d.string(c); j.Key != "" || d.is(c, kindString) {
				if what := KeyFault(j.Key); what != "" {
					d.fault(c, "%s", what)
				}
			}
		case "task":
			task = c
			if j.Task = d.string(c); d.is(c, kindString) {
				if what := NameFault(j.Task); what != "" {
					d.fault(c, "%s", what)
				}
			}
		case "schedule":
			j.At = d.schedule(c, now)
		case "payload":
			j.Payload = d.payload(c)
		case "priority":
			j.Priority = schema.Priority(d.oneOf(c, priorities))
		case "labels":
			j.Labels = d.labels(c)
		case "misfire":
			j.Misfire = d.misfire(c)
		case "name", "start", "end", "max_runs", "jitter", "concurrency", "after", "on", "region":
			d.fault(c, "is not supported yet: only one-off jobs exist so far")
		default:
			if !w.field(string(name), c) {
				d.faultQuietly(c, "is not a field of a job")
			}
		}
	}
	w.finish()
	switch {
	case task >= 0 && w.targets > 0:
		d.faultAt("body", "must have exactly one of task, http, nats and script")
	case task >= 0:
		for _, c := range w.limits {
			d.faultQuietly(c, "belongs to the task: it cannot be stated beside one")
		}
	case w.targets == 0:
		d.faultAt("body", "must have exactly one of task, http, nats and script")
	default:
		j.Work = &w.work
	}
	if err := d.err(); err != nil {
		return Job{}, err
	}
	if j.Key != "" {
		j.BodyHash = d.BodyHash()
	}
	return j, nil
}

// Task reads the body of PUT /v1/tasks/{name}. A fault of the name is located at path.name.
func (d *Decoder) Task(tenant, name string, body []byte) (schema.Task, error) {
	if !d.begin(body) {
		return schema.Task{}, d.err()
	}
	if what := NameFault(name); what != "" {
		d.faults = append(d.faults, Fault{Location: "path.name", Message: what, Value: string(shorten([]byte(name), maxEcho))})
	}
	t := schema.Task{Tenant: tenant, Name: name}
	w := workReader{d: d}
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "description":
			t.Description = d.text(c, maxDescription)
		case "payload_schema", "rate", "max_concurrent":
			d.faultQuietly(c, "is not supported yet")
		default:
			if !w.field(string(field), c) {
				d.faultQuietly(c, "is not a field of a task")
			}
		}
	}
	w.finish()
	if w.targets == 0 {
		d.faultAt("body", "must have exactly one of http, nats and script")
	}
	if err := d.err(); err != nil {
		return schema.Task{}, err
	}
	t.Work = w.work
	return t, nil
}

// Patch reads an RFC 7396 merge patch of a pending one-off job, as it stands, and returns what it changes.
// Faults are located in the merged job. A patch that changes nothing returns the zero Change.
func (d *Decoder) Patch(current Job, body []byte, now time.Time) (Change, error) {
	if !d.begin(body) {
		return Change{}, d.err()
	}
	if err := d.err(); err != nil { // doubled names: there is no one way to merge them
		return Change{}, err
	}
	touched := make(map[string]bool)
	for c := range d.allMembers(0) {
		touched[string(d.doc.name(c))] = true
	}
	request := current.Request()
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // six bytes for each < would push a payload over its limit
	if err := e.Encode(&request); err != nil {
		return Change{}, err
	}
	var target document
	if err := target.parse(text.Bytes()); err != nil {
		return Change{}, err
	}
	merged, err := d.job(current.Tenant, mergePatch(nil, &target, 0, &d.doc, 0), now, false)
	if err != nil {
		return Change{}, err
	}
	var c Change
	if touched["schedule"] {
		c.At = &merged.At
	}
	if touched["payload"] {
		c.Payload = &merged.Payload
	}
	if touched["priority"] {
		c.Priority = &merged.Priority
	}
	if touched["labels"] {
		c.Labels = &merged.Labels
	}
	for _, name := range append([]string{"task"}, workFields...) {
		switch {
		case !touched[name]:
		case merged.Work != nil:
			c.Work = merged.Work
		default:
			c.Task = &merged.Task
		}
	}
	if touched["misfire"] {
		d.faultAt("body.misfire", "cannot be changed yet")
		return Change{}, d.err()
	}
	return c, nil
}

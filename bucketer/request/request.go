package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/payload"
	"carillon.dev/carillon/schema"
)

// Bounds of a request, besides schema.MaxPayload. Those of one field stand beside the code that
// checks it.
const (
	MaxBody    = 1 << 20   // bytes of a request body
	MaxLine    = 256 << 10 // bytes of a line of an import
	MaxHorizon = 10        // years from now to the latest due time
)

// Schedule says when a job is due: at most one of At, Cron and Every; none means now.
type Schedule struct {
	// At is the instant of a one-off job; absent or in the past means now. It is kept to the ms,
	// rounded up.
	At time.Time `json:"at,omitzero"`

	Cron        string `json:"cron,omitempty"`
	Timezone    string `json:"timezone,omitempty"`     // of Cron
	Gap         string `json:"gap,omitempty"`          // of Cron: run or skip
	OverlapHour string `json:"overlap_hour,omitempty"` // of Cron: first, second or both

	Every  schema.Duration `json:"every,omitempty"`
	Anchor time.Time       `json:"anchor,omitzero"` // of Every; absent: creation

	// Exclude are dates of the time zone on which it is not due, such as "2026-12-25".
	Exclude []string `json:"exclude,omitempty"`
	// Calendar: what it does on the dates of a calendar.
	Calendar *ScheduleCalendar `json:"calendar,omitempty"`
}

// ScheduleCalendar is what a schedule does on the dates of a calendar of the tenant.
type ScheduleCalendar struct {
	Name string `json:"name"`
	On   string `json:"on,omitempty"` // skip (default), next_day or previous_day
}

func ofCalendar(c *schema.ScheduleCalendar) *ScheduleCalendar {
	if c == nil {
		return nil
	}
	return &ScheduleCalendar{Name: c.Name, On: c.On}
}

// JobRequest is the body of POST /v1/jobs and, with Key, a line of an import. Name and the fields
// from Start to Concurrency belong to jobs that can have many runs.
type JobRequest struct {
	// idempotency key of a line of an import; a single request has a header
	Key         string `json:"key,omitempty"`
	Name        string `json:"name,omitempty"`
	Task        string `json:"task,omitempty"` // the task to run, or else …
	schema.Work        // … the work itself, inline

	Schedule    *Schedule           `json:"schedule,omitempty"`  // absent: now
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
	// After: it runs after other jobs, instead of by a schedule.
	After *AfterRequest `json:"after,omitempty"`

	Payload  json.RawMessage   `json:"payload,omitempty"`
	Priority schema.Priority   `json:"priority,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Misfire  *schema.Misfire   `json:"misfire,omitempty"`
	// Region is the home at which a one-off job is to lie.
	Region schema.RegionChoice `json:"region,omitzero"`
	// Durability is when it is acknowledged.
	Durability schema.Durability `json:"durability,omitempty"`
	// Unique makes a one-off job the only one of its key for a while.
	Unique *UniqueRequest `json:"unique,omitempty"`
}

// PauseOnFailure says when a job pauses by itself.
type PauseOnFailure struct {
	After int `json:"after" doc:"It pauses when so many of its runs in a row have failed for good, in the order of their due times. A change or a resume begins the count anew" minimum:"1" maximum:"100"`
}

// TaskRequest is the body of PUT /v1/tasks/{name}.
type TaskRequest struct {
	schema.Work
	// Rate is how many of its runs may start in a span, cluster-wide: "100/s", "10/m", "1000/h".
	Rate string `json:"rate,omitempty"`
	// MaxConcurrent is how many of its runs may be under way at once, cluster-wide; 0 = any number.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
	// PayloadSchema is what payloads of the task must fit: a JSON Schema 2020-12 (package payload
	// says within which bounds).
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Description   string          `json:"description,omitempty"`
	// Region is the home at which its one-off jobs lie that name none.
	Region schema.RegionChoice `json:"region,omitzero"`
}

// Rules are what an operator decides about requests. The zero value allows no scripts, and
// has no mail server.
type Rules struct {
	// Script says what is wrong with a tenant's script task, and of which field, such as "args[2]";
	// "" = nothing. Nil: there are none.
	Script func(tenant string, s *schema.ScriptTarget) (field, fault string)
	// MailServer: the operator has a mail server, by which mails are sent that name none.
	MailServer bool
}

// Decoder reads requests strictly and validates them: unknown fields, doubled names, invalid UTF-8
// and trailing text are refused, and every fault is reported. A field that is null counts as
// absent.
//
// Its methods return *NotJSONError for what is not JSON and Faults for what is wrong. The zero
// Decoder works, with the zero Rules. It reuses its memory: use it again, from one goroutine at a
// time. What it returns is the caller's and shares nothing with the text.
type Decoder struct {
	Rules Rules
	fields
}

// fields reads the fields of one body, and collects what is wrong with them.
type fields struct {
	doc     document
	notJSON *NotJSONError
	faults  bucketer.Faults
}

// BodyHash returns the hash of the last body that Job read without fault: SHA-256 over its compact
// text with sorted members and least escapes, without a member "key" of the root. So space, order
// of members and escapes do not matter; the spelling of numbers and times does.
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

// begin parses a body that must be an object, and reports whether it is worth looking into. When it
// is not, err says why.
func (d *fields) begin(body []byte) bool {
	if !parseAny(d, body) {
		return false
	}
	if d.doc.nodes[0].kind != kindObject {
		d.fault(0, "must be an object")
		return false
	}
	return true
}

// parseAny is begin of a body that may be any JSON.
func parseAny(d *fields, body []byte) bool {
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
	return true
}

// err returns what was found wrong, or nil.
func (d *fields) err() error {
	switch {
	case d.notJSON != nil:
		return d.notJSON
	case len(d.faults) > 0:
		return d.faults
	}
	return nil
}

// Task reads the body of PUT /v1/tasks/{name}. A fault of the name is located at path.name.
func (d *Decoder) Task(tenant, name string, body []byte) (schema.Task, error) {
	if !d.begin(body) {
		return schema.Task{}, d.err()
	}
	d.faults = append(d.faults, pathFaults("path.name", name)...)
	t := schema.Task{Tenant: tenant, Name: name}
	w := workReader{d: d, tenant: tenant}
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "description":
			t.Description = d.text(c, maxDescription)
		case "payload_schema":
			t.PayloadSchema = d.payloadSchema(c)
		case "rate":
			t.Rate = d.checked(c, rateFault)
		case "max_concurrent":
			t.MaxConcurrent = d.integer(c, 1, schema.MaxTaskConcurrent)
		case "region":
			t.Region = regionChoice(&d.fields, c)
		default:
			if !w.field(string(field), c) {
				d.faultQuietly(c, "is not a field of a task")
			}
		}
	}
	w.finish()
	if w.targets == 0 {
		d.faultAt("body", "must have exactly one of "+kindsOfCall)
	}
	if err := d.err(); err != nil {
		return schema.Task{}, err
	}
	t.Work = w.work
	return t, nil
}

// payloadSchema returns the JSON Schema that node i is, compact.
func (d *Decoder) payloadSchema(i int32) json.RawMessage {
	var text bytes.Buffer
	if err := json.Compact(&text, d.doc.raw(i)); err != nil {
		d.faultQuietly(i, "is not JSON")
		return nil
	}
	_, err := payload.Compile(text.Bytes())
	var found payload.Faults
	if errors.As(err, &found) {
		for _, f := range found {
			d.faultAt(d.doc.location(i)+f.Pointer, "%s", f.Message)
		}
		return nil
	}
	return text.Bytes()
}

// rateFault says what is wrong with a rate, or "".
func rateFault(text string) string {
	if _, err := schema.ParseRate(text); err != nil {
		return err.Error()
	}
	return ""
}

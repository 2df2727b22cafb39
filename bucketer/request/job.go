package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// Bounds of what only jobs that can have many runs say.
const (
	maxRuns = 100_000
	// the lease of a limit names all its holders, at about 130 bytes a slot, and is written whole
	maxConcurrency = 1000
	maxPauseAfter  = 100
	maxRegion      = 32 // bytes of the name of a region, as in the configuration
)

var onLimits = []string{schema.OnLimitQueue, schema.OnLimitSkip, schema.OnLimitCancelOldest}

// OfOneOff returns the job as a body that asks for it, with the fields that were stated.
func OfOneOff(j *bucketer.Job) JobRequest {
	r := JobRequest{
		Task: j.Task, Payload: j.Payload, Priority: j.Priority, Labels: j.Labels, Misfire: j.Misfire,
		Region: schema.RegionChoice{Name: j.Region, Require: j.RequireRegion}, Durability: j.Durability,
	}
	if j.Work != nil {
		r.Work = *j.Work
	}
	if !j.At.IsZero() {
		r.Schedule = &Schedule{At: j.At}
	}
	return r
}

// OfSpec returns a job that can have many runs as a body that asks for it, with the fields that
// were stated.
func OfSpec(s *schema.JobSpec) JobRequest {
	r := JobRequest{
		Name: s.Name, Task: s.Task, End: s.EndStated, MaxRuns: s.MaxRuns, Concurrency: s.Concurrency, On: s.On, PauseOnFailure: ofPauseAfter(s.PauseAfter),
		Payload: s.Payload, Priority: s.Priority, Labels: s.Labels, Misfire: s.Misfire, Durability: s.Durability,
	}
	if s.Work != nil {
		r.Work = *s.Work
	}
	r.After = ofAfter(s.After)
	if c := s.Schedule; c != nil {
		r.Schedule, r.Schedules = ofSchedule(c)
		r.Start = c.Start
		if s.JitterStated {
			r.Jitter = &c.Jitter
		}
	}
	return r
}

// ofSchedule returns a schedule as a body that asks for it: as one, or as a list.
func ofSchedule(c *schema.Schedule) (one *Schedule, list []Schedule) {
	of := func(c *schema.Schedule) Schedule {
		return Schedule{Cron: c.Cron, Timezone: c.Timezone, Gap: c.Gap, OverlapHour: c.OverlapHour, Every: c.Every, Anchor: c.Anchor, Exclude: c.Exclude, Calendar: ofCalendar(c.Calendar)}
	}
	switch {
	case len(c.Any) == 0:
		s := of(c)
		return &s, nil
	case !c.Listed:
		s := of(&c.Any[0])
		return &s, nil
	}
	for i := range c.Any {
		list = append(list, of(&c.Any[i]))
	}
	return nil, list
}

// Job reads the body of POST /v1/jobs for a tenant. now is the time of the request. A job that can
// have many runs comes back as a spec, which has what was stated and no defaults; the Job is then
// zero.
func (d *Decoder) Job(tenant string, body []byte, now time.Time) (bucketer.Job, *schema.JobSpec, error) {
	return d.job(body, jobForm{tenant: tenant, now: now, anchor: now})
}

// Line reads a line of an import, which may have a key. Job.BodyHash is then the hash of the line
// without it. Of a job that can have many runs the Job holds key and hash alone.
func (d *Decoder) Line(tenant string, line []byte, now time.Time) (bucketer.Job, *schema.JobSpec, error) {
	return d.job(line, jobForm{tenant: tenant, now: now, anchor: now, line: true})
}

// PutJob reads the body of PUT /v1/jobs/{name}, which asks for a job that can have many runs. A
// fault of the name is located at path.id.
func (d *Decoder) PutJob(tenant, name string, body []byte, now time.Time) (schema.JobSpec, error) {
	_, spec, err := d.job(body, jobForm{tenant: tenant, now: now, anchor: now, mayTrigger: true})
	if d.notJSON != nil {
		return schema.JobSpec{}, err
	}
	d.faults = append(pathFaults("path.id", name), d.faults...)
	switch {
	case err != nil:
	case spec == nil:
		d.faultAt("body.schedule", "must have cron or every, or be absent: only jobs that can have many runs have a name")
	case spec.Name == "":
		spec.Name = name
	case spec.Name != name:
		d.faultAt("body.name", "must be the name in the path, or absent")
	}
	if err := d.err(); err != nil {
		return schema.JobSpec{}, err
	}
	return *spec, nil
}

// jobForm is what the reading of a job depends on besides its text.
type jobForm struct {
	tenant string
	now    time.Time
	anchor time.Time // of an interval that states none
	line   bool      // a line of an import, which may have a key
	// mayTrigger: a job that nothing starts but a trigger needs no name in the body.
	mayTrigger bool
}

// jobReader gathers the fields of a job.
type jobReader struct {
	jobForm
	d    *Decoder
	job  bucketer.Job
	work workReader
	task int32 // its node, or 0

	region, payload, uniqueAt int32 // their nodes, or 0

	// What only jobs that can have many runs say, and at which nodes.
	spec schema.JobSpec
	many []int32
	when scheduleReader

	on     *schema.EventTrigger
	onNode int32

	after     *schema.After
	afterNode int32
}

func (d *Decoder) job(body []byte, form jobForm) (bucketer.Job, *schema.JobSpec, error) {
	if !d.begin(body) {
		return bucketer.Job{}, nil, d.err()
	}
	r := jobReader{jobForm: form, d: d, work: workReader{d: d, tenant: form.tenant}, when: scheduleReader{d: d, now: form.now, otherwise: form.anchor}}
	r.job.Tenant = form.tenant
	for c := range d.members(0) {
		r.field(string(d.doc.name(c)), c)
	}
	r.finish()
	if err := d.err(); err != nil {
		return bucketer.Job{}, nil, err
	}
	j := r.job
	if j.Key != "" {
		j.BodyHash = d.BodyHash()
	}
	if !r.hasMany() {
		j.At = r.when.at
		return j, nil, nil
	}
	spec := r.spec
	spec.Tenant, spec.Task, spec.Work, spec.Priority, spec.Labels, spec.Misfire = form.tenant, j.Task, j.Work, j.Priority, j.Labels, j.Misfire
	spec.Payload, spec.On, spec.After, spec.Durability = j.Payload, r.on, r.after, j.Durability
	if r.when.recurring() {
		stated := r.when.stated()
		spec.Schedule = &stated
	}
	return bucketer.Job{Tenant: form.tenant, Key: j.Key, BodyHash: j.BodyHash}, &spec, nil
}

// field takes member c of the request.
func (r *jobReader) field(name string, c int32) {
	d := r.d
	switch name {
	case "key":
		if !r.line {
			d.faultQuietly(c, "belongs to the lines of an import; a single request has the header Idempotency-Key")
			return
		}
		r.job.Key = d.checked(c, bucketer.KeyFault)
	case "task":
		r.task = c
		r.job.Task = d.named(c)
	case "schedule":
		r.when.read(c)
	case "schedules":
		r.when.readList(c)
	case "payload":
		r.payload, r.job.Payload = c, d.payload(c)
	case "priority":
		r.job.Priority = schema.Priority(d.oneOf(c, priorities))
	case "labels":
		r.job.Labels = d.labels(c)
	case "misfire":
		r.job.Misfire = d.misfire(c)
	case "name", "start", "end", "max_runs", "jitter", "concurrency", "pause_on_failure":
		r.many = append(r.many, c)
		r.manyField(name, c)
	case "on":
		r.onNode, r.on = c, r.event(c)
	case "after":
		r.afterNode, r.after = c, r.jobsBefore(c)
	case "durability":
		r.job.Durability = schema.Durability(d.oneOf(c, schema.Durabilities))
	case "unique":
		r.uniqueAt, r.job.Unique = c, r.unique(c)
	case "region":
		r.region = c
		choice := regionChoice(&d.fields, c)
		r.job.Region, r.job.RequireRegion = choice.Name, choice.Require
	default:
		if !r.work.field(name, c) {
			d.faultQuietly(c, "is not a field of a job")
		}
	}
}

// manyField takes a member that only a job that can have many runs has.
func (r *jobReader) manyField(name string, c int32) {
	d := r.d
	switch name {
	case "name":
		r.spec.Name = d.named(c)
	case "start":
		r.when.start, r.when.schedule.Start = c, d.instant(c, r.now.AddDate(MaxHorizon, 0, 0))
	case "end":
		r.when.end, r.when.schedule.End = c, d.instant(c, lastInstant)
		r.spec.EndStated = r.when.schedule.End
	case "max_runs":
		r.spec.MaxRuns = d.integer(c, 1, maxRuns)
	case "jitter":
		r.when.schedule.Jitter = r.when.jitter(c)
		r.spec.JitterStated = true
	case "concurrency":
		r.spec.Concurrency = r.concurrency(c)
	case "pause_on_failure":
		r.spec.PauseAfter = r.pauseAfter(c)
	}
}

// ofPauseAfter returns what a body says for so many failures.
func ofPauseAfter(n int) *PauseOnFailure {
	if n == 0 {
		return nil
	}
	return &PauseOnFailure{After: n}
}

// pauseAfter reads after how many failures in a row a job pauses.
func (r *jobReader) pauseAfter(i int32) (n int) {
	d, stated := r.d, false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "after":
			stated = true
			n = d.integer(c, 1, maxPauseAfter)
		default:
			d.faultQuietly(c, "is not a field of pause_on_failure")
		}
	}
	d.require(i, stated, "after")
	return n
}

func (r *jobReader) concurrency(i int32) *schema.Concurrency {
	d, out, stated := r.d, new(schema.Concurrency), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "limit":
			stated = true
			out.Limit = d.integer(c, 1, maxConcurrency)
		case "on_limit":
			out.OnLimit = d.oneOf(c, onLimits)
		case "key":
			out.Key = d.checked(c, concurrencyKeyFault)
		default:
			d.faultQuietly(c, "is not a field of concurrency")
		}
	}
	d.require(i, stated, "limit")
	return out
}

// concurrencyKeyFault says what is wrong with the key of a concurrency; "": nothing.
func concurrencyKeyFault(key string) string {
	switch {
	case key == "":
		return `must be a JSON pointer into the payload, such as "/customer/id"`
	case len(key) > schema.MaxConcurrencyKey:
		return fmt.Sprintf("must be at most %d bytes long", schema.MaxConcurrencyKey)
	}
	return workflow.PointerFault(key)
}

// regionFault says what is wrong with the name of a region, or "".
func regionFault(name string) string {
	if name == "" || len(name) > maxRegion {
		return "must be the name of a region"
	}
	return ""
}

// finish checks what concerns several fields.
func (r *jobReader) finish() {
	d, w := r.d, &r.work
	w.finish()
	switch {
	case (r.task > 0) == (w.targets > 0):
		d.faultAt("body", "must have exactly one of task, "+kindsOfCall)
	case r.task > 0:
		for _, c := range w.limits {
			d.faultQuietly(c, "belongs to the task: it cannot be stated beside one")
		}
	default:
		work := w.work
		r.job.Work = &work
		if work.EventBridge != nil && len(r.job.Payload) > 0 && r.job.Payload[0] != '{' {
			d.faultQuietly(r.payload, "must be an object: it is the detail of an event")
		}
	}
	if r.region > 0 && r.hasMany() {
		d.faultQuietly(r.region, "belongs to a one-off job that waits for no other: this one lies where its tenant is at home")
	}
	r.finishUnique()
	r.onlyOne("schedule, on and after")
	if r.when.recurring() {
		r.when.finish()
		return
	}
	for _, c := range r.many {
		switch name := string(d.doc.name(c)); {
		case !r.hasMany():
			d.faultQuietly(c, "belongs to a recurring job, whose schedule has cron or every, to one that has on or after, or to one that has a name and no schedule")
		case name != "name" && name != "concurrency" && name != "pause_on_failure":
			d.faultQuietly(c, "goes with a schedule alone")
		}
	}
}

// hasMany reports whether the job can have many runs. One that runs after others can, unless they are
// one-off jobs: the text does not say.
func (r *jobReader) hasMany() bool {
	return r.when.recurring() || r.onNode > 0 || r.afterNode > 0 || r.triggered()
}

// triggered reports whether the job runs only when somebody asks for it: it has a name, and nothing
// else starts it.
func (r *jobReader) triggered() bool {
	return (r.spec.Name != "" || r.mayTrigger) && r.when.node == 0 && r.onNode == 0 && r.afterNode == 0
}

// Patch reads an RFC 7396 merge patch of a pending one-off job, as it stands, and returns what it
// changes. Faults are located in the merged job. A patch that changes nothing returns the zero
// Change.
func (d *Decoder) Patch(current bucketer.Job, body []byte, now time.Time) (runs.Change, error) {
	request := OfOneOff(&current)
	merged, spec, touched, err := d.patch(&request, body, jobForm{tenant: current.Tenant, now: now, anchor: now})
	if current.After != nil && touched["after"] { // also by null, or by a part of it
		return runs.Change{}, bucketer.Faults{{Location: "body.after", Message: "cannot be changed: create another job"}}
	}
	if err != nil {
		return runs.Change{}, err
	}
	if spec != nil && spec.After != nil {
		d.faultAt("body.after", "cannot be changed: create another job")
		return runs.Change{}, d.err()
	}
	if spec != nil {
		d.faultAt("body.schedule", "cannot make a one-off job a recurring one: create another job")
		return runs.Change{}, d.err()
	}
	var c runs.Change
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
	if touched["region"] {
		d.faultAt("body.region", "cannot be changed: a job keeps its home")
	}
	if touched["unique"] {
		d.faultAt("body.unique", "cannot be changed: it counts when a job is created")
	}
	if everywhere := schema.DurableEverywhere; touched["durability"] && (merged.Durability == everywhere) != (current.Durability == everywhere) {
		d.faultAt("body.durability", "cannot be changed: create another job")
	}
	if err := d.err(); err != nil {
		return runs.Change{}, err
	}
	if touched["misfire"] {
		c.Misfire = merged.Misfire
		if c.Misfire == nil {
			c.Misfire = new(schema.Misfire)
		}
	}
	return c, nil
}

// PatchJob reads an RFC 7396 merge patch of a job that can have many runs, whose current generation
// says current, and returns what it says then. The name stays. Faults are located in the merged
// job.
func (d *Decoder) PatchJob(current schema.JobSpec, body []byte, now time.Time) (schema.JobSpec, error) {
	request := OfSpec(&current)
	unanchor := func(s *Schedule) {
		if s.Anchor.Equal(current.Created) {
			s.Anchor = time.Time{} // by default: it goes when the interval goes
		}
	}
	if request.Schedule != nil {
		unanchor(request.Schedule)
	}
	for i := range request.Schedules {
		unanchor(&request.Schedules[i])
	}
	_, merged, touched, err := d.patch(&request, body, jobForm{
		tenant: current.Tenant, now: now, anchor: current.Created, mayTrigger: request.Schedule == nil && request.Schedules == nil && current.On == nil && current.After == nil,
	})
	switch {
	case err != nil:
		return current, err
	case merged == nil:
		d.faultAt("body.schedule", "cannot make a recurring job a one-off one: create another job")
	case merged.Name != current.Name:
		d.faultAt("body.name", "cannot be changed: create another job")
	}
	if err := d.err(); err != nil {
		return current, err
	}
	if len(touched) == 0 {
		return current, nil
	}
	if s := merged.Schedule; s != nil {
		*s = s.Anchored(current.Created)
	}
	merged.Created, merged.CreatedBy, merged.Updated, merged.Past = current.Created, current.CreatedBy, current.Updated, current.Past
	return *merged, nil
}

// patch merges a patch into a request, and reads what comes of it. touched are the members of the
// patch.
func (d *Decoder) patch(request *JobRequest, body []byte, form jobForm) (job bucketer.Job, spec *schema.JobSpec, touched map[string]bool, err error) {
	if !d.begin(body) {
		return bucketer.Job{}, nil, nil, d.err()
	}
	if err := d.err(); err != nil { // doubled names: there is no one way to merge them
		return bucketer.Job{}, nil, nil, err
	}
	touched = make(map[string]bool)
	for c := range d.allMembers(0) {
		touched[string(d.doc.name(c))] = true
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // six bytes for each < would push a payload over its limit
	if err := e.Encode(request); err != nil {
		return bucketer.Job{}, nil, nil, err
	}
	var target document
	if err := target.parse(text.Bytes()); err != nil {
		return bucketer.Job{}, nil, nil, err
	}
	job, spec, err = d.job(mergePatch(nil, &target, 0, &d.doc, 0), form)
	return job, spec, touched, err
}

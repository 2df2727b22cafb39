package client

import (
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// Job builds a job. Its methods return it, so that they can be written one after the other; what is
// wrong is said when the job is sent. One goroutine may use it at a time. Sending does not change
// it.
type Job struct {
	common
	work   Work
	after  *AfterInfo
	region RegionChoice
	unique *UniqueInfo
}

// NewJob returns a job that does the work. Unless more is said it is due at once.
func NewJob(work Work) *Job { return &Job{work: work} }

// jobBody is a job in a request.
type jobBody struct {
	Settings
	workBody
	After  *AfterInfo   `json:"after,omitempty"`
	Region RegionChoice `json:"region,omitzero"`
	Unique *UniqueInfo  `json:"unique,omitempty"`
}

func (j *Job) build() (jobBody, error) {
	n := notes{}
	n.take("", &j.notes)
	body := jobBody{Settings: j.says, After: j.after, Region: j.region, Unique: j.unique}
	fillWork(&body.workBody, j.work, &n)
	return body, n.err()
}

// Name gives the job a name, which is unique in the tenant. It must be able to have many runs. If
// it has neither a schedule nor events nor jobs before it, it runs only when it is triggered.
func (j *Job) Name(name string) *Job {
	j.says.Name = j.text("name", name)
	return j
}

// At has the job be due at an instant, to the ms. One in the past means at once.
func (j *Job) At(t time.Time) *Job {
	j.schedule(&Schedule{says: ScheduleInfo{At: j.instant("schedule.at", t)}})
	return j
}

// Schedule has the job be due again and again.
func (j *Job) Schedule(s *Schedule) *Job {
	j.schedule(s)
	return j
}

// On has events of a name start a run each.
func (j *Job) On(event string, options ...OnOption) *Job {
	j.on(event, options)
	return j
}

// After has the job run after others, by name or id, instead of by a schedule. They must have succeeded
// unless When says otherwise.
//
// If the others can have many runs, so can this job: it runs once for each run with which their chain
// begins. If they are one-off jobs, so is this one. They cannot be of both kinds.
func (j *Job) After(jobs ...string) *Job {
	j.runsAfter().Jobs = append(j.after.Jobs, jobs...)
	return j
}

// When says how the jobs must have ended that are named by After. Always is for steps alone.
func (j *Job) When(c Condition) *Job {
	j.runsAfter().When = Condition(j.text("after.when", string(c)))
	return j
}

// AfterDeadline says when a run is stuck that still waits for the jobs named by After: so long after the
// due time of the run with which their chain began, or after the creation of a one-off job. Without it
// that is 7 days. A stuck run goes on waiting; see Runs.Stuck.
func (j *Job) AfterDeadline(d time.Duration) *Job {
	j.runsAfter().Deadline = j.span("after.deadline", d)
	return j
}

// runsAfter returns what the job says about the jobs after which it runs.
func (j *Job) runsAfter() *AfterInfo {
	if j.after == nil {
		j.after = new(AfterInfo)
	}
	return j.after
}

// Payload states what the call gets: anything that encodes as JSON.
func (j *Job) Payload(v any) *Job {
	j.says.Payload = j.json("payload", v)
	return j
}

// Priority orders the runs of the job among others that are due.
func (j *Job) Priority(p Priority) *Job {
	j.says.Priority = Priority(j.text("priority", string(p)))
	return j
}

// Region has a one-off job lie at the home of that name. A call draws an idempotency key, so it
// must be the home of the tenant.
func (j *Job) Region(home string) *Job {
	j.region.Name = j.text("region", home)
	return j
}

// RequireRegion has no other region run a one-off job than the one that its home is named after.
// While that home has failed over, the job waits.
func (j *Job) RequireRegion() *Job {
	j.region.Require = true
	return j
}

// Unique has a one-off job be created only if no job of the same key was created within that one's
// window, from its creation on. Otherwise Create returns that job, with Existing, and creates
// nothing. The key is the tenant, the task (or the call), and the parts by: "payload",
// "payload/customer/id" (a JSON pointer into the payload), "labels", "labels/team"; "task" for
// nothing else. Without parts it is the payload. The window alone ends it: a job that has ended
// counts until then.
func (j *Job) Unique(window time.Duration, by ...string) *Job {
	j.unique = &UniqueInfo{Window: j.span("unique.window", window)}
	for _, part := range by {
		j.unique.By = append(j.unique.By, j.text("unique.by", part))
	}
	return j
}

// Durability says when the job and its changes are acknowledged, where there are regions.
func (j *Job) Durability(d Durability) *Job {
	j.says.Durability = Durability(j.text("durability", string(d)))
	return j
}

// Label adds a label, by which jobs can be listed.
func (j *Job) Label(name, value string) *Job {
	j.label(name, value)
	return j
}

// Concurrency bounds how many runs of the job may be under way at once. It must be able to have
// many runs.
func (j *Job) Concurrency(limit int, then OnLimit) *Job {
	j.concurrency(limit, then)
	return j
}

// ConcurrencyBy has the bound of Concurrency count for each value that payloads have at a JSON
// pointer, such as "/customer/id". Runs whose payload has none there share one bound.
func (j *Job) ConcurrencyBy(pointer string) *Job {
	j.concurrencyBy(pointer)
	return j
}

// PauseOnFailure has the job pause when so many of its runs in a row have failed for good, until it
// is resumed. It must be able to have many runs.
func (j *Job) PauseOnFailure(runs int) *Job {
	j.pauseOnFailure(runs)
	return j
}

// Misfire says what becomes of runs that cannot start when they are due. A run that cannot start
// within the deadline is missed; 0: however late it is, it starts.
func (j *Job) Misfire(p MisfirePolicy, deadline time.Duration) *Job {
	j.misfire(p, deadline)
	return j
}

// MarshalJSON returns the body of the request that makes the job.
func (j *Job) MarshalJSON() ([]byte, error) {
	body, err := j.build()
	if err != nil {
		return nil, err
	}
	return encode(body)
}

// common is what the builders of jobs and workflows have in common.
type common struct {
	notes
	says Settings
}

// schedule takes s over, as it is now.
func (c *common) schedule(s *Schedule) {
	switch {
	case s == nil:
		c.fault("schedule", "must not be nil")
		return
	case c.says.Schedule != nil || c.says.Schedules != nil:
		c.fault("schedule", "is stated twice")
	}
	c.take("", &s.notes)
	var says *ScheduleInfo // of any of several: none of its own
	if s.any == nil {
		is := s.says
		is.Exclude, says = slices.Clone(is.Exclude), &is
	}
	c.says.Schedules = s.any
	c.says.Schedule, c.says.Start, c.says.End, c.says.MaxRuns, c.says.Jitter = says, s.start, s.end, s.maxRuns, s.jitter
}

func (c *common) on(event string, options []OnOption) {
	if c.says.On != nil {
		c.fault("on", "is stated twice")
	}
	c.says.On = &EventTrigger{Event: c.text("on.event", event)}
	for _, o := range options {
		o.ofTrigger(c.says.On, &c.notes)
	}
}

func (c *common) label(name, value string) {
	if c.says.Labels == nil {
		c.says.Labels = make(map[string]string)
	}
	c.says.Labels[name] = value
}

func (c *common) concurrency(limit int, then OnLimit) {
	key := ""
	if c.says.Concurrency != nil {
		key = c.says.Concurrency.Key
	}
	c.says.Concurrency = &schema.Concurrency{Limit: c.number("concurrency.limit", limit), OnLimit: c.text("concurrency.on_limit", string(then)), Key: key}
}

func (c *common) concurrencyBy(pointer string) {
	if c.says.Concurrency == nil {
		c.says.Concurrency = new(schema.Concurrency)
	}
	c.says.Concurrency.Key = c.text("concurrency.key", pointer)
}

func (c *common) pauseOnFailure(runs int) {
	c.says.PauseOnFailure = &PauseOnFailure{After: c.number("pause_on_failure.after", runs)}
}

func (c *common) misfire(p MisfirePolicy, deadline time.Duration) {
	c.says.Misfire = &schema.Misfire{Policy: c.text("misfire.policy", string(p)), Deadline: Duration(deadline)}
}

package httpapi

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// JobSchedule is when a job is due, as the API answers it: one of At, Cron and Every, with the
// values in force.
type JobSchedule struct {
	At Time `json:"at,omitzero" doc:"Of a one-off job"`

	Cron        string `json:"cron,omitempty"`
	Timezone    string `json:"timezone,omitempty" doc:"Of cron, and of excluded dates"`
	Gap         string `json:"gap,omitempty" enum:"run,skip" doc:"Of cron: what becomes of times that the zone leaves out"`
	OverlapHour string `json:"overlap_hour,omitempty" enum:"first,second,both" doc:"Of cron: which of the times that the zone has twice"`

	Every  schema.Duration `json:"every,omitempty"`
	Anchor Time            `json:"anchor,omitzero" doc:"Of every: an instant from which the others are counted"`

	Exclude []string `json:"exclude,omitempty" doc:"Dates of the time zone on which it is not due"`

	Calendar *JobScheduleCalendar `json:"calendar,omitempty" doc:"What it does on the dates of a calendar"`
}

// JobScheduleCalendar is what a schedule does on the dates of a calendar, as the API answers it.
type JobScheduleCalendar struct {
	Name string `json:"name" doc:"Of a calendar of the tenant"`
	On   string `json:"on" enum:"skip,next_day,previous_day" doc:"It is not due then; or due at its time of day on the next day, or on the day before, that is none of the dates"`
}

// JobMisfire is what becomes of a late run, as the API answers it.
type JobMisfire struct {
	Policy   string          `json:"policy" enum:"run_all,run_latest,skip"`
	Deadline schema.Duration `json:"deadline,omitempty"` // absent: none
}

// NextRun is a run of a job that is to come.
type NextRun struct {
	ID        schema.RunID `json:"id"`
	NominalAt Time         `json:"nominal_at"`
	DueAt     Time         `json:"due_at"`
}

// Job is a job as the API answers it. The limits of inline work are those in force; those of a task
// stand with the task. Name and the fields from Start to Concurrency are of jobs that can have many
// runs.
type Job struct {
	ID     schema.JobID `json:"id"`
	Tenant string       `json:"tenant"`
	Name   string       `json:"name,omitempty"`
	Task   string       `json:"task,omitempty"`
	schema.Work

	Schedule    JobSchedule         `json:"schedule"`
	Schedules   []JobSchedule       `json:"schedules,omitempty" doc:"Instead of one: it is due when any of them is, once at each instant"`
	Start       Time                `json:"start,omitzero" doc:"No run before it"`
	End         Time                `json:"end,omitzero" doc:"No run from it on; that of max_runs, if it is earlier"`
	MaxRuns     int                 `json:"max_runs,omitempty"`
	Jitter      *schema.Duration    `json:"jitter,omitempty" doc:"The window of the job's own offset, which is the same for all its runs"`
	Concurrency *schema.Concurrency `json:"concurrency,omitempty"`

	PauseOnFailure *request.PauseOnFailure `json:"pause_on_failure,omitempty"`

	On *schema.EventTrigger `json:"on,omitempty" doc:"Which events start a run; such a job has no schedule"`

	After *JobAfter `json:"after,omitempty" doc:"The jobs after which it runs; such a job has no schedule. A one-off job if they are"`

	Payload      json.RawMessage   `json:"payload,omitempty"`
	PayloadFault string            `json:"payload_fault,omitempty" doc:"Of a one-off job: why the payload is absent: it is stored encrypted and cannot be opened"`
	Priority     schema.Priority   `json:"priority"`
	Labels       map[string]string `json:"labels,omitempty"`
	Misfire      JobMisfire        `json:"misfire"`

	Region schema.RegionChoice `json:"region,omitzero" doc:"The home of a one-off job, where there are regions, and whether no other region runs it"`

	Durability schema.Durability `json:"durability,omitempty" enum:"home,everywhere" doc:"When it was acknowledged, and its changes are: everywhere, once every region held it; else once its home did"`

	Unique   *JobUnique `json:"unique,omitempty" doc:"Of a one-off job: it is the only one of its key"`
	Existing bool       `json:"existing,omitempty" doc:"In the answer to a creation, which is 200 then: the job was there, created by another request with the same unique key; nothing was created"`

	State         string   `json:"state" enum:"active,paused,cancelled,finished"`
	PausedBecause string   `json:"paused_because,omitempty" doc:"Why the job is paused, if nobody has paused it"`
	Generation    int64    `json:"generation" doc:"Grows with every change; 1 for a one-off job"`
	NextRun       *NextRun `json:"next_run,omitempty"`
	Fault         string   `json:"fault,omitempty" doc:"Why the job does not go on, though it is active: what is stored of it is not understood by this node"`
	CreatedAt     Time     `json:"created_at"`
	CreatedBy     string   `json:"created_by,omitempty" doc:"Who made it, as the audit log names callers: an API key, or the subject of a token. Absent where the node asked for no keys"`
	UpdatedAt     Time     `json:"updated_at"`
}

// JobAfter is after which jobs a job runs, as the API answers it.
type JobAfter struct {
	Jobs     []string        `json:"jobs" doc:"Their names or ids, as they were stated. A name stands for the job that had it when this one was made or changed"`
	When     string          `json:"when" enum:"all_succeeded,all_done,any_succeeded,any_failed"`
	Deadline schema.Duration `json:"deadline" doc:"From the run with which the chain began, or from the creation of a one-off job, to when the run is stuck that has not started"`
}

// JobUnique says for how long a one-off job is the only one of its key, as the API answers it.
type JobUnique struct {
	By     []string        `json:"by" doc:"What makes two jobs the same, besides the tenant and what they run"`
	Window schema.Duration `json:"window" doc:"From created_at on"`
}

func uniqueOf(u *schema.Unique) *JobUnique {
	if u == nil {
		return nil
	}
	return &JobUnique{By: u.By, Window: u.Window}
}

func afterOf(a *schema.After) *JobAfter {
	if a == nil {
		return nil
	}
	out := &JobAfter{Jobs: []string{}, When: string(workflow.When(a.When).Or()), Deadline: a.Deadline}
	for _, u := range a.Jobs {
		out.Jobs = append(out.Jobs, u.Name)
	}
	return out
}

// standing returns the entry that says what r is now: its own, or the one that it was moved to.
func standing(r *runs.Run) *schema.Entry {
	if r.Current.ID.IsZero() {
		return &r.Entry
	}
	return &r.Current
}

// requestOf returns what the one-off job that is the run r asks for, as it stands now.
func requestOf(r *runs.Run, payload []byte) bucketer.Job {
	s := &standing(r).Spec
	j := bucketer.Job{
		Tenant: s.Tenant, At: s.Nominal, Task: s.Task, Work: s.Work, Priority: s.Priority,
		Misfire: s.Misfire, Labels: s.Labels, Payload: payload, Durability: schema.OfEntry(s),
		CreatedBy: s.CreatedBy, Unique: r.Entry.Spec.Unique,
	}
	if s.Join != nil {
		j.At, j.After = time.Time{}, &s.Join.After
	}
	return j
}

// jobOf returns the one-off job that is the run r.
func jobOf(r *runs.Run, payload []byte) Job {
	e := standing(r)
	j := jobFrom(schema.JobOf(r.ID), requestOf(r, payload))
	j.CreatedAt = Time{time.UnixMicro(r.Entry.Spec.Accepted)}
	j.UpdatedAt = Time{time.UnixMicro(e.Spec.Accepted)}
	switch r.State {
	case schema.StateCancelled:
		j.State = string(schema.JobCancelled)
		if c := r.Entry.Marks.Cancelled; c != nil {
			j.UpdatedAt = Time{c.At}
		}
	case schema.StateSucceeded, schema.StateFailed, schema.StateMissed, schema.StateSkipped:
		j.State = string(schema.JobFinished)
	case schema.StatePending:
		if e.Spec.Kind == schema.KindJoin {
			break
		}
		next := nextOf(occurrenceOf(r))
		j.NextRun = &next
	}
	return j
}

// jobOf is jobOf with the home of the job, if there are regions.
func (s jobRoutes) jobOf(r *runs.Run, payload []byte) Job {
	j := jobOf(r, payload)
	return s.homed(j, standing(r).Spec.RequireRegion)
}

// homed returns a one-off job with its home, if there are regions.
func (s jobRoutes) homed(j Job, require bool) Job {
	if s.deps.Homes != nil {
		home, _ := s.deps.Homes.Of(j.ID.Shard())
		j.Region = schema.RegionChoice{Name: home, Require: require}
	}
	return j
}

// occurrenceOf returns the time of a one-off job's run.
func occurrenceOf(r *runs.Run) recurring.Occurrence {
	e := standing(r)
	return recurring.Occurrence{ID: r.ID, Nominal: e.Spec.Nominal, Due: e.Due()}
}

func nextOf(o recurring.Occurrence) NextRun {
	return NextRun{ID: o.ID, NominalAt: Time{o.Nominal}, DueAt: Time{o.Due}}
}

// jobFrom returns a one-off job with the values in force, active.
func jobFrom(id schema.JobID, b bucketer.Job) Job {
	j := Job{
		ID: id, Tenant: b.Tenant, Task: b.Task, Schedule: JobSchedule{At: Time{b.At}},
		Priority: b.Priority.Or(), Labels: b.Labels, Misfire: misfireOf(b.Misfire, "run_all"), Durability: b.Durability, State: string(schema.JobActive), Generation: 1,
		CreatedBy: b.CreatedBy, Unique: uniqueOf(b.Unique),
	}
	j.Payload, j.PayloadFault = opened(b.Payload)
	if b.Work != nil {
		j.Work = b.Work.InForce()
	}
	j.After = afterOf(b.After)
	return j
}

func misfireOf(m *schema.Misfire, policy string) JobMisfire {
	out := JobMisfire{Policy: policy}
	if m != nil {
		out.Deadline = m.Deadline
		if m.Policy != "" {
			out.Policy = m.Policy
		}
	}
	return out
}

// recurringOf returns a job that can have many runs. next is the run that comes next, if there is
// one.
func recurringOf(j *schema.Job, next []recurring.Occurrence) Job {
	s := &j.Current.Spec
	out := Job{
		ID: j.ID, Tenant: s.Tenant, Name: s.Name, Task: s.Task, MaxRuns: s.MaxRuns, Concurrency: s.Concurrency, On: s.On,
		Payload: s.Payload, Priority: s.Priority.Or(), Labels: s.Labels, Misfire: misfireOf(s.Misfire, "run_latest"),
		Durability: s.Durability, After: afterOf(s.After), State: string(j.Current.State), Generation: j.Current.Number, CreatedAt: Time{s.Created}, UpdatedAt: Time{s.Updated},
		CreatedBy: s.CreatedBy,
	}
	if s.Work != nil {
		out.Work = s.Work.InForce()
	}
	if s.PauseAfter > 0 {
		out.PauseOnFailure = &request.PauseOnFailure{After: s.PauseAfter}
	}
	out.PausedBecause = s.PausedBecause
	if c := s.Concurrency; c != nil && c.OnLimit == "" {
		out.Concurrency = &schema.Concurrency{Limit: c.Limit, OnLimit: "queue", Key: c.Key}
	}
	if c := s.Schedule; c != nil {
		out.Schedule, out.Schedules = schedulesOf(c)
		out.Start, out.End, out.Jitter = Time{c.Start}, Time{c.End}, &c.Jitter
	}
	if len(next) > 0 {
		first := nextOf(next[0])
		out.NextRun = &first
	}
	return out
}

// schedulesOf returns a schedule with the values in force: as one, or as the list that was stated.
func schedulesOf(s *schema.Schedule) (one JobSchedule, list []JobSchedule) {
	switch {
	case len(s.Any) == 0:
		return scheduleOf(s), nil
	case !s.Listed:
		return scheduleOf(&s.Any[0]), nil
	}
	for i := range s.Any {
		list = append(list, scheduleOf(&s.Any[i]))
	}
	return one, list
}

func scheduleOf(s *schema.Schedule) JobSchedule {
	out := JobSchedule{Cron: s.Cron, Every: s.Every, Anchor: Time{s.Anchor}, Exclude: s.Exclude}
	if c := s.Calendar; c != nil {
		out.Calendar = &JobScheduleCalendar{Name: c.Name, On: cmp.Or(c.On, schema.OnDateSkip)}
	}
	if s.Cron == "" && (len(s.Exclude) > 0 || s.Calendar != nil) {
		out.Timezone = cmp.Or(s.Timezone, "UTC")
	}
	if s.Cron != "" {
		out.Timezone, out.Gap, out.OverlapHour = "UTC", "run", "first"
		for _, stated := range []struct {
			into  *string
			value string
		}{{&out.Timezone, s.Timezone}, {&out.Gap, s.Gap}, {&out.OverlapHour, s.OverlapHour}} {
			if stated.value != "" {
				*stated.into = stated.value
			}
		}
	}
	return out
}

// generationTag names the state of a job that can have many runs: every change of it, and of how it
// stands, is a generation.
func generationTag(j *schema.Job) string { return `"` + strconv.FormatInt(j.Current.Number, 10) + `"` }

// Preview says when a schedule is due.
type Preview struct {
	Description string   `json:"description" doc:"The schedule in words"`
	Times       []Time   `json:"times" doc:"The first nominal times after from"`
	Notes       []string `json:"notes" doc:"What is to be known about it: changes of the zone that move, drop or double runs, jitter"`
	Zones       string   `json:"zones" doc:"The version of the time zone data"`
}

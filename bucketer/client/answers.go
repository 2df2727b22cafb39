package client

import (
	"encoding/json"
	"time"
)

// ScheduleInfo says when a job is due: one of At, Cron and Every.
type ScheduleInfo struct {
	At time.Time `json:"at,omitzero"` // of a one-off job

	Cron     string `json:"cron,omitempty"`
	Timezone string `json:"timezone,omitempty"` // of Cron
	// Gap is what becomes of times that the zone leaves out: run or skip.
	Gap string `json:"gap,omitempty"`
	// OverlapHour is which of the times count that the zone has twice: first, second or both.
	OverlapHour string `json:"overlap_hour,omitempty"`

	Every  Duration  `json:"every,omitempty"`
	Anchor time.Time `json:"anchor,omitzero"` // of Every: an instant from which the others are counted

	// Exclude are dates of the time zone on which it is not due, such as "2026-12-25".
	Exclude []string `json:"exclude,omitempty"`
	// Calendar: what it does on the dates of a calendar.
	Calendar *ScheduleCalendar `json:"calendar,omitempty"`
}

// ScheduleCalendar is what a schedule does on the dates of a calendar.
type ScheduleCalendar struct {
	Name string `json:"name"`
	On   OnDate `json:"on,omitempty"`
}

// PauseOnFailure says when a job or a workflow pauses by itself.
type PauseOnFailure struct {
	After int `json:"after"` // runs in a row that have failed for good
}

// Settings are what jobs and workflows have in common.
type Settings struct {
	Name string `json:"name,omitempty"`

	Schedule *ScheduleInfo `json:"schedule,omitempty"`
	// Schedules are several, instead of one: it is due when any of them is.
	Schedules   []ScheduleInfo `json:"schedules,omitempty"`
	Start       time.Time      `json:"start,omitzero"` // no run before it
	End         time.Time      `json:"end,omitzero"`   // no run from it on
	MaxRuns     int            `json:"max_runs,omitempty"`
	Jitter      *Duration      `json:"jitter,omitempty"`
	Concurrency *Concurrency   `json:"concurrency,omitempty"`
	// PauseOnFailure: it pauses when so many runs in a row have failed.
	PauseOnFailure *PauseOnFailure `json:"pause_on_failure,omitempty"`
	On             *EventTrigger   `json:"on,omitempty"` // which events start a run, instead of a schedule

	Payload  json.RawMessage   `json:"payload,omitempty"`
	Priority Priority          `json:"priority,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Misfire  *Misfire          `json:"misfire,omitempty"`
	// Durability is when it is acknowledged where there are regions; "": as the tenant states.
	Durability Durability `json:"durability,omitempty"`
}

// Standing is how a job or a workflow stands.
type Standing struct {
	State JobState `json:"state"`
	// PausedBecause is why it is paused, if nobody has paused it.
	PausedBecause string    `json:"paused_because,omitempty"`
	Generation    int64     `json:"generation"` // grows with every change
	NextRun       *NextRun  `json:"next_run,omitempty"`
	CreatedAt     time.Time `json:"created_at,omitzero"`
	CreatedBy     string    `json:"created_by,omitempty"` // who made it, as the audit log names callers
	UpdatedAt     time.Time `json:"updated_at,omitzero"`
	// Fault is why it does not go on although it is active: the node does not understand what is
	// stored of it.
	Fault string `json:"fault,omitempty"`
}

// AfterInfo says after which jobs a job runs.
type AfterInfo struct {
	Jobs     []string  `json:"jobs,omitzero"` // names or ids, as they were stated
	When     Condition `json:"when,omitempty"`
	Deadline Duration  `json:"deadline,omitempty"` // see Job.AfterDeadline
}

// JobInfo is a job as the API answers it, with the values in force.
type JobInfo struct {
	ID     JobID  `json:"id"`
	Tenant string `json:"tenant"`
	Settings
	After  *AfterInfo `json:"after,omitempty"` // the jobs after which it runs, instead of by a schedule
	Task   string     `json:"task,omitempty"`  // the task that it runs, or else …
	Target            // … the call itself
	// Region is the home of a one-off job, where there are regions, and whether no other region
	// runs it.
	Region RegionChoice `json:"region,omitzero"`
	// PayloadFault says of a one-off job why the payload is absent: it is stored encrypted and
	// cannot be opened.
	PayloadFault string      `json:"payload_fault,omitempty"`
	Unique       *UniqueInfo `json:"unique,omitempty"`
	// Existing: of an answer to Create: the job was there, of the same unique key, and nothing was
	// created.
	Existing bool `json:"existing,omitempty"`
	Standing
}

// UniqueInfo says for how long a one-off job is the only one of its key: see Job.Unique.
type UniqueInfo struct {
	By     []string `json:"by,omitempty"`
	Window Duration `json:"window"`
}

// WorkflowInfo is a workflow as the API answers it, with the values in force.
type WorkflowInfo struct {
	ID     JobID  `json:"id"`
	Tenant string `json:"tenant"`
	Settings
	// Deadline is how long after its due time a run ends at the latest.
	Deadline Duration `json:"deadline"`
	// Steps are the steps as the API writes them. They are absent in lists.
	Steps []json.RawMessage `json:"steps,omitempty"`
	// Waiting says which of its runs wait for events, in lists that ask for it.
	Waiting []WorkflowWaiting `json:"waiting,omitempty"`
	Standing
}

// WorkflowWaiting says how many runs of a workflow wait for an event.
type WorkflowWaiting struct {
	Event string `json:"event"`
	Runs  int    `json:"runs"`
	More  bool   `json:"more,omitempty"` // there may be more: not all that wait were looked at
}

// NextRun is a run that is to come.
type NextRun struct {
	ID        RunID     `json:"id"`
	NominalAt time.Time `json:"nominal_at"` // the instant that the schedule names
	DueAt     time.Time `json:"due_at"`     // with the jitter
}

// TaskSettings are what a task says besides its call.
type TaskSettings struct {
	// Rate is how many of its runs may start in a span, in the whole cluster: "100/s", "10/m".
	Rate string `json:"rate,omitempty"`
	// MaxConcurrent is how many of its runs may be under way at once, in the whole cluster; 0: any
	// number.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
	// PayloadSchema is what payloads must fit: a JSON Schema 2020-12.
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
	Description   string          `json:"description,omitempty"`
	// Region is the home at which its one-off jobs lie that name none, and whether all its runs
	// require that region.
	Region RegionChoice `json:"region,omitzero"`
}

// TaskInfo is a task as the API answers it, with the values in force.
type TaskInfo struct {
	Name string `json:"name"`
	Target
	TaskSettings
	CreatedAt time.Time `json:"created_at,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
	// Fault is why nothing but the name is known: the node does not understand what is stored.
	Fault string `json:"fault,omitempty"`
}

// Event is something that happened, and that jobs, workflows and steps may wait for.
type Event struct {
	ID         EventID   `json:"id"`
	Tenant     string    `json:"tenant"`
	Name       string    `json:"name"`
	AcceptedAt time.Time `json:"accepted_at"`
	// Body is absent if it is larger than 4 KiB.
	Body json.RawMessage `json:"body,omitempty"`
}

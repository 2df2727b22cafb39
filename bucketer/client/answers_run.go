package client

import (
	"encoding/json"
	"time"
)

// Run is one execution of a job, of a workflow, or of a step of a workflow run.
type Run struct {
	ID         RunID             `json:"id"`
	JobID      JobID             `json:"job_id,omitzero"` // absent for a step
	JobName    string            `json:"job_name,omitempty"`
	Tenant     string            `json:"tenant"`
	Task       string            `json:"task,omitempty"`
	State      State             `json:"state"`
	DeadLetter bool              `json:"dead_letter,omitempty"` // it has failed for good, and waits to be replayed or discarded
	Priority   Priority          `json:"priority"`
	Labels     map[string]string `json:"labels,omitempty"`
	// Trigger is what asked for the run: schedule, manual, retry, backfill, event or dependency.
	Trigger string `json:"trigger"`

	NominalAt     time.Time `json:"nominal_at"` // the instant that the schedule names
	DueAt         time.Time `json:"due_at"`
	StartedAt     time.Time `json:"started_at,omitzero"`
	FinishedAt    time.Time `json:"finished_at,omitzero"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	// DeferredUntil is when a start will be tried that was deferred.
	DeferredUntil time.Time `json:"deferred_until,omitzero"`
	// LatenessMS is how late the first attempt started, in ms; nil: none has.
	LatenessMS *int64 `json:"lateness_ms,omitempty"`

	// CreatedBy is who made its job; of a run that was triggered, or retried outside of a
	// workflow: who asked for that.
	CreatedBy string `json:"created_by,omitempty"`

	Origin RunID `json:"origin,omitzero"` // the run that this one repeats
	// ReplayedAs is the run as which the dead letter of this one was replayed.
	ReplayedAs   RunID       `json:"replayed_as,omitzero"`
	Event        *RunEvent   `json:"event,omitempty"` // what started it, if that was an event
	Missed       *MissedRuns `json:"missed,omitempty"`
	Waiting      *Hold       `json:"waiting,omitempty"`       // what it waits for, or waited for when it was cancelled
	Waited       *Hold       `json:"waited,omitempty"`        // what held it back last before it started, and since when anything did
	Preempted    int         `json:"preempted,omitempty"`     // how often it was stopped to let a critical run start
	CancelReason string      `json:"cancel_reason,omitempty"` // why it was cancelled, if nobody asked for that

	// Payload is absent in lists if it is larger than 4 KiB.
	Payload json.RawMessage `json:"payload,omitempty"`
	// PayloadFault says why the payload is absent: it is stored encrypted and cannot be opened.
	PayloadFault string    `json:"payload_fault,omitempty"`
	Progress     *Progress `json:"progress,omitempty"` // of the attempt under way; not in lists
	Attempts     []Attempt `json:"attempts"`
	// Error is how the error of the last attempt that has one begins, of a run that has not
	// succeeded.
	Error string `json:"error,omitempty"`
	// Calls is what it calls, without a query: of a task, what the task says now. It is absent in lists.
	Calls string `json:"calls,omitempty"`
	// Fault is why it counts as failed although nobody knows what it came to.
	Fault string `json:"fault,omitempty"`

	Workflow   string    `json:"workflow,omitempty"`       // of a workflow run
	Steps      []RunStep `json:"steps,omitempty"`          // of a workflow run; not in lists
	DeadlineAt time.Time `json:"deadline_at,omitzero"`     // of a workflow run, or a step: when it ends at the latest; of one that waits for other jobs: when it is stuck
	Parent     RunID     `json:"workflow_run_id,omitzero"` // of a step: the workflow run
	Step       string    `json:"step,omitempty"`           // of a step
	Item       *int      `json:"item,omitempty"`           // of a step with ForEach: which item it is, from 0
	Reason     string    `json:"reason,omitempty"`         // why it was skipped; of a step also: why it could not start
}

// RunEvent is the event that started a run.
type RunEvent struct {
	ID   EventID `json:"id"`
	Name string  `json:"name"`
}

// MissedRuns says which nominal times had no run, and why.
type MissedRuns struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	Reason string    `json:"reason,omitempty"`
}

// Hold says what holds a run back.
type Hold struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"` // a word, and after a colon what it means
}

// Progress is how far the worker of an attempt says that it has come.
type Progress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total,omitempty"` // 0: the worker does not say
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at"` // when it was told
}

// Attempt is one try to execute a run. One without Outcome is under way.
type Attempt struct {
	Number       int       `json:"number"` // from 1
	Executor     string    `json:"executor,omitempty"`
	Region       string    `json:"region,omitempty"`
	PublishedAt  time.Time `json:"published_at,omitzero"` // when its message was published to the executors
	ReceivedAt   time.Time `json:"received_at,omitzero"`  // when its executor received the message
	StartedAt    time.Time `json:"started_at,omitzero"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
	Outcome      Outcome   `json:"outcome,omitempty"`
	Error        string    `json:"error,omitempty"`
	StatusCode   int       `json:"status_code,omitempty"`
	Output       string    `json:"output,omitempty"`      // at most its first 2 KiB: see Runs.Output
	OutputSize   int64     `json:"output_size,omitempty"` // bytes that were kept, if Output has fewer
	OutputCut    bool      `json:"output_cut,omitempty"`  // there was more than was kept
	OutputBinary bool      `json:"output_binary,omitempty"`
	LogLines     int       `json:"log_lines,omitempty"`
	LogDropped   int       `json:"log_dropped,omitempty"` // lines that were not kept
	Progress     *Progress `json:"progress,omitempty"`
	Redispatched bool      `json:"redispatched,omitempty"`
}

// RunStep is a step of a workflow run.
type RunStep struct {
	Name       string     `json:"name"`
	After      []string   `json:"after,omitempty"`
	RunID      RunID      `json:"run_id,omitzero"` // its run; absent if it has none, or one for each item
	State      State      `json:"state"`
	Reason     string     `json:"reason,omitempty"` // why it waits, was skipped or failed
	Attempts   int        `json:"attempts,omitempty"`
	StartedAt  time.Time  `json:"started_at,omitzero"`
	FinishedAt time.Time  `json:"finished_at,omitzero"`
	Items      *StepItems `json:"items,omitempty"` // of a step with ForEach
	Event      *RunEvent  `json:"event,omitempty"` // that it waited for, and that came
}

// StepItems counts the items of a step. Items that have no run yet are in none of States.
type StepItems struct {
	Total  int           `json:"total"`
	States map[State]int `json:"states"`
}

// RunOutput is what was kept of the output of a run.
type RunOutput struct {
	Text    []byte
	Attempt int  // whose it is; 0: no attempt has ended
	Cut     bool // there was more
	Binary  bool // it is not UTF-8
}

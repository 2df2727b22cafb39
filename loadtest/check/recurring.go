package check

import (
	"encoding/json"
	"fmt"
	"time"
)

// RecurringHistory is the input of [JudgeRecurring], which does not change it. The slices may be in
// any order.
type RecurringHistory struct {
	// Events are the creations and changes of recurring jobs.
	Events []JobEvent
	// Backfills are the backfills of those jobs that were asked for.
	Backfills []Backfill
	// Jobs holds every job that was acknowledged, as its history was read.
	Jobs []JobHistory
	// Seen is the record of the sink; SeenAll: it has no gap, as in [History].
	Seen    []Sighting
	SeenAll bool
	// End is the end of the observation: no target is due at it or later. It must precede the first
	// reading by as long as runs may take to end.
	End time.Time
	// Late is how late runs may start. Its zero value bounds nothing.
	Late LatenessBound
	// Calm and Doubles are as in [History].
	Calm, Doubles bool
	StreamLosses  []time.Time // as in [History]
	// Stops are the spans in which no node ran, Kills the deaths of nodes while others went on.
	Stops []Stop
	Kills []Kill
	// Off bounds the error of executors' clocks, which tell starts. So a call may come that much
	// before its due time. Around a change both sides of it may then run a nominal time.
	Off time.Duration
}

// Stop is a span in which no node ran: from the end of the last one to the start of the first.
type Stop struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// JobEventKind is the kind of a [JobEvent].
type JobEventKind string

// The kinds of event.
const (
	JobCreated   JobEventKind = "create"
	JobUpdated   JobEventKind = "update"
	JobPaused    JobEventKind = "pause"
	JobResumed   JobEventKind = "resume"
	JobCancelled JobEventKind = "cancel"
)

// JobEvent is one request about a recurring job, tried until it was answered or given up.
type JobEvent struct {
	// Ref names the job. Its runs call an address that ends in it.
	Ref  Ref          `json:"ref"`
	Kind JobEventKind `json:"kind"`
	// Requested is when the first try was sent, Acked when a 2xx had been read; zero = outcome
	// unknown, unless Refused.
	Requested time.Time `json:"requested"`
	Acked     time.Time `json:"acked,omitzero"`
	// Refused: every try was answered, and the last one said that nothing was done.
	Refused bool `json:"refused,omitempty"`
	// Job is the job as the answer shows it; zero without an answer.
	Job JobView `json:"job,omitzero"`
}

// JobView is the part of a recurring job that is judged; its JSON is that of the API.
type JobView struct {
	ID         string `json:"id"`
	State      string `json:"state"` // active, paused, cancelled or finished
	Generation int64  `json:"generation"`
	Schedule   Rule   `json:"schedule"`
	// Schedules are several, instead of one: the job is due when any of them is.
	Schedules []Rule    `json:"schedules,omitempty"`
	Start     time.Time `json:"start,omitzero"`
	End       time.Time `json:"end,omitzero"`
	Jitter    Span      `json:"jitter"`
	Misfire   struct {
		Policy   string `json:"policy"`
		Deadline Span   `json:"deadline,omitempty"`
	} `json:"misfire"`
	Guarantee   Guarantee    `json:"guarantee,omitempty"`
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	Retry       struct {
		MaxAttempts int `json:"max_attempts,omitempty"`
	} `json:"retry"`
	NextRun *NextRun `json:"next_run,omitempty"`
}

// Rule says when a recurring job is due; its JSON is that of the API.
type Rule struct {
	Cron        string    `json:"cron,omitempty"`
	Timezone    string    `json:"timezone,omitempty"`
	Gap         string    `json:"gap,omitempty"`
	OverlapHour string    `json:"overlap_hour,omitempty"`
	Every       Span      `json:"every,omitempty"`
	Anchor      time.Time `json:"anchor,omitzero"`
	// Exclude are dates of the time zone on which it is not due.
	Exclude []string `json:"exclude,omitempty"`
}

// NextRun is the run of a job that comes next; its JSON is that of the API.
type NextRun struct {
	ID        string    `json:"id"`
	NominalAt time.Time `json:"nominal_at"`
	DueAt     time.Time `json:"due_at"`
}

// Span is a span of time whose JSON is that of the API: "1m30s".
type Span time.Duration

// MarshalJSON writes s as the API does.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).String()) }

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Span) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	d, err := time.ParseDuration(written)
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*s = Span(d)
	return nil
}

// JobHistory is the ended runs of a job by the API, read twice. First precedes Second.
type JobHistory struct {
	ID            string
	First, Second JobReading
}

// JobReading is one look at the history of a job.
type JobReading struct {
	Status ReadStatus
	At     time.Time
	Runs   []JobRun // only if Status is Found
}

// JobRun is a run of a recurring job; its JSON is that of the API.
type JobRun struct {
	Run
	NominalAt time.Time `json:"nominal_at"`
	Trigger   string    `json:"trigger"`
	Missed    *Stretch  `json:"missed"`
}

// Stretch is nominal times that one record says were missed. From and To are the first and the
// last.
type Stretch struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int       `json:"count"`
	Reason string    `json:"reason"`
}

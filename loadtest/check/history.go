package check

import (
	"strconv"
	"strings"
	"time"
)

// ChangeGrace is how long after the acknowledgement of a cancel or a reschedule a start on the old
// terms is allowed (DESIGN section 10, promise 5).
const ChangeGrace = 2 * time.Second

// DefaultMaxAttempts is the number of attempts of a job that states none (the API's default).
const DefaultMaxAttempts = 5

// History is the input of [Judge], which does not change it. The slices may be in any order.
type History struct {
	Asked   []Ask
	Acks    []Ack
	Changes []Change
	// Seen is the record of the sink.
	Seen []Sighting
	// SeenAll: the record has no gap. Only then a run that claims success and was not seen is
	// missed; otherwise it counts as unseen.
	SeenAll bool
	// Runs holds every run that the API listed, and every acknowledged id, read by id.
	Runs []Observation
	// States are looks at the states of some runs, all along.
	States []Watched
	// Tasks are those with limits that jobs name.
	Tasks []Task
	// Quota is how many runs of the tenant may be under way at once, all along; 0 = any number.
	Quota int
	// Settled are the runs whose dead letters were replayed or discarded, or tried to be.
	Settled []string
	// Unlisted counts the windows of time whose list of runs could not be read to its end.
	Unlisted int
	// Away are spans in which a region did not serve its home, and another did.
	Away []Away
	// Late is how late runs may start. Its zero value bounds nothing.
	Late LatenessBound
	// Off bounds the error of executors' clocks. A call may come that much before its instant,
	// unless it is early by the caller's own clock.
	Off time.Duration
	// Labels are those of executors, by name of the executor. One that is not there is not judged.
	Labels map[string]map[string]string
	// Kills are the deaths of processes that ran attempts.
	Kills []Kill
	// Calm: nothing went wrong, so nothing may be executed twice.
	Calm bool
	// Doubles: the queue delivered messages twice, each as if it were the first. Then duplicates
	// need no explanation.
	Doubles bool
	// StreamLosses are when the stream was deleted: it forgot which messages it had taken. Where a
	// shard changes hands then, both owners may publish the first message of a run.
	StreamLosses []time.Time
}

// Kill is the death of a process. It recorded nothing more of what it had under way.
type Kill struct {
	At time.Time
	// Caller is its name as in [Sighting]; "" = it is not known which process died.
	Caller string
}

// Ref names a job by where it was asked for: a source (one file of jobs) and a line of it, from 1.
type Ref struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
}

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// String returns "source/line", and "" for the zero Ref.
func (r Ref) String() string {
	if r.IsZero() {
		return ""
	}
	return r.Source + "/" + strconv.Itoa(r.Line)
}

// ParseRef reads the last two segments of a path as a Ref, such as "/hook/s1/42". It reports false
// if they are none.
func ParseRef(path string) (Ref, bool) {
	rest, last, ok := cutLast(path)
	if !ok {
		return Ref{}, false
	}
	line, err := strconv.Atoi(last)
	if err != nil || line < 1 {
		return Ref{}, false
	}
	source := rest
	if _, s, ok := cutLast(rest); ok {
		source = s
	}
	if source == "" {
		return Ref{}, false
	}
	return Ref{Source: source, Line: line}, true
}

func cutLast(path string) (before, after string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// Guarantee is the guarantee that a job asks for; "" is [AtLeastOnce].
type Guarantee string

// The guarantees of the API.
const (
	AtLeastOnce     Guarantee = "at_least_once"
	AtMostOnce      Guarantee = "at_most_once"
	EffectivelyOnce Guarantee = "effectively_once"
)

// Ask is one job as it was asked for.
type Ask struct {
	Ref Ref
	// Key is the idempotency key; "" = none. A job with a key has one run however often it is sent.
	Key string
	// Task is the task that it names, if it names one.
	Task string
	// At is the requested instant; zero means immediately.
	At          time.Time
	Guarantee   Guarantee
	MaxAttempts int // 0 = DefaultMaxAttempts
	Retry       Retry
	Misfire     Misfire
	// Region is the one region that may run it; "" = any may.
	Region string
	// Requires are the labels that it requires of its executor, by name.
	Requires map[string]string
	// Unique is the unique key that it states; "" = none. UniqueFor is its window, Requested when
	// it was asked for first.
	Unique    string
	UniqueFor time.Duration
	Requested time.Time
	// Preemptible: its run has low priority, and a critical run may take its slot.
	Preemptible bool
	// Body and Custom are the content of its calls, as in [Sent]. Not Known: any content.
	Known        bool
	Body, Custom Hash
}

// Misfire is the part of a job that lets a run be recorded as missed.
type Misfire struct {
	Policy string // "skip" allows it; "", "run_all" and "run_latest" do not, for a single run
	// > 0 allows it from this long after the requested instant (or the acceptance, if later)
	Deadline time.Duration
}

// Ack is one answer to one job.
type Ack struct {
	Ref Ref
	// ID is the id of the run; empty unless Status is 200 or 201.
	ID string
	// Status is the HTTP status of the answer. 0 = the job was sent and no answer came.
	Status int
	// At is when the asker had read the answer.
	At time.Time
	// Existing: it says that the job was there, created by another request of its unique key.
	Existing bool
}

// ChangeKind is the kind of a [Change].
type ChangeKind string

// The kinds of change.
const (
	Cancel     ChangeKind = "cancel"
	Reschedule ChangeKind = "reschedule"
)

// Change is a cancel or a reschedule of a run. A History has no changes that were refused (409,
// 412, …).
type Change struct {
	Run  string     `json:"run"`
	Kind ChangeKind `json:"kind"`
	// Due is the new instant of a reschedule.
	Due time.Time `json:"due,omitzero"`
	// Requested is when the request was sent, Acked when its answer was read; zero = outcome
	// unknown.
	Requested time.Time `json:"requested"`
	Acked     time.Time `json:"acked,omitzero"`
}

// Sighting is one arrival at the sink.
type Sighting struct {
	Run string
	// Ref is the job that the address names; zero if it names none.
	Ref     Ref
	Attempt int
	Fence   int64
	// Caller is the process that called: a name for each of its lives; "" if the sink does not
	// know.
	Caller string
	// From is the address that it called from; "": that of the sink's machine.
	From string
	// Due is the due time that the caller stated. It is not believed.
	Due time.Time
	// At is the arrival, by true time. End is when the answer was written or, without a caller, the
	// work was over; zero if that is not known.
	At, End time.Time
	// Clock is the arrival by the caller's own clock, if the sink knows it; zero: it does not.
	Clock time.Time
	// Gone is when the caller went away before it was answered; zero if it did not.
	Gone time.Time
	// Status is the answer's; 0 if the caller hung up first.
	Status int
	// RetryAfter is the wait that the answer asked for.
	RetryAfter time.Duration
	// Sent is the content of the call; nil: not recorded.
	Sent *Sent
}

// FailedBy reports whether the call had ended by t, and not in success.
func (s *Sighting) FailedBy(t time.Time) bool {
	return !s.End.IsZero() && !s.End.After(t) && !s.Succeeded()
}

// Succeeded reports whether the answer says that the work is done (2xx).
func (s *Sighting) Succeeded() bool { return success(s.Status) }

// Refused reports whether the answer is one after which nobody tries again: 4xx but 408, 425, 429.
func (s *Sighting) Refused() bool { return finalStatus(s.Status) }

// ReadStatus says how reading a run went.
type ReadStatus uint8

// The results of reading a run. The zero value is Unreadable.
const (
	Unreadable ReadStatus = iota // no node gave an answer within the reader's bounds
	Absent                       // the API answered that there is no such run
	Found
)

// Reading is one look at a run.
type Reading struct {
	Status ReadStatus
	At     time.Time
	Run    Run // only if Status is Found
}

// Observation is a run as read twice. First must have been taken before Second.
type Observation struct {
	ID string
	// Ref is the job that the run's payload names; zero if it names none.
	Ref           Ref
	First, Second Reading
}

// State is the state of a run (the API's).
type State string

// The states of the API.
const (
	Pending   State = "pending"
	Running   State = "running"
	Retrying  State = "retrying"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Missed    State = "missed"
	// Skipped is an end of a step of a workflow run alone.
	Skipped State = "skipped"
)

// Terminal reports whether s is an end.
func (s State) Terminal() bool {
	return s == Succeeded || s == Failed || s == Cancelled || s == Missed
}

// Run is the part of a run that is judged; its JSON is that of the API.
type Run struct {
	ID         string    `json:"id"`
	State      State     `json:"state"`
	DueAt      time.Time `json:"due_at"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	LatenessMS *float64  `json:"lateness_ms"`
	Attempts   []Attempt `json:"attempts"`
	// DeadLetter: it has a dead letter without a resolution.
	DeadLetter bool `json:"dead_letter"`
	// Preempted is how often it was stopped to let a critical run start.
	Preempted int `json:"preempted"`
	// CancelReason is why it was cancelled without a request.
	CancelReason string `json:"cancel_reason"`
	// Workflow is the workflow of a workflow run; "" in other runs. Steps are its steps, in the order
	// of the definition; lists have none.
	Workflow string         `json:"workflow,omitempty"`
	Steps    []WorkflowStep `json:"steps,omitempty"`
}

// WorkflowStep is how a step of a workflow run stands, by the API.
type WorkflowStep struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Items is of a step with for_each that has started; nil: it is none.
	Items *StepItems `json:"items,omitempty"`
}

// StepItems counts the items of a step. States has none that have no run yet.
type StepItems struct {
	Total  int           `json:"total"`
	States map[State]int `json:"states"`
}

// Outcome is the outcome of an attempt (the API's). It is empty while the attempt is under way.
type Outcome string

// The outcomes of the API.
const (
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeFailed     Outcome = "failed"
	OutcomeTimedOut   Outcome = "timed_out"
	OutcomeCancelled  Outcome = "cancelled"
	OutcomeLost       Outcome = "lost"
	OutcomeSuperseded Outcome = "superseded"
)

// Attempt is one execution of a run, by the API.
type Attempt struct {
	Number     int       `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    Outcome   `json:"outcome"`
	StatusCode int       `json:"status_code"`
	Executor   string    `json:"executor"`
	Region     string    `json:"region,omitempty"` // of the executor; "" = it is not known
	// Redispatched: its message had been published or delivered before.
	Redispatched bool `json:"redispatched"`
}

// started returns the earliest start by the API, and false if there is none.
func (r *Run) started() (time.Time, bool) {
	first := r.StartedAt
	for i := range r.Attempts {
		if at := r.Attempts[i].StartedAt; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

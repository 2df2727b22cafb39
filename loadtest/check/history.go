package check

import (
	"strconv"
	"strings"
	"time"
)

// ChangeGrace is how long after the acknowledgement of a cancel or a reschedule a start on the old terms is
// still allowed (DESIGN section 12, promise 5).
const ChangeGrace = 2 * time.Second

// DefaultMaxAttempts is the number of attempts of a job that states none (the API's default).
const DefaultMaxAttempts = 5

// History is everything [Judge] looks at. The slices may be in any order; Judge does not change them.
type History struct {
	Asked   []Ask
	Acks    []Ack
	Changes []Change
	// Seen is what the sink recorded.
	Seen []Sighting
	// SeenAll says that the record of the sink has no gap: it was never killed with arrivals unwritten. Only then is
	// a run that claims success without having been seen missed; otherwise it is counted as unseen.
	SeenAll bool
	// Runs holds every run that was listed by the API and every acknowledged id that was asked for by id.
	Runs []Observation
	// States are looks at the states of some runs, all along.
	States []Watched
	// Tasks are those with limits that jobs name.
	Tasks []Task
	// Settled are the runs whose dead letters somebody replayed or discarded, or tried to.
	Settled []string
	// Unlisted counts the windows of time whose list of runs could not be read to its end.
	Unlisted int
	// Late is how late runs may start. Its zero value bounds nothing.
	Late LatenessBound
	// Off is by how much the clocks of executors may differ from true time. A call may come that much before its instant, if it is not early by
	// the caller's own clock.
	Off time.Duration
	// Kills are the deaths of processes that ran attempts.
	Kills []Kill
	// Calm: nothing went wrong, so nothing may be executed twice.
	Calm bool
	// Doubles: the queue was made to pass messages on twice, as if each were the first. Nothing tells such an execution from the one before
	// it, so duplicates need no explanation.
	Doubles bool
}

// Kill is the death of a process: of what it had under way it recorded nothing after that.
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

// ParseRef reads the last two segments of a path as a Ref, such as "/hook/s1/42". It reports false if there is no such
// pair or the line is not a positive number.
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

// Guarantee is what a job asked for in case of faults. The empty one is [AtLeastOnce].
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
	// Key is the idempotency key of the job, if it had one: such a job has one run however often it was sent.
	Key string
	// Task is the task that it names, if it names one.
	Task string
	// At is the requested instant; zero means immediately.
	At          time.Time
	Guarantee   Guarantee
	MaxAttempts int // 0 = DefaultMaxAttempts
	Retry       Retry
	Misfire     Misfire
	// Body and Custom are what its calls are to carry, as in [Sent]; not Known: they may carry anything.
	Known        bool
	Body, Custom Hash
}

// Misfire is the part of a job that lets a run be recorded as missed.
type Misfire struct {
	Policy   string        // "skip" allows it; "", "run_all" and "run_latest" do not, for a single run
	Deadline time.Duration // > 0 allows it from this long after the requested instant (or the acceptance, if later)
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
}

// ChangeKind says what a [Change] asked for.
type ChangeKind string

// The kinds of change.
const (
	Cancel     ChangeKind = "cancel"
	Reschedule ChangeKind = "reschedule"
)

// Change is a cancel or a reschedule of a run. Changes that were refused (409, 412, …) are left out of a History.
type Change struct {
	Run  string     `json:"run"`
	Kind ChangeKind `json:"kind"`
	// Due is the new instant of a reschedule.
	Due time.Time `json:"due,omitzero"`
	// Requested is when the request was sent, Acked when its answer had been read. Zero Acked = outcome
	// unknown.
	Requested time.Time `json:"requested"`
	Acked     time.Time `json:"acked,omitzero"`
}

// Sighting is one arrival at the sink.
type Sighting struct {
	Run string
	// Ref is what the address called says about which job this is; zero if it says nothing.
	Ref     Ref
	Attempt int
	Fence   int64
	// Caller is the process that called, one name for each life of it; "" if the sink does not know.
	Caller string
	// Due is what the caller said the due time is. It is recorded and not believed.
	Due time.Time
	// At is the arrival, by true time. End is when the answer was written, or the work was over if there was nobody left to answer; zero if that is not known.
	At, End time.Time
	// Clock is the arrival by the caller's own clock, if the sink knows it; zero: it does not.
	Clock time.Time
	// Gone is when the caller went away before it was answered; zero if it did not.
	Gone time.Time
	// Status is what was answered; 0 if the caller hung up first.
	Status int
	// RetryAfter is for how long the answer asked not to be called again.
	RetryAfter time.Duration
	// Sent is what the call carried; nil: it was not recorded.
	Sent *Sent
}

func (s *Sighting) failedBy(t time.Time) bool {
	return !s.End.IsZero() && !s.End.After(t) && (s.Status < 200 || s.Status > 299)
}

// ReadStatus says how reading a run went.
type ReadStatus uint8

// The ways reading a run can go. The zero value is Unreadable: what nobody read is not known.
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
	// Ref is what the run's payload says about which job it is; zero if it says nothing.
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
)

// Terminal reports whether s is an end.
func (s State) Terminal() bool {
	return s == Succeeded || s == Failed || s == Cancelled || s == Missed
}

// Run is what the judge needs of a run; its JSON is that of the API.
type Run struct {
	ID         string    `json:"id"`
	State      State     `json:"state"`
	DueAt      time.Time `json:"due_at"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	LatenessMS *float64  `json:"lateness_ms"`
	Attempts   []Attempt `json:"attempts"`
	// DeadLetter: it has a dead letter that waits.
	DeadLetter bool `json:"dead_letter"`
	// CancelReason is why it was cancelled if nobody asked for that.
	CancelReason string `json:"cancel_reason"`
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

// Attempt is one execution of a run as the API tells it.
type Attempt struct {
	Number     int       `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Outcome    Outcome   `json:"outcome"`
	StatusCode int       `json:"status_code"`
	Executor   string    `json:"executor"`
	// Redispatched: its message had been published or delivered before.
	Redispatched bool `json:"redispatched"`
}

// started returns the earliest start that the API tells of, and false if there is none.
func (r *Run) started() (time.Time, bool) {
	first := r.StartedAt
	for i := range r.Attempts {
		if at := r.Attempts[i].StartedAt; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

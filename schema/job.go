package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// JobState is where a job that can have many runs stands.
type JobState string

// The states of a job. Cancelled and finished are its ends.
const (
	JobActive    JobState = "active"
	JobPaused    JobState = "paused"
	JobCancelled JobState = "cancelled"
	JobFinished  JobState = "finished" // its schedule names no more times
)

// Ended reports whether no further run is ever planned.
func (s JobState) Ended() bool { return s == JobCancelled || s == JobFinished }

// Schedule says when a recurring job is due: exactly one of Cron and Every. Instants are UTC, to the ms.
type Schedule struct {
	Cron        string    `json:"cron,omitempty"`
	Timezone    string    `json:"timezone,omitempty"`     // IANA name; "" = UTC
	Gap         string    `json:"gap,omitempty"`          // run (default) or skip: times that the zone leaves out
	OverlapHour string    `json:"overlap_hour,omitempty"` // first (default), second or both: times that the zone has twice
	Every       Duration  `json:"every,omitempty"`
	Anchor      time.Time `json:"anchor,omitzero"` // of Every: the instants are anchor + k · every; set at creation if it was not stated

	Start time.Time `json:"start,omitzero"` // no nominal time before it
	End   time.Time `json:"end,omitzero"`   // no nominal time at or after it
	// Jitter is the window over which the job's fixed offset is drawn: in force, so 0 means none.
	Jitter Duration `json:"jitter,omitempty"`
}

// Concurrency bounds the runs of one job that are under way at once: those of which an attempt is. A run that waits for its next attempt is not.
type Concurrency struct {
	Limit   int    `json:"limit"`
	OnLimit string `json:"on_limit,omitempty"` // OnLimitQueue (default), OnLimitSkip or OnLimitCancelOldest
}

// What becomes of a run that would start while as many as the limit allows are under way.
const (
	// OnLimitQueue has it wait. Of several that wait the one that was due first comes first.
	OnLimitQueue = "queue"
	// OnLimitSkip gives it up: it is missed. What has begun already (a later attempt), or was asked for by a backfill, waits instead.
	OnLimitSkip = "skip"
	// OnLimitCancelOldest cancels those that were due first, under way or waiting, or the run itself if that is it; the others wait for what was cancelled to end.
	OnLimitCancelOldest = "cancel_oldest"
)

// JobSpec is what a job that can have many runs says: the JSON text cell of its row, one for each generation. Absent fields have
// the defaults of the API.
type JobSpec struct {
	Tenant   string    `json:"tenant"`
	Name     string    `json:"name,omitempty"`
	Schedule *Schedule `json:"schedule,omitempty"` // nil for a job that others trigger
	MaxRuns  int       `json:"max_runs,omitempty"` // as stated; Schedule.End holds what it comes to

	Task        string            `json:"task,omitempty"` // the task to run …
	Work        *Work             `json:"work,omitempty"` // … or the work itself: one of the two
	Priority    Priority          `json:"priority,omitempty"`
	Payload     json.RawMessage   `json:"payload,omitempty"` // as json.Compact leaves it: a store keeps no other white space
	Labels      map[string]string `json:"labels,omitempty"`
	Misfire     *Misfire          `json:"misfire,omitempty"`
	Concurrency *Concurrency      `json:"concurrency,omitempty"`

	// JitterStated: the job stated its jitter; otherwise Schedule.Jitter is the default.
	JitterStated bool `json:"jitter_stated,omitempty"`
	// EndStated is the end that the job stated, if any; Schedule.End is the earlier of it and of what MaxRuns comes to.
	EndStated time.Time `json:"end_stated,omitzero"`

	Created time.Time `json:"created"` // UTC, ms
	Updated time.Time `json:"updated"` // of this generation

	// PastGeneration are generations that were in force until shortly before this one was made, the latest first: nothing of them starts any more, but
	// what was late is still accounted for.
	Past []PastGeneration `json:"past,omitempty"`
}

// PastGeneration is what is remembered of a generation that was replaced twice.
type PastGeneration struct {
	Number   int64     `json:"number"`
	Schedule *Schedule `json:"schedule,omitempty"`
	Cut      time.Time `json:"cut"` // the due time at which the next one took over
}

// Generation is what a job said between two of its changes. Its number only grows; it is µs since the Unix epoch with
// random low bits, and the write timestamp of the occurrences that are planned from it.
type Generation struct {
	Number int64
	State  JobState
	Spec   JobSpec
	// Fault is set when the stored text of the spec cannot be understood (ErrNotUnderstood); the spec is then zero. It belongs to the generation,
	// not to the read: the jobs beside it are as good as ever. Where not even number and state could be read they are 0 and JobActive.
	Fault error
}

// Job is a row of jobs: the generation in force and, until Cut has passed, the one before.
type Job struct {
	ID      JobID
	Current Generation
	Before  *Generation // nil for a job that never changed
	// Cut is the due time at which Current takes over from Before: an occurrence of Before starts only if it is due, and starts, before
	// it. UTC, ms; zero for a job that never changed.
	Cut time.Time
	// Expires is when the row of an ended job leaves: it stays for the retention, since runs that were planned ask for it. Zero, the
	// value of any other job, means never. Unknown (zero) when read.
	Expires time.Time
}

// Fault returns why a generation of the job cannot be understood, nil if both can.
func (j *Job) Fault() error {
	if j.Before != nil && j.Current.Fault == nil {
		return j.Before.Fault
	}
	return j.Current.Fault
}

// Written reports what a job, as read after a conditional write of the generation with that number, shows of that write: whether it
// was done, and whether that is sure. It is not where two changes or more may have covered it. What was not done may still
// happen, as long as what it asked for holds.
func (j *Job) Written(number int64) (done, sure bool) {
	switch {
	case j.Current.Number == number:
		return true, true
	case j.Current.Number < number || j.Before == nil || j.Before.Number < number:
		return false, true // the generation in force came right after an older one: there was none between
	}
	return j.Before.Number == number, j.Before.Number == number
}

// EncodeJobSpec returns the stored form of s. What is decoded from it is encoded to the same bytes again, so that an occurrence is the
// same whether it was planned from a job that was just made or from one that was read.
func EncodeJobSpec(s *JobSpec) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it would change payloads
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// DecodeJobSpec is the inverse of EncodeJobSpec. A text that it does not understand is ErrNotUnderstood.
func DecodeJobSpec(text []byte) (JobSpec, error) {
	var s JobSpec
	err := json.Unmarshal(text, &s)
	if err == nil && string(text) == "null" {
		err = errNull
	}
	if err != nil {
		return JobSpec{}, fmt.Errorf("decode job: %w: %w", ErrNotUnderstood, err)
	}
	return s, nil
}

// JobRun is a line of a job's history. It lies in the period of the run's due time.
type JobRun struct {
	Job   JobID `json:"-"`
	Run   RunID `json:"-"`
	State State `json:"state"` // as its last record left it
	// Nominal, Started and Finished are UTC; zero where there is none.
	Nominal  time.Time `json:"nominal,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished,omitzero"`
	// Missed: the run stands for a stretch of nominal times none of which was started.
	Missed  *Stretch  `json:"missed,omitempty"`
	Written int64     `json:"-"` // write timestamp, µs; the latest wins
	Expires time.Time `json:"-"` // when the line leaves; unknown (zero) when read
}

// Period returns the period of history in which the line lies.
func (r *JobRun) Period() int { return PeriodOf(r.Run.Time()) }

// EncodeJobRun returns the stored form of r: everything but what its address and its cell say.
func EncodeJobRun(r *JobRun) ([]byte, error) { return encodeCell(r, "line of history") }

// DecodeJobRun is the inverse of EncodeJobRun.
func DecodeJobRun(text []byte) (JobRun, error) {
	r, err := decodeCell[JobRun](text, "line of history")
	if err != nil {
		return JobRun{}, err
	}
	return *r, nil
}

// Stretch is a stretch of nominal times that were not started, for one reason. From and To are its first and last.
type Stretch struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Count  int64     `json:"count"`
	Reason string    `json:"reason,omitempty"`
}

// HistoryPeriod is how much due time of a job's runs lies in one partition of job_runs.
const HistoryPeriod = 24 * time.Hour

// PeriodOf returns the period of history in which a run due at t lies: days since the Unix epoch.
func PeriodOf(t time.Time) int {
	return int(floorDiv(t.UnixMilli(), HistoryPeriod.Milliseconds()))
}

// JobStore holds the jobs that can have many runs. All but the making of one are conditional writes. Those answer ErrUnknown where the outcome could
// not be found out by reading either: the write may still happen, as long as what it asks for still holds.
type JobStore interface {
	// CreateJob writes a job that never changed, without a condition, under an id that was drawn for it. Nothing else is ever created under that
	// id: then writing it again, however late, is harmless, since whatever a conditional write has made of the row stands. Nil means that a quorum holds the
	// job, or what was made of it. One of unknown outcome (ErrUnknown) may appear as late as it likes, unless SwapJob writes the row before.
	CreateJob(ctx context.Context, j Job) error
	// SwapJob replaces the row if its current generation still is number was, or writes it if was is 0 and there is none; ErrConflict otherwise,
	// ErrNotFound without a row. The number of j's current generation must be higher than was: by it the write is known again.
	SwapJob(ctx context.Context, was int64, j Job) error
	// Job returns a job as every conditional write that was begun before has left it (SERIAL), or ErrNotFound; one whose generation in force cannot be
	// understood is ErrNotUnderstood. A conditional write that was of unknown outcome is decided by it, and every later read of any kind shows
	// the same or newer.
	Job(ctx context.Context, id JobID) (Job, error)
	// Jobs returns those of the jobs that exist, each once, in the order of their ids. All lie in one shard, at most 100. It is a plain
	// read, for what is done for every run: it shows every write that was answered with nil before it began, and of those
	// of unknown outcome it may show one now and not the next time, until Job has decided it. What specs point to is shared with
	// other readers: it is never changed in place. A job whose text cannot be understood comes with Generation.Fault, and fails no other.
	Jobs(ctx context.Context, shard Shard, ids []JobID) ([]Job, error)
	// JobsOf returns the jobs of a shard with an id after `after` (zero: from the oldest), in the order of their ids, at most limit of
	// them. Fewer means that there are no more. A plain read, as Jobs.
	JobsOf(ctx context.Context, shard Shard, after JobID, limit int) ([]Job, error)
}

// JobIndex finds jobs by tenant and by name. Names are given by conditional writes only, which answer ErrUnknown as those of JobStore.
type JobIndex interface {
	// RegisterName gives the name to the job unless another has it, and returns who has it, since when (to the ms), and whether it is this
	// job. Claiming again is harmless.
	RegisterName(ctx context.Context, tenant, name string, id JobID, at time.Time) (holder JobID, since time.Time, mine bool, err error)
	// TransferName gives the name from one job to another (zero to: to none); ErrConflict if `from` does not have it.
	TransferName(ctx context.Context, tenant, name string, from, to JobID, at time.Time) error
	// JobByName returns the job that has the name and since when, as every conditional write before has left it (SERIAL), or ErrNotFound.
	JobByName(ctx context.Context, tenant, name string) (JobID, time.Time, error)
	// ListJob notes that the tenant has the job, until expires: that of the job's row, zero (never) unless the job has ended. Noting it
	// again is harmless; the first expiry that is not zero replaces never, of two the later counts.
	ListJob(ctx context.Context, tenant string, id JobID, expires time.Time) error
	// JobIDs returns the ids of a tenant's jobs before `before` (zero: from the newest), newest first, at most limit of them. Fewer
	// means that there are no more. A job may be listed that has no row, or not yet.
	JobIDs(ctx context.Context, tenant string, before JobID, limit int) ([]JobID, error)
}

// HistoryStore holds what became of the runs of jobs that can have many.
type HistoryStore interface {
	// PutJobRuns writes lines of history, of any jobs; the caller bounds them. Writing a line again is harmless. Errors as PutEntries.
	PutJobRuns(ctx context.Context, runs []JobRun) error
	// JobRuns returns the lines of a job in one period before `before` (zero: from the newest), in the order of due times, newest first, at most
	// limit of them. Fewer means that the period was read to its end.
	JobRuns(ctx context.Context, id JobID, period int, before RunID, limit int) ([]JobRun, error)
}

// DecisionStore holds what must be decided once, by conditional writes.
type DecisionStore interface {
	// Decide records text under the key unless something was decided before, until expires, and returns what is decided. Deciding again
	// is harmless, and the way to learn what became of one of unknown outcome (ErrUnknown).
	Decide(ctx context.Context, key, text string, expires time.Time) (string, error)
}

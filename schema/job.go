package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

// Schedule says when a recurring job is due: by exactly one of Cron, Every and Any. Instants are
// UTC, ms. A schedule that leaves out dates is stored as Any, which versions that do not know it do
// not understand: they would run it on those dates.
type Schedule struct {
	Cron     string `json:"cron,omitempty"`
	Timezone string `json:"timezone,omitempty"` // IANA name; "" = UTC
	// Gap: run (default) or skip: times that the zone leaves out.
	Gap string `json:"gap,omitempty"`
	// OverlapHour: first (default), second or both: times that the zone has twice.
	OverlapHour string   `json:"overlap_hour,omitempty"`
	Every       Duration `json:"every,omitempty"`
	// Anchor: of Every: the instants are anchor + k · every; set at creation if it was not stated.
	Anchor time.Time `json:"anchor,omitzero"`
	// Exclude are dates on which the schedule is not due, such as "2026-12-25", of Timezone.
	Exclude []string `json:"exclude,omitempty"`
	// Calendar: what it does on the dates of a calendar.
	Calendar *ScheduleCalendar `json:"calendar,omitempty"`

	// Any are the schedules of a job that has several, or one that leaves dates out: it is due when
	// any of them is. They say all but what follows here.
	Any []Schedule `json:"any,omitempty"`
	// Listed: Any was stated as a list; otherwise it is one schedule.
	Listed bool `json:"listed,omitempty"`

	Start time.Time `json:"start,omitzero"` // no nominal time before it
	End   time.Time `json:"end,omitzero"`   // no nominal time at or after it
	// Jitter is the window over which the job's fixed offset is drawn: in force, so 0 means none.
	Jitter Duration `json:"jitter,omitempty"`
}

// Anchored returns the schedule with an anchor for each interval that states none. It shares
// nothing that it changes.
func (s Schedule) Anchored(at time.Time) Schedule {
	if s.Every > 0 && s.Anchor.IsZero() {
		s.Anchor = at
	}
	s.Any = slices.Clone(s.Any)
	for i := range s.Any {
		s.Any[i] = s.Any[i].Anchored(at)
	}
	return s
}

// SameAs reports whether two schedules say the same, whatever dates their calendars have.
func (s *Schedule) SameAs(o *Schedule) bool {
	return s.Cron == o.Cron && s.Timezone == o.Timezone && s.Gap == o.Gap && s.OverlapHour == o.OverlapHour && s.Every == o.Every &&
		s.Anchor.Equal(o.Anchor) && s.Start.Equal(o.Start) && s.End.Equal(o.End) && s.Jitter == o.Jitter && s.Listed == o.Listed &&
		slices.Equal(s.Exclude, o.Exclude) && s.Calendar.sameAs(o.Calendar) && slices.EqualFunc(s.Any, o.Any, func(a, b Schedule) bool { return a.SameAs(&b) })
}

// Concurrency bounds the runs of one job that are under way at once: those that have an attempt
// under way. A run that waits for its next attempt does not count.
type Concurrency struct {
	Limit int `json:"limit"`
	// OnLimitQueue (default), OnLimitSkip or OnLimitCancelOldest
	OnLimit string `json:"on_limit,omitempty"`
	// Key is a JSON pointer into the payloads of runs. Then the limit is one for each value there;
	// see Value. "": one for all runs of the job.
	Key string `json:"key,omitempty"`
}

// What becomes of a run that would start while as many as the limit allows are under way.
const (
	// OnLimitQueue has it wait. Of several, the one that was due first starts first.
	OnLimitQueue = "queue"
	// OnLimitSkip gives it up: it is missed. A later attempt, and a run of a backfill, wait
	// instead.
	OnLimitSkip = "skip"
	// OnLimitCancelOldest cancels the runs that were due first, under way or waiting, or the run
	// itself if it is the oldest. The others wait until the cancelled ones have ended.
	OnLimitCancelOldest = "cancel_oldest"
)

// JobSpec is what a job that can have many runs says: the JSON text cell of its row, one for each
// generation. Absent fields have the defaults of the API.
type JobSpec struct {
	Tenant   string    `json:"tenant"`
	Name     string    `json:"name,omitempty"`
	Schedule *Schedule `json:"schedule,omitempty"` // nil for a job that others trigger
	MaxRuns  int       `json:"max_runs,omitempty"` // as stated; Schedule.End holds what it comes to

	Task     string   `json:"task,omitempty"` // the task to run …
	Work     *Work    `json:"work,omitempty"` // … or the work itself: one of the two
	Priority Priority `json:"priority,omitempty"`
	// Payload: as json.Compact leaves it: a store keeps no other white space.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Sealed is the payload, and the definition of a workflow, encrypted; they are then absent
	// where the job is stored.
	Sealed      []byte            `json:"sealed,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Misfire     *Misfire          `json:"misfire,omitempty"`
	Concurrency *Concurrency      `json:"concurrency,omitempty"`
	// PauseAfter: the job pauses when so many runs in a row have failed; 0: it does not.
	PauseAfter int `json:"pause_after,omitempty"`
	// PausedBecause says why a job is paused that nobody has paused.
	PausedBecause string `json:"paused_because,omitempty"`
	// Workflow: the job is a workflow, and has neither task nor work.
	Workflow *JobWorkflow `json:"workflow,omitempty"`
	// On: events start runs of the job. It then has no schedule.
	On *EventTrigger `json:"on,omitempty"`
	// After: ends of runs of other jobs start runs of the job. It then has neither schedule nor On.
	After *After `json:"after,omitempty"`

	// Durability is as stated, or DurableEverywhere where that was in force when the job was made
	// or changed.
	Durability Durability `json:"durability,omitempty"`
	// JitterStated: the job stated its jitter. Otherwise Schedule.Jitter is the default.
	JitterStated bool `json:"jitter_stated,omitempty"`
	// EndStated is the end that the job stated, if any. Schedule.End is the earlier of it and of
	// the time at which MaxRuns is reached.
	EndStated time.Time `json:"end_stated,omitzero"`

	Created time.Time `json:"created"` // UTC, ms
	// CreatedBy is who made the job, as the audit log names callers; "": no key was asked for.
	CreatedBy string    `json:"created_by,omitempty"`
	Updated   time.Time `json:"updated"` // of this generation

	// Past are the generations that were in force until shortly before this one, the latest first.
	// Nothing of them starts any more, but their late runs are still recorded.
	Past []PastGeneration `json:"past,omitempty"`
}

// JobWorkflow is what the job says that is a workflow.
type JobWorkflow struct {
	// Definition is the steps, as package orchestration stores them, at most MaxPayload bytes.
	Definition []byte `json:"definition"`
	// Deadline is how long after its due time a run ends at the latest: in force.
	Deadline Duration `json:"deadline"`
}

// WorkflowRun returns what marks the runs of the job if it is a workflow; nil: it is none.
func (s *JobSpec) WorkflowRun() *WorkflowRun {
	if s.Workflow == nil {
		return nil
	}
	return new(WorkflowRun)
}

// PastGeneration is what is remembered of a generation that was replaced twice.
type PastGeneration struct {
	Number   int64     `json:"number"`
	Schedule *Schedule `json:"schedule,omitempty"`
	Cut      time.Time `json:"cut"` // the due time at which the next one took over
}

// Generation is what a job said between two of its changes. Its number only grows: µs since the
// Unix epoch with random low bits. It is the write timestamp of the occurrences planned from it.
type Generation struct {
	Number int64
	State  JobState
	Spec   JobSpec
	// Fault is set when the stored spec cannot be understood (ErrNotUnderstood); the spec is then
	// zero. Where number and state cannot be read either, they are 0 and JobActive.
	Fault error
}

// Job is a row of jobs: the generation in force and, until Cut has passed, the one before.
type Job struct {
	ID      JobID
	Current Generation
	Before  *Generation // nil for a job that never changed
	// Cut is the due time at which Current takes over from Before: an occurrence of Before starts
	// only if it is due, and starts, before it. UTC, ms; zero for a job that never changed.
	Cut time.Time
	// Expires is when the row of an ended job leaves. It stays for the retention, since its planned
	// runs read it. Zero means never, as for any other job. It is zero when read.
	Expires time.Time
}

// Fault returns why a generation of the job cannot be understood, nil if both can.
func (j *Job) Fault() error {
	if j.Before != nil && j.Current.Fault == nil {
		return j.Before.Fault
	}
	return j.Current.Fault
}

// Written reports whether the change to the generation of that number was done, judged by the row
// that stands; sure is false if the row does not tell. A row remembers the generation before the
// one in force: the change under one that followed is known, under two it is not.
func (j *Job) Written(number int64) (done, sure bool) {
	switch {
	case j.Current.Number == number:
		return true, true
	case j.Current.Number < number || j.Before == nil || j.Before.Number < number:
		// the generation in force came right after an older one: there was none between
		return false, true
	}
	return j.Before.Number == number, j.Before.Number == number
}

// EncodeJobSpec returns the stored form of s. Decoding and encoding it again gives the same bytes,
// so an occurrence is the same whether its job was just made or was read.
func EncodeJobSpec(s *JobSpec) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it would change payloads
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("encode job: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// DecodeJobSpec is the inverse of EncodeJobSpec. Its error is ErrNotUnderstood.
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
	Job JobID `json:"-"`
	Run RunID `json:"-"`
	// State is as the run's last record left it. Of a run that repeats one of the job's, and is
	// none of its own, it stays pending: its rows tell how it ended.
	State State `json:"state"`
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

// EncodeJobRun returns the stored form of r: all but what its address and its cell say.
func EncodeJobRun(r *JobRun) ([]byte, error) { return encodeCell(r, "line of history") }

// DecodeJobRun is the inverse of EncodeJobRun.
func DecodeJobRun(text []byte) (JobRun, error) {
	r, err := decodeCell[JobRun](text, "line of history")
	if err != nil {
		return JobRun{}, err
	}
	return *r, nil
}

// Stretch is a row of nominal times that were not started, for one reason. From and To are the
// first and the last of them.
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

// PeriodStart returns when a period of history begins, in UTC.
func PeriodStart(period int) time.Time {
	return time.UnixMilli(int64(period) * HistoryPeriod.Milliseconds()).UTC()
}

// JobStore holds the jobs that can have many runs. All writes but CreateJob are conditional. They
// answer ErrUnknown where reading could not tell the outcome either: such a write may still happen,
// as long as its condition holds.
type JobStore interface {
	// CreateJob writes a job that never changed, without a condition, under an id drawn for it.
	// Writing it again, however late, is harmless: what a conditional write has made of the row
	// stands. Nil means that a quorum holds the job, or what was made of it. After ErrUnknown it
	// may appear at any time, unless SwapJob writes the row before.
	CreateJob(ctx context.Context, j Job) error
	// SwapJob replaces the row if the number of its current generation is was, or writes it if was
	// is 0 and there is none. ErrConflict: it is another; ErrNotFound: there is no row. The number
	// of j's current generation must be higher than was: it identifies the write.
	SwapJob(ctx context.Context, was int64, j Job) error
	// Job returns a job as every conditional write that was begun before has left it (SERIAL), or
	// ErrNotFound; ErrNotUnderstood if its generation in force cannot be understood. It decides a
	// write of unknown outcome: every later read of any kind shows the same or newer.
	Job(ctx context.Context, id JobID) (Job, error)
	// Jobs returns those of the jobs that exist, each once, in id order. All lie in one shard, at
	// most 100. It is a plain read, for what happens for every run. It shows every write that was
	// answered with nil before it began; a write of unknown outcome it may show now and not the
	// next time, until Job decides it. What specs point to is shared with other readers: never
	// change it in place. A job that cannot be understood comes with Generation.Fault.
	Jobs(ctx context.Context, shard Shard, ids []JobID) ([]Job, error)
	// JobsOf returns the jobs of a shard with an id after `after` (zero: from the oldest), in id
	// order, at most limit. Fewer than limit means that there are no more. It is a plain read, as
	// Jobs.
	JobsOf(ctx context.Context, shard Shard, after JobID, limit int) ([]Job, error)
}

// JobBatchStore writes many new jobs at once.
type JobBatchStore interface {
	// CreateJobs writes jobs of one shard as CreateJob does each, as one batch, which the caller
	// bounds. Nil means that a quorum holds all, or what was made of them. ErrUnknown and
	// ErrUnavailable mean that any of them may or may not be held; ErrTooLarge, that none is.
	CreateJobs(ctx context.Context, jobs []Job) error
	// ListJobs notes that the tenant has the jobs, for ever, as ListJob does of each, as one batch,
	// which the caller bounds. Errors as CreateJobs.
	ListJobs(ctx context.Context, tenant string, ids []JobID) error
}

// JobIndex finds jobs by tenant and by name. Names are given by conditional writes only, which
// answer ErrUnknown as those of JobStore do.
type JobIndex interface {
	// RegisterName gives the name to the job unless another has it. It returns who has it, since
	// when (to the ms), and whether that is this job. Repeating it is harmless.
	RegisterName(ctx context.Context, tenant, name string, id JobID, at time.Time) (holder JobID, since time.Time, mine bool, err error)
	// TransferName gives the name from one job to another (zero: to none). ErrConflict: `from` does
	// not have it.
	TransferName(ctx context.Context, tenant, name string, from, to JobID, at time.Time) error
	// JobByName returns the job that has the name, and since when, as every conditional write
	// before has left it (SERIAL), or ErrNotFound.
	JobByName(ctx context.Context, tenant, name string) (JobID, time.Time, error)
	// ListJob notes that the tenant has the job, until expires: zero (never) unless the job has
	// ended. Repeating it is harmless. An expiry that is not zero replaces never; of two the later
	// counts.
	ListJob(ctx context.Context, tenant string, id JobID, expires time.Time) error
	// JobIDs returns the ids of a tenant's jobs before `before` (zero: from the newest), newest
	// first, at most limit. Fewer than limit means that there are no more. A listed job may have no
	// row (yet).
	JobIDs(ctx context.Context, tenant string, before JobID, limit int) ([]JobID, error)
}

// HistoryStore holds the history of jobs that can have many runs: one line a run.
type HistoryStore interface {
	// PutJobRuns writes lines of any jobs; the caller bounds them. Writing a line again is
	// harmless. Errors as PutEntries.
	PutJobRuns(ctx context.Context, runs []JobRun) error
	// JobRuns returns the lines of a job in one period before `before` (zero: from the newest), by
	// due time, newest first, at most limit. Fewer than limit means that the period was read to its
	// end.
	JobRuns(ctx context.Context, id JobID, period int, before RunID, limit int) ([]JobRun, error)
}

// DecisionStore holds what must be decided once, by conditional writes.
type DecisionStore interface {
	// Decide records text under the key, until expires, unless something was decided before. It
	// returns what is decided. To decide again is harmless; after ErrUnknown it tells the outcome.
	Decide(ctx context.Context, key, text string, expires time.Time) (string, error)
	// Decided returns what was decided under the key, or ErrNotFound. It may miss a decision that is
	// being made.
	Decided(ctx context.Context, key string) (string, error)
}

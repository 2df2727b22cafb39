package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Bounds of what one entry may hold.
const (
	InlinePayload = 4 << 10  // payloads up to this many bytes lie in the entry's own row
	MaxPayload    = 64 << 10 // the largest payload, bytes

	// MaxRow is how large a row every store takes, in bytes. Intake accepts less than half of it: a
	// later start says more than the run did, a dead letter adds payload and record, and the row of
	// a job also holds its former generation.
	MaxRow = 512 << 10
)

// Kind says why an entry exists. The zero value is KindRun.
type Kind string

// The kinds. Every kind but KindRun names the run it is Of.
const (
	KindRun          Kind = ""           // the run itself: the entry whose id is the run's
	KindLate         Kind = "late"       // replaces a row that was durable too late for its sweep
	KindRetry        Kind = "retry"      // the next attempt after a failed one
	KindReschedule   Kind = "reschedule" // starts the run only while the run's moved_to names it
	KindDeferral     Kind = "deferral"   // a deferred start: see Cause
	KindFromWaitList Kind = "turn"       // replaces one that a limit held back: a slot is free now
	KindWatch        Kind = "watch"      // replaces an entry still open long after its bucket's end
	// KindCatchUp: works off nominal times that were missed: starts nothing by itself.
	KindCatchUp Kind = "catch_up"
	// KindDefinition: what a workflow run keeps of its workflow, as a payload. It starts nothing.
	KindDefinition Kind = "definition"
	// KindEvent: an event that was accepted, with its body as payload: starts nothing by itself. It
	// is Of itself.
	KindEvent Kind = "event"
	// KindJoin: a run that waits until other jobs have ended, or an entry that looks after it: starts
	// nothing by itself. What starts it is the entry to which it is moved then.
	KindJoin Kind = "join"
)

// Plans reports whether runs are planned from an entry of the kind, which starts nothing by itself.
func (k Kind) Plans() bool { return k == KindCatchUp || k == KindEvent || k == KindJoin }

// Trigger says what asked for a run. The zero value is the schedule.
type Trigger string

// The triggers.
const (
	TriggerSchedule   Trigger = ""
	TriggerManual     Trigger = "manual"
	TriggerRetry      Trigger = "retry"
	TriggerBackfill   Trigger = "backfill"
	TriggerEvent      Trigger = "event"
	TriggerDependency Trigger = "dependency"
	// TriggerNotification: the run is a message to the tenant. Nothing follows from its end.
	TriggerNotification Trigger = "notification"
)

// Spec is what an entry says: the JSON text cell of its row. It is written once and never
// changed. Absent fields have the defaults that the field names.
type Spec struct {
	Tenant string `json:"tenant"`
	Kind   Kind   `json:"kind,omitempty"`
	Of     RunID  `json:"of,omitzero"` // the run, for every kind but KindRun
	// For is the entry that a late or watch entry replaces, if that one was to start the run's
	// first attempt: the run itself, or a reschedule entry. It may start only if the other might.
	For EntryID `json:"for,omitzero"`

	// Nominal is the instant that was asked for, in UTC, to the ms. The due time is the id's.
	Nominal time.Time `json:"nominal"`
	// Accepted is the instant at which this was accepted, in µs since the Unix epoch, and the
	// write timestamp of the row: repeating the write writes the same cells.
	Accepted int64 `json:"accepted"`

	Job        JobID   `json:"job,omitzero"` // the job, where it can have many runs
	JobName    string  `json:"job_name,omitempty"`
	Generation int64   `json:"generation,omitempty"`
	Trigger    Trigger `json:"trigger,omitempty"`
	Origin     RunID   `json:"origin,omitzero"` // the run that this one repeats
	// OriginJob: of a run that is none of its own: the job of which Origin is a run, or repeats
	// one; a pointer, since an absent id would cost an allocation.
	OriginJob *JobID `json:"origin_job,omitempty"`

	// Attempt: number of the attempt that this entry starts; 0 means 1.
	Attempt int `json:"attempt,omitempty"`
	// Began: of a later attempt: when the first one started, µs; a number, since an absent time
	// would cost an allocation
	Began int64 `json:"began,omitempty"`
	// MayHaveStarted: the attempt may have been called before this entry was made.
	MayHaveStarted bool `json:"may_have_started,omitempty"`
	// Everywhere: what is acknowledged of the run is held in every region (DurableEverywhere).
	Everywhere bool `json:"everywhere,omitempty"`
	// Deferrals: how often the start of this attempt was deferred.
	Deferrals int `json:"put_off,omitempty"`
	// ReservedRate: of a deferral: the rate under which its due time is reserved.
	ReservedRate string   `json:"pace,omitempty"`
	Priority     Priority `json:"priority,omitempty"`
	// RequireRegion: only the region that its home is named after runs it. Meanwhile it waits.
	RequireRegion bool   `json:"require_region,omitempty"`
	Task          string `json:"task,omitempty"` // the task to run …
	Work          *Work  `json:"work,omitempty"` // … or the work itself: one of the two

	Misfire *Misfire `json:"misfire,omitempty"`
	// DeadlineFrom: of an entry that replaces the one of a one-off run with a misfire policy: the
	// instant from which the deadline counts, ms since the Unix epoch. 0: that is its due time.
	DeadlineFrom int64 `json:"deadline_from,omitempty"`
	// Concurrency is the job's bound on runs at once; nil: none. It is written after the work,
	// because the memo of specs relies on that order.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	// ConcurrencyValue is what the run counts under, if Concurrency has a key: see its Value.
	ConcurrencyValue string            `json:"concurrency_value,omitempty"`
	Labels           map[string]string `json:"labels,omitempty"`

	// Until is the last nominal time that a catch-up entry is for; Nominal is the first. A late
	// entry that a catch-up made has it too: the catch-up plans what comes next in its job.
	Until time.Time `json:"until,omitzero"`

	Key      string `json:"key,omitempty"`       // idempotency key of a keyed import line
	BodyHash string `json:"body_hash,omitempty"` // hash of that line

	// PayloadSize is in bytes. More than InlinePayload lie in the table payloads …
	PayloadSize int `json:"payload_size,omitempty"`
	// PayloadAt: … under this entry; zero means under this very one
	PayloadAt EntryID `json:"payload_at,omitzero"`

	// PauseAfter: the job pauses when so many runs in a row have failed; 0: it does not.
	PauseAfter int `json:"pause_after,omitempty"`

	Workflow *WorkflowRun `json:"workflow,omitempty"` // the run is one of a workflow
	Step     *Step        `json:"step,omitempty"`     // the run is a step of one

	// Event is what an entry of KindEvent is, or what started the run.
	Event *Event `json:"event,omitempty"`
	// Join: the run waits, or waited, until other jobs have ended.
	Join *Join `json:"join,omitempty"`

	// CreatedBy is who made the run's job, or asked for this run: see JobSpec.
	CreatedBy string `json:"created_by,omitempty"`

	// Retention is how many days after its due time a row of the run leaves; 0: as the cluster
	// says. It is the tenant's when the run was asked for, and the same in every entry of the run.
	Retention int `json:"retention,omitempty"`
	// Unique: the run is a one-off job that is the only one of its key for a while; nil: it is not.
	Unique *Unique `json:"unique,omitempty"`
}

// ListedWith returns the job that can have many runs and among whose runs this one is listed: its
// own, or the one of a run that it repeats. Zero: there is none.
func (s *Spec) ListedWith() JobID {
	switch {
	case s.Step != nil:
		return JobID{}
	case s.Job.IsZero() && s.OriginJob != nil:
		return *s.OriginJob
	}
	return s.Job
}

// First returns the entry whose right to start the run's first attempt e has: e itself, or the one
// it replaces. False means that e starts a later attempt.
func (e *Entry) First() (EntryID, bool) {
	switch {
	case e.Spec.Kind == KindRun || e.Spec.Kind == KindReschedule:
		return e.ID, true
	case !e.Spec.For.IsZero():
		return e.Spec.For, true
	}
	return EntryID{}, false
}

// MisfireFrom returns the instant from which a misfire deadline counts: the due time of First, or
// e's own for a later attempt. Of a one-off run it is the later of due time and acceptance. An
// entry that replaces another one of it says which that is; a late entry is due when it is
// accepted.
func (e *Entry) MisfireFrom() time.Time {
	first, ok := e.First()
	switch {
	case ok && !e.Spec.Job.IsZero():
		return first.Time()
	case ok && e.Spec.DeadlineFrom != 0:
		return time.UnixMilli(e.Spec.DeadlineFrom).UTC()
	case ok && e.Spec.Kind == KindRun && !e.ID.IsStep():
		return e.Spec.Start(e.ID)
	}
	return e.Due()
}

// RequestedAt returns for when the attempt that e starts was asked: the due time of First, or e's
// own for a later attempt.
func (e *Entry) RequestedAt() time.Time {
	switch first, ok := e.First(); {
	case ok && first.IsStep():
		return e.stepDue()
	case ok:
		return first.Time()
	}
	return e.Due()
}

// LatenessFrom returns the instant from which the lateness of a first start by e counts:
// [Spec.Start] of First. If e replaces another entry, that one's acceptance is not known; its id
// holds the later of due time and acceptance, to the ms.
func (e *Entry) LatenessFrom() time.Time {
	switch first, ok := e.First(); {
	case ok && first.IsStep():
		return e.stepDue()
	case ok && first != e.ID:
		return first.Time()
	}
	return e.Spec.Start(e.ID)
}

// IsOccurrence reports whether e is an occurrence of a recurring job that may not have started. The
// job's next run is planned from it.
func (e *Entry) IsOccurrence() bool {
	return !e.Spec.Job.IsZero() && e.Spec.Trigger == TriggerSchedule && e.Spec.Until.IsZero() && e.Spec.starts()
}

// FirstOfJob reports whether e makes the first start of a run of a job that can have many. It may
// do so only while the job's row says so: see DecideStart.
func (e *Entry) FirstOfJob() bool { return !e.Spec.Job.IsZero() && e.Spec.starts() }

// starts reports whether the entry starts a run that no other entry starts.
func (s *Spec) starts() bool {
	return s.AttemptNumber() == 1 && (s.Kind == KindRun || s.Kind == KindLate)
}

// AttemptNumber returns the number of the attempt that the entry starts, at least 1.
func (s *Spec) AttemptNumber() int { return max(s.Attempt, 1) }

// Start returns the instant from which the lateness of the entry with that id is counted:
// its due time, or the time of acceptance if that is later.
func (s *Spec) Start(id EntryID) time.Time {
	due := id.Time()
	if accepted := time.UnixMicro(s.Accepted).UTC(); accepted.After(due) {
		return accepted
	}
	return due
}

// Cancel is the mark of a cancelled run.
type Cancel struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// Marks are the two things about an entry that can change after it was written. They are
// written by conditional writes only. A run that was cancelled is never moved, and the reverse.
type Marks struct {
	Cancelled *Cancel
	MovedTo   EntryID // the reschedule entry that starts the run instead; zero = none
}

// Entry is a row of runs: the run itself, or a later start of it. Make one by NewEntry or
// LoadEntry.
//
// The text is authoritative. It is stored, published and written again byte for byte, so that
// fields of a newer version survive an older one. What Spec points to may be shared with other
// entries: it is replaced, never changed in place.
type Entry struct {
	ID   EntryID
	Spec Spec
	// Payload is up to InlinePayload bytes; a larger one only where it is about to be written. It
	// may be sealed (IsSealed).
	Payload []byte
	Marks   Marks
	Expires time.Time // when the row leaves; set by the writer, unknown (zero) when read

	// Fault is set when the text of a stored row cannot be understood. The spec is then zero.
	Fault error

	text []byte
}

// NewEntry makes the entry with that id, spec and payload, due to leave the store at expires. A
// spec with PayloadAt keeps its PayloadSize: its payload lies elsewhere already. Of a sealed
// payload the size is that of the clear one.
func NewEntry(id EntryID, spec Spec, payload []byte, expires time.Time) (Entry, error) {
	spec.Nominal = spec.Nominal.UTC().Truncate(time.Millisecond)
	if spec.PayloadAt.IsZero() {
		spec.PayloadSize = ClearSize(payload)
	}
	if spec.ConcurrencyValue == "" { // later entries have that of the first: they may lack the payload
		spec.ConcurrencyValue = spec.Concurrency.Value(payload)
	}
	text, err := json.Marshal(&spec)
	if err != nil {
		return Entry{}, fmt.Errorf("encode spec of %s: %w", id, err)
	}
	return Entry{ID: id, Spec: spec, Payload: payload, Expires: expires, text: text}, nil
}

// LoadEntry makes an entry of what a store or a message holds. It keeps text and payload.
func LoadEntry(id EntryID, text, payload []byte, marks Marks) Entry {
	e := Entry{ID: id, Payload: payload, Marks: marks, text: text}
	var err error
	if e.Spec, err = specs.decode(text); err != nil {
		e.Spec, e.Fault = Spec{}, fmt.Errorf("spec of %s: %w", id, err)
	}
	return e
}

// Text returns the spec as it is stored. The caller must not modify it.
func (e *Entry) Text() []byte { return e.text }

// Run returns the run that the entry is, or is a later start of.
func (e *Entry) Run() RunID {
	if e.Spec.Of.IsZero() {
		return e.ID
	}
	return e.Spec.Of
}

// Due returns the entry's due time. A step is due when it was found that it may start.
func (e *Entry) Due() time.Time {
	if e.ID.IsStep() {
		return e.stepDue()
	}
	return e.ID.Time()
}

// stepDue returns when the step's run was first due.
func (e *Entry) stepDue() time.Time {
	if e.Spec.Step == nil || e.Spec.Step.Due.IsZero() {
		return e.ID.Time()
	}
	return e.Spec.Step.Due
}

// LivesUntil returns the instant to which the rows of the entry's run are needed at least, besides
// its due time: the end of the workflow of which it is a step, or the deadline of a join; zero: none.
func (e *Entry) LivesUntil() time.Time {
	switch {
	case e.Spec.Step != nil:
		return e.Spec.Step.Until
	case e.Spec.Join != nil:
		return e.Spec.Join.Until
	}
	return time.Time{}
}

// LargePayload returns the id under which payloads holds the entry's payload, if it lies there.
func (e *Entry) LargePayload() (EntryID, bool) {
	if e.Spec.PayloadSize <= InlinePayload {
		return EntryID{}, false
	}
	return or(e.Spec.PayloadAt, e.ID), true
}

// Size returns about how many bytes the entry takes in a partition: the measure of intake limits
// and batch bounds.
func (e *Entry) Size() int { return len(e.text) + len(e.Payload) + 64 }

// EntryWriter writes rows of runs.
type EntryWriter interface {
	// PutEntries writes the entries, and the payloads over InlinePayload of those that carry one,
	// as one batch with each entry's own timestamp and expiry. The caller bounds the batch and
	// groups it by partition; a batch of many partitions is allowed and costs more. Marks are not
	// written.
	//
	// Nil means that a quorum holds all. ErrUnknown and ErrUnavailable mean that any of them may or
	// may not be held; ErrTooLarge, that none is. Writing an entry again is harmless.
	PutEntries(ctx context.Context, entries []Entry) error
}

// EntryReader reads rows of runs. Rows without a spec (marks whose entry has left) are not
// returned.
type EntryReader interface {
	// Entries returns the entries of p in r, in id order (so by due time), at most limit of them,
	// with inline payloads and marks. Fewer than limit means that r was read to its end.
	Entries(ctx context.Context, p Partition, r IDRange, limit int) ([]Entry, error)
	// EntryIDs returns only the ids of what Entries would return.
	EntryIDs(ctx context.Context, p Partition, r IDRange, limit int) ([]EntryID, error)
	// EntriesByID returns those of the entries that exist, in id order. All ids lie in p, at most
	// 100.
	EntriesByID(ctx context.Context, p Partition, ids []EntryID) ([]Entry, error)
	// Payload returns the payload that lies in payloads under id, or ErrNotFound.
	Payload(ctx context.Context, id EntryID) ([]byte, error)
}

// MarkStore sets the marks of a run by conditional writes.
type MarkStore interface {
	// CancelRun marks the run cancelled if its row exists, is not cancelled, and is moved to asRead
	// (zero: not moved). ErrConflict comes with the marks as they are; ErrNotFound means no row.
	CancelRun(ctx context.Context, id RunID, asRead EntryID, mark Cancel, expires time.Time) (Marks, error)
	// MoveRun sets moved_to under the same condition.
	MoveRun(ctx context.Context, id RunID, asRead, to EntryID, expires time.Time) (Marks, error)
	// Marks reads the marks so that every conditional write that was begun before is decided
	// (SERIAL). ErrNotFound means no row.
	Marks(ctx context.Context, id RunID) (Marks, error)
}

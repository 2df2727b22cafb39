package schema

import (
	"encoding/json"
	"fmt"
	"time"
)

// Bounds of what one entry may hold.
const (
	InlinePayload = 4 << 10  // payloads up to this many bytes lie in the entry's own row
	MaxPayload    = 64 << 10 // the largest payload, bytes

	// MaxRow is how large a row every store takes, bytes. What intake accepts is less than half of it: a later start of a run says more than
	// the run, its dead letter has payload and record besides, and the row of a job holds what it said before its last change as well.
	MaxRow = 512 << 10
)

// Kind says why an entry exists. The zero value is KindRun.
type Kind string

// The kinds. Every kind but KindRun names the run it is Of.
const (
	KindRun        Kind = ""           // the run itself: the entry whose id is the run's
	KindLate       Kind = "late"       // stands in for a row that was durable too late for its sweep
	KindRetry      Kind = "retry"      // the next attempt after a failed one
	KindReschedule Kind = "reschedule" // starts the run only while the run's moved_to names it
	KindDeferral   Kind = "deferral"   // a start that was put off: its target fails or has no room for it now, or the rate of its task has not
	KindFromWaitList       Kind = "turn"       // stands in for one that a limit held back, now that its turn has come
	KindWatch      Kind = "watch"      // looks after a run still open long after its bucket's end
	KindCatchUp    Kind = "catch_up"   // works off nominal times that were missed: starts nothing by itself
)

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
)

// Spec is what an entry says: the JSON text cell of its row. It is written once and never
// changed. Absent fields have the defaults that the field names.
type Spec struct {
	Tenant string `json:"tenant"`
	Kind   Kind   `json:"kind,omitempty"`
	Of     RunID  `json:"of,omitzero"` // the run, for every kind but KindRun
	// For is the entry that a late or watch entry stands in for, if that was to start the run's first
	// attempt: the run itself, or a reschedule entry. It may start only if the other might.
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

	Attempt  int      `json:"attempt,omitempty"` // number of the attempt that this entry starts; 0 means 1
	Began    int64    `json:"began,omitempty"`   // µs since the Unix epoch when the run's first attempt started, where this entry starts a later one; a number, for an absent time costs an allocation
	Deferrals   int      `json:"put_off,omitempty"` // how often the start of this attempt was put off
	ReservedRate     string   `json:"pace,omitempty"`    // the rate of the task of which the due time of this deferral is a start; "": it is none
	Priority Priority `json:"priority,omitempty"`
	Task     string   `json:"task,omitempty"` // the task to run …
	Work     *Work    `json:"work,omitempty"` // … or the work itself: one of the two

	Misfire *Misfire `json:"misfire,omitempty"`
	// Concurrency is what the job says of runs at once, nil if nothing. It stands behind the work: see the memo of specs.
	Concurrency *Concurrency      `json:"concurrency,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	// Until is the last nominal time that a catch-up entry is for; Nominal is the first. A late entry that a catch-up made has it too:
	// what comes next in its job is the catch-up's.
	Until time.Time `json:"until,omitzero"`

	Key      string `json:"key,omitempty"`       // idempotency key of a keyed import line
	BodyHash string `json:"body_hash,omitempty"` // hash of that line

	PayloadSize int     `json:"payload_size,omitempty"` // bytes; more than InlinePayload lie in payloads …
	PayloadAt   EntryID `json:"payload_at,omitzero"`    // … under this entry; zero means under this very one
}

// First returns the entry whose right to start the run's first attempt the entry e has: itself or the one it stands in
// for; false for one that starts a later attempt.
func (e *Entry) First() (EntryID, bool) {
	switch {
	case e.Spec.Kind == KindRun || e.Spec.Kind == KindReschedule:
		return e.ID, true
	case !e.Spec.For.IsZero():
		return e.Spec.For, true
	}
	return EntryID{}, false
}

// MisfireFrom returns the instant from which a misfire deadline counts: the due time of the entry whose right to start e has, or
// e's own for a later attempt.
func (e *Entry) MisfireFrom() time.Time {
	if first, ok := e.First(); ok && !e.Spec.Job.IsZero() {
		return first.Time()
	}
	return e.Due()
}

// RequestedAt returns when the attempt that e starts was asked for: the due time of the entry whose right to start e has, or e's own for a later attempt.
func (e *Entry) RequestedAt() time.Time {
	if first, ok := e.First(); ok {
		return first.Time()
	}
	return e.Due()
}

// LatenessFrom returns the instant from which the lateness of a first start by e is counted: as [Spec.Start] of the entry whose right to start e has.
// Of one that e stands in for, acceptance is not known but for what is in its id, which holds the later of the two to the ms.
func (e *Entry) LatenessFrom() time.Time {
	if first, ok := e.First(); ok && first != e.ID {
		return first.Time()
	}
	return e.Spec.Start(e.ID)
}

// IsOccurrence reports whether e stands for an occurrence of a recurring job that may not have started: whoever meets it sees to
// it that the job goes on after it.
func (e *Entry) IsOccurrence() bool {
	return !e.Spec.Job.IsZero() && e.Spec.Trigger == TriggerSchedule && e.Spec.Until.IsZero() && e.Spec.starts()
}

// FirstOfJob reports whether e is to make the first start of a run of a job that can have many: it may do so only while
// the job's row says so.
func (e *Entry) FirstOfJob() bool { return !e.Spec.Job.IsZero() && e.Spec.starts() }

// starts reports whether the entry starts a run that nobody else would start.
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

// Entry is a row of runs: the run itself, or a later start of it.
//
// The text is authoritative: it is stored, published and written again byte for byte, so that
// fields of a newer version survive an older one. Make one with NewEntry or LoadEntry. What Spec points to may be
// shared with other entries: it is replaced, never changed in place.
type Entry struct {
	ID      EntryID
	Spec    Spec
	Payload []byte // up to InlinePayload bytes; a larger one only where it is about to be written
	Marks   Marks
	Expires time.Time // when the row leaves; set by the writer, unknown (zero) when read

	// Fault is set when the text of a stored row cannot be understood. The spec is then zero. It
	// belongs to the row, not to the read: the rows after it are as good as ever.
	Fault error

	text []byte
}

// NewEntry makes the entry with that id, spec and payload, due to leave the store at expires. A
// spec with PayloadAt keeps its PayloadSize: its payload lies elsewhere already.
func NewEntry(id EntryID, spec Spec, payload []byte, expires time.Time) (Entry, error) {
	spec.Nominal = spec.Nominal.UTC().Truncate(time.Millisecond)
	if spec.PayloadAt.IsZero() {
		spec.PayloadSize = len(payload)
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

// Due returns the entry's due time.
func (e *Entry) Due() time.Time { return e.ID.Time() }

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

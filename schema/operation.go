package schema

import (
	"context"
	"reflect"
	"time"
)

// OperationID names an operation: a UUIDv7, so ids are in the order of creation.
type OperationID [16]byte

// MakeOperationID builds the id of an operation made at t. Only the low 62 bits of random are used.
func MakeOperationID(t time.Time, random uint64) OperationID {
	return OperationID(MakeJobID(t, Shard(random>>50&(MaxShards-1)), random)) // #nosec G115 -- below 4096
}

// ParseOperationID parses the usual form of a UUID of version 7.
func ParseOperationID(s string) (OperationID, error) {
	id, err := ParseJobID(s)
	if _, run := id.OneOff(); err != nil || run {
		return OperationID{}, errNotAnID
	}
	return OperationID(id), nil
}

// IsZero reports whether id is no id.
func (id OperationID) IsZero() bool { return id == OperationID{} }

// Time returns when the operation was made, in UTC, to the ms.
func (id OperationID) Time() time.Time { return EntryID(id).Time() }

// String returns the usual form of a UUID, in lower case.
func (id OperationID) String() string { return formatUUID(id) }

// MarshalText returns String.
func (id OperationID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *OperationID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseOperationID(string(text))
	return err
}

// OperationFilter selects what an operation acts on: jobs that can have many runs or, with From and
// To, runs or dead letters by due time. Other fields that are zero select all.
type OperationFilter struct {
	State      string `json:"state,omitempty"`       // of the jobs, or of the runs
	Label      string `json:"label,omitempty"`       // of the jobs, or of the runs: name=value
	NamePrefix string `json:"name_prefix,omitempty"` // of jobs

	From time.Time `json:"from,omitzero"` // of runs: From ≤ due < To
	To   time.Time `json:"to,omitzero"`
	Task string    `json:"task,omitempty"` // of runs
	// ErrorPattern: of dead letters: what their errors have in common (runs.ErrorPattern). A build
	// that does not know it takes no such operation on: see operations.
	ErrorPattern string `json:"error_pattern,omitempty"`
	// Error: of dead letters: part of their errors, in letters of either case. A build that does not
	// know it takes no such operation on either.
	Error string `json:"error,omitempty"`

	// Of runs, as lists of runs have them (runs.FilterText); Label, Labels and Job of dead letters
	// too. A build that does not know them takes no operation on that has one, or has Label or a
	// State of these: see operations.
	States []string `json:"states,omitempty"` // in one of them; State is empty then
	Labels []string `json:"labels,omitempty"` // name=value: they have all of them, and Label
	Job    string   `json:"job,omitempty"`    // of this job: its id; requests may state its name
	Host   string   `json:"host,omitempty"`   // they call it
	Late   string   `json:"late,omitempty"`   // a duration: they are late by more
	Key    string   `json:"key,omitempty"`    // made with this idempotency key
}

// IsZero reports whether f selects every job.
func (f *OperationFilter) IsZero() bool { return reflect.ValueOf(f).Elem().IsZero() }

// Operation is one action on all that matches a filter, done in the background.
type Operation struct {
	ID       OperationID
	Tenant   string
	Spec     OperationSpec
	Progress Progress
	// Cancelled is who cancelled it, and when; nil: nobody. PutOperation does not write it.
	Cancelled *Cancel
	// Fault is set in lists: what is stored of it cannot be understood. Id and tenant are known.
	Fault error
}

// The states of an operation.
const (
	OperationRunning   = "running"
	OperationDone      = "done"
	OperationCancelled = "cancelled" // what it did before stays done
)

// State returns where the operation stands. A cancelled one stops when its worker has seen the
// mark.
func (op *Operation) State() string {
	switch {
	case op.Cancelled != nil:
		return OperationCancelled
	case op.Progress.Done:
		return OperationDone
	}
	return OperationRunning
}

// OperationSpec is what an operation does. It never changes.
type OperationSpec struct {
	// Action: cancel, pause, resume, trigger, retry, replay, discard or backfill.
	Action string          `json:"action"`
	Filter OperationFilter `json:"filter"`
	// Backfill is set for a backfill, which has no filter.
	Backfill *Backfill `json:"backfill,omitempty"`
	// JobName is the name by which Filter.Job was asked for.
	JobName string `json:"job_name,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"` // only count what matches
	By      string `json:"by,omitempty"`      // who asked for it
}

// Backfill says for which nominal times of a job runs are asked for.
type Backfill struct {
	Job     JobID  `json:"job"`
	JobName string `json:"job_name,omitempty"`
	// From ≤ nominal time < To, in UTC, to the ms: clipped to what the schedule names.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Schedule is the job's at the time of the request: later changes of the job do not matter.
	Schedule Schedule `json:"schedule"`
	Count    int64    `json:"count"` // of those times, without those of Skip
	// Skip are stretches, first and last nominal time in ms, in order: their times have runs, and none
	// is asked for. A build that does not know it takes no such backfill on: see operations.
	Skip [][2]int64 `json:"skip,omitempty"`
	// MaxConcurrent bounds the runs that are unfinished at a time.
	MaxConcurrent int      `json:"max_concurrent"`
	Notes         []string `json:"notes,omitempty"` // for who asked: what was clipped
}

// StartsRuns reports whether the action makes runs, which count towards the tenant's quota.
func (s *OperationSpec) StartsRuns() bool {
	switch s.Action {
	case "trigger", "retry", "replay", "backfill":
		return true
	}
	return false
}

// OfDeadLetters reports whether the action is for dead letters.
func (s *OperationSpec) OfDeadLetters() bool { return s.Action == "replay" || s.Action == "discard" }

// Progress is how far an operation has come.
type Progress struct {
	Done bool   `json:"done,omitempty"`
	At   string `json:"at,omitempty"` // where it goes on: for whoever works it off

	Matched int64 `json:"matched,omitempty"` // met so far
	// Changed: of those: done; the runs that a backfill asked for.
	Changed   int64 `json:"changed,omitempty"`
	Unchanged int64 `json:"unchanged,omitempty"` // nothing was to be done: it had ended
	// Failed: could not be done; the runs of a backfill that ended without success.
	Failed int64    `json:"failed,omitempty"`
	Faults []string `json:"faults,omitempty"` // the first few failures
	// Unfinished are the runs of a backfill that have not ended.
	Unfinished []RunID `json:"unfinished,omitempty"`

	// Updated is when this was so, to the µs. It is the write timestamp.
	Updated time.Time `json:"updated"`
}

// OperationRetention is how long an operation stays after its last progress.
const OperationRetention = 30 * 24 * time.Hour

// OpenOperation is an operation that is not done.
type OpenOperation struct {
	Tenant string
	ID     OperationID
}

// OperationStore holds operations. They leave OperationRetention after Progress.Updated.
type OperationStore interface {
	// PutOperation writes an operation and its progress, and lists it as open until it is done. Of
	// two writes the one with the later Progress.Updated stands. Errors as PutEntries.
	PutOperation(ctx context.Context, op Operation) error
	// CancelOperation marks an operation as cancelled, whether there is one or not; the mark alone
	// makes no operation. Of two marks the later stands. Errors as PutEntries.
	CancelOperation(ctx context.Context, tenant string, id OperationID, mark Cancel) error
	// Operation returns an operation, or ErrNotFound.
	Operation(ctx context.Context, tenant string, id OperationID) (Operation, error)
	// Operations returns at most limit operations of a tenant, newest first, before that one (zero:
	// from the newest). Fewer than limit means that there are no more. One that cannot be understood
	// has a Fault.
	Operations(ctx context.Context, tenant string, before OperationID, limit int) ([]Operation, error)
	// OpenOperations returns at most limit operations that are not done, of all tenants, oldest
	// first. After an unknown write it may name one that does not exist, or is done.
	OpenOperations(ctx context.Context, limit int) ([]OpenOperation, error)
}

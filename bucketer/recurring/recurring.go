package recurring

import (
	"errors"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Errors of changing a job that can have many runs, besides those of intake and of the store.
var (
	// ErrNameTaken: another job of the tenant has the name (409).
	ErrNameTaken = errors.New("another job has this name")
	// ErrWorkflowHasName and ErrJobHasName: the name is that of a workflow, or of a job that is none
	// (409). What has a name never becomes the other.
	ErrWorkflowHasName = errors.New("a workflow has this name")
	ErrJobHasName      = errors.New("a job that is no workflow has this name")
	// ErrStale: the job is no longer of the generation that the caller saw; nothing was changed
	// (412).
	ErrStale = errors.New("the job was changed meanwhile")
)

// Creation is a job that is asked for, with its idempotency key, if any, and the hash of the body
// that it came with.
type Creation struct {
	Spec          schema.JobSpec
	Key, BodyHash string
}

// Occurrence is a run that a schedule names.
type Occurrence struct {
	ID      schema.RunID
	Nominal time.Time // UTC, ms
	Due     time.Time // Nominal + the job's offset
}

// JobKind says which jobs are meant: workflows, those that are none, or both ("").
type JobKind string

// The kinds. What is stored of a job that cannot be understood does not say what it is: it counts as
// none.
const (
	NoWorkflows   JobKind = "job"
	OnlyWorkflows JobKind = "workflow"
)

// JobFilter selects jobs that can have many runs. Its zero fields select all.
type JobFilter struct {
	Kind         JobKind
	State        schema.JobState
	Label, Value string // only jobs that have the label with this value; Label "" = any
	NamePrefix   string
}

// Matches reports whether the job is one of those that f selects.
func (f JobFilter) Matches(j *schema.Job) bool {
	s := &j.Current.Spec
	if f.Kind != "" && (f.Kind == OnlyWorkflows) != (s.Workflow != nil) {
		return false
	}
	if f.State != "" && j.Current.State != f.State || !strings.HasPrefix(s.Name, f.NamePrefix) {
		return false
	}
	if f.Label == "" {
		return true
	}
	value, ok := s.Labels[f.Label]
	return ok && value == f.Value
}

// JobRunFilter selects runs of a job. Its zero fields select all.
type JobRunFilter struct {
	runs.Filter
	From, To time.Time // due time: From ≤ due < To
	Own      bool      `json:"-"` // without runs that repeat one of the job's
}

// MatchesLine reports whether a line of history is one of those that f selects, by its state and time.
func (f JobRunFilter) MatchesLine(r *schema.JobRun) bool {
	due := r.Run.Time()
	return (len(f.States) == 0 || slices.Contains(f.States, r.State)) && !due.Before(f.From) && (f.To.IsZero() || due.Before(f.To))
}

// mayMatchLine reports whether f may select the run of a line. A line tells only what was recorded: a
// pending run may have started or ended since, and a cancelled or missed one may be under way.
func (f JobRunFilter) mayMatchLine(r *schema.JobRun) bool {
	open := r.State == schema.StatePending
	if len(f.States) == 0 || slices.ContainsFunc(f.States, func(s schema.State) bool { return !s.Terminal() }) {
		open = open || r.State == schema.StateCancelled || r.State == schema.StateMissed
	}
	if open {
		f.States = nil
	}
	return f.MatchesLine(r)
}

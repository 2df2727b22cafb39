package schema

import (
	"slices"
	"strings"
	"time"
)

// A job can run after other jobs. Its run is a join: it waits until those have ended.
const (
	// MaxUpstreams bounds the jobs that one job runs after.
	MaxUpstreams = 100
	// MaxChain bounds how many jobs may follow one another.
	MaxChain = 100
)

// Upstream is a job that another one runs after.
type Upstream struct {
	Job JobID `json:"job"`
	// Name is how the request names it: by its name, or by its id.
	Name string `json:"name"`
}

// After is which jobs a job runs after.
type After struct {
	Jobs []Upstream `json:"jobs"`
	// When is a condition of package workflow: how the jobs must have ended; "": all_succeeded.
	When string `json:"when,omitempty"`
	// Deadline is from the due time of the run with which the chain began, or from the creation of
	// a one-off job, to when the join is stuck: in force.
	Deadline Duration `json:"deadline"`
}

// Has reports whether a job is among the upstreams.
func (a *After) Has(id JobID) bool {
	return a != nil && slices.ContainsFunc(a.Jobs, func(u Upstream) bool { return u.Job == id })
}

// Join marks the entries of a run that waits, or waited, until other jobs have ended.
type Join struct {
	After
	// Root is the run with which the chain began. It is zero where the upstreams are one-off jobs:
	// each has one run.
	Root RunID `json:"root,omitzero"`
	// Depth is how many joins led to this one.
	Depth int `json:"depth,omitempty"`
	// Until is when the join is stuck if it has not fired.
	Until time.Time `json:"until"`
}

// RootOf returns the run with which the chain began that the run of e is in: itself, unless it
// followed others.
func (e *Entry) RootOf() RunID {
	if j := e.Spec.Join; j != nil && !j.Root.IsZero() {
		return j.Root
	}
	return e.Run()
}

// JoinID returns the id of the run of a job that joins what began with the run root.
func JoinID(job JobID, root RunID) RunID {
	return MakeEntryID(root.Time(), job.Shard(), HashOf("join", job.String(), root.String()))
}

// JoinDeadlineID returns the id of the entry that is due when a join is stuck.
func JoinDeadlineID(run RunID, until time.Time) EntryID {
	return MakeEntryID(until, run.Shard(), HashOf("join deadline", run.String()))
}

// IsStuck reports whether a run that waits for other jobs is known to have passed its deadline.
func IsStuck(e *Entry, marks Marks, attempts []Attempt) bool {
	j := e.Spec.Join
	if j == nil || e.Spec.Kind != KindJoin || !marks.MovedTo.IsZero() {
		return false
	}
	deadline := JoinDeadlineID(e.ID, j.Until)
	return slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Number == 0 && a.Record != nil && a.Record.Entry == deadline })
}

// Names under which subscriptions are kept that are none to events of a tenant. No event has such a
// name.
const (
	endOf = "end of/"
	// StuckRuns is the name under which the joins of a tenant lie that are stuck.
	StuckRuns = "stuck/"
)

// EndOf returns the name of the event that a run of a job may have ended. Only the jobs that run
// after it subscribe to that.
func EndOf(job JobID) string { return endOf + job.String() }

// IsEndOf reports whether a name is one that EndOf returns.
func IsEndOf(name string) bool { return strings.HasPrefix(name, endOf) }

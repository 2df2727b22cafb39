package schema

import "time"

// Right is what the row of a job says about the first start of one of its runs.
type Right struct {
	// Unknown: the row does not know the generation of the run. It may be about to: a change writes its first run before
	// it is committed.
	Unknown bool
	// Outcome is what is recorded instead of a start, Cancelled or Missed, with Reason; "" = the run may start.
	Outcome Outcome
	Reason  string
	// Before is the instant before which the start must be; zero = any time.
	Before time.Time
	// Generation is the one that the run was planned from, as far as the row knows it.
	Generation *Generation
}

// Right returns what the row says at now about a first start of e, an entry of one of the job's runs that is due at e.DueSince().
//
// A run of the generation in force starts. One of the generation before starts only if it is due, and starts, before Cut; otherwise
// it was missed if it was due by then, and else is cancelled: the generation in force speaks for that time. What a change that
// did not happen had written is cancelled. A run that no schedule asked for starts unless its job was cancelled.
func (j *Job) Right(e *Entry, now time.Time) Right {
	number := e.Spec.Generation
	cancelled := Right{Outcome: Cancelled, Reason: "the job was " + j.ended()}
	switch {
	case e.Spec.Trigger != TriggerSchedule:
		if j.Current.State == JobCancelled {
			return cancelled
		}
		return Right{Generation: &j.Current}
	case number == j.Current.Number:
		if j.Current.State == JobCancelled || j.Current.State == JobPaused {
			return cancelled // never planned by us: nothing is, from such a generation
		}
		return Right{Generation: &j.Current}
	case number > j.Current.Number:
		return Right{Unknown: true, Outcome: Cancelled, Reason: "of a change that did not happen"}
	case j.Before == nil || number != j.Before.Number:
		return cancelled
	}
	due := e.DueSince().Before(j.Cut)
	switch {
	case due && now.Before(j.Cut):
		return Right{Generation: j.Before, Before: j.Cut}
	case due:
		return Right{Outcome: Missed, Reason: "changed: the job was " + j.ended() + " before the run could start", Generation: j.Before}
	}
	cancelled.Generation = j.Before
	return cancelled
}

// ended says in a word what became of the generation before.
func (j *Job) ended() string {
	switch s := j.Current.State; s {
	case JobPaused, JobCancelled, JobFinished:
		return string(s)
	}
	return "changed"
}

package schema

import "time"

// StartDecision is what the row of a job says about the first start of one of its runs.
type StartDecision struct {
	// Unknown: the row does not know the generation of the run. It may be about to: a change writes its first run before
	// it is committed.
	Unknown bool
	// Outcome is what is recorded instead of a start, Cancelled or Missed, with Reason; "" = the run may start.
	Outcome Outcome
	Reason  string
	// Before is the instant before which the start must be; zero = any time.
	Before time.Time
	// Generation is the one that the run was planned from, as far as the row knows it; of one that was replaced twice, only its tenant and
	// times.
	Generation *Generation
	// Cut is the due time at which that generation was replaced; zero = it is in force, or not known.
	Cut time.Time
}

// StartDecision returns what the row says at now about a first start of e, an entry of one of the job's runs that is due at e.MisfireFrom().
//
// A run of the generation in force starts. One of the generation before starts only if it is due, and starts, before Cut; otherwise
// it was missed if it was due by then, and else is cancelled: the generation in force speaks for that time. So it is with older ones, as
// long as they are remembered. What a change that did not happen had written is cancelled. If nothing of the row can be read, runs
// are missed. A run that no schedule asked for starts unless its job was cancelled.
func (j *Job) DecideStart(e *Entry, now time.Time) StartDecision {
	number := e.Spec.Generation
	cancelled := StartDecision{Outcome: Cancelled, Reason: "the job was " + j.ended()}
	switch {
	case j.Current.Fault != nil && j.Current.Number == 0: // it may have been cancelled, or changed
		return StartDecision{Outcome: Missed, Reason: "fault: what is stored of the job could not be read", Generation: &j.Current}
	case e.Spec.Trigger != TriggerSchedule:
		if j.Current.State == JobCancelled {
			return cancelled
		}
		return StartDecision{Generation: &j.Current}
	case number == j.Current.Number:
		if j.Current.State == JobCancelled || j.Current.State == JobPaused {
			return cancelled // never planned by us: nothing is, from such a generation
		}
		return StartDecision{Generation: &j.Current}
	case number > j.Current.Number:
		return StartDecision{Unknown: true, Outcome: Cancelled, Reason: "of a change that did not happen"}
	case j.Before == nil || number != j.Before.Number:
		return j.rightOfPast(e, cancelled)
	}
	due := e.MisfireFrom().Before(j.Cut)
	switch {
	case due && now.Before(j.Cut):
		return StartDecision{Generation: j.Before, Cut: j.Cut, Before: j.Cut}
	case due:
		return StartDecision{Outcome: Missed, Reason: "changed: the job was " + j.ended() + " before the run could start", Generation: j.Before, Cut: j.Cut}
	}
	cancelled.Generation, cancelled.Cut = j.Before, j.Cut
	return cancelled
}

// rightOfPast returns the right of a run of a generation that was replaced twice or more: none. What was due while it was in force is
// missed.
func (j *Job) rightOfPast(e *Entry, none StartDecision) StartDecision {
	for i := range j.Current.Spec.Past {
		p := &j.Current.Spec.Past[i]
		if p.Number != e.Spec.Generation {
			continue
		}
		none.Cut = p.Cut
		none.Generation = &Generation{Number: p.Number, State: JobActive, Spec: JobSpec{Tenant: j.Current.Spec.Tenant, Schedule: p.Schedule}}
		if e.MisfireFrom().Before(p.Cut) {
			none.Outcome, none.Reason = Missed, "changed: the job was changed before the run could start"
		}
	}
	return none
}

// ended says in a word what became of the generation before.
func (j *Job) ended() string {
	switch s := j.Current.State; s {
	case JobPaused, JobCancelled, JobFinished:
		return string(s)
	}
	return "changed"
}

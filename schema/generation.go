package schema

import (
	"strings"
	"time"
)

// StartDecision is what the row of a job says about the first start of one of its runs.
type StartDecision struct {
	// Unknown: the row does not know the run's generation. It may come to: a change writes its
	// first run before it commits.
	Unknown bool
	// Outcome is what is recorded instead of a start, Cancelled or Missed, with Reason. "": it may
	// start.
	Outcome Outcome
	Reason  string
	// Before is the instant before which the start must be; zero: any time.
	Before time.Time
	// Generation is the one that the run was planned from, as far as the row knows it. Of one that
	// was replaced twice, only tenant and times are known.
	Generation *Generation
	// Cut is the due time at which that generation was replaced; zero: it is in force, or not
	// known.
	Cut time.Time
}

// DecideStart returns what the row says at now about a first start of e, an entry of one of the
// job's runs that is due at e.MisfireFrom().
//
//	run of                                   is
//	the generation in force                  started, unless the job is cancelled or paused
//	the one before, due before Cut           started before Cut, missed after it
//	the one before, due at or after Cut      cancelled: the generation in force plans that time
//	an older one that is remembered          as the one before, but never started
//	a change that did not happen             cancelled
//	no schedule (triggered)                  started, unless the job was cancelled
//	a row that cannot be read                missed
func (j *Job) DecideStart(e *Entry, now time.Time) StartDecision {
	number := e.Spec.Generation
	cancelled := StartDecision{Outcome: Cancelled, Reason: cancelledByJob + j.ended()}
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
		return j.decidePast(e, cancelled)
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

// cancelledByJob begins the reason of runs that never start because of what became of their job.
const cancelledByJob = "the job was "

// CancelledByJob reports whether a run was cancelled because its job was paused, changed or
// cancelled before it could start (DecideStart).
func (r *Record) CancelledByJob() bool {
	return r.Outcome == Cancelled && strings.HasPrefix(r.Reason, cancelledByJob)
}

// decidePast decides about a run of a generation that was replaced twice or more. It never starts;
// what was due while its generation was in force is missed.
func (j *Job) decidePast(e *Entry, none StartDecision) StartDecision {
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

// ended says in a word how the generation before ended.
func (j *Job) ended() string {
	switch s := j.Current.State; s {
	case JobPaused, JobCancelled, JobFinished:
		return string(s)
	}
	return "changed"
}

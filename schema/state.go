package schema

import "slices"

// State is where a run stands, folded from its rows.
type State string

// The states. Succeeded, failed, cancelled, missed and skipped are terminal.
const (
	StatePending   State = "pending"
	StateRunning   State = "running"
	StateRetrying  State = "retrying"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
	StateMissed    State = "missed"
	StateSkipped   State = "skipped" // of a step, or of a job that runs after others
)

// What callers see of runs that have not ended, besides the states. No fold returns these.
const (
	// StateWaiting: a workflow run of which nothing but waits is under way, the run of a step that
	// waits, or a run that waits for other jobs.
	StateWaiting State = "waiting"
	// StateStuck: a run that waits for other jobs beyond its deadline.
	StateStuck State = "stuck"
)

// Terminal reports whether s is a run's end.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateMissed, StateSkipped:
		return true
	}
	return false
}

// Fold derives the state of a run from its marks and its attempts (any order). live reports whether
// a session stands; it is asked only about attempts that have a session and no record.
//
// The first of these that holds decides (DESIGN 4):
//
//	a success                                                       succeeded
//	a cancel mark or outcome, and no live session                   cancelled
//	a final failure, and no cancel that waits for a live session    failed
//	a live session, or a workflow that has begun, if attempt 0
//	does not say that it never begins                               running
//	an attempt that cannot be understood and that none followed     failed
//	a next start in the last record                                 retrying
//	attempt 0 says that the run was missed, or skipped              missed, skipped
//	none of these                                                   pending
//
// A run whose last attempt cannot be understood has failed: nobody knows whether it may start
// again, so it does not. If that record is written again, or read by a version that understands it,
// it counts.
func Fold(marks Marks, attempts []Attempt, live func(SessionRef) bool) State {
	var success, cancelled, final, running, missed, skipped, faulty, began, dropped bool
	var last *Attempt // the highest started attempt with a record
	cancelled = marks.Cancelled != nil
	for i := range attempts {
		a := &attempts[i]
		if a.Fault != nil {
			faulty = faulty || !followedUp(attempts, a)
			continue
		}
		if a.Record == nil {
			running = running || a.Number > 0 && a.Session != nil && live(*a.Session)
			continue
		}
		if a.Unstarted() {
			continue
		}
		switch a.Record.Outcome {
		case Succeeded:
			success = true
		case Cancelled:
			cancelled = true
		case Missed:
			missed = true
		case Skipped:
			skipped = true
		case Began:
			began = true
		case Failed, TimedOut, Lost:
			final = final || a.Record.Final
		}
		dropped = dropped || a.Number == 0 && (a.Record.Outcome == Cancelled || a.Record.Outcome == Missed)
		if a.Number > 0 && a.Record.Outcome != Superseded &&
			(last == nil || a.Number > last.Number || a.Number == last.Number && a.Fence > last.Fence) {
			last = a
		}
	}
	running = running || began && !dropped
	switch {
	case success:
		return StateSucceeded
	case cancelled && !running:
		return StateCancelled
	case final && !cancelled:
		// a cancelled run that still goes will be cancelled or have succeeded: it is not failed in
		// between
		return StateFailed
	case running:
		return StateRunning
	case faulty:
		return StateFailed
	case last != nil && !last.Record.Next.IsZero():
		return StateRetrying
	case missed:
		return StateMissed
	case skipped:
		return StateSkipped
	}
	return StatePending
}

// followedUp reports whether the run went on after the attempt a, which cannot be understood: there
// is another record of its number, or a later attempt.
func followedUp(attempts []Attempt, a *Attempt) bool {
	return slices.ContainsFunc(attempts, func(b Attempt) bool {
		if b.Number == 0 || b.Unstarted() || b.Empty() || b.Fault != nil {
			return false
		}
		return b.Number > a.Number || b.Number == a.Number && b.Record != nil
	})
}

// Unreadable returns the first fault among the attempts that no other attempt followed; nil: none.
// It is why Fold does not say what the rows say.
func Unreadable(attempts []Attempt) error {
	for i := range attempts {
		if a := &attempts[i]; a.Fault != nil && !followedUp(attempts, a) {
			return a.Fault
		}
	}
	return nil
}

// IsSuperseded reports whether the record of attempt i is no outcome of its run, because another
// is. Under at_least_once an attempt may be executed twice, when its executor was stopped and its
// session fell. Both executions leave a record of one number. Then:
//
//	of a run             a success counts, and what ended after it does not
//	of one number        a cancel counts, and a failure beside it does not
//
// What ended before a success stays an outcome: the success came late.
func IsSuperseded(attempts []Attempt, i int) bool {
	a := &attempts[i]
	if a.Record == nil || a.Number == 0 || a.Record.Outcome == Succeeded {
		return false
	}
	for k := range attempts {
		b := &attempts[k]
		if k == i || b.Record == nil || b.Number == 0 || b.Unstarted() {
			continue
		}
		switch b.Record.Outcome {
		case Succeeded:
			if !b.Record.Finished.After(a.Record.Finished) {
				return true
			}
		case Cancelled:
			if b.Number == a.Number && a.Record.Outcome != Cancelled {
				return true
			}
		}
	}
	return false
}

// LimitHold returns the record of the last entry of a run that waits for a limit. nil: none waits,
// because another entry replaced it or an attempt was made since.
func LimitHold(attempts []Attempt) *Record {
	var held *Record
	for i := range attempts {
		if a := &attempts[i]; a.HeldByLimit() && (held == nil || a.Record.Finished.After(held.Finished)) {
			held = a.Record
		}
	}
	if held == nil {
		return nil
	}
	for i := range attempts {
		a := &attempts[i]
		switch {
		case a.Number == 0 && a.Record != nil && !a.HeldByLimit() && a.Record.Entry == held.Entry:
			return nil
		case a.Number > 0 && a.Session != nil && a.Session.Started.After(held.Finished),
			a.Number > 0 && a.Record != nil && a.Record.Started.After(held.Finished):
			return nil
		}
	}
	return held
}

package schema

// State is where a run stands, folded from its rows.
type State string

// The states. Succeeded, failed, cancelled and missed are terminal.
const (
	StatePending   State = "pending"
	StateRunning   State = "running"
	StateRetrying  State = "retrying"
	StateSucceeded State = "succeeded"
	StateFailed    State = "failed"
	StateCancelled State = "cancelled"
	StateMissed    State = "missed"
)

// Terminal reports whether s is a run's end.
func (s State) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateMissed:
		return true
	}
	return false
}

// Fold derives the state of a run from its marks and its attempts (any order). live reports whether a
// session stands; it is asked only about attempts that have a session and no record.
//
// The first of these that holds decides (DESIGN 3): a success; a cancel mark or outcome without
// a live session; a final failure; a live session; a next start named in the last record; what
// attempt 0 says. Otherwise the run is pending.
func Fold(marks Marks, attempts []Attempt, live func(SessionRef) bool) State {
	var success, cancelled, final, running, missed bool
	var last *Attempt // the highest started attempt with a record
	cancelled = marks.Cancelled != nil
	for i := range attempts {
		a := &attempts[i]
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
		case Failed, TimedOut, Lost:
			final = final || a.Record.Final
		}
		if a.Number > 0 && a.Record.Outcome != Superseded &&
			(last == nil || a.Number > last.Number || a.Number == last.Number && a.Fence > last.Fence) {
			last = a
		}
	}
	switch {
	case success:
		return StateSucceeded
	case cancelled && !running:
		return StateCancelled
	case final:
		return StateFailed
	case running:
		return StateRunning
	case last != nil && !last.Record.Next.IsZero():
		return StateRetrying
	case missed:
		return StateMissed
	}
	return StatePending
}

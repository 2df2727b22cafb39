package schema

import "slices"

// Standing is where one entry stands: what the rows of its run say about starting from it.
type Standing struct {
	// Over: nothing (more) starts from this entry.
	Over bool
	// Repeat is the record that ended the entry, if its follow-ups are not known to be done. They
	// must be repeated before the entry counts as done, unless a notice says that they stand.
	Repeat *Attempt
	// Unnamed: a reschedule entry that moved_to does not name (yet, or any more). It neither starts
	// nor is done.
	Unnamed bool
	// Live: an attempt with a standing session is under way.
	Live bool
	// Dead are the attempts whose session fell without a record: they are lost, and count.
	Dead []Attempt
	// Next is the number that a start would take.
	Next int
	// Preempted is how often the run was stopped to let a critical run start. It has begun then,
	// even if Next is 1.
	Preempted int
	// Awaited is the last entry to which a start of the run was deferred, if it comes after this
	// one and was not deferred in turn; zero: there is none. Whether it may start is for its own
	// row to say.
	Awaited EntryID
}

// Judge derives where the entry e stands from the marks and the attempts of its run (any order);
// live is as in Fold. The dispatcher asks it when it settles an entry, the executor before it
// starts one.
func Judge(e *Entry, marks Marks, attempts []Attempt, live func(SessionRef) bool) Standing {
	st := Standing{Next: e.Spec.AttemptNumber()}
	// more than a bare "lost", after which this very entry starts again
	recorded := func(a *Attempt) bool {
		return a.Record != nil && (a.Record.Outcome != Lost || a.Record.Final || !a.Record.Next.IsZero())
	}
	for i := range attempts {
		a := &attempts[i]
		switch {
		case a.Number == 0:
			if a.Record == nil {
				break
			}
			if a.Record.Reason == Deferred && a.Record.To.Compare(e.ID) > 0 && a.Record.To.Compare(st.Awaited) > 0 {
				st.Awaited = a.Record.To
			}
			if a.Record.Entry != e.ID {
				break
			}
			st.Over = true
			if a.Record.Outcome != Replaced {
				st.Repeat = a
			}
		case e.Spec.Kind.Plans():
			// Its steps have nothing to do with what became of the run that they begin with.
		case a.Unstarted():
			if a.Preempted() {
				st.Preempted++
			}
		case a.Record == nil && a.Session == nil:
		case a.Record == nil && live(*a.Session), a.Record != nil && a.Record.Outcome == Began:
			st.Live = true
		case a.Record == nil:
			st.Dead = append(st.Dead, *a)
			st.Next = max(st.Next, a.Number+1)
		case recorded(a) && (a.Number >= e.Spec.AttemptNumber() || a.Record.Entry == e.ID):
			st.Over = true
			if st.Repeat == nil || a.precedes(st.Repeat) {
				st.Repeat = a
			}
		default:
			st.Next = max(st.Next, a.Number+1)
		}
	}
	if st.Repeat != nil && (!st.Repeat.leaves(e) || st.Repeat.followed(attempts)) {
		st.Repeat = nil
	}
	if slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Number == 0 && a.Record != nil && a.Record.Entry == st.Awaited }) {
		st.Awaited = EntryID{}
	}
	switch {
	case e.Spec.Kind.Plans():
	case Fold(marks, attempts, live).Terminal():
		st.Over = true
	default:
		st.moved(e, marks)
	}
	return st
}

// EndByCancel adds to where e stands what follows from a cancel that ended the run after its answer:
// an attempt was under way then, whose session fell or which was given up, and nobody recorded a
// cancel. Other jobs may run after the run, and have not heard of its end.
func (st *Standing) EndByCancel(e *Entry, marks Marks, attempts []Attempt) {
	if marks.Cancelled == nil || !st.Over || st.Repeat != nil || e.Spec.Step != nil {
		return
	}
	open := false
	for i := range attempts {
		a := &attempts[i]
		if a.Record != nil && a.Record.Outcome == Cancelled && !a.Record.Unstarted {
			return
		}
		open = open || a.Number > 0 && (a.Record == nil || a.Unstarted())
	}
	if open {
		rec := Record{Entry: e.ID, Outcome: Cancelled, Finished: marks.Cancelled.At, Announce: true}
		st.Repeat = &Attempt{Run: e.Run(), Number: e.Spec.AttemptNumber(), Record: &rec}
	}
}

// leaves reports whether something follows from the attempt's record: the next start, a line in the
// history of the job, a dead letter or its resolution, the next step of a workflow, an event.
func (a *Attempt) leaves(e *Entry) bool {
	return !a.Record.Next.IsZero() || !e.Spec.Job.IsZero() || a.Record.Ruined() || a.Record.Doubt || a.Record.Announce || e.Spec.Step != nil
}

// precedes reports whether the follow-ups of a are to be repeated rather than those of b. A success
// in doubt comes before all others, since it may have to take back what they left; else the lower
// number.
func (a *Attempt) precedes(b *Attempt) bool {
	if a.Record.Doubt != b.Record.Doubt {
		return a.Record.Doubt
	}
	return a.Number < b.Number
}

// moved judges an entry that starts the run's first attempt by the mark. The run itself starts
// unless it was moved; a reschedule entry only if moved_to names it; what replaces either, as the
// other would.
func (st *Standing) moved(e *Entry, marks Marks) {
	switch first, ok := e.First(); {
	case !ok:
	case first == e.Run():
		st.Over = st.Over || !marks.MovedTo.IsZero()
	case marks.MovedTo != first && !st.Over:
		// Its writer may be about to name it, however late: only the end of the run ends it.
		st.Unnamed = true
	}
}

// followed reports whether a later attempt shows that the record's follow-ups were done. It shows
// nothing about a success in doubt, which may have come after it.
func (a *Attempt) followed(attempts []Attempt) bool {
	return !a.Record.Doubt && slices.ContainsFunc(attempts, func(b Attempt) bool { return b.Number > a.Number })
}

package check

import (
	"slices"
	"time"
)

// times judges early starts and ghosts, and records lateness. Each run counts once under each.
func (j *judge) times(r *run) {
	ts := terms(r.job.At, r.ackedAt, r.changes, j.h.Off)
	early := j.early(r, ts)
	j.ghost(r)
	if early || !r.acked() {
		return
	}
	var seen, reported time.Duration
	if len(r.seen) > 0 {
		at := r.seen[0].At
		if from, ok := base(ts, at.Add(j.h.Off)); ok {
			seen = max(0, at.Sub(from))
			j.seen.record(seen)
		}
	}
	if last := r.last(); last != nil {
		if at, ok := last.started(); ok {
			if from, ok := base(ts, at); last.LatenessMS != nil || ok {
				reported = at.Sub(from)
				if last.LatenessMS != nil {
					reported = time.Duration(*last.LatenessMS * float64(time.Millisecond))
				}
				j.reported.record(reported)
				if last.LatenessMS != nil && !last.DueAt.IsZero() && r.ackedAt.After(last.DueAt) {
					reported -= r.ackedAt.Sub(last.DueAt) // the API counts from the due time alone
				}
			}
		}
	}
	if !r.claimLost() { // nobody knows whether it started, or when
		j.tooLate(r, max(seen, reported))
	}
	j.pastDeadline(r, ts)
}

// ClaimSlack is how long a claim may take, between the look at the deadline and the start.
const ClaimSlack = 10 * time.Second

// pastDeadline judges the starts of the first attempt against the misfire policy of the job.
func (j *judge) pastDeadline(r *run, ts []term) {
	limit, limited := r.job.Misfire.limit()
	if !limited {
		return
	}
	slack := j.h.Off
	if policyOf(r.asked()).guarantee != AtLeastOnce {
		slack += ClaimSlack
	}
	for _, a := range r.attempts() {
		if a.Number != 1 || a.StartedAt.IsZero() {
			continue
		}
		at := a.StartedAt
		if r.preemptions() > 0 && len(r.seen) > 0 && r.seen[0].At.Before(at) {
			at = r.seen[0].At // it was stopped for another, and has started again since
		}
		from, ok := base(ts, at.Add(j.h.Off))
		if late := at.Sub(from); ok && late > limit+slack {
			j.rep.PastDeadline++
			j.fault(FaultPastDeadline, r, "it started %s late, and may at most %s", late, limit)
			return
		}
	}
}

// early judges the first attempt's starts. Later attempts go on with a run that has started: the
// end of the attempt before decides when.
func (j *judge) early(r *run, ts []term) bool {
	first := r.first()
	tooSoon := func(who string, number int, at time.Time) bool {
		if _, ok := base(ts, at); ok || first > 0 && number > first {
			return false
		}
		j.rep.Early++
		j.fault(FaultEarly, r, "%s %s, asked for %s", who, stamp(at), stamp(r.job.At))
		return true
	}
	for _, s := range r.seen {
		if j.tooEarly(ts, s) && (first == 0 || s.Attempt <= first) {
			j.rep.Early++
			j.fault(FaultEarly, r, "arrived at the sink %s%s, asked for %s", stamp(s.At), byClock(s), stamp(r.job.At))
			return true
		}
	}
	for _, reading := range r.found() {
		if at := reading.Run.StartedAt; !at.IsZero() && tooSoon("reported as started", 0, at) {
			return true
		}
		for i := range reading.Run.Attempts {
			a := &reading.Run.Attempts[i]
			if !a.StartedAt.IsZero() && tooSoon("reported as started", a.Number, a.StartedAt) {
				return true
			}
		}
	}
	return false
}

// tooEarly reports whether a call came before every instant in force, by the caller's clock or by
// more than clocks may be off.
func (j *judge) tooEarly(ts []term, s *Sighting) bool {
	_, ok := base(ts, s.At)
	if _, ahead := base(ts, s.At.Add(j.h.Off)); !ok && !ahead {
		return true
	}
	_, ok = base(ts, s.Clock)
	return !s.Clock.IsZero() && !ok
}

// byClock names the time of the caller's own clock, if the sink knows it.
func byClock(s *Sighting) string {
	if s.Clock.IsZero() {
		return ""
	}
	return " (by its caller's clock " + stamp(s.Clock) + ")"
}

// first returns the lowest number of a started attempt, by sink and API; 0: none has started.
func (r *run) first() int {
	first := 0
	started := func(number int) {
		if number > 0 && (first == 0 || number < first) {
			first = number
		}
	}
	for _, s := range r.seen {
		started(s.Attempt)
	}
	for _, a := range r.attempts() {
		if !a.StartedAt.IsZero() {
			started(a.Number)
		}
	}
	return first
}

// starts returns every start in a reading.
func starts(r *Run) []time.Time {
	var all []time.Time
	if !r.StartedAt.IsZero() {
		all = append(all, r.StartedAt)
	}
	for i := range r.Attempts {
		if at := r.Attempts[i].StartedAt; !at.IsZero() {
			all = append(all, at)
		}
	}
	return all
}

// ghost judges starts against the first acknowledged cancel.
func (j *judge) ghost(r *run) {
	var end time.Time
	for _, c := range r.changes {
		if c.Kind == Cancel && !c.Acked.IsZero() {
			if at := c.Acked.Add(ChangeGrace + j.h.Off); end.IsZero() || at.Before(end) {
				end = at
			}
		}
	}
	if end.IsZero() {
		return
	}
	for _, reading := range r.found() {
		for _, at := range starts(&reading.Run) {
			if at.After(end) {
				j.rep.Ghosts++
				j.fault(FaultGhost, r, "started %s, cancel acknowledged %s", stamp(at), stamp(end.Add(-ChangeGrace-j.h.Off)))
				return
			}
		}
	}
	for _, s := range r.seen {
		if s.At.After(end) && !r.underWay(s) {
			j.rep.Ghosts++
			j.fault(FaultGhost, r, "arrived at the sink %s, cancel acknowledged %s", stamp(s.At), stamp(end.Add(-ChangeGrace-j.h.Off)))
			return
		}
	}
}

// underWay reports whether the attempt of s is recorded as started and not finished before s
// arrived.
func (r *run) underWay(s *Sighting) bool {
	return slices.ContainsFunc(r.attempts(), func(a *Attempt) bool {
		return a.Number == s.Attempt && !a.StartedAt.IsZero() &&
			(a.FinishedAt.IsZero() || !a.FinishedAt.Before(s.At.Truncate(time.Millisecond)))
	})
}

// executions counts arrivals while an earlier one of the run had not ended in failure.
func (j *judge) executions(r *run) {
	seen := r.keptCalls(j.h.Kills)
	for i, s := range seen {
		for _, before := range seen[:i] {
			if !before.FailedBy(s.At) {
				j.rep.DuplicateExecutions++
				if j.h.Calm {
					j.rep.Needless++
				}
				j.fault(FaultDuplicateExecution, r, "attempt %d arrived %s, attempt %d of %s had not failed",
					s.Attempt, stamp(s.At), before.Attempt, stamp(before.At))
				break
			}
		}
	}
}

// outcome judges the ends of a run, and finds unreadable runs that nobody acknowledged.
func (j *judge) outcome(r *run) {
	if r.obs == nil {
		return
	}
	if !r.acked() && (r.obs.First.Status == Unreadable || r.obs.Second.Status == Unreadable) {
		j.rep.UnreadableOthers++
		j.fault(FaultUnreadable, r, "listed, and could not be read twice")
	}
	reason, late := policyOf(r.asked()).doubleOutcome(r.obs)
	if reason != "" {
		j.rep.DuplicateOutcomes++
		j.fault(FaultDuplicateOutcome, r, "%s", reason)
	}
	if late {
		j.rep.LateSuccesses++
	}
}

// verdict puts an acknowledged run into exactly one of the classes of [Report].
func (j *judge) verdict(r *run) {
	j.rep.Acknowledged++
	missed := func(reason string) {
		j.rep.Missed++
		j.fault(FaultMissed, r, "%s", reason)
	}
	switch {
	case r.obs == nil:
		j.rep.Unreadable++
		j.fault(FaultUnreadable, r, "nobody asked the API for it")
		return
	case r.obs.First.Status == Unreadable || r.obs.Second.Status == Unreadable:
		j.rep.Unreadable++
		j.fault(FaultUnreadable, r, "the API gave no answer")
		return
	case r.obs.First.Status == Absent || r.obs.Second.Status == Absent:
		if r.started() {
			missed("it ran, and the API knows no such run")
		} else {
			missed("acknowledged, and the API knows no such run")
		}
		return
	}

	last := &r.obs.Second
	started := r.started()
	switch state := last.Run.State; state {
	case Succeeded:
		switch {
		case len(r.seen) > 0:
			j.rep.Done++
		case j.h.SeenAll:
			missed("reported as succeeded, and the sink never saw it")
		default:
			j.rep.Done++
			j.rep.Unseen++
			j.fault(FaultUnseen, r, "reported as succeeded, and the incomplete record of the sink does not show it")
		}
	case Failed:
		if started || r.claimLost() {
			j.rep.Done++
			j.rep.DoneFailed++
		} else {
			missed("reported as failed without a start")
		}
	case Cancelled:
		switch {
		case !r.cancelAsked():
			missed("reported as cancelled, and nobody asked for that")
		case started:
			j.rep.Done++
		default:
			j.rep.Cancelled++
		}
	case Missed:
		switch {
		case r.cancelAsked():
			j.rep.Cancelled++
		case r.missedByPolicy(last.Run.FinishedAt):
			j.rep.MissedByPolicy++
		default:
			missed("reported as missed, and its own policy does not say so")
		}
	default:
		j.open(r, last, started, missed)
	}
}

// open judges a run that was not at an end at its last reading.
func (j *judge) open(r *run, last *Reading, started bool, missed func(string)) {
	switch {
	case started || r.cancelAsked():
		j.rep.Unfinished++
		j.fault(FaultUnfinished, r, "%s at the last read", last.Run.State)
	case r.dueAfter(last.At):
		j.rep.NotDue++
	default:
		missed("due, never started, and " + string(last.Run.State) + " at the last read")
	}
}

func (r *run) cancelAsked() bool {
	return slices.ContainsFunc(r.changes, func(c Change) bool { return c.Kind == Cancel })
}

// dueAfter reports whether an instant in force at t still lay ahead of it.
func (r *run) dueAfter(t time.Time) bool {
	return slices.ContainsFunc(terms(r.job.At, r.ackedAt, r.changes, 0), func(tm term) bool {
		return tm.due.After(t) && (tm.until.IsZero() || tm.until.After(t))
	})
}

// missedByPolicy reports whether the policy allows the run to be missed at that time. at is when
// the API says it was; zero if it does not say.
func (r *run) missedByPolicy(at time.Time) bool {
	m := r.job.Misfire
	if m.Policy != "skip" && m.Deadline <= 0 {
		return false
	}
	if at.IsZero() {
		return true
	}
	from, ok := base(terms(r.job.At, r.ackedAt, r.changes, 0), at)
	if !ok {
		return false
	}
	return m.Policy == "skip" || !at.Before(from.Add(m.Deadline).Truncate(time.Millisecond))
}

// found is an answer that a job was there.
type found struct {
	job *job
	ack *Ack
}

// existing ties runs that were answered as being there to the jobs whose requests created them:
// those that the runs name, which may have had no answer themselves.
func (j *judge) existing() {
	created := make(map[*job]bool)
	for _, f := range j.found {
		r := j.runs[f.ack.ID]
		if r.job == nil {
			owner := j.jobs[r.ref()]
			if owner == nil {
				owner, r.supposed = f.job, true
			}
			r.job, owner.acked = owner, true
		}
		if r.ackedAt.IsZero() {
			r.ackedAt = f.ack.At
		}
		created[r.job] = true
		if r.job.Unique != f.job.Unique {
			j.rep.NotUnique++
			j.fault(FaultNotUnique, r, "answered to job %s as being there, of another unique key", f.job.Ref)
		}
	}
	var counted []*job
	for _, f := range j.found {
		if !created[f.job] && !slices.Contains(counted, f.job) {
			counted = append(counted, f.job)
		}
	}
	j.rep.Existing = len(counted)
}

// unique finds two runs of one unique key of which one was certainly created within the window of
// the other. A run is created between the first request and the last answer of its job.
func (j *judge) unique() {
	of := make(map[string][]*run)
	var keys []string
	for _, id := range j.ids {
		r := j.runs[id]
		known := r.job != nil && !r.supposed && r.job.Unique != "" && !r.job.Requested.IsZero() && !r.job.unanswered && !r.job.answered.IsZero()
		if !known || !r.acked() && len(r.seen) == 0 && len(r.found()) == 0 {
			continue
		}
		if of[r.job.Unique] == nil {
			keys = append(keys, r.job.Unique)
		}
		of[r.job.Unique] = append(of[r.job.Unique], r)
	}
	slices.Sort(keys)
	for _, key := range keys {
		runs := of[key]
		slices.SortStableFunc(runs, func(a, b *run) int { return a.job.Requested.Compare(b.job.Requested) })
		for i, later := range runs {
			for _, before := range runs[:i] {
				last := before.job.answered
				if later.job.answered.After(last) {
					last = later.job.answered
				}
				if apart := last.Sub(before.job.Requested); apart < min(before.job.UniqueFor, later.job.UniqueFor) {
					j.rep.NotUnique++
					j.fault(FaultNotUnique, later, "created %s at most from run %s of the unique key %s, with a window of %s", apart, before.id, key, before.job.UniqueFor)
					break
				}
			}
		}
	}
}

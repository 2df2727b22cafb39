package check

import (
	"fmt"
	"strings"
	"time"
)

// stretch marks the targets that a missed record covers, and judges their number.
func (j *recurringJudge) stretch(job *recurringJob, r *recurringRun, targets []*target) {
	m := Stretch{From: r.shown.NominalAt, To: r.shown.NominalAt, Count: 1}
	if r.shown.Missed != nil {
		m = *r.shown.Missed
	}
	from, to := m.From.UnixMilli(), m.To.UnixMilli()
	for _, t := range targets {
		if from <= t.nominal && t.nominal <= to && t.missed == nil {
			t.missed = r
		}
	}
	for _, p := range r.phases {
		if p.unknown || p.times.count(from, to) == m.Count {
			return
		}
	}
	if len(r.phases) > 0 {
		j.rep.Unexpected++
		j.fault(FaultUnexpected, job, r.id, "recorded as missed: %d from %s to %s, where the schedule names %d",
			m.Count, stamp(m.From), stamp(m.To), r.phases[0].times.count(from, to))
	}
}

// verdict puts a target into exactly one class of [RecurringReport]. runs are all of the job.
func (j *recurringJudge) verdict(job *recurringJob, t *target, runs []*recurringRun, unreadable bool) {
	j.rep.Targets++
	due := stamp(time.UnixMilli(t.due))
	missed := func(run, format string, args ...any) {
		j.rep.Missed++
		j.fault(FaultMissed, job, run, "due %s, "+format, append([]any{due}, args...)...)
	}
	var cancelled, open *recurringRun
	for _, r := range t.runs {
		switch {
		case r.shown == nil:
			open = r
		case r.obs.Second.Status != Found: // it was there at the first read
			open = r
		case r.shown.State == Cancelled:
			if cancelled == nil || len(r.seen) > 0 {
				cancelled = r
			}
		case r.shown.State == Succeeded && len(r.seen) == 0 && j.h.SeenAll:
			missed(r.id, "reported as succeeded, and the sink never saw it")
			return
		case r.shown.State == Succeeded || r.shown.State == Failed && (r.started() || r.claimLost()):
			// its executor may have died between the claim and the call
			if len(r.seen) == 0 && !r.claimLost() {
				j.rep.Unseen++
				j.fault(FaultUnseen, job, r.id, "reported as %s, and the incomplete record of the sink does not show it", r.shown.State)
			}
			if j.rep.Done++; r.shown.State == Failed {
				j.rep.DoneFailed++
			}
			return
		}
	}
	switch {
	// Without a limit no due run waits, except a retry of a lost attempt.
	case cancelled != nil && (len(cancelled.seen) > 0 || cancelled.lost() || cancelled.byLimit() || job.limit() != nil):
		switch why := job.cancelled(cancelled, runs); {
		case why != "":
			missed(cancelled.id, "recorded as cancelled, and %s", why)
		case len(cancelled.seen) > 0: // while it was under way
			j.rep.Done++
		case cancelled.byLimit():
			j.rep.MissedByPolicy++
			j.rep.addReason(cancelledByLimit)
		default:
			j.rep.MissedByPolicy++
			j.rep.addReason("cancelled")
		}
	case unreadable:
		j.rep.Unreadable++
		j.fault(FaultUnreadable, job, "", "due %s, and the history of its job could not be read twice", due)
	case open != nil:
		j.rep.Unfinished++
		j.fault(FaultUnfinished, job, open.id, "due %s, it ran, and is not in the history of its job at the last read", due)
	case t.missed != nil:
		reason := t.missed.reason()
		if why := job.allows(t, t.missed); why != "" {
			missed(t.missed.id, "recorded as missed (%s), and %s", reason, why)
			return
		}
		j.rep.MissedByPolicy++
		j.rep.addReason(reason)
	case len(t.runs) > 0:
		missed(t.runs[0].id, "recorded as %s without a start, and nobody asked for that", t.runs[0].shown.State)
	default:
		missed("", "neither started nor recorded")
	}
}

// reason returns why the run was missed, in the words of the API.
func (r *recurringRun) reason() string {
	if r.shown.Missed != nil && r.shown.Missed.Reason != "" {
		return r.shown.Missed.Reason
	}
	return "no reason given"
}

// allows says why a target may not be missed as r records it; "" if it may.
func (j *recurringJob) allows(t *target, r *recurringRun) string {
	at := r.shown.FinishedAt.UnixMilli()
	late := time.Duration(at-t.due) * time.Millisecond
	limit, limited := t.misfire.limit()
	cause, _, _ := strings.Cut(r.reason(), ":")
	switch cause {
	case "changed":
		// what it was planned from counts: the other side of the change may name a later instant
		// for its nominal time
		due, latest := min(t.due, r.due), at+j.off.Milliseconds()
		for _, e := range j.events {
			if e.Kind != JobCreated && !e.Refused && e.Requested.UnixMilli() <= latest && (e.Acked.IsZero() || due < e.Acked.Add(ChangeGrace).UnixMilli()) {
				return ""
			}
		}
		return "no change is near"
	case skippedByLimit:
		return j.skipped(r)
	case "deadline", "skip":
		switch {
		case !limited || cause == "skip" && t.misfire.Policy != "skip":
			return "its policy says nothing of that"
		case late < limit:
			return fmt.Sprintf("it was then %s late, of %s that it may be", late, limit)
		}
		return ""
	case "run_latest":
		if t.misfire.Policy != "run_latest" {
			return "its policy is " + t.misfire.Policy
		}
		for i := range j.phases {
			if p := &j.phases[i]; p.active && !p.unknown && p.times.count(t.nominal+1, at-p.offset) > 0 {
				return ""
			}
		}
		return "no later run was due then"
	}
	return "that is no reason"
}

// limit returns how late a run may start at most, and false if it may however late it is.
func (m Misfire) limit() (time.Duration, bool) {
	switch {
	case m.Policy == "skip" && m.Deadline > 0:
		return min(m.Deadline, SkipAfter), true
	case m.Policy == "skip":
		return SkipAfter, true
	}
	return m.Deadline, m.Deadline > 0
}

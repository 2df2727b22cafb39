package check

import (
	"math"
	"slices"
	"time"
)

// This file judges retries and dead letters. The bound on attempts and the waits between them are judged by what the sink saw and by what the API tells
// of attempts; a wait is judged from what was answered, or recorded, to the next start under a higher number.

// Retry is the part of a job's retry policy that bounds waits from below. The zero Retry bounds nothing: its jitter is drawn from 0 on.
type Retry struct {
	Initial time.Duration
	Factor  float64
	Max     time.Duration
	Exact   bool // no jitter: each wait is at least initial × factor^(n−1), at most max
}

// wait returns how long to wait at least after attempt number n has failed.
func (r Retry) wait(n int) time.Duration {
	if !r.Exact {
		return 0
	}
	d := float64(r.Initial) * math.Pow(max(r.Factor, 1), float64(n-1))
	return time.Duration(min(d, float64(r.Max)))
}

// maxRetryAfter is what a receiver may ask for at most (the API's).
const maxRetryAfter = 24 * time.Hour

// asked returns for how long the receiver asked not to be called again: only 429 and 503 may.
func (s *Sighting) asked() time.Duration {
	if s.Status != 429 && s.Status != 503 {
		return 0
	}
	return min(s.RetryAfter, maxRetryAfter)
}

// retries judges the number of a run's attempts and the waits between them.
func (j *judge) retries(r *run) {
	if r.job == nil {
		return
	}
	j.tooMany(r)
	j.tooSoon(r)
}

// tooMany finds an attempt under a number above the bound. Executions under one number are counted as duplicates, not here.
func (j *judge) tooMany(r *run) {
	bound := policyOf(r.job.Ask).maxAttempts
	most := 0
	for _, s := range r.seen {
		most = max(most, s.Attempt)
	}
	for _, reading := range r.found() {
		for i := range reading.Run.Attempts {
			most = max(most, reading.Run.Attempts[i].Number)
		}
	}
	if most > bound {
		j.rep.ExcessAttempts++
		j.fault(FaultExcessAttempt, r, "attempt %d, asked for %d at most", most, bound)
	}
}

// tooSoon finds an attempt that came before the wait was over which followed the failure before it. Of what was executed twice under one number one wait
// counts; and what the system had not heard of when it went on, since the attempt was lost, it cannot wait for, also if it is told of it in the end, by an
// executor that was frozen.
func (j *judge) tooSoon(r *run) {
	for i, s := range r.seen {
		var worst *Sighting // of the attempt before: the one after which the wait was shortest by most
		var short time.Duration
		asked := false
		for _, before := range r.seen[:i] {
			if s.Attempt != before.Attempt+1 || !before.failedBy(s.At) {
				continue
			}
			// The policy's wait counts from when the answer was read, which is later than when it was written.
			asked = asked || before.asked() > 0
			wait := max(before.asked(), r.job.Retry.wait(before.Attempt))
			if worst, short = before, wait-s.At.Sub(before.End); short <= 0 {
				break
			}
		}
		if worst == nil || !r.failedAt(worst.Attempt) || r.lostAt(worst.Attempt) {
			continue
		}
		if asked {
			j.rep.AskedToWait++
		}
		if short <= 0 {
			continue
		}
		j.rep.EarlyRetries++
		j.fault(FaultEarlyRetry, r, "attempt %d arrived %s after attempt %d was answered %d, %s too soon",
			s.Attempt, s.At.Sub(worst.End), worst.Attempt, worst.Status, short)
		return
	}
	for _, reading := range r.found() {
		attempts := reading.Run.Attempts
		for k := range attempts {
			is := &attempts[k]
			was := r.followed(attempts, is)
			if was == nil || r.lostAt(was.Number) {
				continue
			}
			j.rep.EarlyRetries++
			j.fault(FaultEarlyRetry, r, "attempt %d is recorded as started %s after attempt %d ended, which was to be followed by a wait of %s",
				is.Number, is.StartedAt.Sub(was.FinishedAt), was.Number, r.job.Retry.wait(was.Number))
			return
		}
	}
}

// followed returns the failure before attempt `is` after which its wait was shortest by least, or nil if there is none, or one after which it has waited long enough: of what was
// executed twice under one number, either may be the one that it follows.
func (r *run) followed(attempts []Attempt, is *Attempt) (last *Attempt) {
	var short time.Duration
	for i := range attempts {
		was := &attempts[i]
		if is.Number != was.Number+1 || was.FinishedAt.IsZero() || is.StartedAt.IsZero() || was.Outcome != OutcomeFailed && was.Outcome != OutcomeTimedOut {
			continue
		}
		by := r.job.Retry.wait(was.Number).Truncate(time.Millisecond) - time.Millisecond - is.StartedAt.Sub(was.FinishedAt) // each is cut to the ms
		if by <= 0 {
			return nil
		}
		if last == nil || by < short {
			last, short = was, by
		}
	}
	return last
}

// lostAt reports whether attempt number n was taken for lost when the system went on: it is recorded as lost, in any reading; or the next one began before it ended, and no sooner
// than a session may fall under which it ran. What it came to is told in the end by its executor, which was cut off or frozen.
func (r *run) lostAt(n int) bool {
	for _, reading := range r.found() {
		attempts := reading.Run.Attempts
		for i := range attempts {
			was := &attempts[i]
			if was.Number == n && (was.Outcome == OutcomeLost || slices.ContainsFunc(attempts, was.replacedBy)) {
				return true
			}
		}
	}
	return false
}

// replacedBy reports whether next began while the attempt went on, after so long that its session may have fallen.
func (a *Attempt) replacedBy(next Attempt) bool {
	return next.Number == a.Number+1 && !next.StartedAt.IsZero() && next.StartedAt.Before(a.FinishedAt) && next.StartedAt.Sub(a.StartedAt) >= SlotHeld
}

// failedAt reports whether attempt number n is recorded as failed.
func (r *run) failedAt(n int) bool {
	for _, reading := range r.found() {
		for i := range reading.Run.Attempts {
			if a := &reading.Run.Attempts[i]; a.Number == n && (a.Outcome == OutcomeFailed || a.Outcome == OutcomeTimedOut) {
				return true
			}
		}
	}
	return false
}

// letters judges the dead letter of a run by the second reading: what follows from a record comes after it. A run that has failed has one that waits, unless
// somebody replayed or discarded it; no other run has.
func (j *judge) deadLetters(r *run) {
	if r.obs == nil || r.obs.Second.Status != Found {
		return
	}
	run := &r.obs.Second.Run
	_, settled := j.settled[r.id]
	switch {
	case run.State == Failed && !run.DeadLetter && !settled:
		j.rep.NoDeadLetter++
		j.fault(FaultNoDeadLetter, r, "failed, and no dead letter waits")
	case run.State == Failed && run.DeadLetter && settled:
		j.rep.SurplusDeadLetters++
		j.fault(FaultSurplusDeadLetter, r, "its dead letter was replayed or discarded, and waits again")
	case run.State != Failed && run.DeadLetter:
		j.rep.SurplusDeadLetters++
		j.fault(FaultSurplusDeadLetter, r, "a dead letter waits, and the run is %s", run.State)
	}
	if run.State == Failed && run.DeadLetter {
		j.rep.DeadLetters++
	}
}

package check

import (
	"math"
	"slices"
	"time"
)

// This file judges retries, dead letters, and runs that were stopped for critical ones. Sink and
// API both tell of the number of attempts and the waits between them. A wait lasts from the answer,
// or the record, to the next start under a higher number.

// Retry is the part of a retry policy that bounds waits from below. The zero Retry bounds nothing,
// since its jitter starts at 0.
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

// maxRetryAfter bounds the wait that a receiver may ask for (the API's).
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

// tooMany finds an attempt number above the bound. Two executions under one number are duplicates,
// not this.
func (j *judge) tooMany(r *run) {
	bound := policyOf(r.job.Ask).maxAttempts
	most := 0
	for _, s := range r.seen {
		most = max(most, s.Attempt)
	}
	for _, a := range r.attempts() {
		most = max(most, a.Number)
	}
	if most > bound {
		j.rep.ExcessAttempts++
		j.fault(FaultExcessAttempt, r, "attempt %d, asked for %d at most", most, bound)
	}
}

// tooSoon finds an attempt that came before the wait after the failure before it was over. Of two
// executions under one number either wait is enough. Nothing waits for an attempt that was lost
// when the system went on, even if a frozen executor tells of its end later.
func (j *judge) tooSoon(r *run) {
	for i, s := range r.seen {
		// of the attempt before: the one after which the wait was shortest by most
		var worst *Sighting
		var short time.Duration
		asked := false
		for _, before := range r.seen[:i] {
			if s.Attempt != before.Attempt+1 || !before.FailedBy(s.At) {
				continue
			}
			// The policy's wait counts from when the answer was read, after it was written.
			asked = asked || before.asked() > 0
			wait := max(before.asked(), r.job.Retry.wait(before.Attempt))
			// by the clocks of two nodes: that which saw the failure, and that which calls again
			if worst, short = before, wait-s.At.Sub(before.End)-j.h.Off; short <= 0 {
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

// followed returns the failure before attempt `is` whose wait was violated least; nil if there is
// none, or if the wait of one of them was long enough: either execution of a number may be the one
// before.
func (r *run) followed(attempts []Attempt, is *Attempt) (last *Attempt) {
	var short time.Duration
	for i := range attempts {
		was := &attempts[i]
		if is.Number != was.Number+1 || was.FinishedAt.IsZero() || is.StartedAt.IsZero() || was.Outcome != OutcomeFailed && was.Outcome != OutcomeTimedOut {
			continue
		}
		// each is cut to the ms
		by := r.job.Retry.wait(was.Number).Truncate(time.Millisecond) - time.Millisecond - is.StartedAt.Sub(was.FinishedAt)
		if by <= 0 {
			return nil
		}
		if last == nil || by < short {
			last, short = was, by
		}
	}
	return last
}

// lostAt reports whether attempt number n counted as lost when the system went on: it is recorded
// as lost in a reading, or the next one began before its end and no sooner than its session may
// have ended. Its executor, which was cut off or frozen, may record the end later.
func (r *run) lostAt(n int) bool {
	for _, reading := range r.found() {
		attempts := reading.Run.Attempts
		if slices.ContainsFunc(attempts, func(was Attempt) bool {
			return was.Number == n && (was.Outcome == OutcomeLost || slices.ContainsFunc(attempts, was.replacedBy))
		}) {
			return true
		}
	}
	return false
}

// replacedBy reports whether next began during the attempt, after its session may have ended.
func (a *Attempt) replacedBy(next Attempt) bool {
	return next.Number == a.Number+1 && !next.StartedAt.IsZero() && next.StartedAt.Before(a.FinishedAt) && next.StartedAt.Sub(a.StartedAt) >= SlotHeld
}

// failedAt reports whether attempt number n is recorded as failed.
func (r *run) failedAt(n int) bool {
	return slices.ContainsFunc(r.attempts(), func(a *Attempt) bool {
		return a.Number == n && (a.Outcome == OutcomeFailed || a.Outcome == OutcomeTimedOut)
	})
}

// deadLetters judges the dead letter of a run by the second reading. A failed run has one, unless
// it was replayed or discarded; no other run has one.
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

// MaxPreemptions is how often a run is stopped for critical ones at most.
const MaxPreemptions = 3

// preemptions returns how often the run was stopped for critical ones, by the API.
func (r *run) preemptions() int {
	most := 0
	for _, reading := range r.found() {
		most = max(most, reading.Run.Preempted)
	}
	return most
}

// keptCalls returns the calls of the run, without those that were stopped for critical runs: what
// follows such a call is no duplicate. Its caller went away, and a call under the same number
// followed. If there are more such calls than pre-emptions, those go first whose caller was not
// killed, and of these the earliest.
func (r *run) keptCalls(kills []Kill) []*Sighting {
	n := r.preemptions()
	if n == 0 {
		return r.seen
	}
	left := slices.Clone(r.seen)
	for _, killed := range []bool{false, true} {
		for i := 0; i < len(left) && n > 0; {
			s := left[i]
			again := func(later *Sighting) bool { return later.Attempt == s.Attempt }
			if s.Status != 0 || s.Gone.IsZero() || s.isKilled(kills) != killed || !slices.ContainsFunc(left[i+1:], again) {
				i++
				continue
			}
			left = slices.Delete(left, i, i+1)
			n--
		}
	}
	return left
}

// isKilled reports whether the caller was killed, by name, before it went away from the call.
func (s *Sighting) isKilled(kills []Kill) bool {
	return slices.ContainsFunc(kills, func(k Kill) bool {
		return k.Caller != "" && k.Caller == s.Caller && !k.At.Before(s.At) && !k.At.After(s.Gone)
	})
}

// preempted judges a run that was stopped for critical ones: it allows that, it was not stopped too
// often, that used no attempt, and it started again. A run counts once.
func (j *judge) preempted(r *run) {
	n, last := r.preemptions(), r.last()
	if n == 0 {
		return
	}
	j.rep.Preemptions += n
	wrong := func(format string, args ...any) {
		j.rep.WronglyPreempted++
		j.fault(FaultPreempted, r, format, args...)
	}
	allowed := r.job.Preemptible && policyOf(r.asked()).guarantee == AtLeastOnce || r.job.Task != ""
	most := MaxPreemptions + r.atOnce()
	unused := unusedNumber(last.Attempts)
	switch {
	case !allowed:
		wrong("it was stopped for critical runs %d times, and does not allow that", n)
	case n > most:
		wrong("it was stopped for critical runs %d times, want %d at most", n, most)
	case unused > 0:
		wrong("attempt %d was used up, and nothing is recorded of it: it was stopped for critical runs %d times", unused, n)
	case last.State == Missed:
		wrong("it was stopped for a critical run, and is missed: it has not started again")
	}
}

// atOnce returns how many calls arrived while an earlier one was under way. The executors of both,
// of which one was frozen or cut off, may each stop the run once.
func (r *run) atOnce() int {
	n := 0
	for i, s := range r.seen {
		if slices.ContainsFunc(r.seen[:i], func(before *Sighting) bool {
			over := before.Gone
			if over.IsZero() {
				over = before.End
			}
			return over.IsZero() || over.After(s.At)
		}) {
			n++
		}
	}
	return n
}

// unusedNumber returns the lowest number, below that of an attempt, of which there is no attempt;
// 0: there is none.
func unusedNumber(attempts []Attempt) int {
	has := func(n int) bool {
		return slices.ContainsFunc(attempts, func(a Attempt) bool { return a.Number == n })
	}
	most := 0
	for i := range attempts {
		most = max(most, attempts[i].Number)
	}
	for n := 1; n < most; n++ {
		if !has(n) {
			return n
		}
	}
	return 0
}

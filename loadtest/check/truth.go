package check

import (
	"fmt"
	"slices"
	"time"
)

// This file compares attempts and ends by the API with the calls and answers of the sink, which is
// believed.
//
// An attempt may differ from the answer only if it is recorded as lost, timed out, cancelled or
// superseded, or as failed without a status: its executor did not read the answer, or read it too
// late.

// RestartLeast is how long it takes at least until a process that was killed starts attempts again.
const RestartLeast = time.Second

// lateAfter is how long after its instant a row counts as late (DESIGN section 5).
const lateAfter = 5 * time.Second

// streamKnows is for how long the stream knows a message that it took, and drops a second one
// (DESIGN section 3).
const streamKnows = 20 * time.Second

// Answers counts contradictions between API and sink, in runs unless it says otherwise.
type Answers struct {
	// Untrue outcomes: attempts, of all guarantees.
	Untrue int `json:"untrue_outcomes"`
	// EarlyEnds failed for good although attempts were left and every answer allowed another.
	EarlyEnds int `json:"early_ends"`
	// FinalRetried: a final answer was followed by another attempt.
	FinalRetried int `json:"final_answers_retried"`
	// Unrecorded: the run has ended, and the API lacks an attempt that the sink saw; or it is
	// recorded as missed, and the sink saw a call.
	Unrecorded int `json:"unrecorded_calls"`
	// Unexplained counts attempts with more executions than redispatches, redeliveries and deaths
	// explain.
	Unexplained int `json:"unexplained_duplicates"`
	// Needless counts the duplicate executions where nothing went wrong.
	Needless int `json:"needless_duplicates"`
	// CalledTwice: one process started one attempt twice.
	CalledTwice int `json:"called_twice_by_one_process"`
	// Altered: a call did not carry the payload, key or headers that were asked for.
	Altered int `json:"altered_calls"`
}

func (a Answers) broken() int {
	return a.Untrue + a.EarlyEnds + a.FinalRetried + a.Unrecorded + a.Unexplained + a.Needless + a.CalledTwice + a.Altered
}

// String lists all counts.
func (a Answers) String() string {
	return fmt.Sprintf("untrue outcomes %d, failed for good too soon %d, final answers retried %d, calls without a record %d, "+
		"unexplained duplicates %d, needless ones %d, called twice by one process %d, altered calls %d",
		a.Untrue, a.EarlyEnds, a.FinalRetried, a.Unrecorded, a.Unexplained, a.Needless, a.CalledTwice, a.Altered)
}

// answers judges a run by the answers that it got.
func (j *judge) answers(c *GuaranteeCount, r *run) {
	j.truth(c, r)
	j.ends(r)
	j.unrecorded(r)
	j.surplus(r)
}

// last returns the run as it was read last; nil if no reading brought it.
func (r *run) last() *Run {
	found := r.found()
	if len(found) == 0 {
		return nil
	}
	return &found[len(found)-1].Run
}

// truth compares recorded outcomes with answers. Each record needs a call of its number with that
// answer.
func (j *judge) truth(c *GuaranteeCount, r *run) {
	last := r.last()
	// that is missed
	if !j.h.SeenAll || last == nil || len(r.seen) == 0 && last.State == Succeeded {
		return
	}
	left := slices.Clone(r.seen) // the calls that explain no record yet
	took := func(a *Attempt, is func(status int) bool) bool {
		i := slices.IndexFunc(left, func(s *Sighting) bool { return s.Attempt == a.Number && is(s.Status) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
		return true
	}
	untrue := func(format string, args ...any) {
		c.Untrue++
		j.rep.Untrue++
		j.fault(FaultUntrue, r, format, args...)
	}
	recorded := false
	for i := range last.Attempts {
		a := &last.Attempts[i]
		code := func(status int) bool { return status == a.StatusCode }
		switch {
		case a.Outcome == OutcomeSucceeded:
			recorded = true
			if a.StatusCode == 0 {
				code = success
			}
			if !success(a.StatusCode) && a.StatusCode != 0 || !took(a, code) {
				untrue("attempt %d is recorded as succeeded (%d), and the sink answered no call of it so", a.Number, a.StatusCode)
			}
		case a.Outcome == OutcomeFailed && a.StatusCode != 0:
			if !took(a, code) {
				untrue("attempt %d is recorded as failed with %d, and the sink answered no call of it so", a.Number, a.StatusCode)
			}
		}
	}
	answered := slices.ContainsFunc(r.seen, func(s *Sighting) bool { return success(s.Status) })
	if last.State == Succeeded && !recorded && len(r.seen) > 0 && !answered {
		untrue("it is succeeded, and the sink answered none of its %d calls with success", len(r.seen))
	}
}

// success reports whether a status says that the receiver has done the work.
func success(status int) bool { return status >= 200 && status <= 299 }

// ends judges whether the end of a run, and what followed each answer, agree with the answers.
func (j *judge) ends(r *run) {
	last := r.last()
	if !j.h.SeenAll || last == nil {
		return
	}
	most := 0
	for _, s := range r.seen {
		most = max(most, s.Attempt)
	}
	for i := range last.Attempts {
		if a := &last.Attempts[i]; !a.StartedAt.IsZero() {
			most = max(most, a.Number)
		}
	}
	bound := policyOf(r.asked()).maxAttempts
	final := slices.ContainsFunc(r.seen, func(s *Sighting) bool { return finalStatus(s.Status) })
	if last.State == Failed && r.started() && most < bound && !final && !r.claimLost() {
		j.rep.EarlyEnds++
		j.fault(FaultEarlyEnd, r, "it failed for good after attempt %d of %d, and the sink gave no final answer", most, bound)
	}
	for _, s := range r.seen {
		if !finalStatus(s.Status) || s.Attempt >= most || r.lostAt(s.Attempt) || r.callsOf(s.Attempt) > 1 {
			continue
		}
		heard := slices.ContainsFunc(last.Attempts, func(a Attempt) bool {
			return a.Number == s.Attempt && a.Outcome == OutcomeFailed && a.StatusCode == s.Status
		})
		if heard {
			j.rep.FinalRetried++
			j.fault(FaultFinalRetried, r, "attempt %d was answered %d, which is final, and attempt %d followed", s.Attempt, s.Status, most)
			return
		}
	}
}

// callsOf returns how many calls the sink saw of attempt number n.
func (r *run) callsOf(n int) int { return callsOf(r.seen, n) }

func callsOf(seen []*Sighting, n int) int {
	calls := 0
	for _, s := range seen {
		if s.Attempt == n {
			calls++
		}
	}
	return calls
}

// unrecorded finds a call of an attempt that the API lacks, of a run that has ended by itself.
func (j *judge) unrecorded(r *run) {
	last := r.last()
	if last != nil && last.State == Missed {
		j.missedThoughCalled(r)
		return
	}
	if last == nil || last.State != Succeeded && last.State != Failed || len(last.Attempts) == 0 {
		return
	}
	for _, s := range r.seen {
		if s.Attempt < 1 || slices.ContainsFunc(last.Attempts, func(a Attempt) bool { return a.Number == s.Attempt }) {
			continue
		}
		j.rep.Unrecorded++
		j.fault(FaultUnrecorded, r, "the sink was called %s as attempt %d, and the API tells of no such attempt", stamp(s.At), s.Attempt)
		return
	}
}

// missedThoughCalled finds a call of a run that is recorded as missed: such a run never started.
func (j *judge) missedThoughCalled(r *run) {
	for i, s := range r.seen {
		if r.lostAt(s.Attempt) || j.diedWith(r, i) {
			continue
		}
		j.rep.Unrecorded++
		j.fault(FaultUnrecorded, r, "the sink was called %s as attempt %d and answered %d, and the run is recorded as missed",
			stamp(s.At), s.Attempt, s.Status)
		return
	}
}

// keptFor is how long after its end only the executor may know of a call, while the store does not
// answer.
const keptFor = 30 * time.Second

// diedWith reports whether the executor of call number i may have died before the store had a trace
// of the call. That is so under at_least_once alone: under the other guarantees a claim precedes
// the call, and is found and recorded as lost.
func (j *judge) diedWith(r *run, i int) bool {
	s := r.seen[i]
	if policyOf(r.asked()).guarantee != AtLeastOnce || r.recorded(i) {
		return false
	}
	return !s.Gone.IsZero() || slices.ContainsFunc(j.h.Kills, func(k Kill) bool {
		switch {
		case k.At.Before(s.At):
			return false
		case k.Caller != "":
			return k.Caller == s.Caller
		}
		return !k.At.After(latestOf(s.At, s.End).Add(keptFor))
	})
}

// surplus judges the calls beyond the first under one number.
func (j *judge) surplus(r *run) {
	j.sameProcess(r)
	last := r.last()
	if last == nil || j.h.Doubles || r.enteredAgain() || policyOf(r.asked()).guarantee != AtLeastOnce {
		return // guarded runs are judged by their claims
	}
	seen := r.keptCalls(j.h.Kills)
	excused := func(i int) bool {
		i = slices.Index(r.seen, seen[i])
		return j.movedAfter(r, i) || j.forgotten(r, i)
	}
	for _, why := range SurplusCalls(last.Attempts, seen, excused) {
		j.rep.Unexplained++
		j.fault(FaultUnexplained, r, "%s", why)
	}
}

// SurplusCalls says in words, for each attempt of a run under at_least_once, which calls beyond the
// first its records do not explain (DESIGN section 10, promise 9). Each such call follows a
// redispatch or redelivery and leaves a record that says so, or replaces an executor that died before
// it could record anything. seen is in order of time; excused reports whether something else explains
// a second call after seen[i].
func SurplusCalls(attempts []Attempt, seen []*Sighting, excused func(i int) bool) []string {
	var all []string
	for i, s := range seen {
		if slices.ContainsFunc(seen[:i], func(before *Sighting) bool { return before.Attempt == s.Attempt }) {
			continue // counted with the first
		}
		calls, told, explained := callsOf(seen, s.Attempt), 0, excused(i)
		for k := range attempts {
			if a := &attempts[k]; a.Number == s.Attempt {
				told++
				explained = explained || a.Redispatched || a.Outcome == OutcomeLost || a.Outcome == OutcomeSuperseded || a.Outcome == ""
			}
		}
		if calls > 1 && (!explained || calls > told+1) {
			all = append(all, fmt.Sprintf("attempt %d was called %d times, the API tells of %d executions (redispatched or lost: %t)",
				s.Attempt, calls, told, explained))
		}
	}
	return all
}

// movedAfter reports whether the run was rescheduled after call number i, or within the grace
// before it. The executor died before it recorded the call: else the change would have been
// refused. The call is repeated at the new instant.
func (j *judge) movedAfter(r *run, i int) bool {
	call := r.seen[i].At
	return slices.ContainsFunc(r.changes, func(c Change) bool {
		if c.Kind != Reschedule || c.Acked.IsZero() {
			return false
		}
		return c.Acked.After(call) || c.Acked.Add(ChangeGrace).After(call) && j.diedWith(r, i)
	})
}

// forgotten reports whether the stream was deleted between the first message of call number i and a
// later call of the same number: a second first message was taken as well.
func (j *judge) forgotten(r *run, i int) bool {
	return slices.ContainsFunc(j.h.StreamLosses, func(lost time.Time) bool {
		return slices.ContainsFunc(r.seen[i+1:], func(later *Sighting) bool {
			return later.Attempt == r.seen[i].Attempt && lost.Before(later.At) && lost.Add(streamKnows).After(r.seen[i].At)
		})
	})
}

// enteredAgain reports whether a later entry may stand beside the run's own row: its job was sent
// twice, or accepted lateAfter its instant (DESIGN section 5, the late rule). Either may start as
// if it were the first.
func (r *run) enteredAgain() bool {
	return r.job != nil && (r.job.answers > 1 || !r.job.At.IsZero() && r.ackedAt.Sub(r.job.At) >= lateAfter)
}

// sameProcess finds two starts of one attempt by one process: by the sink's callers, or by two
// starts of one executor in the API within less time than its restart takes.
func (j *judge) sameProcess(r *run) {
	seen := r.keptCalls(j.h.Kills)
	for i, s := range seen {
		for _, before := range seen[:i] {
			if s.Caller != "" && s.Caller == before.Caller && s.Attempt == before.Attempt {
				j.rep.CalledTwice++
				j.fault(FaultCalledTwice, r, "%s called attempt %d %s and again %s", s.Caller, s.Attempt, stamp(before.At), stamp(s.At))
				return
			}
		}
	}
	if last := r.last(); last != nil {
		if why := StartedTwice(last.Attempts); why != "" {
			j.rep.CalledTwice++
			j.fault(FaultCalledTwice, r, "%s", why)
		}
	}
}

// StartedTwice says in words which attempt of a run one process has started twice, by its records; ""
// = none. Two starts by executors of one name within RestartLeast are of one process.
func StartedTwice(attempts []Attempt) string {
	for i := range attempts {
		a := &attempts[i]
		for k := range attempts[:i] {
			b := &attempts[k]
			if a.Number != b.Number || a.Executor == "" || a.Executor != b.Executor || a.StartedAt.IsZero() || b.StartedAt.IsZero() ||
				a.StartedAt.Sub(b.StartedAt).Abs() >= RestartLeast {
				continue
			}
			return fmt.Sprintf("%s started attempt %d %s and %s", a.Executor, a.Number, stamp(b.StartedAt), stamp(a.StartedAt))
		}
	}
	return ""
}

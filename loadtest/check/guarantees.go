package check

import (
	"cmp"
	"slices"
)

// This file judges executions by their guarantee. The sink is the only witness; of second starts
// the API is one too.
//
// # Overlap
//
// The work on a call lasts from its arrival to the end that the sink noted. The sink of such a test
// works to the end even if the caller has gone (package sink, "work"). So two calls of a run
// overlap if one arrived before the work on the other was over. That needs nothing that the system
// says.
//
// Carillon keeps this as long as the work is shorter than the rest of the session when its holder
// dies:
//
//	session renewed every 3 s, valid for 10 s, declared dead 2 s after its end
//	→ at least 9 s between the last sign of life and the next start
//
// Longer work may overlap; then the receiver must look at the fence.
//
// No sender can exclude one case. A holder is frozen after its last look at the clock and before
// the request is sent, and sends it when it thaws. Such a call has a fence below one that the
// receiver has seen, so the receiver can refuse it. It counts as stale, not as an overlap. Fences
// that do not grow are a fault of their own: see fences.

// A GuaranteeCount sums up the acknowledged runs of one guarantee (of recurring jobs: those of
// acknowledged jobs), and their calls.
type GuaranteeCount struct {
	Guarantee Guarantee `json:"guarantee"`
	Runs      int       `json:"runs"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	// Calls are those of the sink. Repeated are all but the first of each run. Duplicate of these
	// came before an earlier one had ended in failure or lost its caller.
	Calls     int `json:"calls"`
	Repeated  int `json:"repeated"`
	Duplicate int `json:"duplicate"`
	// Abandoned calls lost their caller before they were answered.
	Abandoned int `json:"abandoned"`
	// Lost and Superseded attempts, by the API. MostAttempts is the highest number of any attempt.
	Lost         int `json:"lost_attempts"`
	Superseded   int `json:"superseded_attempts"`
	MostAttempts int `json:"most_attempts"`

	// Overlaps, Stale and Fences are of effectively_once, SecondStarts of at_most_once, Rewritten
	// of both, Untrue of all.
	Overlaps     int `json:"overlaps"`
	SecondStarts int `json:"second_starts"`
	Fences       int `json:"bad_fences"`
	Untrue       int `json:"untrue_outcomes"`
	Rewritten    int `json:"rewritten_records"`
	Stale        int `json:"stale_calls"`
}

// Broken returns how many things were found that the guarantee excludes.
func (g *GuaranteeCount) Broken() int {
	return g.Overlaps + g.SecondStarts + g.Fences + g.Untrue + g.Rewritten
}

// brokenGuarantees returns how many things were found that any of the guarantees excludes.
func brokenGuarantees(counts []GuaranteeCount) int {
	broken := 0
	for i := range counts {
		broken += counts[i].Broken()
	}
	return broken
}

func compareGuarantees(a, b GuaranteeCount) int { return cmp.Compare(a.Guarantee, b.Guarantee) }

// of returns the count of a guarantee, made if it is new.
func (j *judge) of(g Guarantee) *GuaranteeCount {
	i := slices.IndexFunc(j.rep.Guarantees, func(c GuaranteeCount) bool { return c.Guarantee == g })
	if i < 0 {
		i = len(j.rep.Guarantees)
		j.rep.Guarantees = append(j.rep.Guarantees, GuaranteeCount{Guarantee: g})
	}
	return &j.rep.Guarantees[i]
}

// guarantee judges a run by its guarantee. Its arrivals are in order of time.
func (j *judge) guarantee(r *run) {
	if r.job == nil {
		return
	}
	p := policyOf(r.job.Ask)
	c := j.of(p.guarantee)
	j.count(c, r)
	j.answers(c, r)
	switch p.guarantee {
	case EffectivelyOnce:
		j.overlaps(c, r)
		j.fences(c, r)
		j.rewritten(c, r)
	case AtMostOnce:
		j.secondStart(c, r)
		j.rewritten(c, r)
	}
}

// rewritten compares the two readings of a run that had ended at the first. Each record of the
// first must stand in the second, or be superseded there. A late outcome may stand beside it, not
// replace it.
func (j *judge) rewritten(c *GuaranteeCount, r *run) {
	found := r.found()
	if len(found) < 2 || !found[0].Run.State.Terminal() {
		return
	}
	after := slices.Clone(found[1].Run.Attempts)
	for i := range found[0].Run.Attempts {
		a := &found[0].Run.Attempts[i]
		if a.Outcome == "" {
			continue
		}
		k := slices.IndexFunc(after, func(b Attempt) bool { return b.Number == a.Number && b.Outcome == a.Outcome })
		if k < 0 {
			k = slices.IndexFunc(after, func(b Attempt) bool { return b.Number == a.Number && b.Outcome == OutcomeSuperseded })
		}
		if k < 0 {
			c.Rewritten++
			j.fault(FaultRewritten, r, "attempt %d was recorded as %s at the first read, and is not at the second", a.Number, a.Outcome)
			return
		}
		after = slices.Delete(after, k, k+1)
	}
}

func (j *judge) count(c *GuaranteeCount, r *run) {
	if r.acked() {
		c.Runs++
	}
	c.Calls += len(r.seen)
	c.Repeated += max(0, len(r.seen)-1)
	for i, s := range r.seen {
		if s.Status == 0 && !s.End.IsZero() {
			c.Abandoned++
		}
		if slices.ContainsFunc(r.seen[:i], func(before *Sighting) bool { return !before.FailedBy(s.At) }) {
			c.Duplicate++
		}
	}
	last := r.last()
	if last == nil {
		return
	}
	switch last.State {
	case Succeeded:
		c.Succeeded++
	case Failed:
		c.Failed++
	}
	for i := range last.Attempts {
		a := &last.Attempts[i]
		c.MostAttempts = max(c.MostAttempts, a.Number)
		if a.Outcome == OutcomeSuperseded {
			c.Superseded++
		}
	}
	lost := 0 // a late outcome may stand for it at the second read
	for _, reading := range r.found() {
		n := 0
		for i := range reading.Run.Attempts {
			if reading.Run.Attempts[i].Outcome == OutcomeLost {
				n++
			}
		}
		lost = max(lost, n)
	}
	c.Lost += lost
}

// overlaps counts calls that arrived during the work on another call of the run. Work without a
// known end goes on.
func (j *judge) overlaps(c *GuaranteeCount, r *run) {
	highest := int64(0)
	for i, s := range r.seen {
		if s.Fence < highest {
			c.Stale++
			continue
		}
		highest = s.Fence
		for _, before := range r.seen[:i] {
			if before.End.IsZero() || before.End.After(s.At) {
				c.Overlaps++
				j.fault(FaultOverlap, r, "attempt %d (fence %d) arrived %s, the work on attempt %d (fence %d) of %s was over %s%s",
					s.Attempt, s.Fence, stamp(s.At), before.Attempt, before.Fence, stamp(before.At), endOf(before), goneAt(before))
				break
			}
		}
	}
}

func endOf(s *Sighting) string {
	if s.End.IsZero() {
		return "never"
	}
	return stamp(s.End)
}

// goneAt says when the caller went away, if it did.
func goneAt(s *Sighting) string {
	if s.Gone.IsZero() {
		return ""
	}
	return ", its caller had gone " + stamp(s.Gone)
}

// fences judges the fences of calls: each has one, no two share one, and a later attempt has a
// higher one.
func (j *judge) fences(c *GuaranteeCount, r *run) {
	calls := slices.Clone(r.seen)
	slices.SortStableFunc(calls, func(a, b *Sighting) int { return cmp.Compare(a.Attempt, b.Attempt) })
	for i, s := range calls {
		switch {
		case s.Fence <= 0:
			c.Fences++
			j.fault(FaultFence, r, "attempt %d arrived %s without a fence", s.Attempt, stamp(s.At))
		case i > 0 && s.Fence <= calls[i-1].Fence:
			c.Fences++
			j.fault(FaultFence, r, "attempt %d has the fence %d, attempt %d had %d", s.Attempt, s.Fence, calls[i-1].Attempt, calls[i-1].Fence)
		}
	}
}

// secondStart counts a run that was called twice, or started under more than one attempt.
func (j *judge) secondStart(c *GuaranteeCount, r *run) {
	if len(r.seen) > 1 {
		c.SecondStarts++
		j.fault(FaultSecondStart, r, "the sink was called %s (attempt %d) and again %s (attempt %d)",
			stamp(r.seen[0].At), r.seen[0].Attempt, stamp(r.seen[1].At), r.seen[1].Attempt)
		return
	}
	for _, reading := range r.found() {
		first := 0
		for i := range reading.Run.Attempts {
			a := &reading.Run.Attempts[i]
			switch {
			case a.StartedAt.IsZero() || a.Number < 1:
			case first == 0:
				first = a.Number
			case a.Number != first:
				c.SecondStarts++
				j.fault(FaultSecondStart, r, "the API tells of starts of attempt %d and attempt %d", first, a.Number)
				return
			}
		}
	}
}

// claimLost reports whether r is an at_most_once run whose attempt is lost. It was claimed; whether
// it started is not known.
func (r *run) claimLost() bool {
	return r.job != nil && r.job.Guarantee == AtMostOnce && r.lost()
}

// lost reports whether an attempt of r is recorded as lost: its executor died after the claim.
func (r *run) lost() bool {
	return slices.ContainsFunc(r.attempts(), func(a *Attempt) bool { return a.Outcome == OutcomeLost })
}

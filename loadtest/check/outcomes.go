package check

import (
	"cmp"
	"fmt"
	"time"
)

// This file decides whether a run ended twice, differently. DESIGN section 4 allows:
//
//   - Under at_least_once a late success of an attempt under way may turn failed, missed or
//     cancelled into succeeded, between two reads or within the records of one. Never the reverse,
//     and under no other guarantee.
//   - A record marked superseded is no outcome.
//
// The API does not say which record ended the run, so the job decides:
//
//	record               ends the run
//	succeeded, cancelled yes
//	failed, timed out    if it used up the attempts, or its status is final (4xx but 408, 425, 429)
//	lost                 if it used up the attempts
//	superseded           no

// policy is the part of a job that decides what ends a run.
type policy struct {
	guarantee   Guarantee
	maxAttempts int
}

func policyOf(a *Ask) policy {
	p := policy{guarantee: AtLeastOnce, maxAttempts: DefaultMaxAttempts}
	if a == nil {
		return p
	}
	p.guarantee = cmp.Or(a.Guarantee, p.guarantee)
	if p.guarantee == AtMostOnce {
		p.maxAttempts = 1
	}
	p.maxAttempts = cmp.Or(max(a.MaxAttempts, 0), p.maxAttempts)
	return p
}

// ends returns the state in which record a ends the run, and false if it does not end it.
func (p policy) ends(a *Attempt) (State, bool) {
	switch a.Outcome {
	case OutcomeSucceeded:
		return Succeeded, true
	case OutcomeCancelled:
		return Cancelled, true
	case OutcomeFailed, OutcomeTimedOut:
		return Failed, a.Number >= p.maxAttempts || finalStatus(a.StatusCode)
	case OutcomeLost:
		return Failed, a.Number >= p.maxAttempts
	default: // superseded, or under way
		return "", false
	}
}

func finalStatus(code int) bool {
	return code >= 400 && code < 500 && code != 408 && code != 425 && code != 429
}

// Contradiction says how one reading of a run shows two different ends; "" if it does not. asked
// decides what an end is; nil means the defaults.
func Contradiction(r *Run, asked *Ask) string { return policyOf(asked).contradiction(r) }

// doubleOutcome compares the readings of a run. reason is "" without a duplicate outcome; late: a
// success came between the reads, as the guarantee allows.
func (p policy) doubleOutcome(o *Observation) (reason string, late bool) {
	for _, r := range []*Reading{&o.First, &o.Second} {
		if r.Status != Found {
			continue
		}
		if why := p.contradiction(&r.Run); why != "" {
			return why, false
		}
	}
	if o.First.Status != Found || o.Second.Status != Found {
		return "", false
	}
	was, is := o.First.Run.State, o.Second.Run.State
	if was.Terminal() && was != is {
		if is == Succeeded && p.guarantee == AtLeastOnce {
			return "", true
		}
		return fmt.Sprintf("was %s at the first read and %s at the second", was, is), false
	}
	return "", false
}

// contradiction looks for two ends within one reading.
func (p policy) contradiction(r *Run) string {
	var success *Attempt // the earliest
	successes := 0
	var other *Attempt // any end that is no success
	var otherState State
	for i := range r.Attempts {
		a := &r.Attempts[i]
		state, ended := p.ends(a)
		switch {
		case !ended:
		case state == Succeeded:
			successes++
			if success == nil || a.FinishedAt.Before(success.FinishedAt) {
				success = a
			}
		case other != nil && otherState != state:
			return fmt.Sprintf("attempt %d ended %s and attempt %d ended %s, neither superseded",
				other.Number, other.Outcome, a.Number, a.Outcome)
		default:
			// the latest: the one that may follow a success
			if other == nil || a.FinishedAt.After(other.FinishedAt) {
				other, otherState = a, state
			}
		}
	}
	switch {
	case success == nil:
		return ""
	case successes > 1 && p.guarantee == EffectivelyOnce:
		return fmt.Sprintf("%d attempts succeeded, none superseded, under %s", successes, p.guarantee)
	case r.State.Terminal() && r.State != Succeeded:
		return fmt.Sprintf("attempt %d succeeded, but the run is %s", success.Number, r.State)
	case other != nil:
		return p.afterEnd(success, other)
	}
	return ""
}

// afterEnd judges a success beside another end: only a late success under at_least_once may be.
func (p policy) afterEnd(success, other *Attempt) string {
	switch {
	case p.guarantee != AtLeastOnce:
		return fmt.Sprintf("attempt %d succeeded and attempt %d ended %s, neither superseded, under %s",
			success.Number, other.Number, other.Outcome, p.guarantee)
	case other.FinishedAt.After(success.FinishedAt):
		return fmt.Sprintf("attempt %d succeeded at %s and attempt %d ended %s after it, at %s, not superseded",
			success.Number, stamp(success.FinishedAt), other.Number, other.Outcome, stamp(other.FinishedAt))
	case success.StartedAt.After(other.FinishedAt.Add(ChangeGrace)):
		return fmt.Sprintf("attempt %d succeeded, but it started at %s, after attempt %d had ended %s at %s: not under way",
			success.Number, stamp(success.StartedAt), other.Number, other.Outcome, stamp(other.FinishedAt))
	default:
		return ""
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

package workflow

import "strings"

// before counts the steps directly before one, by what is known of them.
type before struct {
	open      int32 // have no verdict yet
	succeeded int32
	failed    int32
	cancelled int32
}

// fate is what a condition comes to.
type fate byte

const (
	undecided fate = iota
	starts
	skips // with a verdict
)

// decide returns what becomes of a step with that condition, as far as it is known. Once it is not
// undecided, no verdict that becomes known later changes it.
func decide(when When, b before) (fate, Verdict) {
	switch when {
	case AllDone, Always:
		if b.open == 0 {
			return starts, ""
		}
		return undecided, ""
	case AnySucceeded:
		if b.succeeded > 0 {
			return starts, ""
		}
	case AnyFailed:
		if b.failed > 0 {
			return starts, ""
		}
	default:
		switch {
		case b.failed > 0:
			return skips, Failed // whatever the others do
		case b.open == 0 && b.cancelled == 0:
			return starts, ""
		}
	}
	switch {
	case b.open > 0:
		return undecided, ""
	case b.failed > 0:
		return skips, Failed
	case b.cancelled > 0:
		return skips, Cancelled
	}
	return skips, Succeeded
}

// Reasons of what is skipped. They depend on the decision alone, so that two nodes that decide the
// same write the same.
const (
	reasonCancelled = "the run was cancelled before it started"
	reasonRest      = "the run was cancelled before all of its items started"
	reasonExpired   = "the deadline of the run passed before it started"
	reasonLate      = "the deadline of the run passed before all of its items started"
)

// reasonOf says why a condition skips a step.
func reasonOf(when When, v Verdict) string {
	switch when {
	case AnySucceeded:
		return "any_succeeded cannot be met: no step before it succeeded"
	case AnyFailed:
		return "any_failed cannot be met: no step before it failed"
	}
	if v == Failed {
		return "all_succeeded cannot be met: a step before it failed"
	}
	return "all_succeeded cannot be met: a step before it was cancelled"
}

// Join says what becomes of what follows on others with that condition: it starts; or it is skipped,
// with a verdict and a reason; or neither, as yet. verdicts are those of the others, "" for one that
// has not ended. What is said once stays, whatever becomes known later.
func Join(when When, verdicts []Verdict) (start bool, skipped Verdict, reason string) {
	var b before
	for _, v := range verdicts {
		switch v {
		case "":
			b.open++
		case Succeeded:
			b.succeeded++
		case Failed:
			b.failed++
		default:
			b.cancelled++
		}
	}
	switch fate, v := decide(when.Or(), b); fate {
	case starts:
		return true, "", ""
	case skips:
		return false, v, strings.ReplaceAll(reasonOf(when.Or(), v), "step", "job")
	}
	return false, "", ""
}

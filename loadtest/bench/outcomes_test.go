package bench

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// TestWhatTheAPITells: of six runs that were asked for one is not listed, one is still under way,
// one never began, one failed and one ended twice; a listed run that comes again counts once.
func TestWhatTheAPITells(t *testing.T) {
	at := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	ended := func(number int, after time.Duration, o check.Outcome) check.Attempt {
		return check.Attempt{Number: number, StartedAt: at.Add(after), FinishedAt: at.Add(after + time.Second), Outcome: o}
	}
	became := &outcomes{runs: make(map[string]bool)}
	for _, r := range []check.Run{
		{ID: "good", State: check.Succeeded, StartedAt: at, Attempts: []check.Attempt{ended(1, 0, check.OutcomeSucceeded)}},
		{ID: "good", State: check.Succeeded, StartedAt: at, Attempts: []check.Attempt{ended(1, 0, check.OutcomeSucceeded)}},
		{ID: "under way", State: check.Running, StartedAt: at},
		{ID: "never", State: check.Pending},
		{ID: "failed", State: check.Failed, StartedAt: at, Attempts: []check.Attempt{ended(5, 0, check.OutcomeFailed)}},
		{ID: "twice", State: check.Succeeded, StartedAt: at, Attempts: []check.Attempt{
			ended(1, 0, check.OutcomeSucceeded), ended(2, time.Minute, check.OutcomeCancelled),
		}},
	} {
		became.visit(&r)
	}
	for _, c := range []struct {
		called bool
		missed int // as before, where somebody was called
	}{{true, 7}, {false, 3}} {
		r := &Result{N: 6, Missed: 7}
		became.fill(r, r.N, c.called)
		if r.Missed != c.missed || r.Unended != 3 || r.DuplicateOutcomes != 1 || r.Unexpected != 0 || len(r.Notes) != 1 {
			t.Errorf("called %t: missed %d, without an end %d, ended twice %d, unexpected %d, %q; want %d, 3, 1, 0 and a note on the run that ended twice",
				c.called, r.Missed, r.Unended, r.DuplicateOutcomes, r.Unexpected, r.Notes, c.missed)
		}
	}
	r := &Result{N: 4}
	if became.fill(r, 4, true); r.Unexpected != 1 || r.Unended != 1 {
		t.Errorf("of 4 runs, 5 of them listed and 3 ended: unexpected %d, without an end %d; want 1 and 1", r.Unexpected, r.Unended)
	}
}

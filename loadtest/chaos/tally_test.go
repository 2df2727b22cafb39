package chaos

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// What a tally must refuse: each arrival here is of another kind.
func TestTallyCountsWhatWasSeen(t *testing.T) {
	t0 := time.UnixMilli(1_800_000_000_000)
	at := func(line int, after time.Duration) *check.Sighting {
		return &check.Sighting{Ref: check.Ref{Source: "s", Line: line}, At: t0.Add(after)}
	}
	c := newTally()
	c.ask("s", []int64{t0.UnixMilli(), t0.UnixMilli(), t0.UnixMilli(), t0.UnixMilli(), t0.Add(time.Hour).UnixMilli()})
	c.cancel("s", 3)
	c.cancel("s", 3)
	c.see(at(1, 20*time.Millisecond))
	c.see(at(1, 30*time.Millisecond)) // again
	c.see(at(2, -time.Millisecond))   // early
	c.see(at(3, time.Millisecond))    // cancelled
	c.see(at(9, 0))                   // not asked for
	if got := c.missing(t0.Add(time.Second)); got != 1 {
		t.Errorf("missing = %d, want 1: line 4, and line 5 is not due yet", got)
	}
	rep := c.report(5, check.LatenessBound{Max: 10 * time.Millisecond}, t0.Add(time.Second))
	if rep.Missed != 1 || rep.DuplicateExecutions != 1 || rep.Early != 1 || rep.Ghosts != 1 || rep.Unexpected != 1 || rep.TooLate != 1 || rep.Cancelled != 1 || !rep.Failed() {
		t.Errorf("report = %+v, want one of each", rep)
	}
	if got := c.take(); got.arrivals != 5 || len(got.late) != 2 {
		t.Errorf("take = %+v, want 5 arrivals, 2 of them first ones", got)
	}
	if got := c.take(); got.arrivals != 0 {
		t.Errorf("take again = %+v, want nothing", got)
	}
}

func TestTallyOfAGoodLoadIsNotRefused(t *testing.T) {
	t0 := time.UnixMilli(1_800_000_000_000)
	c := newTally()
	c.ask("s", []int64{t0.UnixMilli()})
	c.see(&check.Sighting{Ref: check.Ref{Source: "s", Line: 1}, At: t0.Add(5 * time.Millisecond)})
	rep := c.report(1, check.LatenessBound{Max: 10 * time.Millisecond}, t0.Add(time.Second))
	if rep.Failed() || rep.Done != 1 || rep.Seen.Max != 5 {
		t.Errorf("report = %+v, want it good, 5 ms late", rep)
	}
}

package check_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func TestBoundsOnLateness(t *testing.T) {
	const ms = time.Millisecond
	// The latest run of the clean history comes 2 ms after its instant, or 5 ms as the sink sees
	// it.
	for _, row := range []struct {
		name  string
		bound check.LatenessBound
		forge func(*world)
		late  int
	}{
		{name: "no bound", forge: func(w *world) { w.sighting(onTime).At = at(400_000) }},
		{name: "within the bound", bound: check.LatenessBound{Max: time.Second, P99: time.Second}},
		{
			name: "one run arrived too late", bound: check.LatenessBound{Max: 30 * time.Second}, late: 1,
			forge: func(w *world) { w.sighting(onTime).At = at(10_000 + 30_001) },
		},
		{
			name: "one run is reported as too late", bound: check.LatenessBound{Max: 30 * time.Second}, late: 1,
			forge: func(w *world) { w.both(onTime, func(r *check.Run) { r.LatenessMS = num(30_001) }) },
		},
		{
			name: "accepted after its due time, and so reported", bound: check.LatenessBound{Max: 5 * time.Second},
			forge: func(w *world) {
				w.ask(onTime).At, w.ack(onTime).At = at(3_000), at(10_000)
				w.both(onTime, func(r *check.Run) { r.DueAt, r.LatenessMS = at(3_000), num(7_002) })
			},
		},
		{
			name: "exactly at the bound", bound: check.LatenessBound{Max: 30 * time.Second},
			forge: func(w *world) { w.sighting(onTime).At = at(10_000 + 30_000) },
		},
		{
			name: "the slowest of few runs is the 99th of 100", bound: check.LatenessBound{P99: 30 * time.Second}, late: 1,
			forge: func(w *world) { w.sighting(onTime).At = at(10_000 + 31_000) },
		},
		{
			name: "measured from the instant it was moved to", bound: check.LatenessBound{Max: 40 * ms},
			forge: func(w *world) { w.ask(rescheduled).At = at(11_000) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			if row.forge != nil {
				row.forge(w)
			}
			w.Late = row.bound
			rep := judge(t, w.History)
			if rep.TooLate != row.late || rep.Failed() != (row.late > 0) || rep.Bound != row.bound {
				t.Errorf("Judge: too late %d of bound %v, failed %t, want %d of %v; faults: %+v", rep.TooLate, rep.Bound, rep.Failed(), row.late, row.bound, rep.Faults)
			}
		})
	}
}

// A claim of which nobody knows whether a start followed it has no lateness.
func TestLostClaimIsNotLate(t *testing.T) {
	w := guarded()
	w.call(atMostLost, 1).At = at(100_000)
	w.Late = check.LatenessBound{Max: 30 * time.Second}
	if rep := judge(t, w.History); rep.TooLate != 0 {
		t.Errorf("Judge: too late %d, want 0; faults: %+v", rep.TooLate, rep.Faults)
	}
}

func TestBoundInWords(t *testing.T) {
	for want, b := range map[string]check.LatenessBound{
		"none": {}, "30s at most": {Max: 30 * time.Second}, "30s at most, p99 2s": {Max: 30 * time.Second, P99: 2 * time.Second},
	} {
		if got := b.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

func TestRecurringRunsAreBoundToo(t *testing.T) {
	for bound, late := range map[time.Duration]bool{107 * time.Second: false, 30 * time.Second: true} {
		w := cleanRecurring() // its first runs after the stop waited for 106 s
		w.Late.Max = bound
		if rep := judgeRecurring(t, w.RecurringHistory); rep.TooLate > 0 != late || rep.Failed() != late {
			t.Errorf("JudgeRecurring: too late %d of bound %s, failed %t, want %t", rep.TooLate, bound, rep.Failed(), late)
		}
	}
}

package check_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func TestDuplicateOutcomes(t *testing.T) {
	states := func(first, second check.State) func(*world) {
		return func(w *world) {
			w.obs(onTime).First.Run.State = first
			w.obs(onTime).Second.Run.State = second
			w.obs(onTime).First.Run.Attempts = nil // the states alone
			if second != check.Succeeded {
				w.both(onTime, func(r *check.Run) { r.Attempts = nil })
			}
		}
	}
	// records forges both readings alike, under guarantee g.
	records := func(g check.Guarantee, state check.State, attempts ...check.Attempt) func(*world) {
		return func(w *world) {
			w.ask(onTime).Guarantee = g
			w.both(onTime, func(r *check.Run) { r.State, r.Attempts = state, attempts })
		}
	}
	guarantee := func(g check.Guarantee, forge func(*world)) func(*world) {
		return func(w *world) { w.ask(onTime).Guarantee = g; forge(w) }
	}
	final := func(a check.Attempt, code int) check.Attempt { a.StatusCode = code; return a }

	rows := []struct {
		name  string
		forge func(*world)
		fault bool
	}{
		{"state: succeeded stays", states(check.Succeeded, check.Succeeded), false},
		{"state: running to failed", states(check.Running, check.Failed), false},
		{"state: failed to succeeded is a late success", states(check.Failed, check.Succeeded), false},
		{"state: missed to succeeded is a late success", states(check.Missed, check.Succeeded), false},
		{"state: cancelled to succeeded is a late success", states(check.Cancelled, check.Succeeded), false},
		{"state: succeeded to failed", states(check.Succeeded, check.Failed), true},
		{"state: succeeded to running", states(check.Succeeded, check.Running), true},
		{"state: failed to retrying", states(check.Failed, check.Retrying), true},
		{"state: failed to cancelled", states(check.Failed, check.Cancelled), true},
		{
			"state: a late success is not for effectively_once",
			guarantee(check.EffectivelyOnce, states(check.Failed, check.Succeeded)), true,
		},
		{
			"state: a late success is not for at_most_once",
			guarantee(check.AtMostOnce, states(check.Failed, check.Succeeded)), true,
		},

		{
			"records: failures before the success are retries",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "failed"), attempt(2, 11_000, 11_001, "succeeded")), false,
		},
		{
			"records: an exhausting failure after the success",
			records("", check.Succeeded, attempt(5, 10_000, 10_001, "succeeded"), attempt(5, 10_000, 10_002, "failed")), true,
		},
		{
			"records: the same, superseded",
			records("", check.Succeeded, attempt(5, 10_000, 10_001, "succeeded"), attempt(5, 10_000, 10_002, "superseded")), false,
		},
		{
			"records: the same, not exhausting",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), attempt(1, 10_000, 10_002, "failed")), false,
		},
		{
			"records: a final status is final at the first attempt",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), final(attempt(1, 10_000, 10_002, "failed"), 404)), true,
		},
		{
			"records: 429 is not final",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), final(attempt(1, 10_000, 10_002, "failed"), 429)), false,
		},
		{
			"records: lost before the last attempt is no end",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), attempt(1, 10_000, 10_100, "lost")), false,
		},
		{
			"records: a success of an attempt under way when the other ended",
			records("", check.Succeeded, attempt(5, 10_000, 10_100, "lost"), attempt(5, 12_100, 13_000, "succeeded")), false,
		},
		{
			"records: a success that started after the end",
			records("", check.Succeeded, attempt(5, 10_000, 10_100, "lost"), attempt(6, 12_101, 13_000, "succeeded")), true,
		},
		{
			"records: a late success is not for effectively_once",
			records(check.EffectivelyOnce, check.Succeeded, attempt(5, 10_000, 10_100, "lost"), attempt(5, 10_050, 13_000, "succeeded")), true,
		},
		{
			"records: cancelled and failed for good",
			records("", check.Cancelled, attempt(1, 10_000, 10_001, "cancelled"), attempt(5, 10_000, 10_002, "failed")), true,
		},
		{
			"records: two failures for good end alike",
			records("", check.Failed, attempt(5, 10_000, 10_001, "timed_out"), attempt(5, 10_000, 10_002, "failed")), false,
		},
		{
			"records: two successes end alike",
			records("", check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), attempt(1, 10_000, 10_002, "succeeded")), false,
		},
		{
			"records: two successes under effectively_once",
			records(check.EffectivelyOnce, check.Succeeded, attempt(1, 10_000, 10_001, "succeeded"), attempt(1, 10_000, 10_002, "succeeded")), true,
		},
		{
			"records: a success, and the run is failed",
			records("", check.Failed, attempt(1, 10_000, 10_001, "succeeded")), true,
		},
		{
			"records: the contradiction shows only at the first read",
			func(w *world) { w.obs(onTime).First.Run.State = check.Failed }, true,
		},
		{
			"records: judged though the second read failed",
			func(w *world) {
				w.obs(onTime).First.Run.State = check.Failed
				w.obs(onTime).Second = check.Reading{}
			}, true,
		},
		{
			"max_attempts of the job decides what exhausts",
			func(w *world) {
				w.ask(onTime).MaxAttempts = 1
				w.both(onTime, func(r *check.Run) { r.Attempts = append(r.Attempts, attempt(1, 10_000, 10_500, "failed")) })
			}, true,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			rep := judge(t, w.History)
			want := 0
			if row.fault {
				want = 1
			}
			if rep.DuplicateOutcomes != want {
				t.Errorf("DuplicateOutcomes = %d, want %d; faults: %+v", rep.DuplicateOutcomes, want, rep.Faults)
			}
			if row.fault && !rep.Failed() {
				t.Error("Failed() = false, want true")
			}
		})
	}
}

func TestDuplicateExecutions(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
		want  int // beyond the one of the clean history
	}{
		{"a retry after a failure", func(*world) {}, 0},
		{"a second arrival after a success", func(w *world) { w.see(onTime, 1, 11_000, 200) }, 1},
		{"two surplus arrivals", func(w *world) { w.see(onTime, 1, 11_000, 200); w.see(onTime, 2, 12_000, 200) }, 2},
		{
			"an arrival while the first is under way", func(w *world) {
				s := w.sighting(retried)
				s.End = at(11_501)
			}, 1,
		},
		{"an arrival after one whose end is not known", func(w *world) { w.sighting(retried).End = time.Time{} }, 1},
		{"an arrival after one whose caller hung up", func(w *world) { w.sighting(retried).Status = 0 }, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			rep := judge(t, w.History)
			if got := rep.DuplicateExecutions - cleanReport().DuplicateExecutions; got != row.want {
				t.Errorf("DuplicateExecutions = clean + %d, want + %d; faults: %+v", got, row.want, rep.Faults)
			}
		})
	}
}

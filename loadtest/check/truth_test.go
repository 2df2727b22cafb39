package check_test

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// again makes line a run with those calls and attempts, in the given state.
func (w *world) again(line int, state check.State, attempts ...check.Attempt) {
	w.unsee(line)
	w.unobserve(line)
	w.observe(line, state, attempts...)
}

// Each row forges one run of the clean history. What the receiver saw and answered is the truth.
func TestRecordsAreHeldAgainstAnswers(t *testing.T) {
	coded := func(a check.Attempt, code int) check.Attempt { a.StatusCode = code; return a }
	redispatched := func(a check.Attempt) check.Attempt { a.Redispatched = true; return a }
	by := func(executor string, a check.Attempt) check.Attempt { a.Executor = executor; return a }
	for _, row := range []struct {
		name  string
		forge func(*world)
		fault check.Kind // "" = honest
	}{
		{
			name: "every call was answered 500, and the run is succeeded", fault: check.FaultUntrue,
			forge: func(w *world) { w.sighting(onTime).Status = 500 },
		},
		{
			name: "the same, and no attempt is shown", fault: check.FaultUntrue,
			forge: func(w *world) {
				w.sighting(onTime).Status = 500
				w.both(onTime, func(r *check.Run) { r.Attempts = nil })
			},
		},
		{
			name: "a success that was not answered in full", fault: check.FaultUntrue,
			forge: func(w *world) { w.sighting(onTime).Status = 0 },
		},
		{
			name: "a success with the status of a failure", fault: check.FaultUntrue,
			forge: func(w *world) { w.both(onTime, func(r *check.Run) { r.Attempts[0].StatusCode = 500 }) },
		},
		{
			name: "more attempts than calls", fault: check.FaultUntrue,
			forge: func(w *world) {
				w.again(retried, check.Succeeded, attempt(1, 10_002, 10_005, "failed"), attempt(2, 11_499, 11_502, "failed"), attempt(3, 12_499, 12_502, "succeeded"))
				w.see(retried, 1, 10_003, 500)
				w.see(retried, 3, 12_500, 200)
			},
		},
		{
			name: "a failure that the receiver had answered with success", fault: check.FaultUntrue,
			forge: func(w *world) { w.sighting(retried).Status = 200 },
		},
		{
			name: "another status than was answered", fault: check.FaultUntrue,
			forge: func(w *world) { w.both(retried, func(r *check.Run) { r.Attempts[0].StatusCode = 503 }) },
		},
		{
			name: "two records of one call", fault: check.FaultUntrue,
			forge: func(w *world) {
				w.again(retried, check.Succeeded, attempt(1, 10_002, 10_005, "failed"), redispatched(attempt(1, 10_003, 10_006, "failed")), attempt(2, 11_499, 11_502, "succeeded"))
				w.see(retried, 1, 10_003, 500)
				w.see(retried, 2, 11_500, 200)
			},
		},
		{
			name: "a call that the API does not tell of", fault: check.FaultUnrecorded,
			forge: func(w *world) { w.see(onTime, 2, 30_000, 500) },
		},
		{
			name: "a time-out that was answered unheard",
			forge: func(w *world) {
				w.again(retried, check.Succeeded, attempt(1, 10_002, 10_005, "timed_out"), attempt(2, 11_499, 11_502, "succeeded"))
				w.see(retried, 1, 10_003, 200)
				w.see(retried, 2, 11_500, 200)
			},
		},
		{
			name: "a connection that broke before the answer was read",
			forge: func(w *world) {
				w.both(retried, func(r *check.Run) { r.Attempts[0].StatusCode = 0 })
				w.sighting(retried).Status = 200
			},
		},

		{
			name: "failed for good after a retryable answer, with attempts left", fault: check.FaultEarlyEnd,
			forge: func(w *world) {
				w.again(failedForGood, check.Failed, coded(attempt(1, 10_002, 10_004, "failed"), 503))
				w.see(failedForGood, 1, 10_003, 503)
			},
		},
		{
			name: "failed for good after a time-out, with attempts left", fault: check.FaultEarlyEnd,
			forge: func(w *world) {
				w.again(failedForGood, check.Failed, attempt(1, 10_002, 40_004, "timed_out"))
				w.see(failedForGood, 1, 10_003, 0)
			},
		},
		{
			name: "failed for good after all attempts",
			forge: func(w *world) {
				w.ask(failedForGood).MaxAttempts = 2
				w.again(failedForGood, check.Failed, attempt(1, 10_002, 10_004, "failed"), attempt(2, 11_002, 11_004, "failed"))
				w.see(failedForGood, 1, 10_003, 500)
				w.see(failedForGood, 2, 11_003, 500)
			},
		},
		{
			name: "a final answer was tried again", fault: check.FaultFinalRetried,
			forge: func(w *world) {
				w.again(failedForGood, check.Failed, coded(attempt(1, 10_002, 10_004, "failed"), 404), coded(attempt(2, 11_002, 11_004, "failed"), 404))
				w.see(failedForGood, 1, 10_003, 404)
				w.see(failedForGood, 2, 11_003, 404)
			},
		},
		{
			name: "a final answer that nobody heard was tried again",
			forge: func(w *world) {
				w.again(failedForGood, check.Failed, attempt(1, 10_002, 22_004, "lost"), coded(attempt(2, 24_002, 24_004, "failed"), 404))
				w.see(failedForGood, 1, 10_003, 404)
				w.see(failedForGood, 2, 24_003, 404)
			},
		},

		{
			name: "called twice, and nothing was redispatched", fault: check.FaultUnexplained,
			forge: func(w *world) { w.see(onTime, 1, 10_040, 200) },
		},
		{
			name: "called twice, and the stream was deleted between the messages",
			forge: func(w *world) {
				w.StreamLosses = []time.Time{at(10_030)}
				w.see(onTime, 1, 10_040, 200)
			},
		},
		{
			name: "called twice, and the stream was deleted after it", fault: check.FaultUnexplained,
			forge: func(w *world) {
				w.StreamLosses = []time.Time{at(10_050)}
				w.see(onTime, 1, 10_040, 200)
			},
		},
		{
			name: "called twice, and the stream was deleted long before the first message", fault: check.FaultUnexplained,
			forge: func(w *world) {
				w.StreamLosses = []time.Time{at(-10_001)}
				w.see(onTime, 1, 10_040, 200)
			},
		},
		{
			name: "called twice, and its job was sent twice",
			forge: func(w *world) {
				w.Acks = append(w.Acks, check.Ack{Ref: ref(immediate), Status: 503, At: at(110)})
				w.see(immediate, 1, 200, 200)
			},
		},
		{
			name: "called twice, and accepted 5 s after its instant",
			forge: func(w *world) {
				w.ack(onTime).At = at(15_000)
				w.see(onTime, 1, 15_040, 200)
			},
		},
		{
			name: "called twice, and accepted sooner than that", fault: check.FaultUnexplained,
			forge: func(w *world) {
				w.ack(onTime).At = at(14_999)
				w.see(onTime, 1, 15_040, 200)
			},
		},
		{
			name:  "called, and moved to another instant when its executor had died",
			forge: func(w *world) { w.moved(10_500); w.see(rescheduled, 1, 10_003, 0) },
		},
		{
			name: "moved a moment before it was called, by an executor that was killed then",
			forge: func(w *world) {
				w.moved(9_980)
				w.see(rescheduled, 1, 10_003, 503)
				w.Kills = []check.Kill{{At: at(10_010)}}
			},
		},
		{
			name: "moved a moment before it was called, by an executor that lived", fault: check.FaultUnexplained,
			forge: func(w *world) { w.moved(9_980); w.see(rescheduled, 1, 10_003, 503) },
		},
		{
			name: "called twice since it was moved", fault: check.FaultUnexplained,
			forge: func(w *world) { w.see(rescheduled, 1, 60_040, 200) },
		},
		{
			name: "called three times for one redispatch", fault: check.FaultUnexplained,
			forge: func(w *world) { w.see(redelivered, 1, 13_000, 200) },
		},
		{
			name: "called again when its executor had died",
			forge: func(w *world) {
				w.again(onTime, check.Succeeded, redispatched(attempt(1, 14_002, 14_004, "succeeded")))
				w.see(onTime, 1, 10_003, 0)
				w.see(onTime, 1, 14_003, 200)
			},
		},
		{
			name: "one process called one attempt twice", fault: check.FaultCalledTwice,
			forge: func(w *world) {
				for i := range w.Seen {
					if w.Seen[i].Run == id(redelivered) {
						w.Seen[i].Caller = "node-1, life 1"
					}
				}
			},
		},
		{
			name: "one executor started one attempt twice within 30 ms", fault: check.FaultCalledTwice,
			forge: func(w *world) {
				w.again(redelivered, check.Succeeded, by("e1", attempt(1, 10_001, 10_009, "succeeded")), by("e1", redispatched(attempt(1, 10_031, 10_039, "superseded"))))
				w.see(redelivered, 1, 10_002, 200)
				w.see(redelivered, 1, 10_032, 200)
			},
		},
		{
			name: "two executors started one attempt",
			forge: func(w *world) {
				w.again(redelivered, check.Succeeded, by("e1", attempt(1, 10_001, 10_009, "succeeded")), by("e2", redispatched(attempt(1, 10_031, 10_039, "superseded"))))
				w.see(redelivered, 1, 10_002, 200).Caller = "e1"
				w.see(redelivered, 1, 10_032, 200).Caller = "e2"
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			rep := judge(t, w.History)
			var kinds []check.Kind
			for _, f := range rep.Faults {
				if f.Kind != check.FaultDuplicateExecution && !slices.Contains(kinds, f.Kind) {
					kinds = append(kinds, f.Kind)
				}
			}
			want := []check.Kind{row.fault}
			if row.fault == "" {
				want = nil
			}
			if !slices.Equal(kinds, want) || rep.Failed() != (row.fault != "") {
				t.Errorf("Judge: failed %t with faults of the kinds %q, want %q: %+v", rep.Failed(), kinds, want, rep.Faults)
			}
		})
	}
}

// Where nothing went wrong nothing is executed twice, whatever explains it.
func TestNoDuplicatesWhereNothingWentWrong(t *testing.T) {
	w := clean()
	w.Calm = true
	if rep := judge(t, w.History); rep.Needless != 1 || !rep.Failed() {
		t.Errorf("Judge: %d needless duplicates, failed %t, want 1, true", rep.Needless, rep.Failed())
	}
	w.Seen = slices.DeleteFunc(w.Seen, func(s check.Sighting) bool { return s.Run == id(redelivered) && s.At.Equal(at(12_000)) })
	if rep := judge(t, w.History); rep.Needless != 0 || rep.Failed() {
		t.Errorf("Judge: %d needless duplicates, failed %t, want none: %+v", rep.Needless, rep.Failed(), rep.Faults)
	}
}

// Where the sink's record has a gap, what it does not show proves nothing.
func TestGapsOfTheSinkProveNothing(t *testing.T) {
	w := clean()
	w.sighting(onTime).Status = 500
	w.SeenAll = false
	if rep := judge(t, w.History); rep.Failed() {
		t.Errorf("Judge: failed with %+v, want no failure", rep.Faults)
	}
}

// moved has the run that is rescheduled be so then, acknowledged 10 ms later.
func (w *world) moved(requested int) {
	for i := range w.Changes {
		if c := &w.Changes[i]; c.Run == id(rescheduled) {
			c.Requested, c.Acked = at(requested), at(requested+10)
		}
	}
}

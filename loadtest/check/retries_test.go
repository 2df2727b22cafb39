package check_test

import (
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// twice makes line a run whose first attempt was answered with that status and Retry-After, and
// which succeeded with the second that many ms later.
func (w *world) twice(line, status int, retryAfter time.Duration, later int) {
	w.unsee(line)
	w.unobserve(line)
	w.see(line, 1, 10_003, status).RetryAfter = retryAfter
	w.see(line, 2, 10_004+later, 200)
	w.observe(line, check.Succeeded, attempt(1, 10_002, 10_005, "failed"), attempt(2, 10_003+later, 10_006+later, "succeeded"))
	w.both(line, func(r *check.Run) { r.Attempts[0].StatusCode = status })
}

// unanswered is an execution that failed before its call was answered, or made.
func unanswered(number, start, finish int) check.Attempt {
	return check.Attempt{Number: number, StartedAt: at(start), FinishedAt: at(finish), Outcome: check.OutcomeFailed, Redispatched: true}
}

// Each fault of retries and dead letters alone, and what is none.
func TestRetriesAndDeadLetters(t *testing.T) {
	exact := check.Retry{Initial: 2 * time.Second, Factor: 2, Max: time.Minute, Exact: true}
	for _, row := range []struct {
		name  string
		forge func(w *world)
		want  func(r *check.Report)
		fault check.Kind
	}{
		{
			name: "failed without a dead letter", fault: check.FaultNoDeadLetter,
			forge: func(w *world) { w.obs(failedForGood).Second.Run.DeadLetter = false },
			want:  func(r *check.Report) { r.DeadLetters--; r.NoDeadLetter++ },
		},
		{
			name:  "its letter was not there at the first read",
			forge: func(w *world) { w.obs(failedForGood).First.Run.DeadLetter = false },
		},
		{
			name: "its letter was replayed",
			forge: func(w *world) {
				w.both(failedForGood, func(r *check.Run) { r.DeadLetter = false })
				w.Settled = []string{id(failedForGood)}
			},
			want: func(r *check.Report) { r.DeadLetters-- },
		},
		{
			name: "what was discarded rose", fault: check.FaultSurplusDeadLetter,
			forge: func(w *world) { w.Settled = []string{id(failedForGood)} },
			want:  func(r *check.Report) { r.SurplusDeadLetters++ },
		},
		{
			name: "a letter of a run that succeeded late", fault: check.FaultSurplusDeadLetter,
			forge: func(w *world) { w.obs(lateSuccess).Second.Run.DeadLetter = true },
			want:  func(r *check.Report) { r.SurplusDeadLetters++ },
		},
		{
			name:  "a letter of a run that came to succeed between the reads",
			forge: func(w *world) { w.obs(lateSuccess).First.Run.DeadLetter = true },
		},
		{
			name: "one attempt more than asked for, at the sink", fault: check.FaultExcessAttempt,
			forge: func(w *world) { w.ask(retried).MaxAttempts = 1 },
			want:  func(r *check.Report) { r.ExcessAttempts++ },
		},
		{
			name: "one attempt more than asked for, in the API alone", fault: check.FaultExcessAttempt,
			forge: func(w *world) {
				w.both(onTime, func(r *check.Run) {
					r.Attempts = append([]check.Attempt{attempt(6, 10_000, 10_001, "lost")}, r.Attempts...)
				})
			},
			want: func(r *check.Report) { r.ExcessAttempts++ },
		},
		{name: "as many as asked for", forge: func(w *world) { w.ask(retried).MaxAttempts = 2 }},
		{
			name: "Retry-After was not heeded", fault: check.FaultEarlyRetry,
			forge: func(w *world) { w.twice(retried, 503, 30*time.Second, 29_998) },
			want:  func(r *check.Report) { r.EarlyRetries++; r.AskedToWait++ },
		},
		{
			name: "a clock is off by as much as Retry-After was not heeded",
			forge: func(w *world) {
				w.Off = 400 * time.Millisecond
				w.twice(retried, 503, 30*time.Second, 29_600)
			},
			want: func(r *check.Report) { r.AskedToWait++ },
		},
		{
			name: "a clock is off by less", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.Off = 399 * time.Millisecond
				w.twice(retried, 503, 30*time.Second, 29_598)
			},
			want: func(r *check.Report) { r.EarlyRetries++; r.AskedToWait++ },
		},
		{
			name: "Retry-After was not heeded, the policy was", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 429, 3*time.Second, 2_999)
			},
			want: func(r *check.Report) { r.EarlyRetries++; r.AskedToWait++ },
		},
		{
			name: "Retry-After was heeded, the policy was not", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 429, time.Second, 1_500)
			},
			want: func(r *check.Report) { r.EarlyRetries++; r.AskedToWait++ },
		},
		{
			name:  "Retry-After was heeded",
			forge: func(w *world) { w.twice(retried, 429, 30*time.Second, 30_000) },
			want:  func(r *check.Report) { r.AskedToWait++ },
		},
		{name: "Retry-After of an answer that has none", forge: func(w *world) { w.twice(retried, 500, 30*time.Second, 1000) }},
		{
			name: "Retry-After of an attempt that was lost before it was recorded",
			forge: func(w *world) {
				w.twice(retried, 503, 30*time.Second, 13_000)
				w.both(retried, func(r *check.Run) { r.Attempts[0].Outcome, r.Attempts[0].StatusCode = check.OutcomeLost, 0 })
			},
		},
		{
			name: "a failure that a thawed executor tells of after its attempt was lost and the next had begun",
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 13_000)
				w.obs(retried).First.Run.Attempts[0].Outcome = check.OutcomeLost
				w.obs(retried).Second.Run.Attempts[0].FinishedAt = at(40_000)
			},
		},
		{
			name: "a failure that a thawed executor recorded in place of the loss, after which the next had begun",
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 18_000)
				w.both(retried, func(r *check.Run) { r.Attempts[0].FinishedAt = at(40_000) })
			},
		},
		{
			name: "a failure that is said to have come after the next had begun", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 5_000)
				w.obs(retried).Second.Run.Attempts[0].FinishedAt = at(40_000)
			},
			want: func(r *check.Report) { r.EarlyRetries++ },
		},
		{
			name: "a second execution under the number before failed after the next had begun, which followed the first",
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 3_000)
				w.both(retried, func(r *check.Run) {
					r.Attempts = slices.Insert(r.Attempts, 0, unanswered(1, 10_002, 20_000))
				})
			},
		},
		{
			name: "neither of two executions under the number before was waited for", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 3_000)
				w.both(retried, func(r *check.Run) {
					r.Attempts[0].FinishedAt = at(12_000)
					r.Attempts = slices.Insert(r.Attempts, 0, unanswered(1, 10_002, 20_000))
				})
			},
			want: func(r *check.Report) { r.EarlyRetries++ },
		},
		{
			name: "the first of two executions under one number asked for more",
			forge: func(w *world) {
				w.twice(retried, 503, 30*time.Second, 31_000)
				w.see(retried, 1, 20_000, 503).RetryAfter = 30 * time.Second
				w.both(retried, func(r *check.Run) { r.Attempts[0].Redispatched = true })
			},
			want: func(r *check.Report) { r.Sightings++; r.AskedToWait++ },
		},
		{
			name: "sooner than the policy says, at the sink", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 1_990)
			},
			want: func(r *check.Report) { r.EarlyRetries++ },
		},
		{
			name: "sooner than the policy says, in the API alone", fault: check.FaultEarlyRetry,
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 2_000)
				w.both(retried, func(r *check.Run) { r.Attempts[1].StartedAt = at(11_000) })
			},
			want: func(r *check.Report) { r.EarlyRetries++ },
		},
		{
			name: "as the policy says",
			forge: func(w *world) {
				w.ask(retried).Retry = exact
				w.twice(retried, 500, 0, 2_000)
				w.both(retried, func(r *check.Run) { r.Attempts[1].StartedAt = at(12_005) })
			},
		},
		{
			name: "no longer than the policy's most",
			forge: func(w *world) {
				w.ask(retried).Retry = check.Retry{Initial: time.Hour, Factor: 2, Max: time.Second, Exact: true}
			},
		},
		{
			name: "with jitter any wait will do",
			forge: func(w *world) {
				w.ask(retried).Retry = check.Retry{Initial: time.Hour, Factor: 2, Max: time.Hour}
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			row.forge(w)
			rep := compared(t, w, row.want)
			if rep.Failed() != (row.fault != "") {
				t.Errorf("Failed() = %t, want %t", rep.Failed(), row.fault != "")
			}
			if row.fault != "" && !hasFault(rep, row.fault) {
				t.Errorf("Faults has no %q: %+v", row.fault, rep.Faults)
			}
		})
	}
}

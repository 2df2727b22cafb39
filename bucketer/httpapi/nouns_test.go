package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestRunAsItsRowsTellIt(t *testing.T) {
	due := testNow.Add(time.Minute)
	id := schema.MakeEntryID(due, 3, 7)
	retry := schema.MakeEntryID(due.Add(10*time.Second), 3, 8)
	moved := schema.MakeEntryID(due.Add(time.Hour), 3, 9)
	at := due.Add
	clock := func(d time.Duration) string { return at(d).Format(timeFormat) }
	spec := schema.Spec{Tenant: "acme", Nominal: due, Accepted: testNow.UnixMicro(), Task: "t"}
	entry := func(id schema.EntryID, spec schema.Spec) schema.Entry {
		e, err := schema.NewEntry(id, spec, nil, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	record := func(number int, from, to time.Duration, o schema.Outcome, change func(*schema.Record)) schema.Attempt {
		r := &schema.Record{Entry: id, Executor: "e1", Started: at(from), Finished: at(to), Outcome: o}
		if number == 0 {
			r.Executor, r.Started = "", time.Time{}
		}
		if change != nil {
			change(r)
		}
		return schema.Attempt{Run: id, Number: number, Record: r}
	}
	shown := func(number int, from, to time.Duration, o string) map[string]any {
		return map[string]any{"number": float64(number), "executor": "e1", "started_at": clock(from), "finished_at": clock(to), "outcome": o}
	}
	cancelled := entry(id, spec)
	cancelled.Marks.Cancelled = &schema.Cancel{At: at(-time.Second)}
	roomy := entry(id, spec)
	roomy.Marks.Cancelled = &schema.Cancel{At: at(-time.Second), By: bucketer.CancelledByLimit}
	rescheduled := spec
	rescheduled.Of, rescheduled.Kind, rescheduled.Nominal, rescheduled.Accepted = id, schema.KindReschedule, moved.Time(), at(0).UnixMicro()
	behind := spec
	behind.Accepted = at(30 * time.Second).UnixMicro()

	for name, row := range map[string]struct {
		run  runs.Run
		want map[string]any // besides what every run has
	}{
		"pending": {runs.Run{State: schema.StatePending, Entry: entry(id, spec)}, map[string]any{}},
		"put off, twice": {
			runs.Run{State: schema.StatePending, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.To, r.Reason = retry, schema.Deferred }),
				record(0, 0, 0, schema.Replaced, func(r *schema.Record) {
					r.To, r.Reason = schema.MakeEntryID(due.Add(5*time.Second), 3, 8), schema.Deferred
				}),
			}},
			map[string]any{"deferred_until": clock(10 * time.Second)},
		},
		"put off, by a rate": {
			runs.Run{State: schema.StatePending, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.To, r.Reason, r.Cause = retry, schema.Deferred, schema.CauseRate }),
				record(0, 0, 0, schema.Replaced, func(r *schema.Record) {
					r.To, r.Reason, r.Cause = schema.MakeEntryID(due.Add(5*time.Second), 3, 8), schema.Deferred, schema.CauseBreaker
				}),
			}},
			map[string]any{
				"deferred_until": clock(10 * time.Second),
				"waiting":        map[string]any{"since": clock(time.Second), "reason": "rate: the rate of its task is used up until then"},
			},
		},
		"put off by a rate, and cancelled": {
			runs.Run{State: schema.StateCancelled, Entry: cancelled, Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.To, r.Reason, r.Cause = retry, schema.Deferred, schema.CauseRate }),
			}},
			map[string]any{
				"finished_at": clock(-time.Second),
				"waiting":     map[string]any{"since": clock(time.Second), "reason": "rate: the rate of its task is used up until then"},
			},
		},
		"held back by a limit, and cancelled": {
			runs.Run{State: schema.StateCancelled, Entry: cancelled, Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.Reason = "concurrency: a run of the job was under way" }),
			}},
			map[string]any{
				"finished_at": clock(-time.Second),
				"waiting":     map[string]any{"since": clock(time.Second), "reason": "concurrency: a run of the job was under way"},
			},
		},
		"put off by a limit and then by a rate, and over": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, 2*time.Second, schema.Replaced, func(r *schema.Record) { r.To, r.Reason, r.Cause = retry, schema.Deferred, schema.CauseRate }),
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.Reason = "concurrency: a run of the job was under way" }),
				record(0, 0, 20*time.Second, schema.Replaced, func(r *schema.Record) { r.To, r.Reason, r.Cause = retry, schema.Deferred, schema.CauseBreaker }),
				record(1, 10*time.Second, 11*time.Second, schema.Succeeded, nil),
			}},
			map[string]any{
				"started_at": clock(10 * time.Second), "finished_at": clock(11 * time.Second), "lateness_ms": 10_000.0,
				"waited":   map[string]any{"since": clock(time.Second), "reason": "rate: the rate of its task is used up until then"},
				"attempts": []any{shown(1, 10*time.Second, 11*time.Second, "succeeded")},
			},
		},
		"looked after": {
			runs.Run{State: schema.StatePending, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.To = retry }),
			}},
			map[string]any{},
		},
		"put off, and over": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, 0, schema.Replaced, func(r *schema.Record) { r.To, r.Reason = retry, schema.Deferred }),
				record(1, 10*time.Second, 11*time.Second, schema.Succeeded, nil),
			}},
			map[string]any{
				"started_at": clock(10 * time.Second), "finished_at": clock(11 * time.Second), "lateness_ms": 10_000.0,
				"attempts": []any{shown(1, 10*time.Second, 11*time.Second, "succeeded")},
			},
		},
		"published ahead, and received": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(1, 10*time.Millisecond, time.Second, schema.Succeeded, func(r *schema.Record) { r.PublishedMillis, r.ReceivedMillis = 60, 4 }),
			}},
			map[string]any{
				"started_at": clock(10 * time.Millisecond), "finished_at": clock(time.Second), "lateness_ms": 10.0,
				"attempts": []any{map[string]any{
					"number": 1.0, "executor": "e1", "published_at": clock(-50 * time.Millisecond), "received_at": clock(6 * time.Millisecond),
					"started_at": clock(10 * time.Millisecond), "finished_at": clock(time.Second), "outcome": "succeeded",
				}},
			},
		},
		"pending, held back by a limit": {
			runs.Run{State: schema.StatePending, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.Reason = "concurrency: a run of the job was under way" }),
			}},
			map[string]any{"waiting": map[string]any{"since": clock(time.Second), "reason": "concurrency: a run of the job was under way"}},
		},
		"cancelled to make room": {
			runs.Run{State: schema.StateCancelled, Entry: roomy, Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Replaced, func(r *schema.Record) { r.Reason = "concurrency: a run of the job was under way" }),
			}},
			map[string]any{"finished_at": clock(-time.Second), "cancel_reason": "cancel_oldest: later runs of the job were due"},
		},
		"running": {
			runs.Run{State: schema.StateRunning, Entry: entry(id, spec), Attempts: []schema.Attempt{
				{Run: id, Number: 1, Session: &schema.SessionRef{Executor: "e1", Started: at(3 * time.Millisecond)}},
			}},
			map[string]any{"started_at": clock(3 * time.Millisecond), "lateness_ms": 3.0, "attempts": []any{
				map[string]any{"number": 1.0, "executor": "e1", "started_at": clock(3 * time.Millisecond)},
			}},
		},
		"on the dot": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, spec), Attempts: []schema.Attempt{record(1, 0, time.Second, schema.Succeeded, nil)}},
			map[string]any{"started_at": clock(0), "finished_at": clock(time.Second), "lateness_ms": 0.0, "attempts": []any{shown(1, 0, time.Second, "succeeded")}},
		},
		"late counts from acceptance": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, behind), Attempts: []schema.Attempt{record(1, 30*time.Second+5*time.Millisecond, time.Minute, schema.Succeeded, nil)}},
			map[string]any{"started_at": clock(30*time.Second + 5*time.Millisecond), "finished_at": clock(time.Minute), "lateness_ms": 5.0, "attempts": []any{shown(1, 30*time.Second+5*time.Millisecond, time.Minute, "succeeded")}},
		},
		"retrying": {
			runs.Run{State: schema.StateRetrying, Entry: entry(id, spec), Attempts: []schema.Attempt{record(1, 0, time.Second, schema.Failed, func(r *schema.Record) { r.Next, r.Error, r.Status, r.Redispatched = retry, "boom", 500, true })}},
			map[string]any{"started_at": clock(0), "lateness_ms": 0.0, "next_attempt_at": clock(10 * time.Second), "error": "boom", "attempts": []any{
				map[string]any{"number": 1.0, "executor": "e1", "started_at": clock(0), "finished_at": clock(time.Second), "outcome": "failed", "error": "boom", "status_code": 500.0, "redispatched": true},
			}},
		},
		"failed": {
			runs.Run{State: schema.StateFailed, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(1, 0, time.Second, schema.Failed, func(r *schema.Record) { r.Next = retry }),
				record(2, 10*time.Second, 11*time.Second, schema.TimedOut, func(r *schema.Record) { r.Final = true }),
			}},
			map[string]any{"dead_letter": true, "started_at": clock(0), "finished_at": clock(11 * time.Second), "lateness_ms": 0.0, "attempts": []any{
				shown(1, 0, time.Second, "failed"), shown(2, 10*time.Second, 11*time.Second, "timed_out"),
			}},
		},
		"failed, as its retry could not be written": {
			runs.Run{State: schema.StateFailed, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Second, schema.Failed, func(r *schema.Record) { r.Final, r.Error = true, "too large" }),
				record(1, 0, time.Second, schema.Failed, func(r *schema.Record) { r.Next, r.Error = retry, "boom" }),
			}},
			map[string]any{"dead_letter": true, "started_at": clock(0), "finished_at": clock(time.Second), "lateness_ms": 0.0, "error": "boom; too large", "attempts": []any{
				map[string]any{"number": 1.0, "executor": "e1", "started_at": clock(0), "finished_at": clock(time.Second), "outcome": "failed", "error": "boom; too large"},
			}},
		},
		"cancelled by its mark": {
			runs.Run{State: schema.StateCancelled, Entry: cancelled}, map[string]any{"finished_at": clock(-time.Second)},
		},
		"missed": {
			runs.Run{State: schema.StateMissed, Entry: entry(id, spec), Attempts: []schema.Attempt{record(0, 0, time.Hour, schema.Missed, func(r *schema.Record) { r.Reason = "deadline" })}},
			map[string]any{"finished_at": clock(time.Hour), "missed": map[string]any{"from": clock(0), "to": clock(0), "count": 1.0, "reason": "deadline"}},
		},
		"missed, for a stretch": {
			runs.Run{State: schema.StateMissed, Entry: entry(id, spec), Attempts: []schema.Attempt{record(0, 0, time.Hour, schema.Missed, func(r *schema.Record) {
				r.Reason, r.Missed = "skip", &schema.Stretch{From: at(0), To: at(time.Hour), Count: 10, Reason: "skip"}
			})}},
			map[string]any{"finished_at": clock(time.Hour), "missed": map[string]any{"from": clock(0), "to": clock(time.Hour), "count": 10.0, "reason": "skip"}},
		},
		"missed, for a stretch, by a step that was taken twice": {
			runs.Run{State: schema.StateMissed, Entry: entry(id, spec), Attempts: []schema.Attempt{
				record(0, 0, time.Hour, schema.Missed, func(r *schema.Record) {
					r.Reason, r.Missed = "deadline", &schema.Stretch{From: at(0), To: at(time.Hour), Count: 10, Reason: "deadline"}
				}),
				record(0, 0, time.Hour-10*time.Second, schema.Missed, func(r *schema.Record) {
					r.Reason, r.Missed = "deadline", &schema.Stretch{From: at(0), To: at(time.Hour - time.Minute), Count: 9, Reason: "deadline"}
				}),
			}},
			map[string]any{"finished_at": clock(time.Hour), "missed": map[string]any{"from": clock(0), "to": clock(time.Hour), "count": 10.0, "reason": "deadline"}},
		},
		"handed on": {
			runs.Run{State: schema.StatePending, Entry: entry(id, spec), Attempts: []schema.Attempt{record(0, 0, time.Hour, schema.Replaced, func(r *schema.Record) { r.To = retry })}},
			map[string]any{},
		},
		"moved": {
			runs.Run{State: schema.StateSucceeded, Entry: entry(id, spec), Current: entry(moved, rescheduled), Attempts: []schema.Attempt{record(1, time.Hour+2*time.Millisecond, time.Hour+time.Second, schema.Succeeded, nil)}},
			map[string]any{
				"nominal_at": clock(time.Hour), "due_at": clock(time.Hour), "started_at": clock(time.Hour + 2*time.Millisecond), "finished_at": clock(time.Hour + time.Second),
				"lateness_ms": 2.0, "attempts": []any{shown(1, time.Hour+2*time.Millisecond, time.Hour+time.Second, "succeeded")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			row.run.ID = id
			want := map[string]any{
				"id": id.String(), "job_id": id.String(), "tenant": "acme", "task": "t", "state": string(row.run.State), "priority": "normal",
				"nominal_at": clock(0), "due_at": clock(0), "trigger": "schedule", "attempts": []any{},
			}
			for k, v := range row.want {
				want[k] = v
			}
			text, err := json.Marshal(runOf(&row.run, nil, at(0)))
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("runOf (-want +got):\n%s", diff)
			}
			var word string // by which it is counted
			if w, ok := row.want["waiting"].(map[string]any); ok && !row.run.State.Terminal() {
				word, _, _ = strings.Cut(w["reason"].(string), ":")
			}
			if what := row.run.WaitsFor(at(0)); what != word {
				t.Errorf("WaitsFor = %q, want %q, as waiting says", what, word)
			}
		})
	}
}

// TestARunWhoseTimeOfTheRateHasCome waits for a slot, and no longer for the rate.
func TestARunWhoseTimeOfTheRateHasCome(t *testing.T) {
	id := schema.MakeEntryID(testNow, 3, 7)
	run := runs.Run{ID: id, State: schema.StatePending, Entry: schema.Entry{ID: id}, Attempts: []schema.Attempt{{Run: id, Record: &schema.Record{
		Entry: id, Finished: testNow, Outcome: schema.Replaced, Reason: schema.Deferred, Cause: schema.CauseRate, To: schema.MakeEntryID(testNow.Add(time.Second), 3, 8),
	}}}}
	for after, word := range map[time.Duration]string{0: "rate", time.Second: "rate", time.Second + time.Millisecond: "slot"} {
		shown := runOf(&run, nil, testNow.Add(after))
		if got, _, _ := strings.Cut(shown.Waiting.Reason, ":"); got != word || shown.DeferredUntil.IsZero() != (after >= time.Second) {
			t.Errorf("after %s it waits for %q, until %s; want %s, and no instant that is past", after, shown.Waiting.Reason, shown.DeferredUntil, word)
		}
	}
}

func TestTimesAreUTCWithMilliseconds(t *testing.T) {
	for want, at := range map[string]time.Time{
		`"2026-11-21T09:30:00.000Z"`: testNow.In(time.FixedZone("", 3600)),
		`"2026-11-21T09:30:00.123Z"`: testNow.Add(123*time.Millisecond + 999*time.Microsecond),
	} {
		if got, err := json.Marshal(Time{at}); err != nil || string(got) != want {
			t.Errorf("Time %s = %s, %v; want %s", at, got, err, want)
		}
	}
	var back Time
	if err := json.Unmarshal([]byte(`"2026-11-21T10:30:00+01:00"`), &back); err != nil || !back.Equal(testNow) {
		t.Errorf("a time read = %s, %v; want %s", back, err, testNow)
	}
	if err := json.Unmarshal([]byte(`"noon"`), &back); err == nil {
		t.Error("noon is read as a time")
	}
}

package runs

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestWhatARunWaitsFor: what holds it back now, in one word, and not what did before.
func TestWhatARunWaitsFor(t *testing.T) {
	id := schema.MakeEntryID(testNow, 3, 1)
	in := func(d time.Duration) schema.EntryID { return schema.MakeEntryID(testNow.Add(d), 3, 2) }
	says := func(number int, rec schema.Record) schema.Attempt {
		rec.Entry = id
		return schema.Attempt{Run: id, Number: number, Record: &rec}
	}
	put := func(cause schema.Cause, until time.Duration) schema.Attempt {
		return says(0, schema.Record{Outcome: schema.Replaced, Reason: schema.Deferred, Cause: cause, To: in(until)})
	}
	held := says(0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job was under way", Finished: testNow})
	failed := says(1, schema.Record{Outcome: schema.Failed, Next: in(time.Minute), Started: testNow, Finished: testNow})
	for name, c := range map[string]struct {
		state    schema.State
		kind     schema.Kind
		attempts []schema.Attempt
		want     string
		after    time.Duration
	}{
		"nothing":                         {schema.StatePending, "", nil, "", 0},
		"the rate":                        {schema.StatePending, "", []schema.Attempt{put(schema.CauseRate, time.Second)}, "rate", 0},
		"the rate, whose time is now":     {schema.StatePending, "", []schema.Attempt{put(schema.CauseRate, time.Second)}, "rate", time.Second},
		"a slot after the rate":           {schema.StatePending, "", []schema.Attempt{put(schema.CauseRate, time.Second)}, "slot", 2 * time.Second},
		"a breaker that was tried again":  {schema.StatePending, "", []schema.Attempt{put(schema.CauseBreaker, time.Second)}, "breaker", 2 * time.Second},
		"the last of two":                 {schema.StatePending, "", []schema.Attempt{put(schema.CauseBreaker, 2*time.Second), put(schema.CauseRate, time.Second)}, "breaker", 0},
		"a deferral of an older version":  {schema.StatePending, "", []schema.Attempt{put("", time.Second)}, "", 0},
		"a limit":                         {schema.StatePending, "", []schema.Attempt{held}, "concurrency", 0},
		"a limit, then the rate":          {schema.StatePending, "", []schema.Attempt{held, put(schema.CauseRate, time.Second)}, "rate", 0},
		"a retry":                         {schema.StateRetrying, "", []schema.Attempt{failed}, "", 0},
		"a retry that is put off":         {schema.StateRetrying, "", []schema.Attempt{failed, put(schema.CauseQuota, 2*time.Minute)}, "quota", 0},
		"a retry after a start put off":   {schema.StateRetrying, "", []schema.Attempt{put(schema.CauseQuota, time.Second), failed}, "", 0},
		"other jobs":                      {schema.StatePending, schema.KindJoin, nil, "jobs", 0},
		"other jobs, and it was given up": {schema.StateCancelled, schema.KindJoin, nil, "", 0},
		"under way after it waited":       {schema.StateRunning, "", []schema.Attempt{put(schema.CauseRate, time.Second)}, "", 0},
		"cancelled while it waited":       {schema.StateCancelled, "", []schema.Attempt{put(schema.CauseRate, time.Second)}, "", 0},
	} {
		r := Run{ID: id, State: c.state, Attempts: c.attempts, Entry: schema.Entry{ID: id, Spec: schema.Spec{Kind: c.kind, Join: new(schema.Join)}}}
		if got := r.WaitsFor(testNow.Add(c.after)); got != c.want {
			t.Errorf("%s: WaitsFor = %q, want %q", name, got, c.want)
		}
	}
	tomorrow := schema.Entry{ID: schema.MakeEntryID(testNow.Add(24*time.Hour), 3, 2)}
	for _, before := range []schema.Attempt{put(schema.CauseRate, time.Second), held} {
		r := Run{ID: id, State: schema.StatePending, Attempts: []schema.Attempt{before}, Entry: schema.Entry{ID: id}, Current: tomorrow}
		if got := r.WaitsFor(testNow); got != "" {
			t.Errorf("moved to tomorrow: WaitsFor = %q, want what held it back before forgotten", got)
		}
	}
}

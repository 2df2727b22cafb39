package schema_test

import (
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// An id says where its row lies: nothing has to be looked up.
func ExampleMakeEntryID() {
	due := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	id := schema.MakeEntryID(due, 7, schema.HashOf("tenant", "key"))

	parsed, err := schema.ParseEntryID(id.String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(parsed.Time(), parsed.Shard(), parsed.Partition())
	// Output: 2026-11-21 09:30:00 +0000 UTC 7 29920890/7
}

// The ids of a slice of time in one partition lie between two that are easily made.
func ExampleIDRange() {
	at := func(s int) time.Time { return time.Date(2026, 11, 21, 9, 30, s, 0, time.UTC) }
	slice := schema.IDRange{After: schema.LastID(at(9).Add(999*time.Millisecond), 7), Before: schema.FirstID(at(20), 7)}
	for _, s := range []int{9, 10, 19, 20} {
		fmt.Println(s, slice.Contains(schema.MakeEntryID(at(s), 7, schema.RandomHash())))
	}
	// Output:
	// 9 false
	// 10 true
	// 19 true
	// 20 false
}

// An entry is written, sent and read as its text.
func ExampleNewEntry() {
	due := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	id := schema.MakeEntryID(due, 7, 1)
	e, err := schema.NewEntry(id, schema.Spec{
		Tenant: "acme", Nominal: due, Accepted: due.Add(-time.Hour).UnixMicro(), Task: "send-email",
	}, []byte(`{"to":"you"}`), due.Add(7*24*time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(e.Text()))
	same := schema.LoadEntry(id, e.Text(), e.Payload, schema.Marks{})
	fmt.Println(same.Spec.Task, same.Run() == id)
	// Output:
	// {"tenant":"acme","nominal":"2026-11-21T09:30:00Z","accepted":1795249800000000,"task":"send-email","payload_size":12}
	// send-email true
}

// The state of a run follows from its rows.
func ExampleFold() {
	failed := schema.Attempt{Number: 1, Record: &schema.Record{
		Outcome: schema.Failed, Next: schema.MakeEntryID(time.Unix(1, 0), 0, 0),
	}}
	second := schema.Attempt{Number: 2, Session: &schema.SessionRef{Executor: "executor-1", ID: "s"}}
	everybodyLives := func(schema.SessionRef) bool { return true }
	nobodyLives := func(schema.SessionRef) bool { return false }

	fmt.Println(schema.Fold(schema.Marks{}, nil, nobodyLives))
	fmt.Println(schema.Fold(schema.Marks{}, []schema.Attempt{failed}, nobodyLives))
	fmt.Println(schema.Fold(schema.Marks{}, []schema.Attempt{failed, second}, everybodyLives))
	second.Record = &schema.Record{Outcome: schema.Succeeded}
	fmt.Println(schema.Fold(schema.Marks{}, []schema.Attempt{failed, second}, nobodyLives))
	// Output:
	// pending
	// retrying
	// running
	// succeeded
}

// A row holds only what was stated; the rest has defaults.
func ExampleWork_InForce() {
	w := schema.Work{HTTP: &schema.HTTPTarget{URL: "https://example.com/hook"}, Retry: &schema.Retry{MaxAttempts: 3}}.InForce()
	fmt.Println(w.HTTP.Method, w.Timeout, w.Guarantee)
	fmt.Println(w.Retry.MaxAttempts, w.Retry.Initial, w.Retry.Factor, w.Retry.Max, w.Retry.Jitter)
	// Output:
	// POST 30s at_least_once
	// 3 1s 2 10m0s full
}

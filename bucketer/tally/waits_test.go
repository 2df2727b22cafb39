package tally

import (
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// deferred returns an entry that stands in for the run that was due at due, and is tried at until.
func deferred(tenant, task, job string, due, until time.Time) schema.Entry {
	return schema.Entry{
		ID:   schema.MakeEntryID(until, 1, 7),
		Spec: schema.Spec{Tenant: tenant, Task: task, JobName: job, Kind: schema.KindDeferral, For: schema.MakeEntryID(due, 1, 3)},
	}
}

func TestDeferredRunsWaitUntilTheyAreTried(t *testing.T) {
	begin := time.UnixMilli(1_800_000_000_000).UTC()
	now := begin
	w := NewWaits(func() time.Time { return now })
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	w.Deferred([]schema.Entry{
		deferred("a", "mail", "nightly", at(-280), at(5)), deferred("a", "mail", "hourly", at(-3), at(20)), deferred("a", "mail", "", at(-400), at(-1)), // the last is tried already
	}, schema.CauseRate)
	w.Deferred([]schema.Entry{deferred("b", "", "sync", at(-7), at(9))}, schema.CauseBreaker)
	mail := Wait{Tenant: "a", Task: "mail", Reason: "rate", Runs: 2, Oldest: at(-280)}
	sync := Wait{Tenant: "b", Job: "sync", Reason: "breaker", Runs: 1, Oldest: at(-7)}
	check := func(want ...Wait) {
		t.Helper()
		if got := w.All(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v after the begin: All = %+v\nwant %+v", now.Sub(begin), got, want)
		}
	}
	check(mail, sync)
	now = at(7)
	mail.Runs, mail.Oldest = 1, at(-3)
	check(sync, mail)
	now = at(21)
	check()
}

func TestWaitListsAreToldOfWhileSomebodyLooksAtThem(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	w := NewWaits(func() time.Time { return now })
	limit, other := schema.JobLimit(jobOf(1)), schema.JobLimit(jobOf(2))
	spec := &schema.Spec{Tenant: "a", JobName: "report"}
	w.Held(limit, spec, 100, true, now.Add(-time.Minute))
	w.Held(other, spec, 2, false, now)
	w.Held(other, nil, 0, false, time.Time{})
	want := Wait{Tenant: "a", Job: "report", Reason: Held, Runs: 100, More: true, Oldest: now.Add(-time.Minute)}
	if got := w.All(); len(got) != 1 || got[0] != want {
		t.Errorf("All = %+v, want %+v", got, want)
	}
	now = now.Add(heldFor + time.Millisecond)
	if got := w.All(); len(got) != 0 || len(w.held) != 0 {
		t.Errorf("All = %+v long after, want nothing", got)
	}
	var none *Waits
	none.Held(limit, spec, 1, false, now)
	none.Deferred([]schema.Entry{deferred("a", "", "", now, now)}, schema.CauseRate)
	if got := none.All(); got != nil {
		t.Errorf("All of nobody = %+v", got)
	}
}

func TestWaitsAreBounded(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	w := NewWaits(func() time.Time { return now })
	until := now.Add(time.Second)
	for i := range 3 * waitNames {
		w.Deferred([]schema.Entry{deferred("a", fmt.Sprint("task-", i), "", now, until)}, schema.CauseRate)
		w.Held(schema.JobLimit(jobOf(i)), &schema.Spec{Tenant: "a"}, 1, false, now)
	}
	if len(w.deferred) > waitNames+1 || len(w.held) > waitNames {
		t.Errorf("%d names and %d lists are counted, want at most %d", len(w.deferred), len(w.held), waitNames)
	}
	if got := w.All()[0]; got.Runs != 2*waitNames || got.Tenant != "" || got.Task != "" {
		t.Errorf("All = %+v at first, want those without a name", got)
	}
	for i := range 10 * triesMost { // each is tried before the next
		now = now.Add(time.Second)
		w.Deferred([]schema.Entry{deferred("a", "task-0", "", now, now.Add(time.Second))}, schema.CauseRate)
		if n := len(w.deferred[waitName{"a", "task-0", "", "rate"}]); n > triesMost+1 {
			t.Fatalf("%d instants are kept after %d deferrals", n, i)
		}
	}
}

package check_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A one-off run that was called and answered, and is recorded as missed by its policy.
func TestAMissedRunThatWasCalled(t *testing.T) {
	rows := []struct {
		name  string
		forge func(*world)
		ok    bool
	}{
		{name: "and answered 200", forge: func(*world) {}},
		{name: "and answered 500", forge: func(w *world) { w.sighting(onTime).Status = 500 }},
		{name: "and its attempt is recorded as failed", forge: func(w *world) {
			w.sighting(onTime).Status = 500
			w.both(onTime, func(r *check.Run) { r.Attempts = []check.Attempt{attempt(1, 10_004, 10_007, "failed")} })
		}},
		{name: "and its attempt is recorded as lost", forge: func(w *world) {
			w.both(onTime, func(r *check.Run) { r.Attempts = []check.Attempt{attempt(1, 10_004, 20_000, check.OutcomeLost)} })
		}, ok: true},
		{name: "and its executor was killed", forge: func(w *world) { w.Kills = []check.Kill{{At: at(10_100)}} }, ok: true},
		{name: "and it has succeeded since", forge: func(w *world) {
			second := &w.obs(onTime).Second.Run
			second.State, second.Attempts = check.Succeeded, []check.Attempt{attempt(1, 10_004, 10_006, "succeeded")}
		}, ok: true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			w.ask(onTime).Misfire = check.Misfire{Policy: "skip"}
			w.unobserve(onTime)
			w.observe(onTime, check.Missed)
			row.forge(w)
			rep := judge(t, w.History)
			if rep.Failed() == row.ok || (rep.Unrecorded == 0) != row.ok {
				t.Errorf("Failed = %t, calls without a record %d, want %t: %+v", rep.Failed(), rep.Unrecorded, !row.ok, rep.Faults)
			}
		})
	}
}

// A run that is recorded as missed was never called, unless its executor died before the store
// knew.
func TestAMissedRunOfAJobThatWasCalled(t *testing.T) {
	const (
		due  = 60_000
		late = 100_000 // by then it could not start any more
	)
	rows := []struct {
		name  string
		forge func(*recurringWorld)
		ok    bool
	}{
		{name: "and answered", forge: func(*recurringWorld) {}},
		{name: "and its caller went away", forge: func(w *recurringWorld) {
			c := w.call(deadlined, due)
			c.Status, c.Gone = 0, c.At.Add(time.Millisecond)
		}, ok: true},
		{name: "and its caller went away, and recorded that", forge: func(w *recurringWorld) {
			c := w.call(deadlined, due)
			c.Status, c.Gone = 0, c.At.Add(time.Millisecond)
			w.both(deadlined, due, func(r *check.JobRun) {
				r.Attempts = []check.Attempt{attempt(1, 60_001, 60_004, check.OutcomeTimedOut)}
			})
		}},
		{name: "and a node was killed a moment later", forge: func(w *recurringWorld) {
			w.Kills = []check.Kill{{At: at(60_005)}}
		}, ok: true},
		{name: "and a node had been killed", forge: func(w *recurringWorld) { w.Kills = []check.Kill{{At: at(60_002)}} }},
		{name: "and a node was killed long after", forge: func(w *recurringWorld) {
			w.Kills = []check.Kill{{At: at(90_005)}}
		}},
		{name: "and every node was killed a moment later", forge: func(w *recurringWorld) {
			w.Stops = append(w.Stops, check.Stop{From: at(60_005), To: at(60_006)})
		}, ok: true},
		{name: "and its caller was killed, however long after", forge: func(w *recurringWorld) {
			w.call(deadlined, due).Caller = "n1, life 1"
			w.Kills = []check.Kill{{At: at(95_000), Caller: "n1, life 1"}}
		}, ok: true},
		{name: "and another was killed than its caller", forge: func(w *recurringWorld) {
			w.call(deadlined, due).Caller = "n1, life 1"
			w.Kills = []check.Kill{{At: at(60_005), Caller: "n1, life 2"}}
		}},
		{name: "under a claim, which its death leaves behind", forge: func(w *recurringWorld) {
			w.guarantee(deadlined, check.AtMostOnce)
			w.Kills = []check.Kill{{At: at(60_005)}}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := cleanRecurring()
			w.forget(deadlined, due)
			w.gone(deadlined, due, 1, late, "deadline: it could not start within 40s")
			w.arrive(deadlined, due, 1, 60_003)
			row.forge(w)
			rep := judgeRecurring(t, w.RecurringHistory)
			if rep.Failed() == row.ok || (rep.Unrecorded == 0) != row.ok {
				t.Errorf("Failed = %t, calls without a record %d, want %t: %+v", rep.Failed(), rep.Unrecorded, !row.ok, rep.Faults)
			}
		})
	}
}

package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// A run of a task with a rate that comes too late for its start asks for another one: what waited
// somewhere would start all at once otherwise.
func TestALateRunOfATaskWithARateAsksAgain(t *testing.T) {
	for _, row := range []struct {
		name, rate string
		late       time.Duration
		starts     bool
	}{
		{"in time", "10/s", schema.ReservationLife - 200*time.Millisecond, true},
		{"too late", "10/s", schema.ReservationLife + 200*time.Millisecond, false},
		{"late, without rate", "", schema.ReservationLife + 200*time.Millisecond, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.begin("e-1")
				task := schema.Task{Tenant: "t", Name: "a", Rate: row.rate, Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}, UpdatedAt: time.Now()}
				if err := w.inner.PutTask(t.Context(), task); err != nil {
					t.Fatal(err)
				}
				due := inAWhile(time.Second)
				e := w.entry(due, func(s *schema.Spec) { s.Work, s.Task, s.ReservedRate = nil, "a", row.rate })
				time.Sleep(time.Until(due) + row.late)
				now := time.Now()
				w.publish(e, now)
				time.Sleep(time.Second)
				if row.starts {
					if n := len(w.started()); n != 1 {
						t.Errorf("%d starts, want 1", n)
					}
					return
				}
				all := w.deferrals(e)
				if len(w.started()) != 0 || len(all) != 1 || all[0].Spec.ReservedRate != "" || all[0].Spec.Deferrals != 0 || all[0].Spec.For != e.ID || all[0].Spec.AttemptNumber() != 1 {
					t.Fatalf("%d starts, entries that stand in: %+v; want none, and one that asks for a start", len(w.started()), all)
				}
				if wait := all[0].Due().Sub(now); wait < 0 || wait > 100*time.Millisecond {
					t.Errorf("it asks after %s, want at once", wait)
				}
				w.want("asks again", "entry deferral, record 0 handed_on, notice, ack")
				if got := w.state(e.Run()); got != schema.StatePending {
					t.Errorf("the run is %s, want pending", got)
				}
			})
		})
	}
}

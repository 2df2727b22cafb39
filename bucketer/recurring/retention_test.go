package recurring

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestTheShorterRetentionStands: two nodes plan an occurrence, and know different retentions of its
// tenant. Whichever writes last, the row with the shorter one stands, and leaves when it says. Else
// a row could outlive the attempts of its run, and start it again when a cursor was set back.
func TestTheShorterRetentionStands(t *testing.T) {
	for name, days := range map[string][]int{"the longer one last": {1, 3, 0}, "the shorter one last": {0, 3, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, schema.Settings{Shards: 1})
				job := w.job(every(time.Hour))
				s, err := w.series.of(job.ID, &job.Current)
				if err != nil {
					t.Fatal(err)
				}
				nominal, _ := s.Next(job.Current.Spec.Created.Add(time.Hour))
				var id schema.RunID
				for _, n := range days {
					w.Retain("t", n, w)
					e, err := w.occurrence(s, nominal, time.Now())
					if err != nil {
						t.Fatal(err)
					}
					if id = e.ID; n == 0 && e.Spec.Accepted != job.Current.Number {
						t.Errorf("an occurrence without a retention is accepted at %d, want the generation's number %d", e.Spec.Accepted, job.Current.Number)
					}
					if err := w.WriteAll(t.Context(), []schema.Entry{e}); err != nil {
						t.Fatal(err)
					}
				}
				row, there := w.Row(id)
				if !there || row.Spec.Retention != 1 {
					t.Errorf("the row says %d days, there: %v; want 1", row.Spec.Retention, there)
				}
				time.Sleep(time.Until(id.Time().Add(24*time.Hour - time.Second)))
				_, before := w.Row(id)
				time.Sleep(2 * time.Second)
				if _, after := w.Row(id); !before || after {
					t.Errorf("the row is there %v just before its retention is over, %v just after; want true, false", before, after)
				}
			})
		})
	}
}

// TestWhatAJobGoesOnByStays: the line of history that says how a run ended stays for the cluster's
// retention: pause_after counts in it, and a job without a next run goes on from it.
func TestWhatAJobGoesOnByStays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Retain("t", 1, w)
		job := w.job(every(time.Hour))
		e := w.occurrences(job.ID, 2*time.Hour)[0]
		time.Sleep(time.Until(e.Due()))
		rec := schema.Record{Outcome: schema.Failed, Final: true, Error: "no"}
		a := w.Recorded(e, 1, rec)
		a.Expires = w.ExpiryOf(&e.Spec, e.Due(), time.Now())
		w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) {
			if err != nil {
				t.Errorf("FollowUp = %v", err)
			}
		})
		time.Sleep(6 * 24 * time.Hour) // the cluster's is 7 days
		lines, err := w.Counts.JobRuns(t.Context(), job.ID, schema.PeriodOf(e.Due()), schema.RunID{}, 10)
		if err != nil || len(lines) != 1 || lines[0].State != schema.StateFailed {
			t.Errorf("after 6 days the history has %+v, %v; want that the run failed", lines, err)
		}
		if _, there := w.Row(e.ID); there {
			t.Error("after 6 days the entry is there, want it gone after one")
		}
	})
}

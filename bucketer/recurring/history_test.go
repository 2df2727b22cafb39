package recurring

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// TestCancelledRunsAreInTheHistory: that a run of a job was cancelled leaves a line also where
// nobody records anything any more; while it goes on it is shown as running.
func TestCancelledRunsAreInTheHistory(t *testing.T) {
	retry := schema.MakeEntryID(time.Now().Add(time.Hour), 1, 1)
	rows := []struct {
		name   string
		before func(w *world, e schema.Entry)
		after  func(w *world, e schema.Entry)
		want   schema.State
	}{
		{name: "pending", want: schema.StateCancelled},
		{name: "waiting for a slot, or put off", before: func(w *world, e schema.Entry) {
			w.Recorded(e, 0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job was under way"})
		}, want: schema.StateCancelled},
		{name: "waiting for its next attempt", before: func(w *world, e schema.Entry) {
			w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: retry})
		}, want: schema.StateCancelled},
		{name: "under way", before: func(w *world, e schema.Entry) { w.Running(e, 1) }, want: schema.StateRunning},
		{name: "under way, and then its executor dies", before: func(w *world, e schema.Entry) { w.Running(e, 1) }, after: func(w *world, _ schema.Entry) {
			s, err := w.Counts.Session(w.T.Context(), "x")
			if err == nil {
				err = w.Counts.SwapSession(w.T.Context(), s, schema.Session{Executor: "x"})
			}
			if err != nil {
				w.T.Fatalf("end the session: %v", err)
			}
			time.Sleep(2 * time.Second) // what is known of a session is believed for a second
		}, want: schema.StateCancelled},
		{name: "under way, and then it succeeds", before: func(w *world, e schema.Entry) { w.Running(e, 1) }, after: func(w *world, e schema.Entry) {
			w.Recorded(e, 1, schema.Record{Outcome: schema.Succeeded})
		}, want: schema.StateSucceeded},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.job(every(time.Hour))
				r, err := w.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
				if err != nil {
					t.Fatal(err)
				}
				e, _ := w.Row(r.Run)
				if row.before != nil {
					row.before(w, e)
				}
				for range 2 {
					if _, err := w.Cancel(t.Context(), "t", r.Run, "me"); err != nil {
						t.Fatalf("Cancel = %v", err)
					}
				}
				if row.after != nil {
					row.after(w, e)
				}
				got, _, err := w.JobRuns(t.Context(), "t", job.ID, JobRunFilter{To: e.Due().Add(time.Second)}, runs.Position{}, 10)
				if err != nil || len(got) != 1 || got[0].ID != r.Run || got[0].State != row.want {
					t.Errorf("JobRuns = %+v, %v, want the run, %q", got, err, row.want)
				}
			})
		})
	}
}

func TestPayloadsOfRecurringJobsFitTheirTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.asks("n", wantsN)
		spec := named(every(time.Hour), "a")
		spec.Task, spec.Work = "n", nil
		bad := spec
		bad.Payload = []byte(wordy)
		_, _, err := w.CreateJob(ctx, bad, "", "")
		unfit(t, "CreateJob", err, badN)
		job := w.job(spec)
		_, _, err = w.PutJob(ctx, "t", "a", 0, bad)
		unfit(t, "PutJob", err, badN)
		_, err = w.ChangeJob(ctx, "t", job.ID, 0, func(s *schema.JobSpec) error { s.Payload = nil; return nil })
		unfit(t, "ChangeJob", err, nullN)

		w.asks("n", `{"type":"null"}`)
		w.asks("m", wantsN)
		if _, err = w.ChangeJob(ctx, "t", job.ID, 0, func(s *schema.JobSpec) error { s.Labels = nil; return nil }); err != nil {
			t.Errorf("ChangeJob of labels = %v, want the payload left alone", err)
		}
		_, err = w.TriggerJob(ctx, "t", job.ID, nil, "", "")
		unfit(t, "TriggerJob", err, "body.payload must be null, is object")
		if _, err = w.ChangeJob(ctx, "t", job.ID, 0, func(s *schema.JobSpec) error { s.Task = "m"; return nil }); err != nil {
			t.Errorf("ChangeJob to a task that it fits = %v", err)
		}
		if _, err = w.TriggerJob(ctx, "t", job.ID, nil, "", ""); err != nil {
			t.Errorf("TriggerJob = %v", err)
		}
		if err := w.Counts.DeleteTask(ctx, "t", "m", time.Now().UTC()); err != nil {
			t.Fatal(err)
		}
		w.TaskCache().Changed([]byte("t\nm"))
		if _, err = w.TriggerJob(ctx, "t", job.ID, nil, "", ""); err != nil {
			t.Errorf("TriggerJob of a job whose task is gone = %v, want a run that will say so", err)
		}
	})
}

// TestHistoryPrefersAsTheFoldDoes: whatever is written last.
func TestHistoryPrefersAsTheFoldDoes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		e := w.occurrences(job.ID, 3*time.Minute)[0]
		follow := func(number int, rec schema.Record) {
			w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: w.Recorded(e, number, rec)}}, func(_ int, err error) {
				if err != nil {
					t.Errorf("FollowUp = %v", err)
				}
			})
		}
		for _, c := range []struct {
			number int
			rec    schema.Record
			want   schema.State
		}{
			// not final: no line of its own
			{1, schema.Record{Outcome: schema.Failed}, schema.StatePending},
			{0, schema.Record{Outcome: schema.Missed, Reason: "x"}, schema.StateMissed},
			{2, schema.Record{Outcome: schema.Failed, Final: true}, schema.StateFailed},
			{3, schema.Record{Outcome: schema.Succeeded}, schema.StateSucceeded},
			{4, schema.Record{Outcome: schema.Failed, Final: true}, schema.StateSucceeded},
			{5, schema.Record{Outcome: schema.Cancelled}, schema.StateSucceeded},
		} {
			follow(c.number, c.rec)
			lines, err := w.Counts.JobRuns(t.Context(), job.ID, schema.PeriodOf(e.Due()), schema.RunID{}, 10)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(lines) != 1 || lines[0].State != c.want:
				t.Errorf("after attempt %d %s: %+v, want one line: %q", c.number, c.rec.Outcome, lines, c.want)
			}
			time.Sleep(time.Second)
		}
	})
}

package recurring

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestAJobPausesWhenItsRunsFail: so many in a row, since its last change.
func TestAJobPausesWhenItsRunsFail(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = w.jobs.Watch(ctx) }()
		var down atomic.Int32 // so many commits fail
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "SwapJob" && down.Load() > 0 {
				down.Add(-1)
				return schematest.Fault{Fail: true}
			}
			return schematest.Fault{}
		})
		spec := every(time.Minute)
		spec.PauseAfter = 3
		job := w.job(spec)
		end := func(states ...schema.State) {
			t.Helper()
			for _, state := range states {
				time.Sleep(time.Minute)
				run := schema.MakeEntryID(time.Now(), job.ID.Shard(), schema.RandomHash())
				line := schema.JobRun{Job: job.ID, Run: run, State: state, Nominal: run.Time(), Written: time.Now().UnixMicro(), Expires: time.Now().Add(time.Hour)}
				if err := w.Counts.PutJobRuns(t.Context(), []schema.JobRun{line}); err != nil {
					t.Fatal(err)
				}
				if state == schema.StateFailed {
					w.NoteFailure("t", job.ID)
				}
				time.Sleep(20 * time.Second)
			}
		}
		is := func(when string, want schema.JobState, because string) {
			t.Helper()
			got := w.stored(job.ID).Current
			if got.State != want || !strings.HasPrefix(got.Spec.PausedBecause, because) || because == "" && got.Spec.PausedBecause != "" {
				t.Errorf("%s the job is %s because %q, want %s because %q", when, got.State, got.Spec.PausedBecause, want, because)
			}
		}
		const failed, because = schema.StateFailed, "3 runs in a row have failed, the last of them "
		end(failed, failed)
		is("after two failures", schema.JobActive, "")
		end(schema.StateSucceeded, failed, failed)
		is("after a success and two failures", schema.JobActive, "")
		down.Store(2)
		end(schema.StateMissed, schema.StateSkipped, schema.StateCancelled, failed)
		is("after a third, whose commit failed at first", schema.JobPaused, because)
		if _, err := w.ResumeJob(t.Context(), "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		is("once resumed", schema.JobActive, "")
		end(failed, failed)
		is("two failures after that", schema.JobActive, "")
		if _, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error { s.Priority = schema.High; return nil }); err != nil {
			t.Fatal(err)
		}
		end(failed, failed)
		is("two failures after a change", schema.JobActive, "")
		end(failed)
		is("three failures after a change", schema.JobPaused, because)
		if _, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error { s.Priority = schema.Low; return nil }); err != nil {
			t.Fatal(err)
		}
		is("changed while it is paused", schema.JobPaused, because)
	})
}

// TestOnlyJobsThatSaySoPause: whatever fails.
func TestOnlyJobsThatSaySoPause(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		time.Sleep(time.Minute)
		run := schema.MakeEntryID(time.Now(), job.ID.Shard(), 1)
		line := schema.JobRun{Job: job.ID, Run: run, State: schema.StateFailed, Written: 1, Expires: time.Now().Add(time.Hour)}
		if err := w.Counts.PutJobRuns(t.Context(), []schema.JobRun{line}); err != nil {
			t.Fatal(err)
		}
		if err := w.pauseIfFailing(t.Context(), "t", job.ID); err != nil {
			t.Errorf("pauseIfFailing = %v", err)
		}
		if err := w.pauseIfFailing(t.Context(), "other", job.ID); err != nil {
			t.Errorf("pauseIfFailing of another tenant = %v", err)
		}
		if got := w.stored(job.ID).Current.State; got != schema.JobActive {
			t.Errorf("the job is %s, want it active", got)
		}
	})
}

package notifications_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestPausedJobsAreTold: that a job is paused since its runs fail is told once, whatever write of
// it fails, and it is not paused before that is written.
func TestPausedJobsAreTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(func(r *schema.NotificationRule) { r.On = []schema.NotificationKind{schema.NotifyPaused} })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = w.e.Recurring().Watch(ctx) // returns nil
		}()
		defer func() { cancel(); <-done }()
		stop := w.notify(always())
		defer stop()
		job, _, err := w.e.CreateJob(t.Context(), schema.JobSpec{
			Tenant: tenant, Name: "nightly", Labels: map[string]string{"team": "a"}, PauseAfter: 2, Created: time.Now(), Updated: time.Now(),
			Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "https://x.test/"}}, Schedule: &schema.Schedule{Every: schema.Duration(time.Hour)},
		}, "", "")
		if err != nil {
			t.Fatal(err)
		}
		var fails atomic.Value // the write that fails
		fails.Store("PutIncidents")
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			return schematest.Fault{Fail: op == fails.Load()}
		})
		is := func(when string, state schema.JobState, incidents int) {
			t.Helper()
			got, err := w.Counts.Job(t.Context(), job.ID)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for minute := schema.BucketOf(w.began); minute <= schema.BucketOf(time.Now()); minute++ {
				page, err := w.Counts.Incidents(t.Context(), tenant, minute, schema.EntryID{}, 10)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page {
					if n := &page[i]; n.JobName != "nightly" || n.Job != job.ID || !slices.Equal(n.Kinds, []schema.NotificationKind{schema.NotifyPaused}) || n.Labels["team"] != "a" {
						t.Errorf("the incident %+v, want that the job is paused", n)
					}
				}
				found += len(page)
			}
			if got.Current.State != state || found != incidents {
				t.Errorf("%s the job is %s, and there are %d incidents; want %s and %d", when, got.Current.State, found, state, incidents)
			}
		}
		for i := range 2 {
			time.Sleep(time.Minute)
			now := time.Now().UTC()
			line := schema.JobRun{
				Job: job.ID, Run: schema.MakeEntryID(now, job.ID.Shard(), uint64(i)), State: schema.StateFailed, Nominal: now, Finished: now, Written: now.UnixMicro(), Expires: now.Add(time.Hour),
			}
			if err := w.Counts.PutJobRuns(t.Context(), []schema.JobRun{line}); err != nil {
				t.Fatal(err)
			}
			w.e.Recurring().NoteFailure(tenant, job.ID)
		}
		time.Sleep(time.Minute)
		is("while no incident can be written", schema.JobActive, 0)
		fails.Store("SwapJob")
		time.Sleep(time.Minute)
		is("while no job can be changed", schema.JobActive, 1)
		fails.Store("")
		time.Sleep(20 * time.Minute)
		is("after all", schema.JobPaused, 1)
		all := w.messages()
		if len(all) != 1 || all[0].Data.Count != 1 || len(all[0].Data.Runs) != 1 || !strings.HasPrefix(all[0].Data.Runs[0].Error, "2 runs in a row have failed, the last of them ") {
			t.Errorf("messages: %+v, want one that says why the job is paused", all)
		}
	})
}

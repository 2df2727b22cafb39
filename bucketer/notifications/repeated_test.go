package notifications_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestASuccessIsSeenBeforeManyReplays: that a job has succeeded is found, however many runs that
// repeat others are listed after it.
func TestASuccessIsSeenBeforeManyReplays(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		defer w.notify(always())()
		job := schema.MakeJobID(w.began, 1, 7)
		w.fail("a", job, 1)
		time.Sleep(2 * time.Minute)
		w.history(job, schema.StateSucceeded)
		time.Sleep(time.Second)
		lines := make([]schema.JobRun, 170)
		for i := range lines {
			lines[i] = schema.JobRun{
				Job: job, Run: schema.MakeEntryID(time.Now(), 2, uint64(i)), State: schema.StatePending, // #nosec G115 -- small
				Written: time.Now().UnixMicro(), Expires: time.Now().Add(time.Hour),
			}
		}
		if err := w.Counts.PutJobRuns(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		all := w.messages()
		if len(all) != 2 || all[1].Type != "notification.resolved" {
			t.Errorf("messages = %+v, want that it failed, and that all is well", all)
		}
	})
}

package recurring

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// TestAKnownNameIsNotReadAgain: who had a name is remembered as long as that job has it.
func TestAKnownNameIsNotReadAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(named(every(time.Hour), "n"))
		find := func(want schema.JobID, reads int) {
			t.Helper()
			w.Counts.Reset()
			if got, err := w.JobByName(t.Context(), "t", "n"); err != nil || got.ID != want {
				t.Errorf("JobByName = %s, %v, want %s", got.ID, err, want)
			}
			if got := w.Counts.Tally("JobByName").Calls; got != reads {
				t.Errorf("the name was read %d times, want %d", got, reads)
			}
		}
		find(job.ID, 1)
		find(job.ID, 0)
		if _, err := w.CancelJob(t.Context(), "t", job.ID, 0); err != nil {
			t.Fatal(err)
		}
		find(job.ID, 1) // it has ended: another may have the name
		find(job.ID, 1)
		next := w.job(named(every(time.Hour), "n"))
		find(next.ID, 1)
		find(next.ID, 0)
	})
}

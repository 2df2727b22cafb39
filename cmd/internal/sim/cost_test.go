package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAOneOffJobCostsTwoRows: one row before it runs, one after, and nothing else: no conditional write, no delete, no read
// by id. What is read on the way is the scan, the sweep of ids, and the ends of buckets, whatever the number of jobs.
func TestAOneOffJobCostsTwoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 2000
		c, n := lone(t)
		counts := n.counts
		counts.Reset()
		submit(t, n, jobs, time.Now().Add(10*time.Second))
		time.Sleep(5 * time.Minute)
		if got := len(c.seen); got != jobs {
			t.Errorf("%d jobs ran, want %d", got, jobs)
		}
		if got := counts.Tally("PutEntries").Rows; got != jobs {
			t.Errorf("rows of runs written: %d, want one a job: %d", got, jobs)
		}
		if got := counts.Tally("PutAttempts").Rows; got != jobs {
			t.Errorf("rows of attempts written: %d, want one a job: %d", got, jobs)
		}
		for _, op := range []string{"CancelRun", "MoveRun", "Marks", "RegisterKey", "EntriesByID", "Attempts", "Payload", "PutPart", "Parts", "LastPart"} {
			if got := counts.Tally(op).Calls; got != 0 {
				t.Errorf("%s was called %d times on the way of runs, want never", op, got)
			}
		}
	})
}

package sim

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestAOneOffJobCostsTwoRows: one row before it runs, one after, and nothing else: no conditional write, no delete, no read
// by id. What is read on the way is the scan, the sweep of ids, and the ends of buckets, whatever the number of jobs.
func TestAOneOffJobCostsTwoRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 2000
		c, err := New(1, 1, 4, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		n := c.nodes[0]
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		counts := n.counts
		counts.Reset()
		start := time.Now()
		batch := make([]bucketer.Job, jobs)
		for i := range batch {
			batch[i] = bucketer.Job{
				Tenant: "default", At: start.Add(10*time.Second + time.Duration(i)*20*time.Millisecond),
				Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink/sim/%d", i+1)}},
			}
		}
		n.bucketer.SubmitBatch(context.Background(), batch, func(i int, _ bucketer.Receipt, err error) {
			if err != nil {
				t.Errorf("SubmitBatch: job %d: %v", i, err)
			}
		})
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
		for _, op := range []string{"CancelRun", "MoveRun", "Marks", "ClaimKey", "EntriesByID", "Attempts", "Payload", "PutPart", "Parts", "LastPart"} {
			if got := counts.Tally(op).Calls; got != 0 {
				t.Errorf("%s was called %d times on the way of runs, want never", op, got)
			}
		}
	})
}

package sim

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// idle is what a node asks for whether it has jobs or not.
var idle = map[string]bool{
	"AdvanceCursor": true, "Cursors": true, "Cursor": true, "Entries": true, "EntryIDs": true, "Session": true, "Settings": true, "SwapSession": true, "Time": true,
	"WaitedFor": true, "RatedTasks": true,
}

// TestStatementsOfJobs tells, as attributes, what a node asks of the store; `make bench-gate` compares it with what was
// committed. "idle" are the calls a minute of a node of four shards that has nothing to do, "jobs" the rows that 2,000 jobs
// cost, and the calls for them of anything else that an idle node never asks. How many batches the rows make, and so how many
// calls, hangs on when shards and executor tick, which is drawn.
func TestStatementsOfJobs(t *testing.T) {
	for name, jobs := range map[string]int{"idle": 0, "jobs": 2000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				n.counts.Reset()
				// Off the instants at which anything ticks.
				first := time.Now().Add(10*time.Second + 7*time.Millisecond)
				batch := make([]bucketer.Job, jobs)
				for i := range batch {
					batch[i] = bucketer.Job{
						Tenant: "default", At: first.Add(time.Duration(i) * 20 * time.Millisecond),
						Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/sim/" + strconv.Itoa(i+1)}},
					}
				}
				n.bucketer.SubmitBatch(context.Background(), batch, func(i int, _ bucketer.Receipt, err error) {
					if err != nil {
						t.Errorf("SubmitBatch: job %d: %v", i, err)
					}
				})
				time.Sleep(5*time.Minute + 3*time.Millisecond)
				if got := len(c.seen); got != jobs {
					t.Errorf("%d jobs ran, want %d", got, jobs)
				}
				for op, tally := range n.counts.Tallies() {
					switch {
					case jobs == 0:
						t.Attr(op+"-a-minute", strconv.Itoa(tally.Calls/5))
					case op == "PutEntries" || op == "PutAttempts":
						t.Attr(op+"-rows", strconv.Itoa(tally.Rows))
					case !idle[op]:
						t.Attr(op, strconv.Itoa(tally.Calls))
					}
				}
			})
		})
	}
}

package sim

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// idle are the statements of a node without jobs.
var idle = map[string]bool{
	"AdvanceCursor": true, "Cursors": true, "Cursor": true, "Entries": true, "EntryIDs": true, "Session": true, "Settings": true, "SwapSession": true, "Time": true,
	"LimitsWithWaiters": true, "RatedTasks": true, "Listening": true,
}

// TestStatementsOfJobs reports, as attributes, the statements of a node; `make bench-gate` compares
// them with the committed ones. "idle" are the calls per minute of a node with four shards and no
// jobs. "jobs" are the rows that 2,000 jobs cost, and other calls that an idle node never makes.
// The number of batches, and so of calls, depends on random ticks of shards and executor.
func TestStatementsOfJobs(t *testing.T) {
	for name, jobs := range map[string]int{"idle": 0, "jobs": 2000} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, n := lone(t)
				n.counts.Reset()
				// off the instants at which anything ticks
				submit(t, n, jobs, time.Now().Add(10*time.Second+7*time.Millisecond))
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

// TestAOneOffJobCostsTwoRows: one row before it runs, one after, and nothing else: no conditional
// write, no delete, no read by id. What is read on the way is the scan, the sweep of ids, and the
// ends of buckets, whatever the number of jobs.
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

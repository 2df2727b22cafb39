package runs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// NotStarted makes the attempt 0 that says why e did not start here. Its timestamp is now, to the
// µs. A missed run of a job that can have many stands for a stretch of nominal times: for its own
// alone if rec names none.
//
// Its fence is a hash of what is said and when, and holds no time. So two of one run never share a
// row. Random fences of one instant would collide in one of a thousand catch-ups, which say two
// things of one run in one step.
func (r *Recorder) NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt {
	rec.Entry, rec.Finished = e.ID, now.UTC()
	if rec.Outcome == schema.Missed && rec.Missed == nil && !e.Spec.Job.IsZero() {
		rec.Missed = &schema.Stretch{From: e.Spec.Nominal, To: e.Spec.Nominal, Count: 1, Reason: rec.Reason}
	}
	rec.Announce = rec.Outcome != schema.Replaced && r.core.Announces(e.Spec.Tenant)
	said := schema.HashOf("attempt 0", e.ID.String(), string(rec.Outcome), rec.To.String(), strconv.FormatInt(now.UnixMicro(), 10))
	return schema.Attempt{
		Run: e.Run(), Fence: schema.Fence(said), Record: &rec, Tenant: e.Spec.Tenant, // #nosec G115 -- 62 bits
		Written: now.UnixMicro(), Expires: r.core.ExpiryOf(&e.Spec, bucketer.Latest(e.Run().Time(), e.Due(), rec.To.Time(), e.LivesUntil()), now).Add(bucketer.Outlast),
	}
}

// Record writes attempts, in batches of one partition. After an error any of them may or may not be
// held.
func (r *Recorder) Record(ctx context.Context, attempts []schema.Attempt) error {
	for p, rows := range bucketer.ByPartition(attempts, func(a schema.Attempt) schema.EntryID { return a.Run }) {
		for len(rows) > 0 {
			n := min(len(rows), bucketer.BatchRows)
			if err := r.store.PutAttempts(ctx, rows[:n]); err != nil {
				return fmt.Errorf("record in %s: %w", p, err)
			}
			rows = rows[n:]
		}
	}
	return nil
}

// ranks orders the ends of a run as schema.Fold does. Of two lines of history of one run the one of
// the higher rank stands, whichever is written last.
var ranks = map[schema.State]int64{
	schema.StateSkipped: 0, schema.StateMissed: 1, schema.StateFailed: 2, schema.StateCancelled: 3, schema.StateSucceeded: 4,
}

// HistoryLine returns the line of history that follows from an attempt's record. It returns false
// if there is none, because the run belongs to no job that can have many, is a step of a workflow,
// or does not end with that record. Its write timestamp is the run's due time plus the rank of its
// state. Of a run that repeats one of such a job, and is none of its own, it is the line that lists
// the run.
func HistoryLine(e *schema.Entry, a *schema.Attempt) (schema.JobRun, bool) {
	rec := a.Record
	if e.Spec.ListedWith().IsZero() || rec == nil || rec.Unstarted {
		return schema.JobRun{}, false
	}
	var state schema.State
	switch rec.Outcome {
	case schema.Succeeded:
		state = schema.StateSucceeded
	case schema.Cancelled:
		state = schema.StateCancelled
	case schema.Missed:
		state = schema.StateMissed
	case schema.Skipped:
		state = schema.StateSkipped
	case schema.Failed, schema.TimedOut, schema.Lost:
		if !rec.Final {
			return schema.JobRun{}, false
		}
		state = schema.StateFailed
	default:
		return schema.JobRun{}, false
	}
	if e.Spec.Job.IsZero() { // its first line may be lost (bucketer.Writer)
		return bucketer.OpenLine(e, a.Expires), true
	}
	run := e.Run()
	return schema.JobRun{
		Job: e.Spec.Job, Run: run, State: state, Nominal: e.Spec.Nominal, Started: rec.Started, Finished: rec.Finished, Missed: rec.Missed,
		Written: run.Time().UnixMicro() + ranks[state], Expires: a.Expires,
	}, true
}

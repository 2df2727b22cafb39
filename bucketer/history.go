package bucketer

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"carillon.dev/carillon/schema"
)

const (
	// historyBatch bounds the lines of history written at once.
	historyBatch = 100
)

// ranks orders the ends of a run as schema.Fold does: of two lines of history of one run, whenever they are written, the one
// of the higher rank stands.
var ranks = map[schema.State]int64{
	schema.StateMissed: 1, schema.StateFailed: 2, schema.StateCancelled: 3, schema.StateSucceeded: 4,
}

// HistoryLine returns the line of history that follows from an attempt's record, or false if there is none: the run is of no job that has
// many, or does not end with it. Its write timestamp is the run's due time and the rank of its state.
func HistoryLine(e *schema.Entry, a *schema.Attempt) (schema.JobRun, bool) {
	rec := a.Record
	if e.Spec.Job.IsZero() || rec == nil || rec.Unstarted {
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
	case schema.Failed, schema.TimedOut, schema.Lost:
		if !rec.Final {
			return schema.JobRun{}, false
		}
		state = schema.StateFailed
	default:
		return schema.JobRun{}, false
	}
	run := e.Run()
	return schema.JobRun{
		Job: e.Spec.Job, Run: run, State: state, Nominal: e.Spec.Nominal, Started: rec.Started, Finished: rec.Finished, Missed: rec.Missed,
		Written: run.Time().UnixMicro() + ranks[state], Expires: a.Expires,
	}, true
}

// PutHistory writes lines of history. An error means that any of them may or may not be held.
func (b *Bucketer) PutHistory(ctx context.Context, lines []schema.JobRun) error {
	for part := range slices.Chunk(lines, historyBatch) {
		if err := b.store.PutJobRuns(ctx, part); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// openLine returns the line that lists a run of a job that can have many from its planning to its end, or false
// if e is no such run. Whatever line tells of its end has a higher rank. It says no nominal time: so it tells
// nobody, least of all mend, that the job has come as far as this run.
func openLine(e *schema.Entry) (schema.JobRun, bool) {
	if e.Spec.Job.IsZero() || e.Spec.Kind != schema.KindRun {
		return schema.JobRun{}, false
	}
	return schema.JobRun{
		Job: e.Spec.Job, Run: e.ID, State: schema.StatePending, Written: e.ID.Time().UnixMicro(), Expires: e.Expires,
	}, true
}

// list writes the lines of those rows that are runs of jobs which can have many, while the rows themselves are
// written. It returns what waits for that. A line that could not be written holds up no run and fails no
// request: its run is listed once it has ended.
func (b *Bucketer) list(ctx context.Context, rows []schema.Entry) (wait func()) {
	var lines []schema.JobRun
	for i := range rows {
		if line, ok := openLine(&rows[i]); ok {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return func() {}
	}
	var listing sync.WaitGroup
	listing.Go(func() {
		if err := b.PutHistory(ctx, lines); err != nil {
			b.metrics.unlisted.Add(float64(len(lines)))
			b.log.Debug("runs that are not listed until they have ended", "runs", len(lines), "err", err)
		}
	})
	return listing.Wait
}

// PutRows writes rows in one batch, and lists them.
func (b *Bucketer) PutRows(ctx context.Context, rows []schema.Entry) error {
	defer b.list(ctx, rows)()
	return b.store.PutEntries(ctx, rows)
}

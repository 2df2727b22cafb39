package bucketer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// historyBatch bounds the lines of history written at once.
	historyBatch = 100
	// historyPage bounds the lines read at once, historyReads how many such reads a page of a listing takes.
	historyPage  = 200
	historyReads = 60
)

// ranks orders the ends of a run as schema.Fold does: of two lines of history of one run, whenever they are written, the one
// of the higher rank stands.
var ranks = map[schema.State]int64{
	schema.StateMissed: 1, schema.StateFailed: 2, schema.StateCancelled: 3, schema.StateSucceeded: 4,
}

// lineOf returns the line of history that follows from an attempt's record, or false if there is none: the run is of no job that has
// many, or does not end with it. Its write timestamp is the run's due time and the rank of its state.
func lineOf(e *schema.Entry, a *schema.Attempt) (schema.JobRun, bool) {
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

// putLines writes lines of history. An error means that any of them may or may not be held.
func (b *Bucketer) putLines(ctx context.Context, lines []schema.JobRun) error {
	for part := range slices.Chunk(lines, historyBatch) {
		if err := b.store.PutJobRuns(ctx, part); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// JobRuns returns the finished runs of a job in its history, the latest due first, at most limit of them, before pos (zero: from the latest).
// A page reads a bounded part of the history, so it may hold fewer than limit, even none, and still name the next position.
func (b *Bucketer) JobRuns(ctx context.Context, tenant string, id schema.JobID, f JobRunFilter, pos Position, limit int) ([]Run, *Position, error) {
	job, err := b.JobByID(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	now := b.now()
	// A line lives as long as its run's row, so nothing older is left.
	oldest := latest(job.Current.Spec.Created, f.From, now.Add(now.Sub(b.expiry(now, now))))
	before := pos.After
	if !f.To.IsZero() {
		if end := schema.FirstID(ceilMilli(f.To), id.Shard()); before.IsZero() || end.Compare(before) < 0 {
			before = end
		}
	}
	period := schema.PeriodOf(now.Add(schema.HistoryPeriod)) // clocks differ
	if !before.IsZero() {
		period = min(period, schema.PeriodOf(before.Time()))
	}
	var lines []schema.JobRun
	reads := 0
	for ; period >= schema.PeriodOf(oldest); period-- {
		for last := historyPage; last == historyPage; reads++ {
			if reads == historyReads {
				return b.runsOf(ctx, lines, &Position{After: before})
			}
			page, err := b.store.JobRuns(ctx, id, period, before, historyPage)
			if err != nil {
				return nil, nil, fmt.Errorf("history of job %s: %w", id, err)
			}
			last = len(page)
			for i := range page {
				before = page[i].Run
				if f.Matches(&page[i]) {
					lines = append(lines, page[i])
				}
				if len(lines) == limit {
					return b.runsOf(ctx, lines, &Position{After: before})
				}
			}
		}
		if floor := schema.FirstID(periodStart(period), id.Shard()); before.IsZero() || floor.Compare(before) < 0 {
			before = floor
		}
	}
	return b.runsOf(ctx, lines, nil)
}

// periodStart returns the first instant of a period of history.
func periodStart(period int) time.Time {
	return time.UnixMilli(int64(period) * schema.HistoryPeriod.Milliseconds()).UTC()
}

// runsOf reads the runs of lines of history, in their order. One whose row has left is left out, and one that was cancelled and is still under way.
func (b *Bucketer) runsOf(ctx context.Context, lines []schema.JobRun, pos *Position) ([]Run, *Position, error) {
	ids := make([]schema.RunID, len(lines))
	for i := range lines {
		ids[i] = lines[i].Run
	}
	rows, err := b.stored(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	births := slices.Collect(maps.Values(rows))
	slices.SortFunc(births, func(x, y schema.Entry) int { return y.ID.Compare(x.ID) })
	runs, err := b.fold(ctx, births)
	runs = slices.DeleteFunc(runs, func(r Run) bool { return !r.State.Terminal() })
	return runs, pos, err
}

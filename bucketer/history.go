package bucketer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// historyBatch bounds the lines of history written at once.
	historyBatch = 100
	// historyWait is for how long a run may have waited, besides the retention, to be listed among those of its job.
	historyWait = 30 * 24 * time.Hour
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
		if err := b.putLines(ctx, lines); err != nil {
			b.metrics.unlisted.Add(float64(len(lines)))
			b.log.Debug("runs that are not listed until they have ended", "runs", len(lines), "err", err)
		}
	})
	return listing.Wait
}

// putRows writes rows in one batch, and lists them.
func (b *Bucketer) putRows(ctx context.Context, rows []schema.Entry) error {
	defer b.list(ctx, rows)()
	return b.store.PutEntries(ctx, rows)
}

// JobRuns returns the runs of a job, the latest due first, at most limit of them, before pos (zero: from the
// latest): those that have ended, those under way, those that wait, and the next one.
//
// Where a run stands in the list never changes, so pages neither skip nor repeat a run that ends meanwhile. A page
// reads a bounded part of the history: it may hold fewer than limit, even none, and still name the next position.
// A run that will never start, since its job was changed, is left out until that is recorded.
func (b *Bucketer) JobRuns(ctx context.Context, tenant string, id schema.JobID, f JobRunFilter, pos Position, limit int) ([]Run, *Position, error) {
	job, err := b.JobByID(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	now := b.now()
	w := jobWalk{b: b, job: &job, filter: f, now: now, before: pos.After, limit: limit}
	if !f.To.IsZero() {
		if end := schema.FirstID(CeilMilli(f.To), id.Shard()); w.before.IsZero() || end.Compare(w.before) < 0 {
			w.before = end
		}
	}
	if next, ok := b.NextRun(job, now); ok && (w.before.IsZero() || next.ID.Compare(w.before) < 0) {
		w.next = next.ID
	}
	ended, err := w.walk(ctx)
	if err != nil {
		return nil, nil, err
	}
	runs, err := w.runs(ctx)
	if err != nil || ended {
		return runs, nil, err
	}
	return runs, &Position{After: w.before}, nil
}

// jobWalk collects a page of the lines of a job's history.
type jobWalk struct {
	b      *Bucketer
	job    *schema.Job
	filter JobRunFilter
	now    time.Time
	before schema.RunID // all runs from this one on were passed; zero: none
	next   schema.RunID // the next run of the job, whose line may not be there; zero: it was passed
	limit  int
	lines  []schema.JobRun
}

// pass takes in the next line of the walk, if it matches.
func (w *jobWalk) pass(line schema.JobRun) {
	w.before = line.Run
	if line.Run == w.next {
		w.next = schema.RunID{}
	}
	if w.filter.mayMatch(&line) {
		w.lines = append(w.lines, line)
	}
}

// full reports whether the page has as many lines as it may. Before a line below floor comes the next run.
func (w *jobWalk) full(floor schema.RunID) bool {
	if len(w.lines) < w.limit && !w.next.IsZero() && w.next.Compare(floor) > 0 {
		w.pass(schema.JobRun{Run: w.next, State: schema.StatePending})
	}
	return len(w.lines) >= w.limit
}

// walk goes from the newest line to the oldest until the page is full or has read enough. It reports whether it
// came to the end.
func (w *jobWalk) walk(ctx context.Context) (ended bool, err error) {
	shard := w.job.ID.Shard()
	// A line lives as long as its run's row: for a retention, and longer if the run waits.
	stays := w.b.expiry(w.now, w.now).Sub(w.now) + historyWait
	oldest := schema.PeriodOf(latest(w.job.Current.Spec.Created, w.filter.From, w.now.Add(-stays)))
	period := schema.PeriodOf(w.now.Add(schema.HistoryPeriod)) // clocks differ
	if w.full(schema.FirstID(periodStart(period+1), shard)) {  // the next run may be due years later
		return false, nil
	}
	if !w.before.IsZero() {
		period = min(period, schema.PeriodOf(w.before.Time()))
	}
	reads := 0
	for ; period >= oldest; period-- {
		for last := historyPage; last == historyPage; reads++ {
			if reads == historyReads {
				return false, nil
			}
			page, err := w.b.store.JobRuns(ctx, w.job.ID, period, w.before, historyPage)
			if err != nil {
				return false, fmt.Errorf("history of job %s: %w", w.job.ID, err)
			}
			last = len(page)
			for i := range page {
				if w.full(page[i].Run) {
					return false, nil
				}
				if w.pass(page[i]); w.full(page[i].Run) {
					return false, nil
				}
			}
		}
		floor := schema.FirstID(periodStart(period), shard)
		if w.full(floor) {
			return false, nil
		}
		if w.before.IsZero() || floor.Compare(w.before) < 0 {
			w.before = floor
		}
	}
	return true, nil
}

// runs reads the runs of the lines, in their order. One whose row has left is left out, and one that will never start.
func (w *jobWalk) runs(ctx context.Context) ([]Run, error) {
	ids := make([]schema.RunID, len(w.lines))
	for i := range w.lines {
		ids[i] = w.lines[i].Run
	}
	rows, err := w.b.Stored(ctx, ids)
	if err != nil {
		return nil, err
	}
	births := slices.Collect(maps.Values(rows))
	slices.SortFunc(births, func(x, y schema.Entry) int { return y.ID.Compare(x.ID) })
	runs, err := w.b.Fold(ctx, births)
	return slices.DeleteFunc(runs, func(r Run) bool {
		if w.filter.State != "" && r.State != w.filter.State {
			return true
		}
		return r.State == schema.StatePending && len(r.Attempts) == 0 && w.job.DecideStart(&r.Entry, w.now).Outcome != ""
	}), err
}

// periodStart returns the first instant of a period of history.
func periodStart(period int) time.Time {
	return time.UnixMilli(int64(period) * schema.HistoryPeriod.Milliseconds()).UTC()
}

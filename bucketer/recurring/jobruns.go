package recurring

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

const (
	// historyWait is how long a run may have waited, beyond the retention, and still be listed.
	historyWait = 30 * 24 * time.Hour
	// historyPage bounds the lines read at once, historyReads how many such reads a page of a
	// listing takes.
	historyPage  = 200
	historyReads = 60
)

// JobRuns returns the runs of a job, the latest due first, at most limit of them, before pos (zero:
// from the latest). They are the runs that have ended, are under way or wait, and the next one.
//
// The place of a run in the list never changes. So pages neither skip nor repeat a run that ends
// meanwhile. A page reads a bounded part of the history: it may hold fewer than limit, even none,
// and still name the next position. A run that will never start, because its job was changed, is
// left out until that is recorded. Runs that repeat one of the job's (replays of dead letters,
// retries) are among them, unless f asks for the job's own.
func (j *Reader) JobRuns(ctx context.Context, tenant string, id schema.JobID, f JobRunFilter, pos runs.Position, limit int) ([]runs.Run, *runs.Position, error) {
	job, err := j.JobByID(ctx, tenant, id)
	if err != nil {
		return nil, nil, err
	}
	now := j.now()
	w := jobWalk{b: j, job: &job, filter: f, now: now, before: pos.After, limit: limit}
	if !f.To.IsZero() {
		if end := schema.FirstID(bucketer.CeilMilli(f.To), id.Shard()); w.before.IsZero() || end.Compare(w.before) < 0 {
			w.before = end
		}
	}
	if next, ok := j.NextRun(job, now); ok && (w.before.IsZero() || next.ID.Compare(w.before) < 0) {
		w.next = next.ID
	}
	ended, err := w.walk(ctx)
	if err != nil {
		return nil, nil, err
	}
	page, err := w.runs(ctx)
	if err != nil || ended {
		return page, nil, err
	}
	return page, &runs.Position{After: w.before}, nil
}

// jobWalk collects a page of the lines of a job's history.
type jobWalk struct {
	b      *Reader
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
	if w.filter.mayMatchLine(&line) {
		w.lines = append(w.lines, line)
	}
}

// full reports whether the page is full. The next run comes before a line below floor.
func (w *jobWalk) full(floor schema.RunID) bool {
	if len(w.lines) < w.limit && !w.next.IsZero() && w.next.Compare(floor) > 0 {
		w.pass(schema.JobRun{Run: w.next, State: schema.StatePending})
	}
	return len(w.lines) >= w.limit
}

// walk goes from the newest line to the oldest until the page is full or has read enough. It
// reports whether it came to the end.
func (w *jobWalk) walk(ctx context.Context) (ended bool, err error) {
	shard := w.job.ID.Shard()
	// A line lives as long as its run's row: for a retention, and longer if the run waits.
	stays := w.b.core.Expiry(w.now, w.now).Sub(w.now) + historyWait
	oldest := schema.PeriodOf(bucketer.Latest(w.job.Current.Spec.Created, w.filter.From, w.now.Add(-stays)))
	period := schema.PeriodOf(w.now.Add(schema.HistoryPeriod)) // clocks differ
	if w.full(schema.FirstID(periodStart(period+1), shard)) {
		// the next run may be due years later
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

// runs reads the runs of the lines, in their order. It leaves out a run whose row expired, and one
// that will never start.
func (w *jobWalk) runs(ctx context.Context) ([]runs.Run, error) {
	ids := make([]schema.RunID, len(w.lines))
	for i := range w.lines {
		ids[i] = w.lines[i].Run
	}
	rows, err := w.b.core.Stored(ctx, ids)
	if err != nil {
		return nil, err
	}
	births := slices.Collect(maps.Values(rows))
	slices.SortFunc(births, func(x, y schema.Entry) int { return y.ID.Compare(x.ID) })
	page, err := w.b.runs.Fold(ctx, births)
	if err != nil {
		return nil, err
	}
	if _, err := w.b.runs.NoteWaits(ctx, page); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(page, func(r runs.Run) bool {
		if !w.filter.MayMatch(&r.Current, &r.Entry) || !w.filter.Matches(&r, w.now) {
			return true
		}
		if r.Entry.Spec.Job != w.job.ID { // it repeats one of the job's, and starts whatever that says
			return w.filter.Own
		}
		return r.State == schema.StatePending && len(r.Attempts) == 0 && w.job.DecideStart(&r.Entry, w.now).Outcome != ""
	}), nil
}

// periodStart returns the first instant of a period of history.
func periodStart(period int) time.Time {
	return time.UnixMilli(int64(period) * schema.HistoryPeriod.Milliseconds()).UTC()
}

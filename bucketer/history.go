package bucketer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// HistoryBatch bounds the lines of history written at once.
	HistoryBatch = 100
)

// PutHistory writes lines of history. An error means that any of them may or may not be held.
func (w *Writer) PutHistory(ctx context.Context, lines []schema.JobRun) error {
	for part := range slices.Chunk(lines, HistoryBatch) {
		if err := w.store.PutJobRuns(ctx, part); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// openLine returns the line of history that lists a run of a job that can have many from its
// planning to its end, or false if e is no such run. The line of its end has a higher rank. This
// line has no nominal time, so mend does not conclude from it that the job has come as far as this
// run.
//
// A run that repeats one of a job, and is none of that job's, has this line alone: it lists the
// run, and says nothing of how the job does.
func openLine(e *schema.Entry) (schema.JobRun, bool) {
	if e.Spec.ListedWith().IsZero() || e.Spec.Kind != schema.KindRun && (e.Spec.Kind != schema.KindJoin || e.Spec.Of != e.ID) {
		return schema.JobRun{}, false
	}
	return OpenLine(e, e.Expires), true
}

// OpenLine returns the line of history that lists the run of e among those of the job that e is
// listed with, until expires.
func OpenLine(e *schema.Entry, expires time.Time) schema.JobRun {
	run := e.Run()
	return schema.JobRun{
		Job: e.Spec.ListedWith(), Run: run, State: schema.StatePending, Expires: expires,
		Written: run.Time().UnixMicro() - 1, // the rank of a run that is skipped is 0
	}
}

// list writes the lines of history of rows, while the rows themselves are written. It returns a
// function that waits for that. A line that could not be written holds up no run and fails no
// request: its run is listed once it has ended.
func (w *Writer) list(ctx context.Context, rows []schema.Entry) (wait func()) {
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
		if err := w.PutHistory(ctx, lines); err != nil {
			w.metrics.unlisted.Add(float64(len(lines)))
			w.log.Debug("runs that are not listed until they have ended", "runs", len(lines), "err", err)
		}
	})
	return listing.Wait
}

// PutRows writes rows in one batch, and lists them.
func (w *Writer) PutRows(ctx context.Context, rows []schema.Entry) error {
	defer w.list(ctx, rows)()
	return w.store.PutEntries(ctx, rows)
}

package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// batchWithin is how long a read waits for others of its partition.
	batchWithin = 2 * time.Millisecond
	// batchRows bounds the runs of one read, as the contract of the store does.
	batchRows = 100
	// readWorkers bounds the reads under way.
	readWorkers = 16
)

// runRows is what the rows of a run say.
type runRows struct {
	at       time.Time // when the read began
	exists   bool      // the run's row stands
	marks    schema.Marks
	attempts []schema.Attempt
	live     func(schema.SessionRef) bool
	job      *schema.Job // of a run of a job that can have many; nil = there is none
}

// rowReader reads what is known of runs, many of a partition at a time.
type rowReader struct {
	store  Store
	writer Writer
	live   *bucketer.Liveness
	now    func() time.Time

	mu      sync.Mutex
	waiting map[schema.Partition][]rowRequest
	tokens  chan struct{}
}

type rowRequest struct {
	run    schema.RunID
	job    schema.JobID     // zero: a one-off job
	answer chan<- rowAnswer // buffered
}

type rowAnswer struct {
	view runRows
	err  error
}

func newRowReader(store Store, writer Writer, live *bucketer.Liveness, now func() time.Time) *rowReader {
	return &rowReader{
		store: store, writer: writer, live: live, now: now,
		waiting: make(map[schema.Partition][]rowRequest), tokens: make(chan struct{}, readWorkers),
	}
}

// read reads the marks and attempts of the run that e starts, and then the row of its job.
func (l *rowReader) read(ctx context.Context, e *schema.Entry) (runRows, error) {
	answer := make(chan rowAnswer, 1)
	run := e.Run()
	p := run.Partition()
	l.mu.Lock()
	l.waiting[p] = append(l.waiting[p], rowRequest{run, e.Spec.Job, answer})
	var batch []rowRequest
	first := len(l.waiting[p]) == 1
	if len(l.waiting[p]) == batchRows {
		batch = l.take(p)
	}
	l.mu.Unlock()
	switch {
	case batch != nil:
		l.tokens <- struct{}{}
		l.readBatch(ctx, p, batch)
		<-l.tokens
	case first:
		// The first of a batch leads it: it waits a little for others, then reads for all, unless
		// the batch was full before.
		select {
		case <-ctx.Done():
		case <-time.After(batchWithin):
		}
		// Requests that come while it waits for a token join it: the slower the store, the more
		// each read is for.
		l.tokens <- struct{}{}
		l.mu.Lock()
		batch = l.take(p)
		l.mu.Unlock()
		l.readBatch(ctx, p, batch)
		<-l.tokens
	}
	select {
	case a := <-answer:
		return a.view, a.err
	case <-ctx.Done():
		return runRows{}, fmt.Errorf("look at %s: %w", run, ctx.Err())
	}
}

// take removes what waits of p; mu is held.
func (l *rowReader) take(p schema.Partition) []rowRequest {
	batch := l.waiting[p]
	delete(l.waiting, p)
	return batch
}

// readBatch reads for a batch and answers it; its caller holds a token.
func (l *rowReader) readBatch(ctx context.Context, p schema.Partition, batch []rowRequest) {
	if len(batch) == 0 {
		return
	}
	// Its leader's context must not fail the others: a stop fails all of them alike.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	at := l.now()
	views, err := l.readAll(bounded, p, batch)
	for _, b := range batch {
		v := views[b.run]
		v.at = at
		b.answer <- rowAnswer{v, err}
	}
}

func (l *rowReader) readAll(ctx context.Context, p schema.Partition, batch []rowRequest) (map[schema.RunID]runRows, error) {
	ids := make([]schema.RunID, 0, len(batch))
	views := make(map[schema.RunID]runRows, len(batch))
	for _, b := range batch {
		if _, twice := views[b.run]; !twice {
			views[b.run] = runRows{}
			ids = append(ids, b.run)
		}
	}
	// Marks before attempts: an attempt that is recorded in between is seen.
	rows, err := l.store.EntriesByID(ctx, p, ids)
	if err != nil {
		return nil, fmt.Errorf("look at rows in %s: %w", p, err)
	}
	for _, row := range rows {
		views[row.ID] = runRows{exists: true, marks: row.Marks}
	}
	attempts, err := l.writer.Attempts(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	for run, of := range attempts {
		v := views[run]
		v.attempts = of
		views[run] = v
	}
	for run, v := range views {
		if v.live, err = l.live.Of(ctx, v.attempts); err != nil {
			return nil, err
		}
		views[run] = v
	}
	return views, l.readJobs(ctx, batch, views)
}

// readJobs reads the jobs of those runs that have one, anew for every read: whether a run may start
// depends on how fresh that is.
func (l *rowReader) readJobs(ctx context.Context, batch []rowRequest, views map[schema.RunID]runRows) error {
	var ids []schema.JobID
	for _, b := range batch {
		if !b.job.IsZero() {
			ids = append(ids, b.job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	jobs, err := l.writer.Jobs(ctx, ids)
	if err != nil {
		return err
	}
	for _, b := range batch {
		if !b.job.IsZero() {
			v := views[b.run]
			v.job = jobs[b.job]
			views[b.run] = v
		}
	}
	return nil
}

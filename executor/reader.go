package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/congestion"
)

const (
	// batchWithin is how long a read waits for others of its partition.
	batchWithin = 2 * time.Millisecond
	// batchRows bounds the runs of one read, as the contract of the store does.
	batchRows = 100
	// readWorkers bounds the reads under way. While most take more than slowRead there are fewer,
	// down to one.
	readWorkers = 16
	// slowRead is the time within which a read is of use: a start by rows needs two of them and a
	// write before the first is older than freshFor.
	slowRead = freshFor / 4
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
	waiting map[batchKey][]rowRequest
	window  *congestion.Window // of the first reads under way
}

// batchKey says which requests one read answers.
type batchKey struct {
	schema.Partition
	confirms bool
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
		waiting: make(map[batchKey][]rowRequest), window: congestion.New(1, readWorkers, slowRead),
	}
}

// read reads the marks and attempts of the run that e starts, and then the row of its job.
func (l *rowReader) read(ctx context.Context, e *schema.Entry) (runRows, error) {
	return l.ask(ctx, e, false)
}

// confirm is read for a start whose session cell is in the rows. It does not wait behind first
// reads: that of its own start would be too old by then. There are no more of these than first reads
// let starts through.
func (l *rowReader) confirm(ctx context.Context, e *schema.Entry) (runRows, error) {
	return l.ask(ctx, e, true)
}

func (l *rowReader) ask(ctx context.Context, e *schema.Entry, confirms bool) (runRows, error) {
	answer := make(chan rowAnswer, 1)
	run := e.Run()
	p := batchKey{run.Partition(), confirms}
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
		l.enter(p)
		l.readBatch(ctx, p, batch)
	case first:
		// The first of a batch leads it: it waits a little for others, then reads for all, unless
		// the batch was full before.
		select {
		case <-ctx.Done():
		case <-time.After(batchWithin):
		}
		// Requests that come while it waits in the window join it: the slower the store, the more
		// each read is for.
		l.enter(p)
		l.mu.Lock()
		batch = l.take(p)
		l.mu.Unlock()
		l.readBatch(ctx, p, batch)
	}
	select {
	case a := <-answer:
		return a.view, a.err
	case <-ctx.Done():
		return runRows{}, fmt.Errorf("look at %s: %w", run, ctx.Err())
	}
}

// enter waits until a read of p may be under way; readBatch ends that.
func (l *rowReader) enter(p batchKey) {
	if !p.confirms {
		l.window.Acquire(context.Background()) // others wait for the batch whose leader gives up
	}
}

// take removes what waits of p; mu is held.
func (l *rowReader) take(p batchKey) []rowRequest {
	batch := l.waiting[p]
	delete(l.waiting, p)
	return batch
}

// readBatch reads for a batch that has entered, and answers it.
func (l *rowReader) readBatch(ctx context.Context, p batchKey, batch []rowRequest) {
	if !p.confirms {
		defer l.window.Release()
	}
	if len(batch) == 0 {
		return
	}
	// Its leader's context must not fail the others: a stop fails all of them alike.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	at, began := l.now(), time.Now()
	views, err := l.readAll(bounded, p.Partition, batch)
	now := time.Now()
	l.window.Observe(now.Sub(began), now)
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

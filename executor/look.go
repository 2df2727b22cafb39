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
	// lookWithin is how long a look waits for others of its partition.
	lookWithin = 2 * time.Millisecond
	// lookRows bounds the runs of one look, the contract's bound.
	lookRows = 100
	// lookWorkers bounds the looks under way.
	lookWorkers = 16
)

// view is what the rows of a run say.
type view struct {
	at       time.Time // when the read began
	exists   bool      // the run's row stands
	marks    schema.Marks
	attempts []schema.Attempt
	live     func(schema.SessionRef) bool
	job      *schema.Job // of a run of a job that can have many; nil = there is none
}

// looker reads what is known of runs, many of a partition at a time.
type looker struct {
	store  Store
	writer Writer
	live   *bucketer.Liveness
	now    func() time.Time

	mu      sync.Mutex
	waiting map[schema.Partition][]lookup
	tokens  chan struct{}
}

type lookup struct {
	run    schema.RunID
	job    schema.JobID  // zero: a one-off job
	answer chan<- looked // buffered
}

type looked struct {
	view view
	err  error
}

func newLooker(store Store, writer Writer, live *bucketer.Liveness, now func() time.Time) *looker {
	return &looker{
		store: store, writer: writer, live: live, now: now,
		waiting: make(map[schema.Partition][]lookup), tokens: make(chan struct{}, lookWorkers),
	}
}

// look reads the marks and attempts of the run that e starts, and then the row of its job.
func (l *looker) look(ctx context.Context, e *schema.Entry) (view, error) {
	answer := make(chan looked, 1)
	run := e.Run()
	p := run.Partition()
	l.mu.Lock()
	l.waiting[p] = append(l.waiting[p], lookup{run, e.Spec.Job, answer})
	var batch []lookup
	first := len(l.waiting[p]) == 1
	if len(l.waiting[p]) == lookRows {
		batch = l.take(p)
	}
	l.mu.Unlock()
	switch {
	case batch != nil:
		l.tokens <- struct{}{}
		l.read(ctx, p, batch)
		<-l.tokens
	case first:
		// The first of a batch leads it: it waits a little for company, then reads for all, unless the
		// batch was full before.
		select {
		case <-ctx.Done():
		case <-time.After(lookWithin):
		}
		// Who waits for a turn joins it: the slower the store, the more each read is for.
		l.tokens <- struct{}{}
		l.mu.Lock()
		batch = l.take(p)
		l.mu.Unlock()
		l.read(ctx, p, batch)
		<-l.tokens
	}
	select {
	case a := <-answer:
		return a.view, a.err
	case <-ctx.Done():
		return view{}, fmt.Errorf("look at %s: %w", run, ctx.Err())
	}
}

// take removes what waits of p; mu is held.
func (l *looker) take(p schema.Partition) []lookup {
	batch := l.waiting[p]
	delete(l.waiting, p)
	return batch
}

// read reads for a batch and answers it; its caller holds a token.
func (l *looker) read(ctx context.Context, p schema.Partition, batch []lookup) {
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
		b.answer <- looked{v, err}
	}
}

func (l *looker) readAll(ctx context.Context, p schema.Partition, batch []lookup) (map[schema.RunID]view, error) {
	ids := make([]schema.RunID, 0, len(batch))
	views := make(map[schema.RunID]view, len(batch))
	for _, b := range batch {
		if _, twice := views[b.run]; !twice {
			views[b.run] = view{}
			ids = append(ids, b.run)
		}
	}
	// Marks before attempts: an attempt that is recorded in between is seen.
	rows, err := l.store.EntriesByID(ctx, p, ids)
	if err != nil {
		return nil, fmt.Errorf("look at rows in %s: %w", p, err)
	}
	for _, row := range rows {
		views[row.ID] = view{exists: true, marks: row.Marks}
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

// readJobs reads the jobs of those runs that are of one. They are read anew for every look: whether a run may start hangs on how fresh
// that is.
func (l *looker) readJobs(ctx context.Context, batch []lookup, views map[schema.RunID]view) error {
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

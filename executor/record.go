package executor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// pendingWrite is one row for attempts on its way into the store, and what follows it.
type pendingWrite struct {
	entry   *schema.Entry // nobody changes it any more
	attempt schema.Attempt
	// then is called once, when the row and its follow-ups are held; notify says whether the owner
	// of the shard is told that the entry is finished.
	then     func()
	notify   bool
	recorded bool // the store has the row: only what follows it is repeated
	hasCell  bool // the row has a session, by which others may find the attempt lost

	counts toCount
	ends   bool               // the row was not said before: if it ends the run, the run's span follows
	http   *schema.HTTPTarget // that the attempt called, or was to; nil: none, or not known
}

// toCount says what of a write is counted by name, once the store has it.
type toCount struct {
	start bool // the first start of the run
	end   bool // how the attempt ended, or that nothing started
}

// key returns by which names the run is counted.
func (w *pendingWrite) key() tally.Key {
	url := ""
	if w.http != nil {
		url = w.http.URL
	}
	return tally.KeyOf(&w.entry.Spec, url)
}

// succeeded reports whether the record is a success, and surely the only word on the run's end. Then
// the owner of a step's shard goes on without reading its rows.
func (w *pendingWrite) succeeded() bool {
	rec := w.attempt.Record
	return rec != nil && rec.Outcome == schema.Succeeded && !rec.Doubt && !rec.Redispatched && !w.recorded
}

// recorder writes rows in batches of one partition: record → follow-ups → notice → then. What
// cannot be written is kept and tried again for as long as the executor lives.
type recorder struct {
	writer   Writer
	notices  schema.Notices
	log      *slog.Logger
	metrics  *metrics
	tally    *tally.Tally
	spans    spans
	drainFor time.Duration // how long the stop waits for what cannot be recorded

	mu        sync.Mutex
	waiting   map[schema.Partition][]pendingWrite
	begun     chan struct{} // cap 1: there is something to write, after there was nothing
	wake      chan struct{} // cap 1: a batch is full
	soon      chan struct{} // cap 1: a start waits for its row
	hurried   atomic.Bool   // soon is about to be signalled
	unwritten atomic.Int64  // rows that the store does not have yet …
	cells     atomic.Int64  // … of which so many are session cells: their attempts are under way, or about to be
	failing   atomic.Bool   // the last write failed
	tokens    chan struct{}
	writers   sync.WaitGroup
}

func newRecorder(w Writer, n schema.Notices, log *slog.Logger, m *metrics, t *tally.Tally, s spans, patient time.Duration) *recorder {
	return &recorder{
		writer: w, notices: n, log: log, metrics: m, tally: t, spans: s, drainFor: patient, waiting: make(map[schema.Partition][]pendingWrite),
		begun: make(chan struct{}, 1), wake: make(chan struct{}, 1), soon: make(chan struct{}, 1), tokens: make(chan struct{}, recordWriters),
	}
}

// put takes a write in. It does not wait.
func (r *recorder) put(w pendingWrite) {
	r.count(&w, 1)
	p := w.attempt.Run.Partition()
	r.mu.Lock()
	isFirst := len(r.waiting) == 0
	r.waiting[p] = append(r.waiting[p], w)
	full := len(r.waiting[p]) >= recordRows
	r.mu.Unlock()
	if isFirst {
		signal(r.begun)
	}
	if full {
		signal(r.wake)
	} else if w.entry.Spec.Step != nil && w.attempt.Record != nil {
		r.hurry() // other steps wait for its end
	}
}

// count counts a write among those that are pending, or no more.
func (r *recorder) count(w *pendingWrite, n int64) {
	r.unwritten.Add(n)
	if w.attempt.Record == nil {
		r.cells.Add(n)
	}
}

// outcomes returns how many outcomes the store does not have yet.
func (r *recorder) outcomes() int { return int(r.unwritten.Load() - r.cells.Load()) }

// overfull reports that no new work should be taken on: too much is unrecorded, or recording fails.
func (r *recorder) overfull() bool { return r.unwritten.Load() > maxUnrecorded || r.failing.Load() }

// signal sends to a channel of capacity 1, unless it holds a signal already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run flushes until ctx ends, and then once more what is left: every recordWithin, as long as
// anything waits. It returns when every write has ended.
func (r *recorder) run(ctx context.Context) {
	start := time.Now()
	tick := time.NewTimer(recordWithin)
	defer tick.Stop()
	for armed := true; ; {
		select {
		case <-ctx.Done():
			r.drain(ctx)
			return
		case <-r.wake:
			r.flush(ctx, recordRows)
		case <-r.soon:
			r.flush(ctx, 1)
		case <-r.begun:
			if !armed {
				armed = true
				tick.Reset(recordWithin - time.Since(start)%recordWithin)
			}
		case <-tick.C:
			armed = false
			r.flush(ctx, 1)
		}
	}
}

// hurry has everything written within markWithin: a start waits for it.
func (r *recorder) hurry() {
	if r.hurried.Swap(true) {
		return
	}
	time.AfterFunc(markWithin, func() {
		r.hurried.Store(false)
		signal(r.soon)
	})
}

// drain writes what is left, for as long as the stop may take.
func (r *recorder) drain(ctx context.Context) {
	for end := time.Now().Add(r.drainFor); ; time.Sleep(recordWithin) {
		r.flush(ctx, 1)
		r.writers.Wait()
		left := r.unwritten.Load()
		if left == 0 {
			return
		}
		if !time.Now().Before(end) {
			r.log.Error("outcomes could not be recorded before the stop: they will be attempted again elsewhere", "outcomes", left)
			return
		}
	}
}

// flush starts writing every partition of which at least n rows wait.
func (r *recorder) flush(ctx context.Context, n int) {
	r.mu.Lock()
	var batches [][]pendingWrite
	for p, writes := range r.waiting {
		if len(writes) < n {
			continue
		}
		delete(r.waiting, p)
		for len(writes) > 0 {
			k := min(len(writes), recordRows)
			batches = append(batches, writes[:k:k])
			writes = writes[k:]
		}
	}
	r.mu.Unlock()
	for _, batch := range batches {
		r.tokens <- struct{}{}
		r.writers.Go(func() {
			defer func() { <-r.tokens }()
			r.write(ctx, batch)
		})
	}
}

// write writes one batch, or keeps it. What is given up at the stop was not acknowledged, or its
// session will be declared dead.
func (r *recorder) write(ctx context.Context, batch []pendingWrite) {
	if err := r.record(context.WithoutCancel(ctx), batch); err != nil {
		r.retry(batch, err)
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	finished := make([]bucketer.Finished, len(batch))
	for i := range batch {
		finished[i] = bucketer.Finished{Entry: *batch[i].entry, Attempt: batch[i].attempt}
	}
	var mu sync.Mutex
	var failed []pendingWrite
	var cause error
	notices := make(map[schema.Shard][]schema.Notice)
	done := make([]pendingWrite, 0, len(batch))
	r.writer.FollowUp(bounded, finished, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		w := batch[i]
		if err != nil {
			failed, cause = append(failed, w), err
			return
		}
		done = append(done, w)
		if w.notify {
			s := w.entry.ID.Shard()
			notices[s] = append(notices[s], schema.Notice{
				Entry: w.entry.ID, Run: w.attempt.Run, Attempt: w.attempt.Number, Succeeded: w.succeeded(),
			})
		}
	})
	for s, n := range notices {
		r.notices.Done(s, n)
	}
	r.countByName(done)
	r.spans.ended(done)
	for _, w := range done {
		r.count(&w, -1)
		w.then()
	}
	if len(failed) > 0 {
		r.retry(failed, cause)
		return
	}
	r.failing.Store(false)
}

// countByName counts what is held, under one lock.
func (r *recorder) countByName(done []pendingWrite) {
	b := r.tally.Begin()
	defer b.End()
	for i := range done {
		w := &done[i]
		if !w.counts.start && !w.counts.end {
			continue
		}
		k := w.key()
		if w.counts.start {
			b.Start(&k, w.started().Sub(w.entry.LatenessFrom()))
		}
		if rec := w.attempt.Record; w.counts.end && rec != nil {
			b.Ended(&k, rec)
		}
	}
}

// countStart counts the first start of a run by name.
func (r *recorder) countStart(e *schema.Entry, http *schema.HTTPTarget, late time.Duration) {
	k := (&pendingWrite{entry: e, http: http}).key()
	b := r.tally.Begin()
	defer b.End()
	b.Start(&k, late)
}

// countLost counts attempts of a run by name whose sessions were declared dead.
func (r *recorder) countLost(e *schema.Entry, n int) {
	k := (&pendingWrite{entry: e}).key()
	b := r.tally.Begin()
	defer b.End()
	for range n {
		b.Ended(&k, &schema.Record{Outcome: schema.Lost, Error: lostText})
	}
}

// started returns when the attempt was started.
func (w *pendingWrite) started() time.Time {
	if w.attempt.Record != nil {
		return w.attempt.Record.Started
	}
	return w.attempt.Session.Started
}

// record writes the rows of a batch that the store does not have yet.
func (r *recorder) record(ctx context.Context, batch []pendingWrite) error {
	rows, timeout := make([]schema.Attempt, 0, len(batch)), storeTimeout
	for i := range batch {
		if !batch[i].recorded {
			rows = append(rows, batch[i].attempt)
			if batch[i].attempt.Record == nil {
				timeout = cellTimeout
			}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.writer.Record(bounded, rows)
}

// retry keeps what could not be written for the next flush. By then another executor may have
// executed the same runs.
func (r *recorder) retry(batch []pendingWrite, err error) {
	for i := range batch {
		if rec := batch[i].attempt.Record; rec != nil && rec.Outcome == schema.Succeeded && !batch[i].recorded {
			rec.Doubt = true
			rec.Outlived = rec.Outlived || batch[i].hasCell
		}
	}
	r.metrics.recordFailures.Inc()
	if !r.failing.Swap(true) {
		r.log.Warn("outcomes cannot be recorded: they are kept, and nothing new is taken on", "err", err)
	}
	p := batch[0].attempt.Run.Partition()
	r.mu.Lock()
	r.waiting[p] = append(batch, r.waiting[p]...)
	r.mu.Unlock()
	signal(r.begun)
}

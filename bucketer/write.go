package bucketer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// Writer writes rows: in batches, and by the late rule and the near rule.
type Writer struct {
	*Rows
	*listening
	*lives
	hints   schema.Hints
	missed  func(spec *schema.Spec, reason string, runs int64) // nil: nobody is told
	waits   Waits
	clock   *clock
	now     func() time.Time // the clock's
	log     *slog.Logger
	metrics *metrics
}

// Write makes the entries durable, in as few batches as their partitions allow, and applies the
// late rule and the near rule to each. done is called exactly once for each index, from any
// goroutine, before Write returns: with nil once a quorum holds the entry, or a late entry of it.
//
// If we crash before done(i, nil), the row may or may not be there. If it is, it is dispatched like
// any other.
func (w *Writer) Write(ctx context.Context, entries []schema.Entry, done func(i int, err error)) {
	if !w.clock.known() {
		for i := range entries {
			done(i, fmt.Errorf("%w: %w", schema.ErrUnavailable, errNoClock))
		}
		return
	}
	var wg sync.WaitGroup
	for _, batch := range Batches(entries) {
		select {
		case w.calls <- struct{}{}:
		case <-ctx.Done():
			for _, i := range batch {
				done(i, fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err()))
			}
			continue
		}
		wg.Go(func() {
			defer func() { <-w.calls }()
			w.writeBatch(ctx, entries, batch, done)
		})
	}
	wg.Wait()
}

// errNoClock: the wall clock was never found to be right, so it is unknown whether a row is in
// time.
var errNoClock = errors.New("what time it is has not been compared yet")

func (w *Writer) writeBatch(ctx context.Context, entries []schema.Entry, batch []int, done func(int, error)) {
	rows := Pick(entries, batch)
	sent := w.now()
	listed := w.list(ctx, rows)
	if err := w.store.PutEntries(ctx, rows); err != nil {
		listed()
		for _, i := range batch {
			done(i, err)
		}
		return
	}
	held := EndedAt(sent, w.now())
	w.CountWritten(rows)
	errs := w.heldAt(ctx, held, rows)
	listed()
	for k, i := range batch {
		done(i, errs[k])
	}
}

// EndedAt returns when something ended that began at sent and ended at now. If the wall clock was
// set back meanwhile, it is sent plus what has passed by the monotonic clock: a row must not count
// as held earlier than it was.
func EndedAt(sent, now time.Time) time.Time {
	if passed := sent.Round(0).Add(now.Sub(sent)); passed.After(now.Round(0)) {
		return passed
	}
	return now
}

// CountWritten counts rows that a quorum holds, by kind.
func (w *Writer) CountWritten(rows []schema.Entry) {
	for i := range rows {
		w.metrics.entries.WithLabelValues(kindLabel(rows[i].Spec.Kind)).Inc()
	}
}

// CountMissed counts, by cause, the runs of e that a record says were missed, once that is held. Those
// that an executor records are not counted here.
func (w *Writer) CountMissed(e *schema.Entry, rec *schema.Record) {
	if rec.Outcome != schema.Missed {
		return
	}
	runs := int64(1)
	if rec.Missed != nil {
		runs = max(rec.Missed.Count, 1)
	}
	w.metrics.missed.WithLabelValues(MissedCause(rec)).Add(float64(runs))
	if w.missed != nil {
		w.missed(&e.Spec, rec.Reason, runs)
	}
}

// Waits is told of runs that are due and may not start (tally.Waits).
type Waits interface {
	// Deferred: these entries stand in for others whose start was deferred for a cause.
	Deferred(entries []schema.Entry, cause schema.Cause)
	// Held: so many runs wait for the limit of a job, of which the first has been due since oldest; more:
	// there may be more. first is what one of them says, nil if there are none.
	Held(limit schema.LimitKey, first *schema.Spec, runs int, more bool, oldest time.Time)
}

// Waits returns who is told of runs that are due and may not start.
func (w *Writer) Waits() Waits { return w.waits }

// noWaits is nobody.
type noWaits struct{}

func (noWaits) Deferred([]schema.Entry, schema.Cause)                    {}
func (noWaits) Held(schema.LimitKey, *schema.Spec, int, bool, time.Time) {}

// MissedCause returns why a record says that its run was missed, in one word.
func MissedCause(rec *schema.Record) string {
	cause, _, _ := strings.Cut(rec.Reason, ":")
	return cause
}

func kindLabel(k schema.Kind) string {
	if k == schema.KindRun {
		return "run"
	}
	return string(k)
}

// WriteAll writes entries as Write does, and returns what went wrong with any of them.
func (w *Writer) WriteAll(ctx context.Context, entries []schema.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return firstFault(func(done func(int, error)) { w.Write(ctx, entries, done) })
}

// firstFault runs f, and returns one of the errors that f reports.
func firstFault(f func(done func(int, error))) error {
	var mu sync.Mutex
	var first error
	f(func(_ int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && (first == nil || !errors.Is(first, err)) {
			first = err
		}
	})
	return first
}

// WriteOne writes one entry as Write does.
func (w *Writer) WriteOne(ctx context.Context, e schema.Entry) error {
	err := schema.ErrUnavailable
	w.Write(ctx, []schema.Entry{e}, func(_ int, e error) { err = e })
	return err
}

// WriteOnce writes those of the rows that are not there, and applies the late rule to the others.
func (w *Writer) WriteOnce(ctx context.Context, rows []schema.Entry) error {
	found, err := w.Stored(ctx, IDsOf(rows))
	if err != nil {
		return err
	}
	var absent, met []schema.Entry
	for i := range rows {
		if row, there := found[rows[i].ID]; there {
			met = append(met, row)
		} else {
			absent = append(absent, rows[i])
		}
	}
	return errors.Join(w.WriteAll(ctx, absent), w.CheckLate(ctx, met))
}

// Pick returns the entries at the indices.
func Pick(entries []schema.Entry, indices []int) []schema.Entry {
	picked := make([]schema.Entry, len(indices))
	for k, i := range indices {
		picked[k] = entries[i]
	}
	return picked
}

// Batches groups entries into batches, which are lists of indices. A batch holds rows of one
// partition, at most BatchRows and about batchBytes. What is left of a partition, if fewer than
// leftoverRows, shares a batch of at most mixedRows with the leftovers of others.
func Batches(entries []schema.Entry) [][]int {
	order := make([]int, len(entries))
	parts := make([]schema.Partition, len(entries))
	for i := range order {
		order[i], parts[i] = i, entries[i].ID.Partition()
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(parts[i].Bucket, parts[j].Bucket), cmp.Compare(parts[i].Shard, parts[j].Shard))
	})
	var batches [][]int
	var mixed []int
	var bytes, mixedBytes int
	var batch []int
	flush := func() {
		if len(batch) >= leftoverRows {
			batches = append(batches, batch)
		} else if len(batch) > 0 {
			if len(mixed) > 0 && (len(mixed)+len(batch) > mixedRows || mixedBytes+bytes > batchBytes) {
				batches = append(batches, mixed)
				mixed, mixedBytes = nil, 0
			}
			mixed, mixedBytes = append(mixed, batch...), mixedBytes+bytes
		}
		batch, bytes = nil, 0
	}
	for k, i := range order {
		if k > 0 && parts[i] != parts[order[k-1]] {
			flush()
		}
		size := entries[i].Size()
		if len(batch) > 0 && (len(batch) == BatchRows || bytes+size > batchBytes) {
			batches = append(batches, batch)
			batch, bytes = nil, 0
		}
		batch, bytes = append(batch, i), bytes+size
	}
	flush()
	if len(mixed) > 0 {
		batches = append(batches, mixed)
	}
	return batches
}

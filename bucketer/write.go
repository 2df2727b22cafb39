package bucketer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// write makes the entries durable, in as few batches as their partitions allow, and applies the late rule
// and the near rule to each. done is called exactly once for each index, from any goroutine, before write returns: with nil
// once a quorum holds the entry, or a late entry of it.
//
// If we crash before done(i, nil), the row may or may not be there; if it is, it is dispatched like any other.
func (b *Bucketer) write(ctx context.Context, entries []schema.Entry, done func(i int, err error)) {
	if !b.clock.known() {
		for i := range entries {
			done(i, fmt.Errorf("%w: %w", schema.ErrUnavailable, errNoClock))
		}
		return
	}
	var wg sync.WaitGroup
	for _, batch := range Batches(entries) {
		select {
		case b.writes <- struct{}{}:
		case <-ctx.Done():
			for _, i := range batch {
				done(i, fmt.Errorf("%w: %w", schema.ErrUnavailable, ctx.Err()))
			}
			continue
		}
		wg.Go(func() {
			defer func() { <-b.writes }()
			b.writeBatch(ctx, entries, batch, done)
		})
	}
	wg.Wait()
}

// errNoClock: the wall clock was never found to be right, so nobody can say whether a row is in time.
var errNoClock = errors.New("what time it is has not been compared yet")

func (b *Bucketer) writeBatch(ctx context.Context, entries []schema.Entry, batch []int, done func(int, error)) {
	rows := Pick(entries, batch)
	sent := b.now()
	listed := b.list(ctx, rows)
	if err := b.store.PutEntries(ctx, rows); err != nil {
		listed()
		for _, i := range batch {
			done(i, err)
		}
		return
	}
	held := laterOf(sent, b.now())
	b.CountWritten(rows)
	errs := b.heldAt(ctx, held, rows)
	listed()
	for k, i := range batch {
		done(i, errs[k])
	}
}

// laterOf returns when something ended that began at sent and ended at now: by the wall clock, or by the time that passed since if
// the wall clock was set back meanwhile. A row must not count as held earlier than it was.
func laterOf(sent, now time.Time) time.Time {
	if passed := sent.Round(0).Add(now.Sub(sent)); passed.After(now.Round(0)) {
		return passed
	}
	return now
}

func (b *Bucketer) CountWritten(rows []schema.Entry) {
	for i := range rows {
		b.metrics.entries.WithLabelValues(kindLabel(rows[i].Spec.Kind)).Inc()
	}
}

func kindLabel(k schema.Kind) string {
	if k == schema.KindRun {
		return "run"
	}
	return string(k)
}

// heldAt applies the late rule and the near rule to rows that a quorum holds since held.
func (b *Bucketer) heldAt(ctx context.Context, held time.Time, rows []schema.Entry) []error {
	errs := make([]error, len(rows))
	near := make(map[schema.Shard][]schema.Entry)
	var late []int
	for i := range rows {
		switch due := rows[i].Due(); {
		case held.After(due.Add(LateAfter)):
			late = append(late, i)
		case due.Sub(held) < NearSpan && rows[i].Spec.Kind != schema.KindReschedule:
			// A reschedule entry means nothing until moved_to names it: its writer hints afterwards.
			near[rows[i].ID.Shard()] = append(near[rows[i].ID.Shard()], rows[i])
		}
	}
	b.Hint(near)
	for k, err := range b.writeLateEntries(ctx, held, Pick(rows, late)) {
		errs[late[k]] = err
	}
	return errs
}

func (b *Bucketer) Hint(near map[schema.Shard][]schema.Entry) {
	for shard, entries := range near {
		b.metrics.near.Add(float64(len(entries)))
		b.hints.Near(shard, entries)
	}
}

// writeLateEntries is the late rule: the rows, held or met at held, may have missed their sweep, so for each an entry of it that is due
// now is written. Two of them, or one beside a sweep that did find the row, cost a look. It answers for each row.
func (b *Bucketer) writeLateEntries(ctx context.Context, held time.Time, rows []schema.Entry) []error {
	errs := make([]error, len(rows))
	open := make([]int, len(rows))
	for i := range open {
		open[i] = i
	}
	for try := 0; try < lateTries && len(open) > 0; try++ {
		open, held = b.writeLateEntriesOnce(ctx, Latest(held, b.now()), rows, open, errs)
	}
	for _, i := range open {
		errs[i] = fmt.Errorf("late entry of %s: %w: every one was held too late", rows[i].Run(), schema.ErrUnknown)
	}
	return errs
}

// writeLateEntriesOnce writes a late entry, due now, for each of the open rows, and returns those whose late entry was itself held
// too late, and when the last was held. The outcome of the others is in errs.
func (b *Bucketer) writeLateEntriesOnce(ctx context.Context, now time.Time, rows []schema.Entry, open []int, errs []error) (again []int, held time.Time) {
	held = now
	var late []schema.Entry
	var whose []int
	for _, i := range open {
		e := &rows[i]
		if b.NeedsKeeping(e.Run(), e.Due(), now) {
			if err := b.KeepRows(ctx, e.Run(), nil, now); err != nil {
				errs[i] = err
				continue
			}
		}
		kind := schema.KindLate
		if e.Spec.Kind == schema.KindCatchUp {
			kind = schema.KindCatchUp // it starts nothing: another one is as good
		}
		l, err := b.LaterStart(e, kind, schema.MakeEntryID(now, e.ID.Shard(), schema.RandomHash()), e.Spec.AttemptNumber(), now)
		if err != nil {
			errs[i] = err
			continue
		}
		late, whose = append(late, l), append(whose, i)
	}
	near := make(map[schema.Shard][]schema.Entry)
	for _, batch := range Batches(late) {
		entries := Pick(late, batch)
		if err := b.store.PutEntries(ctx, entries); err != nil {
			for _, k := range batch {
				errs[whose[k]] = fmt.Errorf("late entry of %s: %w", late[k].Run(), err)
			}
			continue
		}
		held = laterOf(now, b.now())
		b.metrics.late.Add(float64(len(entries)))
		b.CountWritten(entries)
		for n, k := range batch {
			if held.After(late[k].Due().Add(LateAfter)) {
				again = append(again, whose[k])
				continue
			}
			shard := late[k].ID.Shard()
			near[shard] = append(near[shard], entries[n])
		}
	}
	b.Hint(near)
	return again, held
}

// Pick returns the entries at the indices.
func Pick(entries []schema.Entry, indices []int) []schema.Entry {
	picked := make([]schema.Entry, len(indices))
	for k, i := range indices {
		picked[k] = entries[i]
	}
	return picked
}

// LaterStart makes, without writing it, a later start of e's run under id: same work, same payload, another
// kind, attempt number and instant of acceptance. Equal arguments make equal bytes.
func (b *Bucketer) LaterStart(e *schema.Entry, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error) {
	spec := e.Spec
	switch kind {
	case schema.KindRetry:
		spec.Deferrals = 0
	case schema.KindDeferral:
		spec.Deferrals++
	}
	spec.ReservedRate = "" // another time is no start of a rate
	return b.later(e, spec, kind, id, attempt, accepted)
}

// Defer makes, without writing it, the entry that starts e's run at another time instead, the first ms from at on: one that was taken for it from the
// rate pace of its task, or ("") at which it will ask for one. Its id is a function of e and the time.
func (b *Bucketer) Defer(e *schema.Entry, at time.Time, pace string, accepted time.Time) (schema.Entry, error) {
	spec := e.Spec
	spec.ReservedRate = pace
	id := schema.MakeEntryID(CeilMilli(at), e.ID.Shard(), schema.HashOf("defer", e.ID.String()))
	return b.later(e, spec, schema.KindDeferral, id, e.Spec.AttemptNumber(), accepted)
}

// later makes a later start of e's run of a spec that is e's but for what is the same for all.
func (b *Bucketer) later(e *schema.Entry, spec schema.Spec, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error) {
	spec.Kind, spec.Of, spec.For, spec.Attempt, spec.Accepted = kind, e.Run(), schema.EntryID{}, attempt, accepted.UnixMicro()
	if first, ok := e.First(); ok && kind != schema.KindRetry {
		spec.For = first // it may start only while the entry that it stands in for might
	}
	payload := e.Payload
	if at, large := e.LargePayload(); large {
		spec.PayloadAt, payload = at, nil
	}
	return schema.NewEntry(id, spec, payload, b.Expiry(id.Time(), accepted))
}

// Expiry returns when a row due at due and written at now leaves.
func (b *Bucketer) Expiry(due, now time.Time) time.Time {
	retention := defaultRetention
	if s := b.settings.Load(); s != nil && s.Retention > 0 {
		retention = s.Retention
	}
	if due.Before(now) {
		due = now
	}
	return due.Add(retention)
}

// defaultRetention is in force until the settings have been read.
const defaultRetention = 7 * 24 * time.Hour

// Batches groups entries into batches: lists of indices. A batch holds rows of one partition, at most batchRows and about
// batchBytes; what is left of a partition, if fewer than leftoverRows, shares a batch of at most mixedRows with the leftovers of others.
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
		if len(batch) > 0 && (len(batch) == batchRows || bytes+size > batchBytes) {
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

// WriteAll writes entries as write does, and returns what went wrong with any of them.
func (b *Bucketer) WriteAll(ctx context.Context, entries []schema.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return b.all(func(done func(int, error)) { b.write(ctx, entries, done) })
}

// CheckLate applies the late rule to rows that were found, and returns what went wrong with any of them.
func (b *Bucketer) CheckLate(ctx context.Context, rows []schema.Entry) error {
	if len(rows) == 0 {
		return nil
	}
	return b.all(func(done func(int, error)) { b.checkLateRows(ctx, rows, done) })
}

// all runs f and joins what it reports, the same only once.
func (b *Bucketer) all(f func(done func(int, error))) error {
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

// WriteOnce writes those of the rows that are not there, and applies the late rule to the others: who wrote them may have been late.
func (b *Bucketer) WriteOnce(ctx context.Context, rows []schema.Entry) error {
	found, err := b.Stored(ctx, IDsOf(rows))
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
	return errors.Join(b.WriteAll(ctx, absent), b.CheckLate(ctx, met))
}

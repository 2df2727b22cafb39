package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// Finished is an attempt with its record, and the entry that started it (or that an attempt 0 is about).
type Finished struct {
	Entry   schema.Entry
	Attempt schema.Attempt
}

// FollowUp writes what follows from the records: the retry entries that they name, a dead letter for each run that has failed for good, and a line
// of history for each run of a job that can have many. A run whose retry is too large for the store has failed for good: to try again would be for ever.
// done is called exactly once for each, as in SubmitBatch. Everything is a function of entry and record, so anybody who
// meets a record may call it again: what stands already is written again as it is.
func (b *Bucketer) FollowUp(ctx context.Context, finished []Finished, done func(i int, err error)) {
	var entries []schema.Entry
	var index []int
	var lines []schema.JobRun
	var ended, dead, slow []int
	end := func(i int) {
		line, ok := HistoryLine(&finished[i].Entry, &finished[i].Attempt)
		if !ok {
			done(i, nil)
			return
		}
		lines, ended = append(lines, line), append(ended, i)
	}
	for i := range finished {
		rec := finished[i].Attempt.Record
		if rec == nil || rec.Next.IsZero() {
			if bearsOnDeadLetter(rec) {
				dead = append(dead, i)
			} else {
				end(i)
			}
			continue
		}
		if b.asks(&finished[i]) {
			slow = append(slow, i)
			continue
		}
		next, err := b.retry(ctx, &finished[i])
		if err != nil {
			done(i, err)
			continue
		}
		entries, index = append(entries, next), append(index, i)
	}
	if len(dead) > 0 {
		failed := b.writeDeadLetters(ctx, finished, dead)
		for _, i := range dead {
			if err := failed[i]; err != nil {
				done(i, err)
			} else {
				end(i)
			}
		}
	}
	for len(lines) > 0 {
		n := min(len(lines), historyBatch)
		err := b.PutHistory(ctx, lines[:n])
		for _, i := range ended[:n] {
			done(i, err)
		}
		lines, ended = lines[n:], ended[n:]
	}
	b.putRetries(ctx, finished, entries, index, done)
	for part := range slices.Chunk(slow, KeepAtOnce) {
		made, errs := make([]schema.Entry, len(part)), make([]error, len(part))
		var wg sync.WaitGroup
		for k, i := range part {
			wg.Go(func() { made[k], errs[k] = b.retry(ctx, &finished[i]) })
		}
		wg.Wait()
		entries, index = entries[:0], index[:0]
		for k, i := range part {
			if errs[k] != nil {
				done(i, errs[k])
				continue
			}
			entries, index = append(entries, made[k]), append(index, i)
		}
		b.putRetries(ctx, finished, entries, index, done)
	}
}

// putRetries writes the retries of those of finished that index names.
func (b *Bucketer) putRetries(ctx context.Context, finished []Finished, entries []schema.Entry, index []int, done func(i int, err error)) {
	var mu sync.Mutex
	var large []int
	b.write(ctx, entries, func(k int, err error) {
		if !errors.Is(err, schema.ErrTooLarge) {
			done(index[k], err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		large = append(large, k)
	})
	for _, k := range large {
		err := b.WriteOne(ctx, entries[k]) // it may have been its batch that was too large
		if errors.Is(err, schema.ErrTooLarge) {
			err = b.giveUpRetry(ctx, finished[index[k]], &entries[k], err)
		}
		done(index[k], err)
	}
}

// giveUpRetry ends the run of f as failed for good: nobody can ever write next, the retry that its record names. An attempt 0 about the retry says so, and the
// letter and the line of history say of the attempt that it was the last.
//
// All of that is a function of entry and record. Crash at any step: the record still names the retry, so whoever meets it gives the retry up again, to the same rows.
func (b *Bucketer) giveUpRetry(ctx context.Context, f Finished, next *schema.Entry, cause error) error {
	last := *f.Attempt.Record
	said := b.NotStarted(*next, schema.Record{Outcome: schema.Failed, Final: true, Error: noRetry}, last.Finished)
	if err := b.Record(ctx, []schema.Attempt{said}); err != nil {
		return err
	}
	last.Next, last.Final, last.Error = schema.EntryID{}, true, strings.TrimPrefix(last.Error+"; "+noRetry, "; ")
	f.Attempt.Record = &last
	err := schema.ErrUnavailable
	b.FollowUp(ctx, []Finished{f}, func(_ int, e error) { err = e })
	if err != nil {
		return err
	}
	b.metrics.retriesGivenUp.Inc()
	b.log.Error("a retry is too large to be written: its run has failed", "tenant", f.Entry.Spec.Tenant, "run", f.Entry.Run(), "err", cause)
	return nil
}

// noRetry is why a run fails whose retry cannot be written.
const noRetry = "not attempted again: the entry of its retry is too large to be written"

// asks reports whether retry asks the store for f: what does is made in parts, each of which is written before the next one is begun. However slow the store is,
// who has little time gets on then, and what is left is less the next time.
func (b *Bucketer) asks(f *Finished) bool {
	rec := f.Attempt.Record
	elsewhere := !rec.Entry.IsZero() && rec.Entry != f.Entry.ID
	return elsewhere || b.NeedsKeeping(f.Entry.Run(), f.Entry.Due(), rec.Next.Time())
}

// retry makes the entry that the record of f names next, and sees to it that what it refers to lives long enough.
func (b *Bucketer) retry(ctx context.Context, f *Finished) (schema.Entry, error) {
	rec := f.Attempt.Record
	starter, err := b.starter(ctx, f)
	if err != nil {
		return schema.Entry{}, err
	}
	starter.Spec.Began = began(&starter, rec).UnixMicro()
	next, err := b.LaterStart(&starter, schema.KindRetry, rec.Next, f.Attempt.Number+1, rec.Finished)
	if err != nil {
		return schema.Entry{}, err
	}
	if err := b.outlive(ctx, starter.Due(), &next); err != nil {
		return schema.Entry{}, err
	}
	return next, nil
}

// starter returns the entry that started the attempt of f. The record may have been met beside another entry of the run, such as the row of a
// run that was moved, which has another spec: what follows is a function of the entry that was started.
func (b *Bucketer) starter(ctx context.Context, f *Finished) (schema.Entry, error) {
	at := f.Attempt.Record.Entry
	if at.IsZero() || at == f.Entry.ID {
		return f.Entry, nil
	}
	rows, err := b.store.EntriesByID(ctx, at.Partition(), []schema.EntryID{at})
	switch {
	case err != nil:
		return schema.Entry{}, fmt.Errorf("entry %s that was started: %w", at, err)
	case len(rows) > 0 && rows[0].Fault == nil:
		return rows[0], nil
	}
	return f.Entry, nil
}

// Replace writes the entries `to`, each of which stands in for the one of `from` with the same index, and then says so in an attempt 0 of
// each run; both in batches by partition. What a later start needs is kept before its entry is written, in parts as FollowUp does. It returns the ids of those of
// `from` that were replaced, and what went wrong with the others. Crash in between: such an entry is still open, and whoever meets it next replaces it by the same id.
func (b *Bucketer) Replace(ctx context.Context, from, to []schema.Entry) ([]schema.EntryID, error) {
	return b.DeferTo(ctx, from, to, "")
}

// DeferTo is Replace for deferrals of one cause.
func (b *Bucketer) DeferTo(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error) {
	var ready, slow []int
	for i := range to {
		if b.NeedsKeeping(to[i].Run(), from[i].Due(), to[i].Due()) {
			slow = append(slow, i)
		} else {
			ready = append(ready, i)
		}
	}
	if len(slow) == 0 {
		return b.replaceKept(ctx, from, to, cause)
	}
	replaced, err := b.replaceKept(ctx, Pick(from, ready), Pick(to, ready), cause)
	errs := []error{err}
	for part := range slices.Chunk(slow, KeepAtOnce) {
		faults := make([]error, len(part))
		var wg sync.WaitGroup
		for k, i := range part {
			wg.Go(func() { faults[k] = b.outlive(ctx, from[i].Due(), &to[i]) })
		}
		wg.Wait()
		var kept []int
		for k, i := range part {
			if faults[k] != nil {
				errs = append(errs, fmt.Errorf("replace %s by %s: %w", from[i].ID, to[i].ID, faults[k]))
				continue
			}
			kept = append(kept, i)
		}
		ids, err := b.replaceKept(ctx, Pick(from, kept), Pick(to, kept), cause)
		replaced, errs = append(replaced, ids...), append(errs, err)
	}
	return replaced, errors.Join(errs...)
}

// replaceKept is DeferTo where all is kept that the later starts need.
func (b *Bucketer) replaceKept(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error) {
	var mu sync.Mutex
	var errs []error
	var replaced []schema.EntryID
	var rows []schema.Attempt
	now := b.now()
	b.write(ctx, to, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("replace %s by %s: %w", from[i].ID, to[i].ID, err))
			return
		}
		replaced = append(replaced, from[i].ID)
		rec := schema.Record{Outcome: schema.Replaced, To: to[i].ID}
		if to[i].Spec.Kind == schema.KindDeferral {
			rec.Reason, rec.Cause = schema.Deferred, cause
		}
		rows = append(rows, b.NotStarted(from[i], rec, now))
	})
	if err := b.Record(ctx, rows); err != nil {
		return nil, err
	}
	return replaced, errors.Join(errs...)
}

// NotStarted makes the attempt 0 that says why `e` did not start here. Its timestamp is that of now, to the µs. Its fence holds no time: it
// is a hash of what is said and when, so that two of one run never share a row. (A catch-up says two things about one run in one step: the random
// bits of schema.MakeFence had one of them take the other's place in one of a thousand.) A missed run of a job that has many stands for a stretch of
// nominal times, of itself alone if rec names none.
func (b *Bucketer) NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt {
	rec.Entry, rec.Finished = e.ID, now.UTC()
	if rec.Outcome == schema.Missed && rec.Missed == nil && !e.Spec.Job.IsZero() {
		rec.Missed = &schema.Stretch{From: e.Spec.Nominal, To: e.Spec.Nominal, Count: 1, Reason: rec.Reason}
	}
	said := schema.HashOf("attempt 0", e.ID.String(), string(rec.Outcome), rec.To.String(), strconv.FormatInt(now.UnixMicro(), 10))
	return schema.Attempt{
		Run: e.Run(), Fence: schema.Fence(said), Record: &rec, // #nosec G115 -- 62 bits
		Written: now.UnixMicro(), Expires: b.Expiry(Latest(e.Run().Time(), e.Due(), rec.To.Time()), now).Add(Outlast),
	}
}

// Record writes attempts, in batches of one partition. An error means that any of them may or may not be held.
func (b *Bucketer) Record(ctx context.Context, attempts []schema.Attempt) error {
	for p, rows := range byPartition(attempts, func(a schema.Attempt) schema.EntryID { return a.Run }) {
		for len(rows) > 0 {
			n := min(len(rows), batchRows)
			if err := b.store.PutAttempts(ctx, rows[:n]); err != nil {
				return fmt.Errorf("record in %s: %w", p, err)
			}
			rows = rows[n:]
		}
	}
	return nil
}

// Latest returns the latest of the instants.
func Latest(t time.Time, others ...time.Time) time.Time {
	for _, o := range others {
		if o.After(t) {
			t = o
		}
	}
	return t
}

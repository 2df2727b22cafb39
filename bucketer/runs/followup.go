package runs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// FollowUp writes what follows from the records: the retry entries that they name, a dead letter
// for each run that failed for good, a line of history for each run of a job that can have many, and
// events of the system where somebody listens. A run whose retry is too large for the store has
// failed for good.
//
// done is called exactly once for each, as in SubmitBatch. Everything is a function of entry and
// record. So any node may call FollowUp again: it writes the same rows.
func (r *Recorder) FollowUp(ctx context.Context, finished []bucketer.Finished, done func(i int, err error)) {
	if failed := r.announce(ctx, finished); len(failed) > 0 {
		rest := done
		done = func(i int, err error) {
			if err == nil {
				err = failed[i]
			}
			rest(i, err)
		}
	}
	var entries []schema.Entry
	var index []int
	var lines []schema.JobRun
	var ended, dead, slow []int
	end := func(i int) {
		line, ok := r.lineOf(&finished[i])
		if !ok {
			done(i, nil)
			return
		}
		lines, ended = append(lines, line), append(ended, i)
	}
	for i := range finished {
		rec := finished[i].Attempt.Record
		if rec == nil || rec.Next.IsZero() {
			if bearsOnDeadLetter(&finished[i]) {
				dead = append(dead, i)
			} else {
				end(i)
			}
			continue
		}
		if r.readsStore(&finished[i]) {
			slow = append(slow, i)
			continue
		}
		next, err := r.retry(ctx, &finished[i])
		if err != nil {
			done(i, err)
			continue
		}
		entries, index = append(entries, next), append(index, i)
	}
	if len(dead) > 0 {
		failed := r.letters.writeFor(ctx, finished, dead)
		for _, i := range dead {
			if err := failed[i]; err != nil {
				done(i, err)
			} else {
				end(i)
			}
		}
	}
	for len(lines) > 0 {
		n := min(len(lines), bucketer.HistoryBatch)
		err := r.core.PutHistory(ctx, lines[:n])
		for _, i := range ended[:n] {
			if err == nil {
				r.watch.failed(&finished[i])
			}
			done(i, err)
		}
		lines, ended = lines[n:], ended[n:]
	}
	r.putRetries(ctx, finished, entries, index, done)
	for part := range slices.Chunk(slow, bucketer.KeepAtOnce) {
		made, errs := make([]schema.Entry, len(part)), make([]error, len(part))
		var wg sync.WaitGroup
		for k, i := range part {
			wg.Go(func() { made[k], errs[k] = r.retry(ctx, &finished[i]) })
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
		r.putRetries(ctx, finished, entries, index, done)
	}
}

// lineOf is HistoryLine, with how long the line is kept.
func (r *Recorder) lineOf(f *bucketer.Finished) (schema.JobRun, bool) {
	line, ok := HistoryLine(&f.Entry, &f.Attempt)
	if e := &f.Entry; ok && (line.Expires.IsZero() || e.Spec.Retention > 0) { // of a record that was read, or that leaves sooner
		line.Expires = r.core.Expiry(bucketer.Latest(e.Run().Time(), e.Due()), f.Attempt.Record.Finished)
	}
	return line, ok
}

// putRetries writes retry entries. index says for each of them which of finished it follows from.
func (r *Recorder) putRetries(ctx context.Context, finished []bucketer.Finished, entries []schema.Entry, index []int, done func(i int, err error)) {
	var mu sync.Mutex
	var large []int
	r.core.Write(ctx, entries, func(k int, err error) {
		if !errors.Is(err, schema.ErrTooLarge) {
			done(index[k], err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		large = append(large, k)
	})
	for _, k := range large {
		err := r.core.WriteOne(ctx, entries[k]) // only its batch may have been too large
		if errors.Is(err, schema.ErrTooLarge) {
			err = r.giveUpRetry(ctx, finished[index[k]], &entries[k], err)
		}
		done(index[k], err)
	}
}

// giveUpRetry ends the run of f as failed for good, because next, the retry that its record names,
// is too large to be written. An attempt 0 about the retry says so. The dead letter and the line of
// history say that the attempt was the last.
//
// If we crash at any step, the record still names the retry. The next node that reads it gives the
// retry up again, to the same rows.
func (r *Recorder) giveUpRetry(ctx context.Context, f bucketer.Finished, next *schema.Entry, cause error) error {
	last := *f.Attempt.Record
	said := r.NotStarted(*next, schema.Record{Outcome: schema.Failed, Final: true, Error: noRetry}, last.Finished)
	if err := r.Record(ctx, []schema.Attempt{said}); err != nil {
		return err
	}
	last.Next, last.Final, last.Error = schema.EntryID{}, true, strings.TrimPrefix(last.Error+"; "+noRetry, "; ")
	f.Attempt.Record = &last
	err := schema.ErrUnavailable
	r.FollowUp(ctx, []bucketer.Finished{f}, func(_ int, e error) { err = e })
	if err != nil {
		return err
	}
	r.metrics.retriesGivenUp.Inc()
	r.log.Error("a retry is too large to be written: its run has failed", "tenant", f.Entry.Spec.Tenant, "run", f.Entry.Run(), "err", cause)
	return nil
}

// noRetry is why a run fails whose retry cannot be written.
const noRetry = "not attempted again: the entry of its retry is too large to be written"

// readsStore reports whether making the retry of f reads the store. Such retries are made in small
// parts, and each part is written before the next one is made. So a caller with little time gets on
// even if the store is slow, and the next call has less left to do.
func (r *Recorder) readsStore(f *bucketer.Finished) bool {
	rec := f.Attempt.Record
	elsewhere := !rec.Entry.IsZero() && rec.Entry != f.Entry.ID
	return elsewhere || r.core.NeedsKeeping(&f.Entry, f.Entry.Due(), rec.Next.Time())
}

// retry makes the entry that the record of f names next, and keeps what it refers to for long
// enough.
func (r *Recorder) retry(ctx context.Context, f *bucketer.Finished) (schema.Entry, error) {
	rec := f.Attempt.Record
	starter, err := r.reader.starter(ctx, f)
	if err != nil {
		return schema.Entry{}, err
	}
	starter.Spec.Began = began(&starter, rec).UnixMicro()
	next, err := r.core.LaterStart(&starter, schema.KindRetry, rec.Next, f.Attempt.Number+1, rec.Finished)
	if err != nil {
		return schema.Entry{}, err
	}
	if err := r.core.KeepFor(ctx, starter.Due(), &next); err != nil {
		return schema.Entry{}, err
	}
	return next, nil
}

package bucketer

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// Finished is an attempt with its record, and the entry that started it (or that an attempt 0 is about).
type Finished struct {
	Entry   schema.Entry
	Attempt schema.Attempt
}

// FollowUp writes what the records name: today, the retry entries. done is called exactly once for
// each, as in SubmitBatch. Everything is a function of entry and record, so anybody who meets a record may call it again:
// what stands already is written again as it is.
func (b *Bucketer) FollowUp(ctx context.Context, finished []Finished, done func(i int, err error)) {
	var entries []schema.Entry
	var index []int
	for i := range finished {
		rec := finished[i].Attempt.Record
		if rec == nil || rec.Next.IsZero() {
			done(i, nil)
			continue
		}
		next, err := b.Later(&finished[i].Entry, schema.KindRetry, rec.Next, finished[i].Attempt.Number+1, rec.Finished)
		if err != nil {
			done(i, err)
			continue
		}
		if err := b.outlive(ctx, &finished[i].Entry, next.Due()); err != nil {
			done(i, err)
			continue
		}
		entries, index = append(entries, next), append(index, i)
	}
	b.write(ctx, entries, func(k int, err error) { done(index[k], err) })
}

// HandOn writes the entry `to`, which stands in for `from`, and then says so in an attempt 0 of the
// run. Crash in between: `from` is still open, and whoever meets it next hands it on to the same id.
func (b *Bucketer) HandOn(ctx context.Context, from, to schema.Entry) error {
	if err := b.outlive(ctx, &from, to.Due()); err != nil {
		return err
	}
	var err error
	b.write(ctx, []schema.Entry{to}, func(_ int, e error) { err = e })
	if err != nil {
		return fmt.Errorf("hand %s on to %s: %w", from.ID, to.ID, err)
	}
	return b.Record(ctx, []schema.Attempt{b.NotStarted(from, schema.Record{Outcome: schema.HandedOn, To: to.ID}, b.now())})
}

// NotStarted makes the attempt 0 that says why `e` did not start here. Its fence and timestamp are those of now, to the µs.
func (b *Bucketer) NotStarted(e schema.Entry, rec schema.Record, now time.Time) schema.Attempt {
	rec.Entry, rec.Finished = e.ID, now.UTC()
	return schema.Attempt{
		Run: e.Run(), Fence: schema.MakeFence(now), Record: &rec,
		Written: now.UnixMicro(), Expires: b.expiry(e.Due(), now),
	}
}

// Expiry returns when the attempts of an entry due at due, written at now, leave the store.
func (b *Bucketer) Expiry(due, now time.Time) time.Time { return b.expiry(due, now) }

// Record writes attempts, in batches of one partition. An error means that any of them may or may not be held.
func (b *Bucketer) Record(ctx context.Context, attempts []schema.Attempt) error {
	byPartition := make(map[schema.Partition][]schema.Attempt)
	for _, a := range attempts {
		p := a.Run.Partition()
		byPartition[p] = append(byPartition[p], a)
	}
	for p, rows := range byPartition {
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

// outlive keeps the row of the run in the store for as long as a later start of it, due at due, may need it: if
// less than half of the retention would be left by then, row and payload are written again, byte for
// byte and with their own timestamps, with a longer life. Of equal cells the longer-lived one wins.
func (b *Bucketer) outlive(ctx context.Context, e *schema.Entry, due time.Time) error {
	run := e.Run()
	half := b.expiry(due, due).Sub(due) / 2
	if due.Before(run.Time().Add(half)) {
		return nil
	}
	rows, err := b.store.EntriesByID(ctx, run.Partition(), []schema.EntryID{run})
	if err != nil {
		return fmt.Errorf("row of %s: %w", run, err)
	}
	if len(rows) == 0 {
		return nil // it has left already: the later start carries all that is needed
	}
	row := rows[0]
	if at, large := row.LargePayload(); large {
		if row.Payload, err = b.store.Payload(ctx, at); err != nil {
			return fmt.Errorf("payload of %s: %w", run, err)
		}
	}
	row.Expires = b.expiry(due, due)
	if err := b.store.PutEntries(ctx, []schema.Entry{row}); err != nil {
		return fmt.Errorf("lengthen the life of %s: %w", run, err)
	}
	return nil
}

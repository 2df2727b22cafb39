package bucketer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// KeyedRun returns the id of the run that an idempotency key of the tenant stands for, or
// schema.ErrNotFound. The key of a request (at is zero) is known for KeyRetention. That of an import's
// line with an instant stands together with that instant. It is known as long as the run's row is, if
// the number of shards was not changed more than 24 h ago.
//
// A key may also stand for a job that can have many runs, or for an event. Then the id is not that of
// a run.
func (b *Bucketer) KeyedRun(ctx context.Context, tenant, key string, at time.Time) (schema.RunID, error) {
	if at.IsZero() {
		held, err := b.store.RegisteredKey(ctx, tenant, key)
		if err != nil {
			return schema.RunID{}, fmt.Errorf("key of a run: %w", err)
		}
		return held.Entry, nil
	}
	s := b.settings.Load()
	if s == nil {
		return schema.RunID{}, ErrNotReady
	}
	shards := []int{s.Shards}
	for _, h := range s.History {
		shards = append(shards, h.Shards)
	}
	slices.Sort(shards)
	ids := make(map[schema.Partition][]schema.EntryID)
	for _, n := range slices.Compact(shards) {
		id := keyedID(tenant, key, at, b.regions.keyed(tenant, n))
		if p := id.Partition(); !slices.Contains(ids[p], id) {
			ids[p] = append(ids[p], id)
		}
	}
	rows, failed := b.find(ctx, ids)
	for id := range rows {
		if e := rows[id]; e.Spec.Tenant == tenant && e.Spec.Key == key {
			return id, nil
		}
	}
	for p, err := range failed {
		return schema.RunID{}, fmt.Errorf("key of a run in %s: %w", p, err)
	}
	return schema.RunID{}, fmt.Errorf("key of a run: %w", schema.ErrNotFound)
}

// known answers with the job of a key that was registered before, and writes its row if that is not
// there: the node may have crashed between key and row. A row that is there is left alone, because
// it may have been cancelled or moved. Everywhere: the other regions are to hold it, and the keys
// that are not "", if it was asked for so then or is now.
func known(ctx context.Context, b *Bucketer, held *schema.KeyRecord, now time.Time, everywhere bool, keys ...string) (Receipt, error) {
	receipt := Receipt{Run: held.Entry, Existing: true}
	if err := b.regions.Serves(held.Entry.Shard()); err != nil {
		return Receipt{}, err
	}
	if !now.Before(held.Expires) {
		return receipt, nil // the run's row expired and may not come back
	}
	rows, err := b.store.EntriesByID(ctx, held.Entry.Partition(), []schema.EntryID{held.Entry})
	if err != nil {
		return Receipt{}, fmt.Errorf("row of a known key: %w", err)
	}
	if len(rows) == 0 {
		row := schema.LoadEntry(held.Entry, held.Text, held.Payload, schema.Marks{})
		row.Expires = held.Expires
		if err := registerOther(ctx, b, held, &row, now); err != nil {
			return Receipt{}, err
		}
		if err = writeNew(ctx, b, row, keys...); err == nil && !row.Spec.Everywhere {
			err = b.regions.confirmNew(ctx, everywhere, &row, keys...) // it is asked for now, and was not when the key was registered
		}
		return receipt, err
	}
	b.checkLateRows(ctx, rows, func(_ int, e error) { err = e })
	if err == nil {
		err = b.regions.confirmNew(ctx, everywhere || rows[0].Spec.Everywhere, &rows[0], keys...)
	}
	if err == nil {
		err = b.regions.Acknowledges(held.Entry.Shard())
	}
	return receipt, err
}

// registerOther registers the idempotency key of a unique job whose row is not there: the request
// that asked for it may not have come to that, and sent again it must find this job.
func registerOther(ctx context.Context, b *Bucketer, held *schema.KeyRecord, row *schema.Entry, now time.Time) error {
	if row.Spec.Unique == nil || row.Spec.Key == "" {
		return nil
	}
	record := *held
	record.BodyHash = row.Spec.BodyHash
	if _, _, err := b.store.RegisterKey(ctx, row.Spec.Tenant, row.Spec.Key, record, now.Add(KeyRetention)); err != nil {
		return fmt.Errorf("register the key of a unique job: %w", err)
	}
	return nil
}

// uniqueSlack is how much longer than its window a unique key is kept. A store counts seconds, and
// the clocks of nodes and stores differ: the window must not end too soon.
const uniqueSlack = 2*schema.MaxClockError + 2*time.Second

// uniqueKey returns under which key of its tenant a unique job is registered.
func uniqueKey(u *schema.Unique) string { return OwnKey("unique " + u.Key) }

// submitUnique makes a job unless there is one of its unique key, which it answers with then. The
// unique key comes first, then the idempotency key, if there is one, then the row; each names the
// same entry. If we crash in between, the next use of either key writes the row.
//
// An idempotency key that is known decides alone, so the same request has the same answer after the
// window, too.
func submitUnique(ctx context.Context, b *Bucketer, job *Job, e schema.Entry, now time.Time) (Receipt, error) {
	err := b.regions.Serves(e.ID.Shard())
	if err == nil {
		err = b.regions.Ready(e.Spec.Everywhere)
	}
	if err != nil {
		return Receipt{}, err
	}
	key := uniqueKey(job.Unique)
	var held schema.KeyRecord
	mine, named := false, false // the entry is ours; the idempotency key was known before
	if job.Key != "" {
		held, err = b.store.RegisteredKey(ctx, job.Tenant, job.Key)
		if named = err == nil; !named && !errors.Is(err, schema.ErrNotFound) {
			return Receipt{}, fmt.Errorf("key of a unique job: %w", err)
		}
	}
	if !named {
		record := schema.KeyRecord{BodyHash: job.BodyHash, Entry: e.ID, Text: e.Text(), Payload: e.Payload, Expires: e.Expires}
		held, mine, err = b.store.RegisterKey(ctx, job.Tenant, key, record, now.Add(job.Unique.Window.Std()+uniqueSlack))
		if err != nil {
			return Receipt{}, fmt.Errorf("register unique key: %w", err)
		}
		if job.Key != "" {
			first := held.Entry
			held.BodyHash = job.BodyHash
			if held, _, err = b.store.RegisterKey(ctx, job.Tenant, job.Key, held, Latest(now.Add(KeyRetention), job.KeyUntil)); err != nil {
				return Receipt{}, fmt.Errorf("register key: %w", err)
			}
			mine = mine && held.Entry == first // or else the key was used at the same time
		}
	}
	if mine {
		return Receipt{Run: e.ID, Everywhere: e.Spec.Everywhere}, writeNew(ctx, b, e, key, job.Key)
	}
	b.fill.give(e.ID.Partition(), e.Size())
	if job.Key != "" && held.BodyHash != job.BodyHash {
		return Receipt{}, ErrKeyReused
	}
	keys := []string{job.Key}
	if !named {
		keys = append(keys, key)
	}
	receipt, err := known(ctx, b, &held, now, e.Spec.Everywhere, keys...)
	if err != nil {
		return Receipt{}, err
	}
	made := schema.LoadEntry(held.Entry, held.Text, held.Payload, schema.Marks{})
	if job.Key == "" || made.Spec.Key != job.Key {
		receipt.Unique, receipt.Entry = true, &made
	}
	return receipt, nil
}

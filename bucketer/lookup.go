package bucketer

import (
	"context"
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

package homes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// backlogShards is how many shards of a home are counted: all, or some that lie evenly among
	// them.
	backlogShards = 8
	// backlogMinutes bounds how far back it is counted, and backlogRows the rows of one minute of a
	// shard.
	backlogMinutes = 30
	backlogRows    = 10_000
	// backlogTimeout bounds the counting: a plan is needed soon.
	backlogTimeout = 4 * time.Second
)

// backlog estimates what is under way in the home of a plan.
func (c Changer) backlog(ctx context.Context, p *schema.ChangePlan) schema.HomeBacklog {
	ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
	defer cancel()
	b, err := c.count(ctx, p)
	if err != nil {
		b.Fault = err.Error()
	}
	return b
}

func (c Changer) count(ctx context.Context, p *schema.ChangePlan) (b schema.HomeBacklog, err error) {
	if c.Rows == nil {
		return b, errors.New("the rows cannot be read here")
	}
	store, err := c.Rows()
	if err != nil {
		return b, err
	}
	defer func() { _ = store.Close() }() // never fails
	now, shards, err := c.shardsOf(ctx, store, p.Change.Home)
	if err != nil {
		return b, err
	}
	cursors, err := store.Cursors(ctx)
	if err != nil {
		return b, fmt.Errorf("read the cursors: %w", err)
	}
	settled := make(map[schema.Shard]schema.Bucket)
	for _, cur := range cursors {
		settled[cur.Shard] = cur.Settled
	}
	b.Shards, b.Settled = len(shards), now
	for _, shard := range shards {
		if at, ok := settled[shard]; ok && at.End().Before(b.Settled) {
			b.Settled = at.End()
		}
	}
	sample := spread(shards, backlogShards)
	b.Sampled = len(sample)
	quiet := now.Add(p.Announced) // from when nobody publishes
	w := window{now: now, from: quiet, to: quiet.Add(p.Unavailable())}
	var parts []schema.Partition
	for _, shard := range sample {
		first, ok := settled[shard]
		if !ok {
			first = schema.BucketOf(now) - 1
		}
		from := schema.BucketOf((first + 1).Start().Add(-walkBefore))
		if least := schema.BucketOf(now) - backlogMinutes; from < least {
			from, b.More = least, true
		}
		for bucket := from; bucket <= schema.BucketOf(w.to); bucket++ {
			parts = append(parts, schema.Partition{Bucket: bucket, Shard: shard})
		}
	}
	var mu sync.Mutex
	err = each(ctx, len(parts), func(ctx context.Context, i int) error {
		ids, err := store.EntryIDs(ctx, parts[i], schema.IDRange{}, backlogRows)
		if err != nil {
			return fmt.Errorf("count what is due: %w", err)
		}
		underWay, lookedAt, meanwhile := w.count(ids, settled[parts[i].Shard])
		mu.Lock()
		defer mu.Unlock()
		b.UnderWay, b.LookedAt, b.DueMeanwhile = b.UnderWay+underWay, b.LookedAt+lookedAt, b.DueMeanwhile+meanwhile
		b.More = b.More || len(ids) == backlogRows
		return nil
	})
	for _, n := range []*int64{&b.UnderWay, &b.LookedAt, &b.DueMeanwhile} {
		if *n *= int64(b.Shards); b.Sampled > 0 {
			*n /= int64(b.Sampled)
		}
	}
	return b, err
}

// window is what a count tells apart: nobody publishes between from and to.
type window struct{ now, from, to time.Time }

// count returns how many of the entries of a shard, finished up to a bucket, are due and not known
// to be finished, are due at all, and will be due while nobody publishes.
func (w window) count(ids []schema.EntryID, settled schema.Bucket) (underWay, lookedAt, meanwhile int64) {
	for _, id := range ids {
		switch due := id.Time(); {
		case !due.After(w.now):
			lookedAt++
			if id.Bucket() > settled {
				underWay++
			}
		case due.After(w.from) && !due.After(w.to):
			meanwhile++
		}
	}
	return underWay, lookedAt, meanwhile
}

// spread returns at most n of the shards, which lie evenly among them.
func spread(shards []schema.Shard, n int) []schema.Shard {
	if len(shards) <= n {
		return shards
	}
	some := make([]schema.Shard, n)
	for i := range some {
		some[i] = shards[i*len(shards)/n]
	}
	return some
}

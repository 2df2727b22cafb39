package bucketer

import (
	"math/rand/v2"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// DueTime returns the id time, in whole ms, of an entry asked for `at` (zero = now) and taken in at
// now. `at` is rounded up, so that nothing starts before it. If `at` has passed, now is rounded
// down.
func DueTime(at, now time.Time) time.Time {
	if at.Before(now) {
		return now.Truncate(time.Millisecond)
	}
	return CeilMilli(at)
}

// CeilMilli rounds up to whole milliseconds.
func CeilMilli(t time.Time) time.Time {
	floor := t.Truncate(time.Millisecond)
	if floor.Before(t) {
		return floor.Add(time.Millisecond)
	}
	return floor
}

// keyedID returns the id of a keyed line with an instant. It is a function of tenant, key, instant
// and the number of shards alone, so the line sent again is the same row. Under another number of
// shards it is another row: chunk.look looks for it under each. The shard is one of keyedWays for
// each (tenant, bucket).
func keyedID(tenant, key string, at time.Time, shards int) schema.EntryID {
	due := CeilMilli(at)
	hash := schema.HashOf(tenant, key, strconv.FormatInt(due.UnixMilli(), 10))
	way := hash % keyedWays
	bucket := strconv.FormatInt(int64(schema.BucketOf(due)), 10)
	shard := schema.HashOf(tenant, bucket, strconv.FormatUint(way, 10)) % uint64(shards) // #nosec G115 -- positive
	return schema.MakeEntryID(due, schema.Shard(shard), hash)
}

// chunkShards gives the unkeyed rows of one chunk that fall into one bucket the same random shard,
// so that they fill batches of one partition.
type chunkShards struct {
	shards int
	drawn  map[schema.Bucket]schema.Shard
}

func (c *chunkShards) shard(b schema.Bucket) schema.Shard {
	s, ok := c.drawn[b]
	if !ok {
		s = RandomShard(c.shards)
		c.drawn[b] = s
	}
	return s
}

// RandomShard draws a shard.
func RandomShard(shards int) schema.Shard {
	return schema.Shard(rand.IntN(shards)) // #nosec G115,G404 -- below MaxShards; spread, not secrecy
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

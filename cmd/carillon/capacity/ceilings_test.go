package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/ring"
	"carillon.dev/carillon/schema"
)

// The statements of loadtest/CAPACITY.md that can be checked without machines.

func many(n int) []ring.Member {
	members := make([]ring.Member, n)
	for i := range members {
		members[i] = ring.Member{Name: fmt.Sprintf("dispatcher-%03d", i), Incarnation: 1, Roles: []string{ring.RoleDispatcher}}
	}
	return members
}

func assign(t *testing.T, members []ring.Member) *ring.Snapshot {
	t.Helper()
	s, err := ring.Assign(members, schema.MaxShards)
	if err != nil {
		t.Fatalf("Assign(%d members, %d shards) = %v, want no error", len(members), schema.MaxShards, err)
	}
	return s
}

// A hundred dispatchers have equal parts of 4096 shards within a tenth. A dispatcher that joins or
// leaves moves little more than its own shards.
func TestRingAtItsLargest(t *testing.T) {
	const dispatchers = 100
	before, after := assign(t, many(dispatchers)), assign(t, many(dispatchers+1))
	bound := int(math.Ceil(float64(schema.MaxShards) / dispatchers * ring.Load))
	least := schema.MaxShards
	for _, m := range many(dispatchers) {
		owned := len(before.Owned(m.Name))
		if owned > bound {
			t.Errorf("%s owns %d of %d shards, want at most %d", m.Name, owned, schema.MaxShards, bound)
		}
		least = min(least, owned)
	}
	if least < 10 {
		t.Errorf("one dispatcher owns %d shards only, want at least a quarter of the average 41", least)
	}
	moved := 0
	for shard := range schema.Shard(schema.MaxShards) {
		x, _ := before.Owner(shard)
		y, _ := after.Owner(shard)
		if x.Name != y.Name {
			moved++
		}
	}
	t.Logf("least %d, most allowed %d; a join moves %d of %d shards", least, bound, moved, schema.MaxShards)
	if share := schema.MaxShards / (dispatchers + 1); moved < share/2 || moved > 5*share {
		t.Errorf("a join moves %d of %d shards, want about its share of %d and at most five times that", moved, schema.MaxShards, share)
	}
}

// Unkeyed lines of a minute go round the shards, each chunk from a random one on. Partitions are
// nearly even, and far from the bound of intake.
func TestPartitionsAtAMillionRunsASecond(t *testing.T) {
	const runs = 60_000_000 // due within one minute
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var rows [schema.MaxShards]int
	each := int(chunkRows.v())
	for range runs / bucketer.MaxChunk {
		first := rng.IntN(schema.MaxShards)
		for i := range bucketer.MaxChunk / each {
			rows[(first+i)%schema.MaxShards] += each
		}
	}
	fullest := 0
	for _, n := range rows {
		fullest = max(fullest, n)
	}
	d := usual()
	bytes := float64(fullest) * d.rawRow()
	t.Logf("fullest of %d partitions: %d rows (mean %d), %.1f MiB, %.0f runs/s", len(rows), fullest, runs/len(rows), bytes/(1<<20), float64(fullest)/60)
	if bytes > bucketer.MaxPartitionBytes {
		t.Errorf("the fullest partition has %.0f bytes, want at most %d: intake would refuse", bytes, bucketer.MaxPartitionBytes)
	}
	if mean := runs / len(rows); fullest > mean*3/2 {
		t.Errorf("the fullest partition has %d rows, more than half above the mean of %d: the page says that they are even", fullest, mean)
	}
}

// Keyed lines of one tenant share eight shards a minute, so a tenant cannot have all of a large
// cluster.
func TestKeyedLinesOfOneTenantAreBounded(t *testing.T) {
	if got := KeyedRate(200); got >= 20_000 || got <= 10_000 {
		t.Errorf("KeyedRate(200) = %g, want between 10,000 and 20,000 as the page says", got)
	}
	if got, want := KeyedRate(4096), 8*float64(bucketer.MaxPartitionBytes)/4296/60; math.Abs(got-want) > 1 {
		t.Errorf("KeyedRate(4096) = %g, want %g: the bytes of eight partitions a minute", got, want)
	}
}

// An id holds its shard in 12 bits: the last shard differs from the first, and there is no further
// one.
func TestIDsReachTheLastShard(t *testing.T) {
	at := schema.Bucket(30_000_000).Start()
	for _, shard := range []schema.Shard{0, schema.MaxShards - 1} {
		id := schema.MakeEntryID(at, shard, 1)
		if got := id.Partition(); got != (schema.Partition{Bucket: 30_000_000, Shard: shard}) {
			t.Errorf("partition of an id of shard %d = %+v", shard, got)
		}
	}
}

package bucketer

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

func TestDueTime(t *testing.T) {
	at := testNow.Add
	for name, row := range map[string]struct{ at, now, want time.Time }{
		"now":                   {time.Time{}, testNow, testNow},
		"now, within a ms":      {time.Time{}, at(1700 * time.Microsecond), at(time.Millisecond)},
		"past":                  {at(-time.Hour), testNow, testNow},
		"past by 1 ns":          {at(-1), testNow, testNow},
		"before the epoch":      {time.Unix(-5, 0), testNow, testNow},
		"exactly now":           {testNow, testNow, testNow},
		"ahead, on the ms":      {at(time.Second), testNow, at(time.Second)},
		"ahead, within a ms":    {at(1001 * time.Microsecond), testNow, at(2 * time.Millisecond)},
		"ahead by 1 ns":         {at(1), testNow, at(time.Millisecond)},
		"in another zone":       {at(time.Hour).In(time.FixedZone("", 3600)), testNow, at(time.Hour)},
		"across a bucket's end": {at(30*time.Second - 1), testNow, at(30 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DueTime(row.at, row.now); !got.Equal(row.want) {
				t.Errorf("dueTime(%v, %v) = %v, want %v", row.at, row.now, got, row.want)
			}
		})
	}
}

// Nothing is due before the instant that was asked for, nor a ms later than it must be.
func TestDueTimeIsNeverEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := testNow.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")))
		at := now.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ahead")))
		id := schema.MakeEntryID(DueTime(at, now), 0, 0)
		if early := at.Sub(id.Time()); early > 0 || early <= -time.Millisecond {
			t.Fatalf("asked for %v: due %v, %v early", at, id.Time(), early)
		}
	})
}

func TestKeyedIDIsAFunctionOfTheLine(t *testing.T) {
	at := testNow.Add(time.Hour)
	want := keyedID("t", "k", at, among{n: 64})
	// Fixed for ever: a line that is sent again after an upgrade must be the same row.
	const fixed = "01a1fda7-e040-8009-be0b-56479ae42498"
	if want.String() != fixed || !want.Time().Equal(at) {
		t.Errorf("keyedID(t, k, %v) = %s due %v, want %s", at, want, want.Time(), fixed)
	}
	for name, row := range map[string]struct {
		tenant, key string
		at          time.Time
		shards      int
		same        bool
	}{
		"the same":                   {"t", "k", at, 64, true},
		"within the ms before":       {"t", "k", at.Add(-time.Microsecond), 64, true},
		"another zone":               {"t", "k", at.In(time.FixedZone("", -7200)), 64, true},
		"another ms":                 {"t", "k", at.Add(time.Millisecond), 64, false},
		"another key":                {"t", "k2", at, 64, false},
		"another tenant":             {"t2", "k", at, 64, false},
		"the border moved":           {"tk", "", at, 64, false},
		"an instant beyond a minute": {"t", "k", at.Add(time.Minute), 64, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := keyedID(row.tenant, row.key, row.at, among{n: row.shards}); (got == want) != row.same {
				t.Errorf("keyedID(%q, %q, %v, %d) = %s, want equal to %s: %v", row.tenant, row.key, row.at, row.shards, got, want, row.same)
			}
		})
	}
	if other := keyedID("t", "k", at, among{n: 128}); other.Hash() != want.Hash() || other.Time() != want.Time() {
		t.Errorf("with other shards %s, want the time and hash of %s: only the shard depends on their number", other, want)
	}
}

// The keyed lines of a tenant and bucket share few shards, so that one read answers for many; those
// of many buckets use all of them.
func TestKeyedLinesTakeEightShardsOfABucket(t *testing.T) {
	all := make(map[schema.Shard]bool)
	for minute := range 100 {
		shards := make(map[schema.Shard]int)
		for k := range 1000 {
			id := keyedID("t", strconv.Itoa(k), testNow.Add(time.Duration(minute)*time.Minute+time.Duration(k)*time.Millisecond), among{n: 64})
			if id.Shard() >= 64 {
				t.Fatalf("keyedID = %s in shard %d, want one below 64", id, id.Shard())
			}
			shards[id.Shard()]++
			all[id.Shard()] = true
		}
		if len(shards) > keyedWays || len(shards) < 3 {
			t.Errorf("minute %d: lines lie in %d shards, want at most %d, and more than a few", minute, len(shards), keyedWays)
		}
	}
	if len(all) < 60 {
		t.Errorf("over 100 minutes only %d of 64 shards were used", len(all))
	}
}

func TestChunkTakesOneShardABucket(t *testing.T) {
	c := chunkShards{among: among{n: 64}, drawn: make(map[schema.Bucket]schema.Shard)}
	all := make(map[schema.Shard]bool)
	for b := range schema.Bucket(1000) {
		s := c.shard(b)
		all[s] = true
		if again := c.shard(b); again != s || s >= 64 {
			t.Errorf("shard(%d) = %d, then %d; want one below 64, the same twice", b, s, again)
		}
	}
	if len(all) < 60 {
		t.Errorf("1000 buckets drew %d of 64 shards, want nearly all", len(all))
	}
}

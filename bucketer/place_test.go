package bucketer

import (
	"slices"
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

// spread returns the rows of a chunk of n unkeyed lines that are due within one bucket.
func spread(n int, among among) []schema.Entry {
	c := chunkShards{among: among, turns: make(map[schema.Bucket]*turn)}
	rows := make([]schema.Entry, n)
	for i := range rows {
		rows[i].ID = schema.MakeEntryID(testNow.Add(time.Duration(i)*time.Millisecond), c.shard(schema.BucketOf(testNow)), uint64(i)) // #nosec G115 -- positive
	}
	return rows
}

// A chunk takes the shards of its home in turn. That costs a store less than a tenth more than one
// shard for all would, where a batch costs as much as ten of its rows on top.
func TestAChunkIsSpreadWhereThatCostsLittle(t *testing.T) {
	const batch = 10 // a batch of no rows, in rows
	home := []schema.Shard{3, 4, 9, 17, 40, 41, 63}
	for _, row := range []struct {
		name  string
		among among
	}{{"all shards", among{n: 64}}, {"many shards", among{n: 4096}}, {"four shards", among{n: 4}}, {"one shard", among{n: 1}}, {"a home", among{n: 64, home: home}}} {
		t.Run(row.name, func(t *testing.T) {
			worst := 0.
			for n := 1; n <= MaxChunk; n++ {
				if n > 6*BatchRows && n < MaxChunk && n%37 != 0 {
					continue
				}
				rows := spread(n, row.among)
				cost := float64(n + batch*len(Batches(rows)))
				alone := float64(n + batch*((n+BatchRows-1)/BatchRows))
				if worst = max(worst, cost/alone); cost > 1.1*alone {
					t.Fatalf("%d lines cost %.0f rows, want at most a tenth more than the %.0f of one shard", n, cost, alone)
				}
				if n > BatchRows && n < MaxChunk {
					continue
				}
				shards := make(map[schema.Shard]int)
				for i := range rows {
					shards[rows[i].ID.Shard()]++
				}
				want := 1
				if n == MaxChunk {
					want = min(64, row.among.count())
				}
				if len(shards) != want {
					t.Fatalf("%d lines lie in %d shards, want %d", n, len(shards), want)
				}
				for s := range shards {
					if row.among.home != nil && !slices.Contains(home, s) || int(s) >= row.among.n {
						t.Fatalf("a line lies in shard %d, want one of %v", s, row.among)
					}
				}
			}
			t.Logf("at most %.3f times the cost", worst)
		})
	}
}

// A large import lies in all shards alike, so each dispatcher has its part of it.
func TestALargeImportLiesInAllShardsAlike(t *testing.T) {
	const chunks = 25
	rows := make([]int, 64)
	for range chunks {
		for _, e := range spread(MaxChunk, among{n: len(rows)}) {
			rows[e.ID.Shard()]++
		}
	}
	mean := chunks * MaxChunk / len(rows)
	if least, most := slices.Min(rows), slices.Max(rows); least < mean*8/10 || most > mean*12/10 {
		t.Errorf("shards have %d to %d lines, want the mean of %d to a fifth", least, most, mean)
	}
}

// The lines of different buckets begin in different shards, and those of one go on where it stood.
func TestBucketsHaveTheirOwnTurns(t *testing.T) {
	c := chunkShards{among: among{n: 64}, turns: make(map[schema.Bucket]*turn)}
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

package schematest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// cursorShard draws a shard whose cursor a rule may raise: half of them for each of two rules,
// which run at once.
func (b *bench) cursorShard(half int) schema.Shard {
	return schema.Shard(schema.MaxShards - 1 - 2*b.rnd.IntN(500) - half) // #nosec G115 -- small
}

// nextEpoch begins an epoch of a shard, above whatever is there.
func (b *bench) nextEpoch(shard schema.Shard) schema.Cursor {
	b.Helper()
	c, err := b.store.Cursor(b.ctx, shard)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		b.must(err, "Cursor")
	}
	c = schema.Cursor{Shard: shard, Epoch: c.Epoch + 1, Dispatched: 1_000, Settled: 900}
	b.must(b.store.AdvanceCursor(b.ctx, c), "AdvanceCursor")
	return c
}

func (b *bench) wantCursor(want schema.Cursor) {
	b.Helper()
	got, err := b.store.Cursor(b.ctx, want.Shard)
	if err != nil || got != want {
		b.Errorf("Cursor = %+v, %v; want %+v", got, err, want)
	}
	all, err := b.store.Cursors(b.ctx)
	b.must(err, "Cursors")
	if !slices.IsSortedFunc(all, func(x, y schema.Cursor) int { return int(x.Shard) - int(y.Shard) }) {
		b.Error("Cursors are not in the order of shards")
	}
	for i := range all {
		if i > 0 && all[i].Shard == all[i-1].Shard {
			b.Errorf("Cursors have shard %d twice", all[i].Shard)
		}
	}
	if !slices.Contains(all, want) {
		b.Errorf("Cursors lack %+v", want)
	}
}

var cursorRules = []rule{
	{"both numbers only grow within an epoch", func(b *bench) {
		c := b.nextEpoch(b.cursorShard(0))
		b.wantCursor(c)
		for _, step := range []struct {
			name                string
			dispatched, settled schema.Bucket
			want, wantSettled   schema.Bucket
		}{
			{"raise both", 1_010, 905, 1_010, 905},
			{"repeat", 1_010, 905, 1_010, 905},
			{"lower both", 1_000, 900, 1_010, 905},
			{"raise one, lower the other", 1_020, 1, 1_020, 905},
			{"the reverse", 1, 950, 1_020, 950},
			{"by a lot", 30_000_000, 29_000_000, 30_000_000, 29_000_000},
		} {
			raise := c
			raise.Dispatched, raise.Settled = step.dispatched, step.settled
			b.must(b.store.AdvanceCursor(b.ctx, raise), "AdvanceCursor, %s", step.name)
			raise.Dispatched, raise.Settled = step.want, step.wantSettled
			b.Log(step.name)
			b.wantCursor(raise)
		}
	}},
	{"the newest epoch counts, also where it is behind", func(b *bench) {
		c := b.nextEpoch(b.cursorShard(1))
		next := c
		next.Epoch, next.Dispatched, next.Settled = c.Epoch+1, 500, 400
		b.must(b.store.AdvanceCursor(b.ctx, next), "AdvanceCursor")
		b.wantCursor(next)
		c.Dispatched = 2_000
		b.must(b.store.AdvanceCursor(b.ctx, c), "AdvanceCursor of the epoch before")
		b.wantCursor(next)
	}},
	{"every shard below the settings' has one", func(b *bench) {
		settings, err := b.store.Settings(b.ctx)
		b.must(err, "Settings")
		all, err := b.store.Cursors(b.ctx)
		b.must(err, "Cursors")
		have := map[schema.Shard]bool{}
		for _, c := range all {
			have[c.Shard] = true
		}
		for shard := range settings.Shards {
			if !have[schema.Shard(shard)] { // #nosec G115 -- small
				b.Errorf("shard %d of %d has no cursor", shard, settings.Shards)
			}
		}
	}},
}

var settingsRules = []rule{
	{"a store that is ready has them", func(b *bench) {
		got, err := b.store.Settings(b.ctx)
		if err != nil || got.Shards < 1 || got.Shards > schema.MaxShards || got.Retention <= 0 {
			b.Errorf("Settings = %+v, %v; want shards and a retention", got, err)
		}
	}},
}

// ExerciseEpochs checks that the stores that open returns keep the contract of schema.EpochStore.
// Stores may share their rows: each rule uses homes and regions drawn at random.
func ExerciseEpochs(t *testing.T, open func(t *testing.T) schema.EpochStore) {
	for _, r := range epochRules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.check(t, open(t), fmt.Sprintf("h%016x", rand.Uint64())) // #nosec G404 -- a name
		})
	}
}

// epochRule is a sentence of the contract, and its test with a home that nobody else uses.
type epochRule struct {
	name  string
	check func(t *testing.T, s schema.EpochStore, home string)
}

// epochsBegan is when the epochs of the rules were written, by whoever wrote them.
var epochsBegan = time.Date(2026, 11, 27, 1, 2, 3, 4_000_000, time.UTC)

func epochOf(home string, number int64, region string) schema.Epoch {
	return schema.Epoch{Home: home, Number: number, Region: region, By: "ann", Reason: "a “test”\n" + region, At: epochsBegan.Add(time.Duration(number) * time.Second)}
}

func insertEpochs(t *testing.T, s schema.EpochStore, epochs ...schema.Epoch) {
	t.Helper()
	for _, e := range epochs {
		if got, err := s.InsertEpoch(t.Context(), e); err != nil || !got.Same(e) {
			t.Fatalf("InsertEpoch(%+v) = %+v, %v, want it and nil", e, got, err)
		}
	}
}

var epochRules = []epochRule{
	{"the newest epoch of each home is told, in the order asked for", func(t *testing.T, s schema.EpochStore, home string) {
		other, none := home+"x", home+"y" // names of which one begins as another
		insertEpochs(t, s, epochOf(home, 1, "eu"), epochOf(other, 1, "us"), epochOf(home, 2, "us"), epochOf(home, 300, "eu"))
		got, err := s.Epochs(t.Context(), []string{other, none, home})
		want := []schema.Epoch{epochOf(other, 1, "us"), {Home: none}, epochOf(home, 300, "eu")}
		if err != nil || len(got) != len(want) {
			t.Fatalf("Epochs = %+v, %v, want %d and nil", got, err, len(want))
		}
		for i := range want {
			if !got[i].Same(want[i]) {
				t.Errorf("Epochs[%d] = %+v, want %+v", i, got[i], want[i])
			}
		}
	}},
	{"the log is told newest first, up to the limit", func(t *testing.T, s schema.EpochStore, home string) {
		insertEpochs(t, s, epochOf(home, 1, "eu"), epochOf(home+"x", 1, "us"), epochOf(home, 300, "eu"), epochOf(home, 2, "us"))
		for limit, want := range map[int][]int64{10: {300, 2, 1}, 2: {300, 2}} {
			log, err := s.EpochLog(t.Context(), home, limit)
			var got []int64
			for _, e := range log {
				got = append(got, e.Number)
				if want := epochOf(home, e.Number, e.Region); !e.Same(want) {
					t.Errorf("EpochLog has %+v, want %+v", e, want)
				}
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("EpochLog, limit %d = %v, %v, want %v", limit, got, err, want)
			}
		}
		if log, err := s.EpochLog(t.Context(), home+"y", 10); err != nil || len(log) != 0 {
			t.Errorf("EpochLog of a home without = %v, %v, want none", log, err)
		}
	}},
	{"an epoch stands for ever", func(t *testing.T, s schema.EpochStore, home string) {
		first := epochOf(home, 1, "eu")
		insertEpochs(t, s, first, first) // again is harmless
		got, err := s.InsertEpoch(t.Context(), epochOf(home, 1, "us"))
		if !errors.Is(err, schema.ErrConflict) || !got.Same(first) {
			t.Errorf("InsertEpoch of another = %+v, %v, want the first and ErrConflict", got, err)
		}
		other := first
		other.By = "bob" // two who ask for the same at once are told apart
		if got, err := s.InsertEpoch(t.Context(), other); !errors.Is(err, schema.ErrConflict) || !got.Same(first) {
			t.Errorf("InsertEpoch by another = %+v, %v, want the first and ErrConflict", got, err)
		}
		for _, bad := range []schema.Epoch{epochOf("", 1, "eu"), epochOf(home, 0, "eu"), epochOf(home, -1, "eu"), epochOf(home, 2, "")} {
			if _, err := s.InsertEpoch(t.Context(), bad); err == nil || errors.Is(err, schema.ErrUnknown) {
				t.Errorf("InsertEpoch(%+v) = %v, want that it is refused", bad, err)
			}
		}
		if now, err := s.Epochs(t.Context(), []string{home}); err != nil || len(now) != 1 || !now[0].Same(first) {
			t.Errorf("Epochs = %+v, %v, want the first", now, err)
		}
	}},
	{"of many at once one wins", func(t *testing.T, s schema.EpochStore, home string) {
		for round := range int64(raceRounds) {
			var won atomic.Int64
			race(racers, func(i int) {
				e := epochOf(home, round+1, fmt.Sprintf("r%d", i))
				got, err := s.InsertEpoch(t.Context(), e)
				switch {
				case err == nil && got.Same(e):
					won.Add(1)
				case errors.Is(err, schema.ErrConflict) && got.Number == e.Number && !got.Same(e):
				default:
					t.Errorf("InsertEpoch(%+v) = %+v, %v, want it, or another and ErrConflict", e, got, err)
				}
			})
			if won.Load() != 1 {
				t.Errorf("round %d: %d won, want 1", round, won.Load())
			}
		}
	}},
	{"the later beat of a region stays", func(t *testing.T, s schema.EpochStore, home string) {
		at := time.Now().UTC().Truncate(time.Millisecond)
		first := schema.Beat{Region: home, Node: "a", Count: 1, At: at, Serves: map[string]int64{"eu": 3, "us": 300}}
		later := schema.Beat{Region: home, Node: "b", Count: 7, At: at.Add(time.Second)}
		other := schema.Beat{Region: home + "x", Node: "a", Count: 1, At: at}
		for _, b := range []schema.Beat{first, other} {
			if err := s.PutBeat(t.Context(), b); err != nil {
				t.Fatalf("PutBeat = %v", err)
			}
		}
		wantBeats(t, s, home, first, other)
		for _, b := range []schema.Beat{later, first} { // in any order
			if err := s.PutBeat(t.Context(), b); err != nil {
				t.Fatalf("PutBeat = %v", err)
			}
		}
		wantBeats(t, s, home, later, other)
		ahead := schema.Beat{Region: home, Node: "c", Count: 1, At: at.Add(time.Hour)} // its clock is
		right := schema.Beat{Region: home, Node: "b", Count: 8, At: at.Add(3 * time.Second), Over: ahead.Stamp()}
		again := schema.Beat{Region: home, Node: "b", Count: 9, At: at.Add(5 * time.Second), Over: right.Stamp()}
		for _, b := range []schema.Beat{ahead, right, again, later, right} {
			if err := s.PutBeat(t.Context(), b); err != nil {
				t.Fatalf("PutBeat = %v", err)
			}
		}
		wantBeats(t, s, home, again, other)
	}},
}

// wantBeats compares the beats of regions whose names begin with prefix.
func wantBeats(t *testing.T, s schema.EpochStore, prefix string, want ...schema.Beat) {
	t.Helper()
	all, err := s.Beats(t.Context())
	if err != nil {
		t.Fatalf("Beats = %v", err)
	}
	var got []schema.Beat
	for i, b := range all {
		if i > 0 && all[i-1].Region >= b.Region {
			t.Errorf("Beats has %s after %s, want the order of regions", b.Region, all[i-1].Region)
		}
		if strings.HasPrefix(b.Region, prefix) {
			got = append(got, b)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("Beats = %+v, want %+v", got, want)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("Beats[%d] = %+v, want %+v", i, got[i], want[i])
		}
	}
}

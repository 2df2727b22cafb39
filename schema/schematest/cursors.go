package schematest

import (
	"errors"
	"slices"

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

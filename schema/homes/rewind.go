package homes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// Rewind moves the cursors of shards back: everything is looked at again that was due since then.
type Rewind struct {
	Shards []schema.Shard // nil: all
	Since  time.Duration  // how far back
	DryRun bool           // only say what would be done
	Say    func(format string, args ...any)
}

// Do moves the cursors back, and returns of how many shards there are. Within an epoch a cursor
// only grows, so Do begins a new epoch. A watermark that is already further back stays: entries are
// open there. Do reads each cursor again afterwards, because the shard's owner may have written one
// at the same time and won.
func (r Rewind) Do(ctx context.Context, store interface {
	schema.CursorStore
	schema.SettingsStore
	schema.Prober
	schema.ClockStore
},
) (found int, err error) {
	say := r.Say
	if say == nil {
		say = func(string, ...any) {}
	}
	now, err := schema.TimeByMost(ctx, store)
	if err != nil {
		return 0, fmt.Errorf("ask for the time: %w", err)
	}
	settings, err := store.Settings(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the settings: %w", err)
	}
	if r.Since > settings.Retention {
		say("rows leave after %s: nothing older is there to be looked at", settings.Retention)
		r.Since = settings.Retention
	}
	to := schema.BucketOf(now.Add(-r.Since)) - 1
	cursors, err := store.Cursors(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the cursors: %w", err)
	}
	for _, was := range cursors {
		if r.Shards != nil && !slices.Contains(r.Shards, was.Shard) {
			continue
		}
		found++
		left := "finished up to " + was.Settled.End().Format(time.RFC3339)
		switch {
		case max(was.Settled, was.Dispatched) <= to:
			say("shard %d: %s: left alone", was.Shard, left)
			continue
		case r.DryRun:
			say("shard %d: %s: would go back to %s", was.Shard, left, to.End().Format(time.RFC3339))
			continue
		}
		is := schema.Cursor{Shard: was.Shard, Epoch: was.Epoch + 1, Dispatched: min(was.Dispatched, to), Settled: min(was.Settled, to)}
		if err := store.AdvanceCursor(ctx, is); err != nil {
			return found, fmt.Errorf("rewind shard %d: %w", was.Shard, err)
		}
		stands, err := store.Cursor(ctx, was.Shard)
		switch {
		case err != nil:
			return found, fmt.Errorf("read the cursor of shard %d again: %w", was.Shard, err)
		case stands != is:
			return found, fmt.Errorf("the cursor of shard %d was moved at the same time: run the command again", was.Shard)
		}
		say("shard %d: %s: goes back to %s", was.Shard, left, to.End().Format(time.RFC3339))
	}
	return found, nil
}

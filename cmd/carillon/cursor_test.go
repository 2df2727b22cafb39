package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/cmd/carillon/clitest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

func TestCursorRewind(t *testing.T) {
	ctx := t.Context()
	store, err := embedded.Open(embedded.Config{Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	ahead := schema.BucketOf(time.Now().Add(time.Hour))
	if err := store.AdvanceCursor(ctx, schema.Cursor{Shard: 1, Epoch: 1, Dispatched: ahead, Settled: ahead}); err != nil {
		t.Fatal(err)
	}
	rewind := func(o rewinding) (string, error) {
		var out bytes.Buffer
		o.out = &out
		err := o.rewind(ctx, store)
		return out.String(), err
	}
	epochs := func() (all []int64) {
		cursors, err := store.Cursors(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cursors {
			all = append(all, c.Epoch)
		}
		return all
	}
	for _, row := range []struct {
		name string
		o    rewinding
		said string
		want []int64 // epochs afterwards
	}{
		{"dry", rewinding{shard: -1, since: time.Hour, dryRun: true}, "would go back to", []int64{1, 1, 1}},
		{"one", rewinding{shard: 1, since: time.Hour}, "shard 1: finished up to", []int64{1, 2, 1}},
		{"less far than it is", rewinding{shard: 1, since: time.Minute}, "left alone", []int64{1, 2, 1}},
		{"all", rewinding{shard: -1, since: 3 * time.Hour}, "goes back to", []int64{2, 3, 2}},
	} {
		t.Run(row.name, func(t *testing.T) {
			said, err := rewind(row.o)
			if err != nil || !strings.Contains(said, row.said) {
				t.Errorf("rewind says %q, %v, want %q", said, err, row.said)
			}
			if got := epochs(); got[0] != row.want[0] || got[1] != row.want[1] || got[2] != row.want[2] {
				t.Errorf("epochs %v, want %v", got, row.want)
			}
		})
	}
	c, err := store.Cursor(ctx, 1)
	if want := schema.BucketOf(time.Now().Add(-3*time.Hour)) - 1; err != nil || c.Settled > want || c.Settled < want-1 || c.Dispatched != c.Settled {
		t.Errorf("cursor = %+v, %v, want both at %d", c, err, want)
	}
	lags := schema.BucketOf(time.Now().Add(-5 * time.Hour)) // something is open since then
	if err := store.AdvanceCursor(ctx, schema.Cursor{Shard: 2, Epoch: 9, Dispatched: schema.BucketOf(time.Now()), Settled: lags}); err != nil {
		t.Fatal(err)
	}
	if _, err := rewind(rewinding{shard: 2, since: time.Hour}); err != nil {
		t.Error(err)
	}
	if c, err := store.Cursor(ctx, 2); err != nil || c.Epoch != 10 || c.Settled != lags || c.Dispatched <= lags {
		t.Errorf("cursor that lags = %+v, %v; want settled to stay at %d, and dispatched to go back an hour", c, err, lags)
	}
	if said, err := rewind(rewinding{shard: 2, since: 100_000 * time.Hour, dryRun: true}); err != nil || !strings.Contains(said, "rows leave after") {
		t.Errorf("rewind of eleven years says %q, %v; want that rows leave before", said, err)
	}
	if _, err := rewind(rewinding{shard: 7, since: time.Hour}); err == nil {
		t.Error("rewind of a shard that is not there = nil")
	}
	r := clitest.Run(ctx, "", "cursor", "rewind", "--shard", "-7")
	if r.Code != 2 || !strings.Contains(r.Stderr, "--since") || !strings.Contains(r.Stderr, "--shard") {
		t.Errorf("without --since, and with --shard -7: exit %d, %q, want 2 and both faults", r.Code, r.Stderr)
	}
}

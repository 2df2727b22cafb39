package homes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/homes"
)

// apart is a store of two data centres. Ours learns of a cursor when its shard is compared.
type apart struct {
	mu      sync.Mutex
	cursors map[schema.Shard]schema.Cursor // ours
	theirs  map[schema.Shard]schema.Cursor
	walked  map[schema.Partition]int
	takes   time.Duration
	fails   schema.Partition // of this one a data centre does not answer
}

func (a *apart) Cursors(context.Context) ([]schema.Cursor, error)       { return nil, nil }
func (a *apart) AdvanceCursor(_ context.Context, _ schema.Cursor) error { return nil }
func (a *apart) Cursor(_ context.Context, s schema.Shard) (schema.Cursor, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, ok := a.cursors[s]
	if !ok {
		return c, schema.ErrNotFound
	}
	return c, nil
}

func (a *apart) SyncShard(_ context.Context, s schema.Shard) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c, ok := a.theirs[s]; ok {
		a.cursors[s] = c
	}
	return 1, nil
}

func (a *apart) SyncPartition(_ context.Context, p schema.Partition) (int, error) {
	time.Sleep(a.takes)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.walked[p]++
	if p == a.fails {
		return 0, schema.ErrUnavailable
	}
	return 2, nil
}

// TestWalk: every minute of every shard is compared once, from ten minutes before what the shard has
// settled, in whichever data centre that is known, or from longer ago if it is asked for.
func TestWalk(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 30, 0, time.UTC)
	at := func(minutes int) schema.Bucket { return schema.BucketOf(now) + schema.Bucket(minutes) }
	for name, row := range map[string]struct {
		since time.Duration
		from  map[schema.Shard]schema.Bucket
	}{
		"what is open": {0, map[schema.Shard]schema.Bucket{3: at(-12), 4: at(-40), 5: at(-10)}},
		"since longer": {20 * time.Minute, map[schema.Shard]schema.Bucket{3: at(-20), 4: at(-40), 5: at(-20)}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &apart{
				cursors: map[schema.Shard]schema.Cursor{3: {Shard: 3, Settled: at(-2)}, 4: {Shard: 4, Settled: at(-2)}},
				theirs:  map[schema.Shard]schema.Cursor{4: {Shard: 4, Settled: at(-30)}},
				walked:  make(map[schema.Partition]int),
			}
			got, err := homes.Walk{Store: a, Shards: []schema.Shard{3, 4, 5}, Since: row.since, Until: 5 * time.Minute, Now: now}.Do(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for shard, from := range row.from {
				for b := from; b <= at(5); b++ {
					want++
					if n := a.walked[schema.Partition{Bucket: b, Shard: shard}]; n != 1 {
						t.Errorf("minute %d of shard %d was compared %d times, want once", b-at(0), shard, n)
					}
				}
			}
			if len(a.walked) != want || got.Partitions != want || got.Of != want || got.Rows != 2*want+3 || got.Shards != 3 || got.From != at(-40).Start() || got.To != at(5).End() {
				t.Errorf("Do = %+v, and %d minutes compared, want %d", got, len(a.walked), want)
			}
		})
	}
}

// TestAWalkThatFails: where a data centre does not answer that is told, with what was done; nothing is
// done after it ended.
func TestAWalkThatFails(t *testing.T) {
	now := time.Now()
	a := &apart{cursors: make(map[schema.Shard]schema.Cursor), walked: make(map[schema.Partition]int), fails: schema.Partition{Bucket: schema.BucketOf(now), Shard: 1}}
	got, err := homes.Walk{Store: a, Shards: []schema.Shard{1}, Until: time.Hour, Now: now}.Do(t.Context())
	if !errors.Is(err, schema.ErrUnavailable) || got.Partitions >= got.Of || got.Partitions == 0 {
		t.Errorf("Do = %+v, %v, want part of it and ErrUnavailable", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.walked = make(map[schema.Partition]int)
	if _, err := (homes.Walk{Store: a, Shards: []schema.Shard{1}, Now: now}).Do(ctx); !errors.Is(err, context.Canceled) || len(a.walked) > 0 {
		t.Errorf("Do that was given up = %v, %d minutes compared, want none", err, len(a.walked))
	}
}

func TestAWalkTellsOfProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &apart{cursors: make(map[schema.Shard]schema.Cursor), walked: make(map[schema.Partition]int), takes: 100 * time.Millisecond}
		var told []homes.Walked
		got, err := homes.Walk{
			Store: a, Shards: []schema.Shard{1}, Until: 1000 * time.Minute, Now: time.Now(),
			Progress: func(w homes.Walked) { told = append(told, w) }, ProgressEvery: time.Second,
		}.Do(t.Context())
		if err != nil || got.Took < 6*time.Second || len(told) != int(got.Took/time.Second) {
			t.Fatalf("Do = %+v, %v, and told %d times, want once a second", got, err, len(told))
		}
		for i, w := range told {
			if w.Partitions >= got.Of || w.Of != got.Of || i > 0 && w.Partitions <= told[i-1].Partitions {
				t.Errorf("told %+v after %d times, want more each time", w, i)
			}
		}
	})
}

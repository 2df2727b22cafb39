package node

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
)

// unheard drops hints and signals.
type unheard struct{}

func (unheard) Near(schema.Shard, []schema.Entry) {}
func (unheard) Signal(string, []byte)             {}

// waitsEnv says how many runs have left a wait list: with 150000, Cassandra cannot read the list
// from its beginning.
const waitsEnv = "CARILLON_WAITS"

// Runs of a wait list get slots although very many runs have left it, also after a restart.
func TestALongWaitListOnCassandra(t *testing.T) {
	n := 2000
	if text := os.Getenv(waitsEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", waitsEnv, err)
		}
	}
	ctx := t.Context()
	store, err := onCassandra(t)(t, "waits", "n1", logOfTour(t))(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	begins := func() *engine.Engine {
		b, err := engine.New(bucketer.Config{Store: store, Hints: unheard{}, Signals: unheard{}})
		if err == nil {
			err = b.Refresh(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := begins()
	job, _, err := b.CreateJob(ctx, schema.JobSpec{
		Tenant: "t", Name: "j", Concurrency: &schema.Concurrency{Limit: 1}, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://127.0.0.1/"}},
	}, "", "")
	if err != nil {
		t.Fatal(err)
	}
	// The runs have no rows: they were due so long ago that these come no more, from no region.
	key, shard, now := schema.JobLimit(job.ID), job.ID.Shard(), time.Now().Add(-time.Hour)
	waiting := func(i int) schema.Waiter {
		id := schema.MakeEntryID(now.Add(time.Duration(10*i-10*n)*time.Millisecond), shard, uint64(i)) // #nosec G115 -- small
		return schema.Waiter{Limit: key, Shard: shard, Run: id, Entry: id, Noted: now, Expires: now.Add(24 * time.Hour)}
	}
	each := func(what string, from, to int, do func(context.Context, schema.Waiter) error) {
		began := time.Now()
		var wg sync.WaitGroup
		for k := range 64 {
			wg.Go(func() {
				for i := from + k; i < to; i += 64 {
					if err := do(ctx, waiting(i)); err != nil {
						t.Errorf("%s: %v", what, err)
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d rows %s in %v", to-from, what, time.Since(began).Round(time.Millisecond))
	}
	each("put", 0, n+50, store.PutWaiter)
	each("taken out", 0, n, store.DeleteWaiter)
	behind := waiting(n / 2)
	behind.Entry = schema.MakeEntryID(now, shard, 1) // it waits again, and keeps its place
	if err := store.PutWaiter(ctx, behind); err != nil {
		t.Fatal(err)
	}

	read := func(what string, r schema.IDRange) {
		began := time.Now()
		rows, err := store.Waiters(ctx, key, r, 100)
		t.Logf("%s: %d rows, %v, in %v", what, len(rows), err, time.Since(began).Round(time.Millisecond))
	}
	read("read from the beginning", schema.IDRange{})
	read("read from where somebody waits", schema.IDRange{After: waiting(n - 1).Run})

	live := bucketer.NewLiveness(store, time.Now, nil)
	for _, b := range []*engine.Engine{b, begins()} {
		began, looks := time.Now(), 0
		for ; ; looks++ {
			if time.Since(began) > 4*time.Minute {
				t.Fatalf("after %d looks: runs still wait, or cannot be read", looks)
			}
			if _, err := b.WakeShard(ctx, shard, "", live); err != nil {
				t.Logf("look %d: %v", looks, err)
				continue
			}
			// Whose rows are not there has nothing to wait for, and is taken out when its turn
			// comes.
			rows, err := store.Waiters(ctx, key, schema.IDRange{After: waiting(n - 1).Run}, 100)
			again, errAgain := store.Waiters(ctx, key, schema.IDRange{After: waiting(n/2 - 1).Run, Before: waiting(n/2 + 1).Run}, 100)
			if err == nil && errAgain == nil && len(rows)+len(again) == 0 {
				break
			}
		}
		t.Logf("all had their turn after %d looks, %v", looks+1, time.Since(began).Round(time.Millisecond))
		if err := store.PutWaiter(ctx, waiting(n+60)); err != nil { // for the one that begins
			t.Fatal(err)
		}
	}
}

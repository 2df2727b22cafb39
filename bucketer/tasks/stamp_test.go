package tasks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// skewed returns Tasks on store whose clock is wrong by d.
func skewed(t *testing.T, store schema.Store, d time.Duration) *Tasks {
	t.Helper()
	w := bucketertest.NewWorld(t, schema.Settings{})
	b, err := bucketer.New(bucketer.Config{Store: store, Hints: w, Signals: w, Now: func() time.Time { return time.Now().Add(d) }})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if err := b.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh = %v", err)
	}
	return New(Config{Bucketer: b, Store: store, Signals: w})
}

// Every acknowledged change of a task is what is read next, whichever node made it, however wrong
// its clock: a clock that counts as good may be 1.5 s off, either way.
func TestAcknowledgedChangesOfTasksStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- logged
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		var nodes []*Tasks
		for _, d := range []time.Duration{-1900 * time.Millisecond, 0, 1900 * time.Millisecond} {
			nodes = append(nodes, skewed(t, store, d))
		}
		name := schema.TaskName{Tenant: "t", Name: "a"}
		there := false
		for i := range 500 {
			b := nodes[rng.IntN(len(nodes))]
			time.Sleep(time.Duration(rng.IntN(3)) * 200 * time.Millisecond)
			if there && rng.IntN(3) == 0 {
				if err := b.DeleteTask(t.Context(), name.Tenant, name.Name); err != nil {
					t.Fatalf("change %d: DeleteTask = %v", i, err)
				}
				there = false
				if got, err := store.Task(t.Context(), name.Tenant, name.Name); !errors.Is(err, schema.ErrNotFound) {
					t.Fatalf("change %d: the task was deleted, and is %+v, %v", i, got, err)
				}
				continue
			}
			task := schema.Task{Tenant: name.Tenant, Name: name.Name, Description: fmt.Sprint(i)}
			if rng.IntN(2) == 0 {
				task.Rate = "1/s"
			}
			put, isNew, err := b.PutTask(t.Context(), task)
			if err != nil || isNew == there {
				t.Fatalf("change %d: PutTask = %+v, new %v, %v; want new %v", i, put, isNew, err, !there)
			}
			there = true
			got, err := store.Task(t.Context(), name.Tenant, name.Name)
			if err != nil || got.Description != task.Description || !got.UpdatedAt.Equal(put.UpdatedAt) {
				t.Fatalf("change %d: the task is %+v, %v, want what was put", i, got, err)
			}
			rated, err := store.RatedTasks(t.Context(), schema.TaskName{}, 10)
			if err != nil || task.Rate != "" && len(rated) != 1 {
				t.Fatalf("change %d: RatedTasks = %v, %v; the task's rate is %q", i, rated, err, task.Rate)
			}
		}
	})
}

// A build that knows no registers puts tasks under its clock alone. What it put before is what is
// replaced.
func TestChangesOfTasksStandBesideAnOlderBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		ahead := time.Now().Add(1900 * time.Millisecond).UTC().Truncate(time.Millisecond)
		if err := store.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a", UpdatedAt: ahead}); err != nil {
			t.Fatal(err)
		}
		slow := skewed(t, store, -1900*time.Millisecond)
		if _, _, err := slow.PutTask(t.Context(), schema.Task{Tenant: "t", Name: "a", Description: "new"}); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Task(t.Context(), "t", "a"); err != nil || got.Description != "new" {
			t.Errorf("the task is %+v, %v, want what was put last", got, err)
		}
		if err := slow.DeleteTask(t.Context(), "t", "a"); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Task(t.Context(), "t", "a"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("the task is %+v, %v, want it deleted", got, err)
		}
	})
}

// Draws are distinct, and rise, however many nodes draw at once and whatever the store says of
// their swaps.
func TestStampsRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		plan := schematest.Seeded(1, schematest.Odds{Fail: 0.1, Lose: 0.2})
		faulty := schematest.Faulty(store, plan)
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[time.Time]bool)
		for node := range 4 {
			b := skewed(t, store, time.Duration(node-2)*time.Second)
			b.store = faulty
			wg.Go(func() {
				last := time.Time{}
				for range 50 {
					at, err := b.stampTask(context.Background(), schema.TaskName{Tenant: "t", Name: "a"}, time.Time{}, time.Time{})
					if errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrUnknown) {
						continue
					}
					if err != nil || !at.After(last) {
						t.Errorf("draw = %v, %v, want one after %v", at, err, last)
						return
					}
					last = at
					mu.Lock()
					if seen[at] {
						t.Errorf("%v was drawn twice", at)
					}
					seen[at] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(seen) < 50 {
			t.Errorf("only %d draws came", len(seen))
		}
	})
}

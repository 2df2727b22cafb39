package tasks

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// Of several changes of one task that was seen, on nodes whose clocks differ, one is made, and the
// others are refused. So are those of what was seen before.
func TestOneOfTheChangesOfATaskThatWasSeenIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		var nodes []*Tasks
		for _, d := range []time.Duration{-1900 * time.Millisecond, 0, 1900 * time.Millisecond} {
			nodes = append(nodes, skewed(t, store, d))
		}
		task := schema.Task{Tenant: "t", Name: "a"}
		first, _, err := nodes[0].PutTask(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		seen := first.UpdatedAt
		for range 20 {
			var all sync.WaitGroup
			answers := make([]error, len(nodes))
			stamps := make([]time.Time, len(nodes))
			for i, b := range nodes {
				all.Go(func() {
					var put schema.Task
					put, _, answers[i] = b.PutTaskIf(t.Context(), task, seen)
					stamps[i] = put.UpdatedAt
				})
			}
			all.Wait()
			made := 0
			for i, err := range answers {
				switch {
				case err == nil:
					made++
					seen = stamps[i]
				case !errors.Is(err, bucketer.ErrStale):
					t.Fatalf("PutTaskIf = %v, want nil or ErrStale", err)
				}
			}
			if made != 1 {
				t.Fatalf("%d changes of one task that was seen were made, want 1", made)
			}
			if got, err := store.Task(t.Context(), "t", "a"); err != nil || !got.UpdatedAt.Equal(seen) {
				t.Fatalf("the task was put at %v, %v, want %v", got.UpdatedAt, err, seen)
			}
		}
		if err := nodes[1].DeleteTaskIf(t.Context(), "t", "a", first.UpdatedAt); !errors.Is(err, bucketer.ErrStale) {
			t.Errorf("DeleteTaskIf of what was seen before = %v, want ErrStale", err)
		}
		if err := nodes[1].DeleteTaskIf(t.Context(), "t", "a", seen); err != nil {
			t.Errorf("DeleteTaskIf = %v", err)
		}
		if _, _, err := nodes[1].PutTaskIf(t.Context(), task, seen); !errors.Is(err, bucketer.ErrStale) {
			t.Errorf("PutTaskIf of a task that is not there any more = %v, want ErrStale", err)
		}
	})
}

// A change that drew its timestamp and was never made does not refuse others for long.
func TestAChangeThatWasGivenUpRefusesNoneForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		b := skewed(t, store, 0)
		task := schema.Task{Tenant: "t", Name: "a"}
		put, _, err := b.PutTask(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := b.stampTask(t.Context(), schema.TaskName{Tenant: "t", Name: "a"}, put.UpdatedAt, put.UpdatedAt); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.PutTaskIf(t.Context(), task, put.UpdatedAt); !errors.Is(err, bucketer.ErrStale) {
			t.Errorf("PutTaskIf while another may be under way = %v, want ErrStale", err)
		}
		time.Sleep(time.Minute)
		if _, _, err := b.PutTaskIf(t.Context(), task, put.UpdatedAt); err != nil {
			t.Errorf("PutTaskIf a minute later = %v", err)
		}
	})
}

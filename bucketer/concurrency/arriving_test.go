package concurrency

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestAPlaceInAListMayComeBeforeItsRun: rows of another region come one by one, in any order. A run
// whose row is not there yet keeps its place, for ten minutes.
func TestAPlaceInAListMayComeBeforeItsRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.limited("j")
		key, live := schema.JobLimit(job.ID), bucketer.NewLiveness(w.Store(), time.Now, nil)
		asked := w.ask(job)
		places := func() int {
			rows, err := w.Counts.Waiters(t.Context(), key, schema.IDRange{}, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(rows)
		}
		wake := func(when string, waited, left int) {
			t.Helper()
			found, err := w.WakeWaiters(t.Context(), key, live)
			if n := places(); err != nil || found != waited || n != left {
				t.Errorf("%s: %d waited, and %d do now, %v; want %d, and %d", when, found, n, err, waited, left)
			}
		}
		var late [2]schema.Entry
		for i := range late {
			spec := asked.Spec
			e, err := schema.NewEntry(schema.MakeEntryID(time.Now(), job.ID.Shard(), uint64(7+i)), spec, nil, time.Now().Add(time.Hour)) //nolint:gosec // it is small
			if err != nil {
				t.Fatal(err)
			}
			if late[i] = e; i == 0 {
				if err := w.AddToWaitList(t.Context(), key, &e); err != nil {
					t.Fatal(err)
				}
			}
		}
		wake("before its row", 1, 1)
		if err := w.Counts.PutEntries(t.Context(), late[:1]); err != nil {
			t.Fatal(err)
		}
		wake("with its row", 1, 0)
		if err := w.AddToWaitList(t.Context(), key, &late[1]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rowsWithin - time.Second)
		wake("just before it counts as gone", 1, 1)
		time.Sleep(2 * time.Second)
		wake("without its row for ten minutes", 1, 0)
	})
}

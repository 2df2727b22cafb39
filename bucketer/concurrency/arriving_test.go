package concurrency

import (
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TestAPlaceInAListMayComeBeforeItsRun: rows of another region come one by one, in any order. A run
// whose row is not there yet keeps its place, for ten minutes after it was due; of one that is
// older, for some seconds after that was seen.
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
		time.Sleep(absentFor)
		wake("without its row for ten minutes", 1, 0)

		var old [2]schema.Entry
		for i := range old {
			var err error
			old[i], err = schema.NewEntry(schema.MakeEntryID(time.Now().Add(-time.Hour), job.ID.Shard(), uint64(17+i)), asked.Spec, nil, time.Now().Add(time.Hour)) //nolint:gosec // it is small
			if err == nil {
				err = w.AddToWaitList(t.Context(), key, &old[i])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		wake("due an hour ago, and seen for the first time", 2, 2)
		time.Sleep(absentFor - time.Second)
		wake("not there for some seconds", 2, 2)
		if err := w.Counts.PutEntries(t.Context(), old[:1]); err != nil {
			t.Fatal(err)
		}
		wake("one has come", 2, 1)
		time.Sleep(time.Second)
		wake("the other one does not come", 1, 0)
	})
}

// TestARegionThatDoesNotServeALimitWakesNobody: what it sees of the list and of the runs may be
// old.
func TestARegionThatDoesNotServeALimitWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 63}}}})
		if err != nil {
			t.Fatal(err)
		}
		var served error
		w := newWorldIn(t, schema.Settings{}, &bucketer.Regions{
			Region: "eu", Homes: homes, Served: func(schema.Shard) (int64, error) { return 1, served },
		})
		job := w.limited("j")
		key, live := schema.JobLimit(job.ID), bucketer.NewLiveness(w.Store(), time.Now, nil)
		e := w.ask(job)
		if err := w.AddToWaitList(t.Context(), key, &e); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			served error
			left   int
		}{{&schema.NotServedError{Home: "eu", Asked: "eu"}, 1}, {nil, 0}} {
			served = c.served
			_, err := w.WakeWaiters(t.Context(), key, live)
			rows, readErr := w.Counts.Waiters(t.Context(), key, schema.IDRange{}, 10)
			if err != nil || readErr != nil || len(rows) != c.left {
				t.Errorf("served %v: %d wait, %v, %v; want %d", c.served, len(rows), err, readErr, c.left)
			}
		}
	})
}

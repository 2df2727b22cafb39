package concurrency

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// inRegion returns the regions of a world of one of them; served is asked for every shard.
func inRegion(t *testing.T, served func() error) *bucketer.Regions {
	t.Helper()
	homes, err := schema.NewHomes([]schema.Home{{Name: "eu", Shards: []schema.ShardRange{{First: 0, Last: 63}}}})
	if err != nil {
		t.Fatal(err)
	}
	return &bucketer.Regions{Region: "eu", Homes: homes, Served: func(schema.Shard) (int64, error) { return 1, served() }}
}

// TestAPlaceInAListMayComeBeforeItsRun: rows of another region come one by one, in any order. A run
// whose row is not there yet keeps its place, for ten minutes, however long ago it was due. Without
// regions a row is there before its place.
func TestAPlaceInAListMayComeBeforeItsRun(t *testing.T) {
	for _, due := range []time.Duration{0, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldIn(t, schema.Settings{}, inRegion(t, func() error { return nil }))
			job := w.limited("j")
			asked := w.ask(job)
			key, live := schema.JobLimit(job.ID), bucketer.NewLiveness(w.Store(), time.Now, nil)
			var late [2]schema.Entry
			for i := range late {
				var err error
				late[i], err = schema.NewEntry(schema.MakeEntryID(time.Now().Add(due), job.ID.Shard(), uint64(7+i)), asked.Spec, nil, time.Now().Add(time.Hour)) //nolint:gosec // it is small
				if err == nil {
					err = w.AddToWaitList(t.Context(), key, &late[i])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			wake := func(when string, waited, left int) {
				t.Helper()
				found, err := w.WakeWaiters(t.Context(), key, live)
				if n := w.places(key); err != nil || found != waited || n != left {
					t.Errorf("due %v ago, %s: %d waited, and %d do now, %v; want %d, and %d", -due, when, found, n, err, waited, left)
				}
			}
			wake("seen for the first time", 2, 2)
			time.Sleep(rowsWithin - time.Second)
			wake("not there for minutes", 2, 2)
			if err := w.Counts.PutEntries(t.Context(), late[:1]); err != nil {
				t.Fatal(err)
			}
			wake("one has come", 2, 1)
			time.Sleep(time.Second)
			wake("the other one does not come", 1, 0)
			if n := len(w.absent.since); n != 0 {
				t.Errorf("%d rows are noted as absent in the end, want 0", n)
			}
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		job := w.limited("j")
		e := w.ask(job)
		e.ID[15] ^= 1
		if err := w.AddToWaitList(t.Context(), schema.JobLimit(job.ID), &e); err != nil {
			t.Fatal(err)
		}
		if _, err := w.WakeWaiters(t.Context(), schema.JobLimit(job.ID), bucketer.NewLiveness(w.Store(), time.Now, nil)); err != nil || w.places(schema.JobLimit(job.ID)) != 0 {
			t.Errorf("without regions: %d wait, %v; want none", w.places(schema.JobLimit(job.ID)), err)
		}
	})
}

// TestAbsentRowsAreBounded: what was seen first is kept, as far as there is room.
func TestAbsentRowsAreBounded(t *testing.T) {
	a := absentRows{since: make(map[schema.EntryID]time.Time)}
	now := time.Unix(1e9, 0)
	for i := range mostAbsent + 10 {
		a.seen(schema.MakeEntryID(now, 1, uint64(i)), now) //nolint:gosec // it is small
	}
	last := schema.MakeEntryID(now, 1, mostAbsent+9)
	if at := a.seen(last, now.Add(time.Hour)); len(a.since) != mostAbsent || !at.Equal(now) {
		t.Errorf("%d are kept, one since %v; want %d, %v", len(a.since), at, mostAbsent, now)
	}
}

// TestARegionThatDoesNotServeALimitWakesNobody: what it sees of the list and of the runs may be
// old.
func TestARegionThatDoesNotServeALimitWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served error
		w := newWorldIn(t, schema.Settings{}, inRegion(t, func() error { return served }))
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
			_, of := w.WakeShard(t.Context(), job.ID.Shard(), "", live)
			_, err := w.WakeWaiters(t.Context(), key, live)
			if n := w.places(key); err != nil || n != c.left || !errors.Is(of, c.served) {
				t.Errorf("served %v: %d wait, %v, %v; want %d", c.served, n, err, of, c.left)
			}
		}
	})
}

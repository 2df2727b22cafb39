package runs

import (
	"errors"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

// A retry that could not be written for a minute counted as written in time by a clock that was set
// back meanwhile: its sweep had passed it, nobody was told, and the run stayed in retrying for
// good.
func TestFollowUpsWhileTheClockIsSet(t *testing.T) {
	for name, row := range map[string]struct {
		set  time.Duration
		kept time.Duration // how long after the record what follows is written
		late int
	}{
		"at once":                               {0, 0, 0},
		"kept for long":                         {0, time.Minute, 1},
		"kept for long, set back":               {-90 * time.Second, time.Minute, 1},
		"kept for long, set back by as much":    {-time.Minute, time.Minute, 1},
		"kept for long, set ahead":              {90 * time.Second, time.Minute, 1},
		"at once, set back":                     {-90 * time.Second, 0, 0},
		"at once, set ahead: an entry too many": {90 * time.Second, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, schema.Settings{}), bucketertest.NewSetClock(t)
			w.by(c)
			id := w.submit(callTo(time.Time{}))
			e, _ := w.Row(id)
			w.Hinted()
			c.Pass(time.Second)
			next := schema.MakeEntryID(c.Right().Add(time.Second), id.Shard(), 5)
			a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})
			c.Set(row.set)
			c.Pass(row.kept)
			w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) {
				if err != nil {
					t.Errorf("FollowUp = %v", err)
				}
			})
			all := w.Entries(4 * time.Minute)
			if k := bucketertest.Kinds(all); k[schema.KindRetry] != 1 || k[schema.KindLate] != row.late {
				t.Fatalf("rows:\n%swant the retry and %d late entries", bucketertest.Describe(all), row.late)
			}
			near := w.Hinted()
			if len(near) != 1 {
				t.Fatalf("hints:\n%swant one", bucketertest.Describe(near))
			}
			if row.late == 0 {
				return
			}
			if behind := c.Right().Sub(near[0].Due()); near[0].Spec.Kind != schema.KindLate || near[0].Run() != id || behind >= time.Millisecond {
				t.Errorf("hint of %s, due %s before now, want of a late entry of %s that is not due before now", near[0].ID, behind, id)
			}
			if near[0].Spec.AttemptNumber() != 2 {
				t.Errorf("the late entry starts attempt %d, want 2", near[0].Spec.AttemptNumber())
			}
		})
	}
}

// A node that does not know the time yet cannot tell which rows are in time.
func TestNothingIsWrittenBeforeTheTimeIsKnown(t *testing.T) {
	w, c := newWorld(t, schema.Settings{}), bucketertest.NewSetClock(t)
	id := w.submit(callTo(time.Time{}))
	e, _ := w.Row(id)
	a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(c.Right(), id.Shard(), 5)})
	w.by(c)
	c.Set(-90 * time.Second)
	follow := func() (got error) {
		got = errors.New("no answer")
		w.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: a}}, func(_ int, err error) { got = err })
		return got
	}
	if err := follow(); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("FollowUp by a clock that was never right = %v, want ErrUnavailable", err)
	}
	if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRetry] != 0 {
		t.Errorf("kinds = %v, want no retry", k)
	}
	c.Set(90 * time.Second)
	c.Wrong.Store(false)
	if err := follow(); err != nil {
		t.Errorf("FollowUp by a clock that is right = %v", err)
	}
	if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRetry] != 1 {
		t.Errorf("kinds = %v, want the retry", k)
	}
}

// A reschedule entry that was held too late for its sweep was named all the same, by a clock that
// was set back while it was written.
func TestRescheduleWhileTheClockIsSetBack(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed": true, "not noticed": false} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, schema.Settings{}), bucketertest.NewSetClock(t)
			w.by(c)
			id := w.submit(callTo(c.Right().Add(time.Minute)))
			w.puts(func(n int) {
				if n > 1 {
					return
				}
				c.Pass(6 * time.Second)
				c.Ahead.Add(-int64(6 * time.Second))
				c.Wrong.Store(noticed)
			})
			run, err := w.Reschedule(t.Context(), "t", id, Change{At: bucketertest.Pointer(time.Time{})})
			if err != nil {
				t.Fatalf("Reschedule = %v", err)
			}
			if late := c.Right().Sub(run.Current.Due()); late >= time.Millisecond {
				t.Errorf("the run was moved to %s, %s ago, want to an entry that was held in time", run.Current.Due(), late)
			}
		})
	}
}

package bucketer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// setClock is a wall clock that can be set, with a monotonic reading. It is not for bubbles, whose times have none.
type setClock struct {
	t      *testing.T
	began  time.Time
	passed atomic.Int64 // ns by the monotonic clock since it began
	ahead  atomic.Int64 // ns that the wall clock was set ahead by, whole seconds
	wrong  atomic.Bool  // the node knows that it may be
}

func newSetClock(t *testing.T) *setClock { return &setClock{t: t, began: time.Now()} }

func (c *setClock) now() time.Time { return setBack(c.t, c.right(), -time.Duration(c.ahead.Load())) }

// right returns what a clock tells that was never set.
func (c *setClock) right() time.Time { return c.began.Add(time.Duration(c.passed.Load())) }

// pass lets d pass.
func (c *setClock) pass(d time.Duration) { c.passed.Add(int64(d)) }

// set sets the wall clock by d, and the node notices.
func (c *setClock) set(d time.Duration) {
	c.ahead.Add(int64(d))
	c.wrong.Store(true)
}

// by gives w the clock c.
func (w *world) by(c *setClock) {
	w.clock = &clock{wall: c.now, halted: c.wrong.Load}
	w.now = w.clock.now
}

func TestClock(t *testing.T) {
	const minute = time.Minute
	for name, row := range map[string]struct {
		unknown   bool          // it was never right
		set       time.Duration // by which the clock is set after a minute
		wrong     bool          // the node is halted from then on
		corrected bool          // the clock is set right after two minutes
		trusted   bool          // the node is halted no more after three
		want      time.Duration // what it tells then, counted from the start
	}{
		"right":                             {want: 3 * minute},
		"halted, and right":                 {wrong: true, want: 3 * minute},
		"set back":                          {set: -90 * time.Second, wrong: true, want: 3 * minute},
		"set back by less than has passed":  {set: -time.Second, wrong: true, want: 3 * minute},
		"set ahead, or the machine slept":   {set: 90 * time.Second, wrong: true, want: 3*minute + 90*time.Second},
		"set back and corrected":            {set: -90 * time.Second, wrong: true, corrected: true, want: 3 * minute},
		"set ahead and corrected":           {set: 90 * time.Second, wrong: true, corrected: true, want: 3 * minute},
		"set ahead, corrected, and trusted": {set: 90 * time.Second, wrong: true, corrected: true, trusted: true, want: 3 * minute},
		"set back, and found to be right":   {set: -90 * time.Second, wrong: true, trusted: true, want: 3*minute - 90*time.Second},
		"never right":                       {unknown: true, set: -90 * time.Second, wrong: true, want: 3*minute - 90*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			wall := newSetClock(t)
			c := &clock{wall: wall.now, halted: wall.wrong.Load}
			wall.wrong.Store(row.unknown)
			c.now()
			wall.pass(minute)
			wall.ahead.Add(int64(row.set))
			wall.wrong.Store(row.wrong)
			c.now()
			wall.pass(minute)
			if row.corrected {
				wall.ahead.Store(0)
			}
			c.now()
			wall.pass(minute)
			wall.wrong.Store(row.wrong && !row.trusted)
			if got := c.now().Round(0).Sub(wall.began.Round(0)); got != row.want {
				t.Errorf("now, three minutes after the start = start + %s, want + %s", got, row.want)
			}
			if got := c.known(); got == row.unknown {
				t.Errorf("known = %v, want %v", got, !row.unknown)
			}
		})
	}
}

// A retry that could not be written for a minute counted as written in time by a clock that was set back meanwhile: its sweep had passed
// it, nobody was told, and the run stayed in retrying for good.
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
			w, c := newWorld(t, schema.Settings{}), newSetClock(t)
			w.by(c)
			id := w.submit(callTo(time.Time{}))
			e, _ := w.Row(id)
			w.Hinted()
			c.pass(time.Second)
			next := schema.MakeEntryID(c.right().Add(time.Second), id.Shard(), 5)
			a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: next})
			c.set(row.set)
			c.pass(row.kept)
			w.FollowUp(t.Context(), []Finished{{e, a}}, func(_ int, err error) {
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
			if behind := c.right().Sub(near[0].Due()); near[0].Spec.Kind != schema.KindLate || near[0].Run() != id || behind >= time.Millisecond {
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
	w, c := newWorld(t, schema.Settings{}), newSetClock(t)
	id := w.submit(callTo(time.Time{}))
	e, _ := w.Row(id)
	a := w.Recorded(e, 1, schema.Record{Outcome: schema.Failed, Next: schema.MakeEntryID(c.right(), id.Shard(), 5)})
	w.by(c)
	c.set(-90 * time.Second)
	follow := func() (got error) {
		got = errors.New("no answer")
		w.FollowUp(t.Context(), []Finished{{e, a}}, func(_ int, err error) { got = err })
		return got
	}
	if err := follow(); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("FollowUp by a clock that was never right = %v, want ErrUnavailable", err)
	}
	if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRetry] != 0 {
		t.Errorf("kinds = %v, want no retry", k)
	}
	c.set(90 * time.Second)
	c.wrong.Store(false)
	if err := follow(); err != nil {
		t.Errorf("FollowUp by a clock that is right = %v", err)
	}
	if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRetry] != 1 {
		t.Errorf("kinds = %v, want the retry", k)
	}
}

// puts has f called within every PutEntries, with its number from 1.
func (w *world) puts(f func(n int)) {
	var n atomic.Int64
	w.Befall(func(_ context.Context, op string) schematest.Fault {
		if op == "PutEntries" {
			f(int(n.Add(1)))
		}
		return schematest.Fault{}
	})
}

// A late entry that was itself held late counted as held in time, by a clock that was set back while it was written.
func TestLateEntryThatIsLateWhileTheClockIsSetBack(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed": true, "not noticed": false} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, schema.Settings{}), newSetClock(t)
			w.by(c)
			w.puts(func(n int) {
				if n > 2 {
					return
				}
				c.pass(6 * time.Second)
				if n == 2 { // the late entry
					c.ahead.Add(-int64(6 * time.Second))
					c.wrong.Store(noticed)
				}
			})
			w.submit(callTo(time.Time{}))
			if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRun] != 1 || k[schema.KindLate] != 2 {
				t.Fatalf("kinds = %v, want the run and two late entries", k)
			}
			near := w.Hinted()
			if len(near) != 1 || c.right().Sub(near[0].Due()) >= time.Millisecond {
				t.Errorf("hints:\n%swant one of a late entry that is not due before %s", bucketertest.Describe(near), c.right())
			}
		})
	}
}

// A reschedule entry that was held too late for its sweep was named all the same, by a clock that was set back while it was written.
func TestRescheduleWhileTheClockIsSetBack(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed": true, "not noticed": false} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, schema.Settings{}), newSetClock(t)
			w.by(c)
			id := w.submit(callTo(c.right().Add(time.Minute)))
			w.puts(func(n int) {
				if n > 1 {
					return
				}
				c.pass(6 * time.Second)
				c.ahead.Add(-int64(6 * time.Second))
				c.wrong.Store(noticed)
			})
			run, err := w.Reschedule(t.Context(), "t", id, Change{At: bucketertest.Pointer(time.Time{})})
			if err != nil {
				t.Fatalf("Reschedule = %v", err)
			}
			if late := c.right().Sub(run.Current.Due()); late >= time.Millisecond {
				t.Errorf("the run was moved to %s, %s ago, want to an entry that was held in time", run.Current.Due(), late)
			}
		})
	}
}

package bucketer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// by gives w the clock c.
func (w *world) by(c *bucketertest.SetClock) {
	w.clock = &clock{wall: c.Now, halted: c.Wrong.Load}
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
			wall := bucketertest.NewSetClock(t)
			c := &clock{wall: wall.Now, halted: wall.Wrong.Load}
			wall.Wrong.Store(row.unknown)
			c.now()
			wall.Pass(minute)
			wall.Ahead.Add(int64(row.set))
			wall.Wrong.Store(row.wrong)
			c.now()
			wall.Pass(minute)
			if row.corrected {
				wall.Ahead.Store(0)
			}
			c.now()
			wall.Pass(minute)
			wall.Wrong.Store(row.wrong && !row.trusted)
			if got := c.now().Round(0).Sub(wall.Began.Round(0)); got != row.want {
				t.Errorf("now, three minutes after the start = start + %s, want + %s", got, row.want)
			}
			if got := c.known(); got == row.unknown {
				t.Errorf("known = %v, want %v", got, !row.unknown)
			}
		})
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

// A late entry that was itself held late counted as held in time, by a clock that was set back
// while it was written.
func TestLateEntryThatIsLateWhileTheClockIsSetBack(t *testing.T) {
	for name, noticed := range map[string]bool{"noticed": true, "not noticed": false} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(t, schema.Settings{}), bucketertest.NewSetClock(t)
			w.by(c)
			w.puts(func(n int) {
				if n > 2 {
					return
				}
				c.Pass(6 * time.Second)
				if n == 2 { // the late entry
					c.Ahead.Add(-int64(6 * time.Second))
					c.Wrong.Store(noticed)
				}
			})
			w.submit(callTo(time.Time{}))
			if k := bucketertest.Kinds(w.Entries(2 * time.Minute)); k[schema.KindRun] != 1 || k[schema.KindLate] != 2 {
				t.Fatalf("kinds = %v, want the run and two late entries", k)
			}
			near := w.Hinted()
			if len(near) != 1 || c.Right().Sub(near[0].Due()) >= time.Millisecond {
				t.Errorf("hints:\n%swant one of a late entry that is not due before %s", bucketertest.Describe(near), c.Right())
			}
		})
	}
}

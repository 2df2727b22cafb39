package dispatcher

import (
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestFrontsAge(t *testing.T) {
	g := newFronts()
	s := depth.Subject{Lane: 0, Priority: schema.Normal}
	if got := g.wanted(origin); len(got) != 0 {
		t.Errorf("wanted = %v before anybody asked, want none", got)
	}
	if _, ok := g.get(s, origin, origin); ok {
		t.Error("get = ok before the first reading")
	}
	if got := g.wanted(origin); len(got) != 1 || got[0] != s {
		t.Errorf("wanted = %v, want what was asked for", got)
	}
	if got := g.wanted(origin.Add(depth.Idle)); len(got) != 0 {
		t.Errorf("wanted = %v long after it was asked for, want none", got)
	}
	read := origin.Add(time.Second)
	g.set(s, queue.Front{Stream: "1", Sequence: 7}, read)
	for _, c := range []struct {
		name       string
		since, now time.Time
		want       bool
	}{
		{"fresh", origin, read.Add(time.Second), true},
		{"too old", origin, read.Add(frontAge), false},
		{"read before the publication", read.Add(1), read.Add(time.Second), false},
		{"read at the publication", read, read.Add(time.Second), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f, ok := g.get(s, c.since, c.now); ok != c.want || ok && f.Sequence != 7 {
				t.Errorf("get = %+v, %v, want ok %v", f, ok, c.want)
			}
		})
	}
}

// TestBudgetsAreRefilled: more than the first budget is published, since loads are read every
// second.
func TestBudgetsAreRefilled(t *testing.T) {
	const mostPublished = 10_000 // ten times what a dispatcher begins with
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.hand(nil)
		d := r.start("d1")
		r.before(mostPublished, time.Now().Add(5*time.Second))
		time.Sleep(10 * time.Second)
		load, err := d.queue.Load(t.Context(), 0, schema.Normal)
		if err != nil || load.Depth() != 0 {
			t.Errorf("Load = %+v, %v, want nothing", load, err)
		}
		if c := r.counts.Tally("Entries").Rows; c < mostPublished {
			t.Errorf("%d rows were asked for within 10 s, want at least %d", c, mostPublished)
		}
	})
}

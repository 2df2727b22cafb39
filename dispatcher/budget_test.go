package dispatcher

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func TestAllowanceIsRefilled(t *testing.T) {
	for _, c := range []struct {
		name        string
		before      allowance
		depth       int
		dispatchers int
		want        int
	}{
		{"at rest it is the floor", allowance{}, 0, 1, floorDepth},
		{"at rest it is shared", allowance{}, 0, 4, floorDepth / 4},
		{"no dispatcher is known", allowance{}, 0, 0, floorDepth},
		{"executors take all there is: half as much again", allowance{published: 30_000}, 0, 1, 45_000},
		{"it is as deep as it should be: as much again", allowance{published: 20_000, depth: floorDepth}, floorDepth, 4, 20_000},
		{"it grew: our share less", allowance{published: 20_000, depth: floorDepth}, 14_000, 4, 20_000 - 1000 - 1000},
		{"it fell below: our share more", allowance{published: 20_000, depth: floorDepth}, 6000, 4, 20_000 + 1000 + 1000},
		{"nothing is drained: little more", allowance{published: 10_000}, floorDepth, 1, floorDepth / 10},
		{"nothing is drained, and it is deep", allowance{depth: 2 * floorDepth}, 2 * floorDepth, 1, 0},
		{"others keep it deep: never nothing", allowance{depth: 15_000}, 15_000, 4, floorDepth / 10 / 4},
		{"executors come back", allowance{depth: floorDepth}, 5000, 1, 10_000},
		{"the stream was deleted", allowance{depth: 20_000}, 0, 2, 15_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.before
			a.refill(c.depth, c.dispatchers)
			if a.left != c.want || a.depth != c.depth || a.published != 0 {
				t.Errorf("refill(%d, %d) of %+v = %+v, want %d left", c.depth, c.dispatchers, c.before, a, c.want)
			}
		})
	}
}

// stream is a subject that dispatchers want to fill faster than executors drain it.
type stream struct{ depth, drained int }

// step lets a second pass: each dispatcher reads the depth and publishes what it may of what it wants.
func (s *stream) step(as []allowance, want []int, drain int) {
	before := s.depth
	for i := range as {
		as[i].refill(before, len(as))
		as[i].published = min(as[i].left, want[i])
		s.depth += as[i].published
	}
	s.drained = min(s.depth, drain)
	s.depth -= s.drained
}

// TestStreamsStayShallow: however the work is spread over the dispatchers, the stream is no deeper than three seconds of drain and
// twice the floor some minutes after what executors can do has changed, they are kept busy, and no dispatcher starves.
func TestStreamsStayShallow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "dispatchers")
		as, want := make([]allowance, n), make([]int, n)
		busy := rapid.IntRange(1, n).Draw(t, "busy ones")
		for i := range busy {
			want[i] = 1 << 30
		}
		var s stream
		highest := 0 // what was once drained in a second may lie there when nothing is any more
		for _, name := range []string{"drain", "drain later"} {
			drain := rapid.IntRange(0, 60_000).Draw(t, name)
			highest = max(highest, drain)
			sum := 0
			for second := range 200 {
				s.step(as, want, drain)
				if most := max(6*drain, 6*60_000); s.depth > most {
					t.Fatalf("%s: %d s on the stream is %d deep, want at most %d", name, second, s.depth, most)
				}
				if second < 150 {
					continue
				}
				if most := max(3*highest, 2*floorDepth) + 2*floorDepth; s.depth > most {
					t.Fatalf("%s: after %d s the stream is %d deep, want at most %d", name, second, s.depth, most)
				}
				sum += s.drained
				for i := range busy {
					if drain > 2*floorDepth && as[i].published == 0 {
						t.Fatalf("%s: after %d s dispatcher %d may publish nothing", name, second, i)
					}
				}
			}
			if mean := sum / 50; mean < drain*4/5 {
				t.Fatalf("%s: executors had %d a second, want about the %d they can do", name, mean, drain)
			}
		}
	})
}

// TestTheWorkOfOneDispatcherAmongMany: the others' publications cannot be seen, and were guessed to be as many as our own: with eight
// dispatchers of which one had the work the stream grew without bound.
func TestTheWorkOfOneDispatcherAmongMany(t *testing.T) {
	const drain = 20_000
	for _, n := range []int{2, 4, 8} {
		as, want := make([]allowance, n), make([]int, n)
		want[0] = 1 << 30
		var s stream
		deepest, full := 0, -1
		for second := range 120 {
			s.step(as, want, drain)
			deepest = max(deepest, s.depth)
			if full < 0 && s.drained == drain {
				full = second
			}
		}
		if deepest > 4*drain || full < 0 || full > 10 {
			t.Errorf("%d dispatchers, one busy: at most %d deep, executors busy after %d s, want at most %d and 10 s", n, deepest, full, 4*drain)
		}
	}
}

func TestBudgetIsByLaneAndPriority(t *testing.T) {
	b := newBudget()
	low, other := subject{0, schema.Low}, subject{1, schema.Low}
	for b.take(low.lane, low.priority, origin) {
	}
	if !b.take(0, schema.Critical, origin) || !b.take(other.lane, other.priority, origin) {
		t.Error("take of another priority or lane = false after one was used up, want true")
	}
	b.refill(low, 0, 1)
	if !b.take(low.lane, low.priority, origin) {
		t.Error("take after refill = false, want true")
	}
	b.refill(subject{7, schema.High}, 0, 1) // nobody asked about it
	if got := len(b.busy(origin.Add(gaugeIdle - 1))); got != 3 {
		t.Errorf("busy = %d subjects, want the 3 that were asked about", got)
	}
	if got := b.busy(origin.Add(gaugeIdle)); len(got) != 0 {
		t.Errorf("busy = %v after %v, want none", got, gaugeIdle)
	}
}

func TestFrontsAge(t *testing.T) {
	g := newGauge()
	s := subject{0, schema.Normal}
	if got := g.wanted(origin); len(got) != 0 {
		t.Errorf("wanted = %v before anybody asked, want none", got)
	}
	if _, ok := g.front(s.lane, s.priority, origin, origin); ok {
		t.Error("front = ok before the first reading")
	}
	if got := g.wanted(origin); len(got) != 1 || got[0] != s {
		t.Errorf("wanted = %v, want what was asked for", got)
	}
	if got := g.wanted(origin.Add(gaugeIdle)); len(got) != 0 {
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
			if f, ok := g.front(s.lane, s.priority, c.since, c.now); ok != c.want || ok && f.Sequence != 7 {
				t.Errorf("front = %+v, %v, want ok %v", f, ok, c.want)
			}
		})
	}
}

// TestBudgetsAreRefilled: more than the first allowance is published, since depths are read every second.
func TestBudgetsAreRefilled(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		r.hand(nil)
		d := r.start("d1")
		r.before(floorDepth, time.Now().Add(5*time.Second))
		time.Sleep(10 * time.Second)
		depth, err := d.queue.Depth(t.Context(), 0, schema.Normal)
		if err != nil || depth != 0 {
			t.Errorf("Depth = %d, %v, want 0", depth, err)
		}
		if c := r.counts.Tally("Entries").Rows; c < floorDepth {
			t.Errorf("%d rows were asked for within 10 s, want at least %d", c, floorDepth)
		}
	})
}

package dispatcher

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

func TestAllowanceIsRefilled(t *testing.T) {
	const fast = 50_000 // a second: the aim is maxAim
	for _, c := range []struct {
		name        string
		before      allowance
		waiting     int
		dispatchers int
		want        int
	}{
		{"at rest it is the aim", allowance{}, 0, 1, minAim},
		{"at rest it is shared", allowance{}, 0, 4, minAim / 4},
		{"the aim follows the drain", allowance{drain: 10_000}, 0, 1, 4000},
		{"and has a bound", allowance{drain: fast}, 0, 1, maxAim},
		{"executors take all there is: half as much again", allowance{published: 30_000}, 0, 1, 45_000},
		{"there is what there should be: as much again", allowance{published: 20_000, waiting: maxAim, drain: fast}, maxAim, 1, 20_000},
		{"and a fifth less with others", allowance{published: 20_000, waiting: maxAim, drain: fast}, maxAim, 4, 16_000},
		{"and a tenth less with nine others", allowance{published: 20_000, waiting: maxAim, drain: fast}, maxAim, 10, 18_000},
		{"it grew: our part less", allowance{published: 20_000, waiting: maxAim, drain: fast}, 14_000, 4, 16_000 - 1000 - 1000},
		{"it fell below: our part more", allowance{published: 20_000, waiting: maxAim, drain: fast}, 6000, 4, 16_000 + 1000 + 1000},
		{"nothing is drained: little more", allowance{published: minAim}, minAim, 1, minAim / 10},
		{"nothing is drained, and there is much", allowance{waiting: 2 * minAim}, 2 * minAim, 1, 0},
		{"others keep it full: never nothing", allowance{waiting: 15_000, drain: fast}, 15_000, 4, maxAim / 10 / 4},
		{"a reading after a long rest", allowance{drain: 10_000, at: time.Unix(1, 0).Add(-time.Hour)}, 4000, 4, 2500},
		{"executors come back", allowance{waiting: maxAim, drain: fast}, 5000, 1, 10_000},
		{"the stream was deleted", allowance{waiting: 20_000, drain: fast, delivered: 1 << 40}, 0, 2, 15_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.before
			a.refill(queue.Load{Waiting: c.waiting}, time.Unix(1, 0), 1/float64(c.dispatchers))
			if a.left != c.want || a.waiting != c.waiting || a.published != 0 {
				t.Errorf("refill(%d, %d) of %+v = %+v, want %d left", c.waiting, c.dispatchers, c.before, a, c.want)
			}
		})
	}
}

func TestDrainIsMeasured(t *testing.T) {
	t0 := time.Unix(1000, 0)
	a := allowance{delivered: 500, at: t0, waiting: 1}
	for _, c := range []struct {
		name  string
		after time.Duration
		load  queue.Load
		want  float64
	}{
		{"half of the way to what was seen", 100 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 1500}, 5000},
		{"and on", 200 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 2500}, 7500},
		{"down too, while something waits", 300 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 2500}, 3750},
		{"not down while nothing waits", 400 * time.Millisecond, queue.Load{Delivered: 2500}, 3750},
		{"not down after nothing had waited", 500 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 2500}, 3750},
		{"a reading of the same instant says nothing", 500 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 9000}, 3750},
		{"a new stream says nothing", 600 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 7}, 3750},
		{"until the next reading", 700 * time.Millisecond, queue.Load{Waiting: 1, Delivered: 1007}, 6875},
	} {
		if a.refill(c.load, t0.Add(c.after), 1); a.drain != c.want {
			t.Errorf("%s: drain %v, want %v", c.name, a.drain, c.want)
		}
	}
}

// readings are how often a load is read in a second under pressure.
const readings = int(time.Second / gaugePressed)

// stream is a subject that dispatchers want to fill faster than executors drain it.
type stream struct {
	waiting, drained int
	delivered        uint64
	at               time.Time
}

// step lets the time between two readings pass: each dispatcher reads the load and publishes what it may of what it wants in a second.
func (s *stream) step(as []allowance, want []int, drain int) {
	load := queue.Load{Waiting: s.waiting, Delivered: s.delivered}
	s.at = s.at.Add(gaugePressed)
	for i := range as {
		as[i].refill(load, s.at, 1/float64(len(as)))
		as[i].published = min(as[i].left, want[i]/readings)
		s.waiting += as[i].published
	}
	s.drain(drain / readings)
}

// drain lets executors take up to n.
func (s *stream) drain(n int) {
	s.drained = min(s.waiting, n)
	s.waiting -= s.drained
	s.delivered += uint64(s.drained)
}

// TestStreamsStayShallow: however the work is spread over the dispatchers, no more waits than is drained in a second and twice the largest aim some time
// after what executors can do has changed, they are kept busy, and no dispatcher starves.
func TestStreamsStayShallow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "dispatchers")
		as, want := make([]allowance, n), make([]int, n)
		busy := rapid.IntRange(1, n).Draw(t, "busy ones")
		for i := range busy {
			want[i] = 1 << 30
		}
		var s stream
		highest := 0 // what was once drained may lie there when nothing is any more
		for _, name := range []string{"drain", "drain later"} {
			drain := rapid.IntRange(0, 60_000).Draw(t, name)
			highest = max(highest, drain)
			sum := 0
			for step := range 30 * readings {
				s.step(as, want, drain)
				if most := 60_000 + 2*maxAim; s.waiting > most {
					t.Fatalf("%s: after %d readings %d messages wait, want at most %d", name, step, s.waiting, most)
				}
				if step < 20*readings {
					continue
				}
				if most := highest + 2*maxAim; s.waiting > most {
					t.Fatalf("%s: after %d readings %d messages wait, want at most %d", name, step, s.waiting, most)
				}
				sum += s.drained
				for i := range busy {
					if drain > 2*maxAim && as[i].published == 0 {
						t.Fatalf("%s: after %d readings dispatcher %d may publish nothing", name, step, i)
					}
				}
			}
			if mean := sum / 10; mean < drain*4/5-readings {
				t.Fatalf("%s: executors had %d a second, want about the %d they can do", name, mean, drain)
			}
		}
	})
}

// TestDispatchersWithABacklogPublishByTheirShards: whoever had begun with more published more until its backlog was through, nearly all of it with eight, and
// what was due in the shards of the others at the same instants waited for that. Each reads the load at times of its own, as they do.
func TestDispatchersWithABacklogPublishByTheirShards(t *testing.T) {
	const (
		drain  = 20_000 // a second
		step   = 5 * time.Millisecond
		before = 40 * time.Second
		span   = 20 * time.Second // in which it is counted
	)
	for _, portions := range [][]float64{{0.5, 0.5}, {9. / 16, 7. / 16}, slices.Repeat([]float64{1. / 4}, 4), slices.Repeat([]float64{1. / 8}, 8), slices.Repeat([]float64{1. / 16}, 16)} {
		rng := rand.New(rand.NewPCG(1, uint64(len(portions))))
		n := len(portions)
		every := min(time.Duration(n)*gaugePressed, gaugeEvery)
		as, next, sums := make([]allowance, n), make([]time.Duration, n), make([]int, n)
		var s stream
		for now := time.Duration(0); now < before+span; now += step {
			for i := range as {
				if now < next[i] {
					continue
				}
				next[i] = now + every*9/10 + time.Duration(rng.Int64N(int64(every/5)))
				as[i].refill(queue.Load{Waiting: s.waiting, Delivered: s.delivered}, origin.Add(now), portions[i])
				if now < 2*time.Second { // the first one has it all
					as[i].left = max(drain*int(every/time.Millisecond)/1000*(1-min(i, 1)), 0)
				}
				as[i].published = as[i].left
				s.waiting += as[i].left
				if now >= before {
					sums[i] += as[i].left
				}
			}
			s.drain(drain * int(step/time.Millisecond) / 1000)
		}
		for i, portion := range portions {
			if got := float64(sums[i]) / (drain * span.Seconds()); math.Abs(got-portion) > portion/3 {
				t.Errorf("of %d dispatchers, number %d publishes %.3f of all, want %.3f", n, i, got, portion)
			}
		}
	}
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
		for reading := range 120 {
			s.step(as, want, drain)
			deepest = max(deepest, s.waiting)
			if full < 0 && s.drained == drain/readings {
				full = reading
			}
		}
		if deepest > 2*drain || full < 0 || full > 2*readings {
			t.Errorf("%d dispatchers, one busy: at most %d wait, executors busy after %d readings, want at most %d and %d", n, deepest, full, 2*drain, 2*readings)
		}
	}
}

func TestBudgetIsByLaneAndPriority(t *testing.T) {
	b := newBudget()
	low, other := subject{0, schema.Low}, subject{1, schema.Low}
	for b.take(low, "t", origin) {
	}
	if !b.take(subject{0, schema.Critical}, "t", origin) || !b.take(other, "t", origin) {
		t.Error("take of another priority or lane = false after one was used up, want true")
	}
	if got := b.subjects[low]; got.left != 0 || got.published != minAim {
		t.Errorf("used up: %+v, want all of %d published", got, minAim)
	}
	b.give(low, "t")
	if !b.take(low, "t", origin) || b.take(low, "t", origin) {
		t.Error("take after one was given back: want true, then false")
	}
	b.refill(low, queue.Load{}, origin, 1)
	if !b.take(low, "t", origin) {
		t.Error("take after refill = false, want true")
	}
	b.refill(subject{7, schema.High}, queue.Load{}, origin, 1) // nobody asked about it
	if got := len(b.busy(origin.Add(gaugeIdle - 1))); got != 3 {
		t.Errorf("busy = %d subjects, want the 3 that were asked about", got)
	}
	if got := b.busy(origin.Add(gaugeIdle)); len(got) != 0 {
		t.Errorf("busy = %v after %v, want none", got, gaugeIdle)
	}
}

// TestACrowdedSubjectIsReadOn: what can wait asked whether a subject was crowded, which was then read no more, and so was crowded for ever.
func TestACrowdedSubjectIsReadOn(t *testing.T) {
	b := newBudget()
	now := time.Unix(1000, 0)
	b.take(subject{0, schema.Normal}, "t", now)
	b.refill(subject{0, schema.Normal}, queue.Load{Waiting: maxAim}, now, 1)
	for range 10 {
		now = now.Add(gaugeIdle * 2 / 3)
		if !b.crowded(0, schema.Normal, now) {
			t.Fatalf("crowded = false with %d waiting", maxAim)
		}
	}
	if got := b.busy(now.Add(gaugeIdle / 2)); len(got) != 1 {
		t.Errorf("busy = %v, want the subject that is asked about", got)
	}
	if b.crowded(0, schema.Low, now) {
		t.Error("crowded = true of a subject that nothing was ever published to")
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
		r.before(maxAim, time.Now().Add(5*time.Second))
		time.Sleep(10 * time.Second)
		load, err := d.queue.Load(t.Context(), 0, schema.Normal)
		if err != nil || load.Depth() != 0 {
			t.Errorf("Load = %+v, %v, want nothing", load, err)
		}
		if c := r.counts.Tally("Entries").Rows; c < maxAim {
			t.Errorf("%d rows were asked for within 10 s, want at least %d", c, maxAim)
		}
	})
}

// TestMuchIsReadSoon: what executors have not asked for yet was noticed a second after it began to wait, since there was budget left until then.
func TestMuchIsReadSoon(t *testing.T) {
	now := time.Unix(1000, 0)
	s := subject{0, schema.Normal}
	for _, c := range []struct {
		name      string
		published int
		want      bool
	}{
		{"little", leastAim - 1, false},
		{"much, of a budget of which more is left", leastAim + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBudget()
			for i := range c.published {
				if !b.take(s, "t", now) {
					t.Fatalf("take %d of %d: got false, want true", i, minAim)
				}
			}
			if got := len(b.pressed) == 1; got != c.want {
				t.Errorf("a reading is asked for after %d publications: got %v, want %v", c.published, got, c.want)
			}
		})
	}
}

package depth

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

func TestBudgetIsSetByReadings(t *testing.T) {
	const fast = 50_000 // a second: the target is maxTarget
	for _, c := range []struct {
		name        string
		before      budget
		waiting     int
		dispatchers int
		want        int
	}{
		{"at rest it is the target", budget{}, 0, 1, minTarget},
		{"at rest it is shared", budget{}, 0, 4, minTarget / 4},
		{"the target follows the drain", budget{drain: 10_000}, 0, 1, 4000},
		{"and has a bound", budget{drain: fast}, 0, 1, maxTarget},
		{"executors take all there is: half as much again", budget{published: 30_000}, 0, 1, 45_000},
		{"there is what there should be: as much again", budget{published: 20_000, waiting: maxTarget, drain: fast}, maxTarget, 1, 20_000},
		{"and a fifth less with others", budget{published: 20_000, waiting: maxTarget, drain: fast}, maxTarget, 4, 16_000},
		{"and a tenth less with nine others", budget{published: 20_000, waiting: maxTarget, drain: fast}, maxTarget, 10, 18_000},
		{"it grew: our part less", budget{published: 20_000, waiting: maxTarget, drain: fast}, 14_000, 4, 16_000 - 1000 - 1000},
		{"it fell below: our part more", budget{published: 20_000, waiting: maxTarget, drain: fast}, 6000, 4, 16_000 + 1000 + 1000},
		{"nothing is drained: little more", budget{published: minTarget}, minTarget, 1, minTarget / 10},
		{"nothing is drained, and there is much", budget{waiting: 2 * minTarget}, 2 * minTarget, 1, 0},
		{"others keep it full: never nothing", budget{waiting: 15_000, drain: fast}, 15_000, 4, maxTarget / 10 / 4},
		{"a reading after a long rest", budget{drain: 10_000, at: time.Unix(1, 0).Add(-time.Hour)}, 4000, 4, 2500},
		{"executors come back", budget{waiting: maxTarget, drain: fast}, 5000, 1, 10_000},
		{"the stream was deleted", budget{waiting: 20_000, drain: fast, delivered: 1 << 40}, 0, 2, 15_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.before
			a.observe(queue.Load{Waiting: c.waiting}, time.Unix(1, 0), 1/float64(c.dispatchers))
			if a.left != c.want || a.waiting != c.waiting || a.published != 0 {
				t.Errorf("observe(%d, %d) of %+v = %+v, want %d left", c.waiting, c.dispatchers, c.before, a, c.want)
			}
		})
	}
}

func TestDrainIsMeasured(t *testing.T) {
	t0 := time.Unix(1000, 0)
	a := budget{delivered: 500, at: t0, waiting: 1}
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
		if a.observe(c.load, t0.Add(c.after), 1); a.drain != c.want {
			t.Errorf("%s: drain %v, want %v", c.name, a.drain, c.want)
		}
	}
}

var origin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// readings are how often a load is read in a second under pressure.
const readings = int(time.Second / ReadPressed)

// stream is a subject that dispatchers want to fill faster than executors drain it.
type stream struct {
	waiting, drained int
	delivered        uint64
	at               time.Time
}

// step lets the time between two readings pass: each dispatcher reads the load and publishes what
// it may of what it wants in a second.
func (s *stream) step(as []budget, want []int, drain int) {
	load := queue.Load{Waiting: s.waiting, Delivered: s.delivered}
	s.at = s.at.Add(ReadPressed)
	for i := range as {
		as[i].observe(load, s.at, 1/float64(len(as)))
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

// TestStreamsStayShallow: however the work is spread over the dispatchers, no more waits than is
// drained in a second and twice the largest target some time after what executors can do has
// changed, they are kept busy, and no dispatcher starves.
func TestStreamsStayShallow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "dispatchers")
		as, want := make([]budget, n), make([]int, n)
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
				if most := 60_000 + 2*maxTarget; s.waiting > most {
					t.Fatalf("%s: after %d readings %d messages wait, want at most %d", name, step, s.waiting, most)
				}
				if step < 20*readings {
					continue
				}
				if most := highest + 2*maxTarget; s.waiting > most {
					t.Fatalf("%s: after %d readings %d messages wait, want at most %d", name, step, s.waiting, most)
				}
				sum += s.drained
				for i := range busy {
					if drain > 2*maxTarget && as[i].published == 0 {
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

// TestDispatchersWithABacklogPublishByTheirShards: whoever had begun with more published more until
// its backlog was through, nearly all of it with eight, and what was due in the shards of the
// others at the same instants waited for that. Each reads the load at times of its own, as they do.
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
		every := min(time.Duration(n)*ReadPressed, ReadEvery)
		as, next, sums := make([]budget, n), make([]time.Duration, n), make([]int, n)
		var s stream
		for now := time.Duration(0); now < before+span; now += step {
			for i := range as {
				if now < next[i] {
					continue
				}
				next[i] = now + every*9/10 + time.Duration(rng.Int64N(int64(every/5)))
				as[i].observe(queue.Load{Waiting: s.waiting, Delivered: s.delivered}, origin.Add(now), portions[i])
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

// TestTheWorkOfOneDispatcherAmongMany: the others' publications cannot be seen, and were guessed to
// be as many as our own: with eight dispatchers of which one had the work the stream grew without
// bound.
func TestTheWorkOfOneDispatcherAmongMany(t *testing.T) {
	const drain = 20_000
	for _, n := range []int{2, 4, 8} {
		as, want := make([]budget, n), make([]int, n)
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
	b := New()
	low, other := Subject{Lane: 0, Priority: schema.Low}, Subject{Lane: 1, Priority: schema.Low}
	for b.Take(low, "t", origin) {
	}
	if !b.Take(Subject{Lane: 0, Priority: schema.Critical}, "t", origin) || !b.Take(other, "t", origin) {
		t.Error("Take of another priority or lane = false after one was used up, want true")
	}
	if got := b.subjects[low]; got.left != 0 || got.published != minTarget {
		t.Errorf("used up: %+v, want all of %d published", got, minTarget)
	}
	b.Return(low, "t")
	if !b.Take(low, "t", origin) || b.Take(low, "t", origin) {
		t.Error("Take after one was given back: want true, then false")
	}
	b.Observe(low, queue.Load{}, origin, 1)
	if !b.Take(low, "t", origin) {
		t.Error("Take after a reading = false, want true")
	}
	b.Observe(Subject{Lane: 7, Priority: schema.High}, queue.Load{}, origin, 1) // nobody asked about it
	if got := len(b.Busy(origin.Add(Idle - 1))); got != 3 {
		t.Errorf("Busy = %d subjects, want the 3 that were asked about", got)
	}
	if got := b.Busy(origin.Add(Idle)); len(got) != 0 {
		t.Errorf("Busy = %v after %v, want none", got, Idle)
	}
}

// TestACrowdedSubjectIsReadOn: what can wait asked whether a subject was crowded, which was then
// read no more, and so was crowded for ever.
func TestACrowdedSubjectIsReadOn(t *testing.T) {
	b := New()
	now := time.Unix(1000, 0)
	b.Take(Subject{Lane: 0, Priority: schema.Normal}, "t", now)
	b.Observe(Subject{Lane: 0, Priority: schema.Normal}, queue.Load{Waiting: maxTarget}, now, 1)
	for range 10 {
		now = now.Add(Idle * 2 / 3)
		if !b.Crowded(Subject{Lane: 0, Priority: schema.Normal}, now) {
			t.Fatalf("Crowded = false with %d waiting", maxTarget)
		}
	}
	if got := b.Busy(now.Add(Idle / 2)); len(got) != 1 {
		t.Errorf("Busy = %v, want the subject that is asked about", got)
	}
	if b.Crowded(Subject{Lane: 0, Priority: schema.Low}, now) {
		t.Error("Crowded = true of a subject that nothing was ever published to")
	}
}

// TestMuchIsReadSoon: what executors have not asked for yet was noticed a second after it began to
// wait, since there was budget left until then.
func TestMuchIsReadSoon(t *testing.T) {
	now := time.Unix(1000, 0)
	s := Subject{Lane: 0, Priority: schema.Normal}
	for _, c := range []struct {
		name      string
		published int
		want      bool
	}{
		{"little", leastTarget - 1, false},
		{"much, of a budget of which more is left", leastTarget + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := New()
			for i := range c.published {
				if !b.Take(s, "t", now) {
					t.Fatalf("Take %d of %d: got false, want true", i, minTarget)
				}
			}
			if got := len(b.pressed) == 1; got != c.want {
				t.Errorf("a reading is asked for after %d publications: got %v, want %v", c.published, got, c.want)
			}
		})
	}
}

// recipient keeps the tickets that were granted.
type recipient struct{ granted []*Ticket }

func (r *recipient) Granted(t *Ticket) { r.granted = append(r.granted, t) }

// TestLinesAreFair: a newcomer gets its share at once and no more, and those who are queued the
// rest, by weight and due time.
func TestLinesAreFair(t *testing.T) {
	b := New()
	var to recipient
	at := Subject{Lane: 0, Priority: schema.Normal}
	b.subjects[at] = &budget{}
	seq := uint64(0)
	wait := func(tenant string, n int) {
		for range n {
			seq++
			id := schema.MakeEntryID(origin, 0, seq)
			b.Queue(&Ticket{Subject: at, Tenant: tenant, At: origin, ID: id, To: &to})
		}
	}
	granted := func() map[string]int {
		got := make(map[string]int)
		for _, t := range to.granted {
			got[t.Tenant]++
		}
		to.granted = nil
		return got
	}
	b.Weigh("heavy", 3, origin)
	wait("heavy", 1000)
	wait("light", 1000)
	if got := granted(); len(got) != 0 {
		t.Fatalf("granted %v of nothing", got)
	}
	b.mu.Lock()
	b.subjects[at].published = 417
	b.subjects[at].waiting = minTarget / 4
	b.mu.Unlock()
	b.Observe(at, queue.Load{Waiting: minTarget}, origin, 0.1) // as much again, less a tenth of it and of the growth
	got := granted()
	if sum := got["heavy"] + got["light"]; got["heavy"] != 3*got["light"] && got["heavy"] != 3*got["light"]+1 || sum < 300 {
		t.Errorf("granted %v, want 3 to 1", got)
	}
	given := b.subjects[at].given
	early := 0
	for b.Take(at, "new", origin) {
		early++
	}
	if want := given / 5; early != want {
		t.Errorf("a newcomer had %d at once, want its share of %d: %d", early, given, want)
	}
	if b.Take(at, "heavy", origin) {
		t.Error("one that waits was given something out of turn")
	}
	// What is given back is the next one's.
	b.mu.Lock()
	b.subjects[at].left = 0
	b.mu.Unlock()
	b.Return(at, "heavy")
	if got := granted(); got["heavy"]+got["light"] != 1 {
		t.Errorf("granted %v of what was given back, want one", got)
	}
}

package dispatcher

import (
	"context"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// gaugeEvery is how often the streams' depths and fronts are read.
	gaugeEvery = time.Second
	// gaugeIdle is how long a lane and priority that nobody asked about is still read.
	gaugeIdle = 10 * time.Second
	// floorDepth is how deep a subject may be when it is read: enough for a start from rest, and for the time until the next
	// reading has had its effect.
	floorDepth = 10_000
	// frontAge is how old a front may be for an entry to be judged by it.
	frontAge = 5 * time.Second
)

// subject is one lane and priority.
type subject struct {
	lane     queue.Lane
	priority schema.Priority
}

// budget keeps the streams shallow: the depth of each subject is steered to floorDepth, by every live dispatcher for its
// share. Take is called for each publication; refill once a gaugeEvery.
type budget struct {
	mu       sync.Mutex
	subjects map[subject]*allowance
}

type allowance struct {
	left      int // publications allowed until the next refill
	published int // since the last refill
	depth     int // at the last refill
	asked     time.Time
}

func newBudget() *budget { return &budget{subjects: make(map[subject]*allowance)} }

// take takes one publication from the budget of a lane and priority.
func (b *budget) take(lane queue.Lane, p schema.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.subjects[subject{lane, p}]
	if !ok {
		a = &allowance{left: floorDepth / 4}
		b.subjects[subject{lane, p}] = a
	}
	a.asked = now
	if a.left <= 0 {
		return false
	}
	a.left--
	a.published++
	return true
}

// refill sets the allowance of a subject from its depth.
func (b *budget) refill(s subject, depth, dispatchers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.subjects[s]; ok {
		a.refill(depth, dispatchers)
	}
}

// refill steers the depth to floorDepth: with bursts published at once, a subject is then about a second of drain deep at most. A
// dispatcher publishes as much again as it did since the last reading, corrected by its share of what is missing
// below floorDepth and of the growth since: the growth of which it does not know who caused it. While executors take all
// there is, it publishes half as much again; when it is twice as deep as it should be and grows, half as much. The least that is
// left up to there is for one that comes late to a subject which others keep at its depth.
func (a *allowance) refill(depth, dispatchers int) {
	n := max(dispatchers, 1)
	growth := depth - a.depth
	left := a.published + (floorDepth-depth-growth)/n
	switch {
	case max(depth, a.depth) < floorDepth/4:
		left = a.published + max(a.published/2, floorDepth/n)
	case depth < 2*floorDepth:
		left = max(left, floorDepth/10/n)
	case growth > 0:
		left = min(left, a.published/2)
	}
	a.left = max(left, 0)
	a.depth, a.published = depth, 0
}

// busy returns the subjects asked about lately.
func (b *budget) busy(now time.Time) []subject {
	b.mu.Lock()
	defer b.mu.Unlock()
	var subjects []subject
	for s, a := range b.subjects {
		if now.Sub(a.asked) < gaugeIdle {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

// gauge remembers the fronts of the streams.
type gauge struct {
	mu     sync.Mutex
	fronts map[subject]reading
	asked  map[subject]time.Time
}

type reading struct {
	front queue.Front
	at    time.Time
}

func newGauge() *gauge {
	return &gauge{fronts: make(map[subject]reading), asked: make(map[subject]time.Time)}
}

// front returns the front of a subject if it was read lately and after since, and asks for the next reading.
func (g *gauge) front(lane queue.Lane, p schema.Priority, since, now time.Time) (queue.Front, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := subject{lane, p}
	g.asked[s] = now
	r, ok := g.fronts[s]
	return r.front, ok && r.at.After(since) && now.Sub(r.at) < frontAge
}

// wanted returns the subjects whose front was asked for lately.
func (g *gauge) wanted(now time.Time) []subject {
	g.mu.Lock()
	defer g.mu.Unlock()
	var subjects []subject
	for s, at := range g.asked {
		if now.Sub(at) < gaugeIdle {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

func (g *gauge) set(s subject, f queue.Front, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fronts[s] = reading{f, at}
}

// readStreams reads depths and fronts once.
func (d *Dispatcher) readStreams(ctx context.Context, now time.Time) {
	dispatchers := len(d.ring.Snapshot().Dispatchers())
	for _, s := range d.budget.busy(now) {
		depth, err := d.queue.Depth(ctx, s.lane, s.priority)
		if err != nil {
			if ctx.Err() == nil {
				d.metrics.failures.WithLabelValues("depth").Inc()
			}
			continue
		}
		d.metrics.depth.WithLabelValues(string(s.priority)).Set(float64(depth))
		d.budget.refill(s, depth, dispatchers)
	}
	for _, s := range d.gauge.wanted(now) {
		front, err := d.queue.Front(ctx, s.lane, s.priority)
		if err != nil {
			if ctx.Err() == nil {
				d.metrics.failures.WithLabelValues("front").Inc()
			}
			continue
		}
		d.gauge.set(s, front, now)
	}
}

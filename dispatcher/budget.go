package dispatcher

import (
	"context"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// gaugeEvery is how often the streams' loads and fronts are read at rest.
	gaugeEvery = time.Second
	// gaugePressed is how soon a load is read again that somebody waits for, for each live dispatcher: all of them together ask
	// the servers ten times a second. It is at most gaugeEvery.
	gaugePressed = 100 * time.Millisecond
	// gaugeIdle is how long a lane and priority that nobody asked about is still read.
	gaugeIdle = 10 * time.Second
	// aimSpan is how long what waits in a subject should keep executors busy: less is idleness until the next reading has had its effect,
	// more is age, and what is too old at its start must be looked at.
	aimSpan = 400 * time.Millisecond
	// minAim and maxAim bound how many messages should wait in a subject.
	minAim = 1000
	maxAim = 10_000
	// frontAge is how old a front may be for an entry to be judged by it.
	frontAge = 5 * time.Second
)

// subject is one lane and priority.
type subject struct {
	lane     queue.Lane
	priority schema.Priority
}

// budget keeps the streams shallow: what waits in each subject is steered to what executors drain in aimSpan, by every live dispatcher
// for its share. Take is called for each publication; refill at each reading.
type budget struct {
	mu       sync.Mutex
	subjects map[subject]*allowance
	filled   chan struct{} // closed at the next refill
	pressed  chan struct{} // cap 1: an allowance runs out before the next reading
}

type allowance struct {
	left      int // publications allowed until the next refill
	given     int // what left was at the last refill
	published int // since the last refill

	waiting   int       // at the last reading …
	delivered uint64    // … and how many had been delivered …
	at        time.Time // … which was when
	drain     float64   // messages a second, of all executors together

	asked time.Time
}

func newBudget() *budget {
	return &budget{subjects: make(map[subject]*allowance), filled: make(chan struct{}), pressed: make(chan struct{}, 1)}
}

// take takes one publication from the budget of a lane and priority.
func (b *budget) take(lane queue.Lane, p schema.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.subjects[subject{lane, p}]
	if !ok {
		a = &allowance{left: minAim, given: minAim}
		b.subjects[subject{lane, p}] = a
	}
	a.asked = now
	if 2*a.left <= a.given {
		select {
		case b.pressed <- struct{}{}:
		default:
		}
	}
	if a.left <= 0 {
		return false
	}
	a.left--
	a.published++
	return true
}

// crowded reports whether so much waits in a subject already that what can wait should.
func (b *budget) crowded(lane queue.Lane, p schema.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.subjects[subject{lane, p}]
	if !ok {
		return false
	}
	a.asked = now // so it is read on, and does not stay crowded by an old reading
	return a.waiting > a.aim()/4 || a.left <= 0
}

// give gives back what was taken and not used.
func (b *budget) give(lane queue.Lane, p schema.Priority) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.subjects[subject{lane, p}]
	a.left++
	a.published--
}

// next returns the channel that the next refill closes. Who waits asks for it before it takes.
func (b *budget) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.filled
}

// refill sets the allowance of a subject from a reading of its load.
func (b *budget) refill(s subject, load queue.Load, at time.Time, dispatchers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a, ok := b.subjects[s]; ok {
		a.refill(load, at, dispatchers)
	}
	close(b.filled)
	b.filled = make(chan struct{})
}

// refill steers what waits to the aim. A dispatcher publishes as much again as it did since the last reading, corrected by
// its share of what is missing below the aim and of the growth since: the growth of which it does not know who caused it. While
// executors take all there is, it publishes half as much again; when there is twice as much as there should be and it
// grows, half as much. The least that is left up to there is for one that comes late to a subject which others keep at its aim.
func (a *allowance) refill(load queue.Load, at time.Time, dispatchers int) {
	a.measure(load, at)
	n := max(dispatchers, 1)
	aim := a.aim()
	growth := load.Waiting - a.waiting
	left := a.published + (aim-load.Waiting-growth)/n
	switch {
	case max(load.Waiting, a.waiting) < aim/4:
		left = a.published + max(a.published/2, aim/n)
	case load.Waiting < 2*aim:
		left = max(left, aim/10/n)
	case growth > 0:
		left = min(left, a.published/2)
	}
	a.left = max(left, 0)
	a.given, a.published = a.left, 0
	a.waiting, a.delivered, a.at = load.Waiting, load.Delivered, at
}

// measure updates the drain, which goes half of the way to what was seen since the last reading. While nothing waits, executors might
// drain more than what is seen: then it does not fall.
func (a *allowance) measure(load queue.Load, at time.Time) {
	span := at.Sub(a.at).Seconds()
	if a.at.IsZero() || span <= 0 || load.Delivered < a.delivered {
		return
	}
	seen := float64(load.Delivered-a.delivered) / span
	if seen > a.drain || load.Waiting > 0 && a.waiting > 0 {
		a.drain += (seen - a.drain) / 2
	}
}

// aim is how many messages should wait.
func (a *allowance) aim() int {
	return min(max(int(a.drain*aimSpan.Seconds()), minAim), maxAim)
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

// readStreams reads loads, and fronts if they are asked for too.
func (d *Dispatcher) readStreams(ctx context.Context, fronts bool) {
	dispatchers := d.dispatchers()
	for _, s := range d.budget.busy(d.now()) {
		load, err := d.queue.Load(ctx, s.lane, s.priority)
		if err != nil {
			if ctx.Err() == nil {
				d.metrics.failures.WithLabelValues("depth").Inc()
			}
			continue
		}
		d.metrics.depth.WithLabelValues(string(s.priority)).Set(float64(load.Depth()))
		d.budget.refill(s, load, d.now(), dispatchers)
	}
	if !fronts {
		return
	}
	now := d.now()
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

// dispatchers returns how many there are.
func (d *Dispatcher) dispatchers() int { return max(len(d.ring.Snapshot().Dispatchers()), 1) }

// watchStreams reads the streams' loads and fronts once a second, and the loads sooner while somebody waits for them.
func (d *Dispatcher) watchStreams(ctx context.Context) {
	tick := time.NewTicker(gaugeEvery)
	defer tick.Stop()
	fronts := true
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		d.readStreams(bounded, fronts)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			fronts = true
			continue
		case <-d.budget.pressed:
			fronts = false
		}
		soon := time.NewTimer(min(gaugePressed*time.Duration(d.dispatchers()), gaugeEvery) - time.Since(began))
		select {
		case <-ctx.Done():
			soon.Stop()
			return
		case <-tick.C:
			soon.Stop()
			fronts = true
		case <-soon.C:
		}
	}
}

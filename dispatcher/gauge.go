package dispatcher

import (
	"context"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

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
	d.weighTenants(ctx)
	portion := d.portion()
	for _, s := range d.budget.busy(d.now()) {
		load, err := d.queue.Load(ctx, s.lane, s.priority)
		if err != nil {
			if ctx.Err() == nil {
				d.metrics.failures.WithLabelValues("depth").Inc()
			}
			continue
		}
		d.metrics.depth.WithLabelValues(strconv.Itoa(int(s.lane)), string(s.priority)).Set(float64(load.Depth()))
		d.budget.refill(s, load, d.now(), portion)
	}
	if !fronts {
		return
	}
	d.tellWaits(d.now())
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

// portion returns what part of all shards is dispatched here, an equal part if none is.
func (d *Dispatcher) portion() float64 {
	owned, shards := d.Owned(), d.ring.Snapshot().Shards()
	if owned == 0 || owned > shards {
		return 1 / float64(d.dispatchers())
	}
	return float64(owned) / float64(shards)
}

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

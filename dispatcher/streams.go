package dispatcher

import (
	"context"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
)

// frontAge is how old a front may be for an entry to be judged by it.
const frontAge = 5 * time.Second

// fronts remembers up to where executors have taken the messages of the streams.
type fronts struct {
	mu    sync.Mutex
	read  map[depth.Subject]reading
	asked map[depth.Subject]time.Time
}

type reading struct {
	front queue.Front
	at    time.Time
}

func newFronts() *fronts {
	return &fronts{read: make(map[depth.Subject]reading), asked: make(map[depth.Subject]time.Time)}
}

// get returns the front of a subject if it was read lately and after since, and asks for a reading.
func (f *fronts) get(s depth.Subject, since, now time.Time) (queue.Front, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[s] = now
	r, ok := f.read[s]
	return r.front, ok && r.at.After(since) && now.Sub(r.at) < frontAge
}

// wanted returns the subjects whose front was asked for lately.
func (f *fronts) wanted(now time.Time) []depth.Subject {
	f.mu.Lock()
	defer f.mu.Unlock()
	var subjects []depth.Subject
	for s, at := range f.asked {
		if now.Sub(at) < depth.Idle {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

func (f *fronts) set(s depth.Subject, front queue.Front, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[s] = reading{front, at}
}

// watchStreams reads the streams' loads and fronts every depth.ReadEvery, and the loads sooner
// under pressure.
func (d *Dispatcher) watchStreams(ctx context.Context) {
	tick := time.NewTicker(depth.ReadEvery)
	defer tick.Stop()
	withFronts := true
	for {
		began := time.Now()
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		d.readStreams(bounded, withFronts)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			withFronts = true
			continue
		case <-d.depth.Pressed():
			withFronts = false
		}
		soon := time.NewTimer(min(depth.ReadPressed*time.Duration(d.dispatchers()), depth.ReadEvery) - time.Since(began))
		select {
		case <-ctx.Done():
			soon.Stop()
			return
		case <-tick.C:
			soon.Stop()
			withFronts = true
		case <-soon.C:
		}
	}
}

// readStreams reads loads, and fronts if they are asked for too.
func (d *Dispatcher) readStreams(ctx context.Context, withFronts bool) {
	d.weighTenants(ctx)
	portion := d.portion()
	for _, s := range d.depth.Busy(d.now()) {
		load, err := subjectQueue(d.queue, s).Load(ctx, s.Lane, s.Priority)
		if err != nil {
			d.count(ctx, "depth")
			continue
		}
		if s.Pool == "" {
			d.metrics.depth.WithLabelValues(strconv.Itoa(int(s.Lane)), string(s.Priority)).Set(float64(load.Depth()))
		}
		d.depth.Observe(s, load, d.now(), portion)
	}
	if !withFronts {
		return
	}
	d.reportBacklog(d.now())
	now := d.now()
	for _, s := range d.fronts.wanted(now) {
		front, err := subjectQueue(d.queue, s).Front(ctx, s.Lane, s.Priority)
		if err != nil {
			d.count(ctx, "front")
			continue
		}
		d.fronts.set(s, front, now)
	}
}

// subjectQueue returns where the messages of a subject are read.
func subjectQueue(q Queue, s depth.Subject) queue.Inspector {
	if s.Pool == "" {
		return q
	}
	return q.Pool(s.Pool)
}

// weighTenants reads the weights of tenants that compete. One that cannot be read stays as it was.
func (d *Dispatcher) weighTenants(ctx context.Context) {
	if d.tenants == nil {
		return
	}
	now := d.now()
	for _, tenant := range d.depth.Unweighed(now) {
		share, err := d.tenants.Weight(ctx, tenant)
		if err != nil {
			d.count(ctx, "weigh")
			return // a store that fails for one would for all
		}
		d.depth.Weigh(tenant, share, now)
	}
}

// count counts a step that failed, unless we are stopping.
func (d *Dispatcher) count(ctx context.Context, step string) {
	if ctx.Err() == nil {
		d.metrics.failures.WithLabelValues(step).Inc()
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

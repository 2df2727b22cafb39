package dispatcher

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// tellEvery is how often the failure of a step is logged, whatever the number of shards that fail at it.
const tellEvery = 5 * time.Second

// Dispatcher owns the shards that the ring gives it.
type Dispatcher struct {
	name, incarnation string
	lanes             int
	store             Store
	queue             Queue
	ring              Ring
	writer            Writer
	tenants           Tenants
	rates             Rates
	halt              *bucketer.Halt
	now               func() time.Time
	log               *slog.Logger
	metrics           *metrics

	passing *rate.Limiter // rows that are read and passed over
	live    *bucketer.Liveness
	budget  *budget
	pacer   *pacer
	gauge   *gauge
	health  health
	seldom  map[string]*rate.Sometimes // by step: a failing store is told of now and then, and counted always
	counter atomic.Uint64
	reading chan struct{} // cap 1: full while rates are read and taken in
	owned   atomic.Int64
}

// New returns a Dispatcher that owns nothing until Run.
func New(c Config) (*Dispatcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	seldom := make(map[string]*rate.Sometimes, len(steps))
	for _, step := range steps {
		seldom[step] = &rate.Sometimes{Interval: tellEvery}
	}
	d := &Dispatcher{
		seldom: seldom,
		name:   c.Name, incarnation: c.Incarnation, lanes: max(c.Lanes, 1), store: c.Store, queue: c.Queue,
		ring: c.Ring, writer: c.Writer, tenants: c.Tenants, rates: c.Rates, halt: c.Halt, now: c.Now, log: c.Logger, metrics: newMetrics(c.Registerer),
		live: bucketer.NewReaper(c.Store, c.Now, c.Halt.Halted), budget: newBudget(), gauge: newGauge(), reading: make(chan struct{}, 1),
		passing: rate.NewLimiter(passRows, passBurst),
	}
	d.pacer = newPacer(d)
	return d, nil
}

// Owned returns how many shards are being dispatched here.
func (d *Dispatcher) Owned() int { return int(d.owned.Load()) }

// dispatchID returns what tells one redispatch from every other.
func (d *Dispatcher) dispatchID() string {
	return d.incarnation + "-" + strconv.FormatUint(d.counter.Add(1), 36)
}

// tenure is one shard being dispatched here.
type tenure struct {
	stop context.CancelFunc
	done chan struct{}
	// leaving is when a live peer was seen to own the shard; zero while it is ours.
	leaving time.Time
	shard   *shard
}

// ended reports that the tenure has ended by itself.
func (t *tenure) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Run dispatches until ctx ends: it follows the ring, and starts everything anew when the process was stopped. It returns nil.
func (d *Dispatcher) Run(ctx context.Context) error {
	halts := d.halt.Subscribe()
	tenures := make(map[schema.Shard]*tenure)
	defer func() { d.stopAll(tenures) }()
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(func() { d.watchStreams(ctx) })
	background.Go(func() { d.watchHealth(ctx) })
	if !d.insistRates(ctx) {
		return nil
	}
	background.Go(func() { d.watchRates(ctx) })
	background.Go(func() { d.pacer.run(ctx) })

	tick := time.NewTicker(handover / 6)
	defer tick.Stop()
	for {
		changed := d.ring.Changed() // before the snapshot is read: nothing is missed
		d.follow(ctx, tenures, d.now())
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		case <-halts:
			// We were stopped: others may own our shards by now, and what we hold may be done.
			d.log.Warn("the process was stopped: everything is read again")
			d.metrics.halts.Inc()
			d.health.forget()
			d.stopAll(tenures)
			if !d.insistRates(ctx) { // a change may have been answered meanwhile
				return nil
			}
			if err := d.ring.Refresh(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("ring could not be read again", "err", err)
			}
		}
	}
}

// follow makes the tenures what the ring says. A shard that a live peer owns is kept for a while: the peer may not know yet.
func (d *Dispatcher) follow(ctx context.Context, tenures map[schema.Shard]*tenure, now time.Time) {
	if d.halt.Halted() {
		return
	}
	ours := make(map[schema.Shard]bool)
	for _, id := range d.ring.Snapshot().Owned(d.name) {
		ours[id] = true
		t, ok := tenures[id]
		if ok && t.ended() {
			t.stop()
			ok = false
		}
		if ok {
			t.leaving = time.Time{}
			continue
		}
		tenures[id] = d.start(ctx, id)
	}
	for id, t := range tenures {
		switch {
		case ours[id]:
		case t.leaving.IsZero():
			t.leaving = now
		case now.Sub(t.leaving) >= handover:
			t.stop()
			<-t.done
			delete(tenures, id)
			d.log.Info("shard given up", "shard", int(id))
		}
	}
	d.owned.Store(int64(len(tenures)))
	d.metrics.owned.Set(float64(len(tenures)))
}

func (d *Dispatcher) start(ctx context.Context, id schema.Shard) *tenure {
	ctx, cancel := context.WithCancel(ctx)
	s := newShard(d, id)
	t := &tenure{stop: cancel, done: make(chan struct{}), shard: s}
	go func() {
		defer close(t.done)
		s.run(ctx)
	}()
	d.metrics.takeovers.Inc()
	return t
}

func (d *Dispatcher) stopAll(tenures map[schema.Shard]*tenure) {
	for _, t := range tenures {
		t.stop()
	}
	for id, t := range tenures {
		<-t.done
		delete(tenures, id)
	}
	d.owned.Store(0)
}

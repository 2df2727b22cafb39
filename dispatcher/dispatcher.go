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
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/pools"
	"carillon.dev/carillon/dispatcher/ratelimit"
	"carillon.dev/carillon/schema"
)

// logFailureEvery is how often the failure of a step is logged, however many shards fail at it.
const logFailureEvery = 5 * time.Second

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
	homes             homes
	now               func() time.Time
	log               *slog.Logger
	metrics           *metrics
	tally             *tally.Tally

	depth       *depth.Controller
	rateLimiter *ratelimit.Limiter
	spillRate   *rate.Limiter // of rows that are read and spilled
	lateRate    *rate.Limiter // of steps of late reads
	live        *bucketer.Liveness
	fronts      *fronts
	pools       *pools.Router
	unread      unreadRows
	health      health

	readingRates chan struct{}              // cap 1: full while rates are read and taken in
	logEvery     map[string]*rate.Sometimes // by step: failures are always counted, and logged seldom
	dispatchIDs  atomic.Uint64
	owned        atomic.Int64
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
	logEvery := make(map[string]*rate.Sometimes, len(steps))
	for _, step := range steps {
		logEvery[step] = &rate.Sometimes{Interval: logFailureEvery}
	}
	return &Dispatcher{
		name: c.Name, incarnation: c.Incarnation, lanes: max(c.Lanes, 1),
		store: c.Store, queue: c.Queue, ring: c.Ring, writer: c.Writer, tenants: c.Tenants, rates: c.Rates,
		halt: c.Halt, homes: c.Served, now: c.Now, log: c.Logger, metrics: newMetrics(c.Registerer), tally: c.Tally,
		depth: depth.New(), rateLimiter: ratelimit.New(), spillRate: rate.NewLimiter(spillRows, spillBurst), lateRate: rate.NewLimiter(lateSteps, lateSteps),
		live: bucketer.NewReaper(c.Store, c.Now, c.Halt.Halted, bucketer.RegionsOf(c.Region, c.Served)), fronts: newFronts(), pools: pools.New(c.Ring, c.Requires),
		unread:       unreadRows{byShard: make(map[schema.Shard]unread)},
		readingRates: make(chan struct{}, 1), logEvery: logEvery,
	}, nil
}

// Owned returns how many shards are being dispatched here.
func (d *Dispatcher) Owned() int { return int(d.owned.Load()) }

// dispatchID returns an id that no other redispatch has.
func (d *Dispatcher) dispatchID() string {
	return d.incarnation + "-" + strconv.FormatUint(d.dispatchIDs.Add(1), 36)
}

// homes answers in which epoch our region serves the home of a shard; nil: there are no regions.
type homes func(schema.Shard) (epoch int64, err error)

// epoch returns it, 0 without regions; false: the home is not served here.
func (h homes) epoch(shard schema.Shard) (int64, bool) {
	if h == nil {
		return 0, true
	}
	epoch, err := h(shard)
	return epoch, err == nil
}

// tenure is one shard being dispatched here.
type tenure struct {
	stop context.CancelFunc
	done chan struct{}
	// leaving is when a live peer was first seen to own the shard; zero = it is ours.
	leaving time.Time
}

// ended reports whether the tenure has ended by itself.
func (t *tenure) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Run dispatches until ctx ends, and returns nil. It follows the ring, and starts everything anew
// when the process was stopped.
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
	background.Go(func() { d.reserveStarts(ctx) })

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
			// Others may own our shards by now, and what we hold may be done.
			d.log.Warn("the process was stopped: everything is read again")
			d.metrics.halts.Inc()
			d.health.forget()
			d.stopAll(tenures)
			if !d.insistRates(ctx) { // a change of rates may have been answered meanwhile
				return nil
			}
			if err := d.ring.Refresh(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("ring could not be read again", "err", err)
			}
		}
	}
}

// follow makes the tenures what the ring says, of the shards whose homes our region serves. A shard
// that a live peer owns is kept for a while: the peer may not know yet. One of a home that is not
// served here is given up at once: another region may have it.
func (d *Dispatcher) follow(ctx context.Context, tenures map[schema.Shard]*tenure, now time.Time) {
	if d.halt.Halted() {
		d.metrics.owned.Set(0) // for as long, nothing is dispatched
		return
	}
	ours := make(map[schema.Shard]bool)
	for _, id := range d.ring.Snapshot().Owned(d.name) {
		if _, served := d.homes.epoch(id); !served {
			continue
		}
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
	unserved := make(map[schema.Shard]*tenure)
	for id, t := range tenures {
		if _, served := d.homes.epoch(id); !served {
			t.stop() // all of them, before the first is waited for
			unserved[id] = t
		}
	}
	for id, t := range unserved {
		<-t.done
		delete(tenures, id)
		d.log.Info("shard given up: its home is not served here", "shard", int(id))
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
	t := &tenure{stop: cancel, done: make(chan struct{})}
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
	d.metrics.owned.Set(0)
}

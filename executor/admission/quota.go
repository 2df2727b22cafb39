package admission

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// The runs of a task with max_concurrent take their slots from a block that the executor has of the
// task's limit (schema.Block). To start and to end a run is then a matter of memory. The lease of
// the limit is read and swapped only when more slots are needed than are there, when some have been
// idle, and when other executors wait for theirs.
//
// A run without a slot waits in memory if it is one of a few, about as many as start within a
// second. All others are deferred to about their turn. So the backlog of a task lies in the store,
// in the minutes in which it will be tried, one row a run. It holds up no cursor, and no partition
// grows without bound. A wait list, as limits of jobs have, would be one partition a task that is
// written and deleted at its head a million times, and something would have to wake its runs one by
// one. The price: the run that was due first is not always the first to start, and a run is
// deferred more than once where it was unknown how fast the line would move.
//
// So that slots do not stand idle while deferred runs wait for their time, the line moves by
//
//	max(lineSpeed × starts in the last second, retriesPerSecond ÷ limited tasks, 1) runs a second
//
// and a run that has waited long is tried less often. A limit that is raised is thus used up within
// seconds, but for runs that have waited for many minutes.
const (
	// blockTick is how often idle slots are looked for, contestedTick how often while other
	// executors could use them. A slot that was unused for one to two of it is given back. A turn
	// lasts a blockTick.
	blockTick, contestedTick = time.Second, 100 * time.Millisecond
	// blockReadEvery is how often the lease is read again of a limit of which we have slots,
	// without a signal.
	blockReadEvery = 5 * time.Second
	// An executor that waits for slots reads the lease again after shortFirst, then after twice as
	// long each time, up to shortMost.
	shortFirst, shortMost = 50 * time.Millisecond, 2 * time.Second
	// blockPause is the least time between two steps.
	blockPause = 10 * time.Millisecond

	// reachedFor is how long after a run last found no slot a limit counts as reached, unless slots
	// are idle before (StillReached).
	reachedFor = 5 * time.Second
	// unknownSpeedFor is for how long after a limit was reached nobody knows how fast runs start.
	// Meanwhile a deferral is unknownSpeedLeast plus up to 1.5 × unknownSpeedFor, at random.
	unknownSpeedFor, unknownSpeedLeast = time.Second, 100 * time.Millisecond
	// lineSpeed is by how many runs the line moves for each that starts.
	lineSpeed = 2
	// inMemoryPart bounds the runs that wait in memory for slots of tasks' limits:
	// max(slots/inMemoryPart, 1).
	inMemoryPart = 2
	// retriesPerSecond is how many deferred runs are tried in a second at least, on one executor.
	// Tasks whose limits are reached share it; each has one.
	retriesPerSecond = 50
	// A deferred run is tried again after 1/agePart of the time for which the limit has been
	// reached, at most ageMost, besides its turn.
	agePart = 8
	ageMost = 5 * time.Minute
)

// A tenant's quota of runs at once is such a limit too, of all its runs. A run that needs slots of
// both takes them at one time.

// block is what an executor has of the limit of a task, or of the quota of a tenant. The
// controller's mutex guards it, but for what its own goroutine alone uses.
type block struct {
	key     schema.LimitKey
	home    string // of the limit; "": there are no regions, or it was not asked yet
	epoch   int64  // of the home, in which the lease last said what is held
	cause   schema.Cause
	limit   int       // as the task, or the tenant, says
	session string    // under which the slots are held
	held    int       // slots that are ours for sure
	usable  int       // of these, so many may be in use
	since   time.Time // when we got the first of them: our turn began
	changed bool      // a signal says that the lease has changed
	absent  bool      // the lease says nothing of us that counts

	peak, before int       // the most slots that were in use in this tick, and in the one before
	tick         time.Time // when this one began

	reached, last time.Time // since when runs find no slot, and when one did last

	inMemory *int          // how many wait for slots of any task's limit
	wakeUp   chan struct{} // cap 1

	// Of the block's goroutine alone.
	tickLength time.Duration // how long a tick lasts
	lease      schema.Lease  // as it stood last; zero key: not known
	read       time.Time
	shortages  int // how often in a row there were too few slots
}

// wake has the goroutine of the block see what is to be done.
func (b *block) wake() {
	select {
	case b.wakeUp <- struct{}{}:
	default:
	}
}

// taskKey returns under which key the runs of a task are counted.
func taskKey(tenant, name string) targetKey { return targetKey{tenant, ofTasks + name} }

// quotaKey returns under which key the runs of a tenant are counted that has a quota of them.
func quotaKey(tenant string) targetKey { return targetKey{tenant, ofTenants} }

// The names of what has limits. No target has such a name.
const (
	ofTasks   = "task " // and the name of the task
	ofTenants = "tenant quota"
)

// limit returns the limit of which k counts the runs, and why a run is deferred that finds no slot.
func (k targetKey) limit() (schema.LimitKey, schema.Cause) {
	if k.name == ofTenants {
		return schema.TenantLimit(k.tenant), schema.CauseQuota
	}
	return schema.TaskLimit(schema.TaskName{Tenant: k.tenant, Name: strings.TrimPrefix(k.name, ofTasks)}), schema.CauseLimit
}

// taskLoad returns the load of the task of a request, with a block that is looked after. The caller
// holds mu.
func (g *Controller) taskLoad(w Request) *Load {
	return g.limitLoad(taskKey(w.target.tenant, w.Task), w.TaskLimit)
}

// limitLoad returns the load of what has a limit, with a block that is looked after. The caller
// holds mu.
func (g *Controller) limitLoad(k targetKey, limit int) *Load {
	l := g.load(k, time.Now())
	b := l.block
	if b == nil {
		b = &block{limit: limit, inMemory: &g.inMemory, tickLength: blockTick, wakeUp: make(chan struct{}, 1)}
		b.key, b.cause = l.key.limit()
		l.block = b
		g.limited[l] = struct{}{}
		if g.attend != nil {
			g.attend(l)
		}
	}
	if b.limit != limit {
		b.limit, b.usable = limit, min(b.usable, limit)
		b.wake()
	}
	return l
}

// awaitQuota has a request wait for a slot of a limit, or defers it. The caller holds mu.
func (g *Controller) awaitQuota(l *Load, w Request, now time.Time) (Decision, *Load) {
	b := l.block
	b.wake()
	if now.Sub(b.last) > reachedFor {
		b.reached = now
	}
	b.last = now
	l.roll(now)
	speed := max(l.begun, l.before) // starts a second
	waits, all := MostWaitingForLimit(speed, g.slots, w.Deferred)
	if l.waiting < waits && g.inMemory < all { // if none waited, no slot would ever be asked for
		return Decision{Wait: l.wait(w.Rank)}, l
	}
	g.metrics.deferrals.WithLabelValues(ReasonLimit).Inc()
	age := now.Sub(b.reached)
	step, least, ok := LimitStep(speed, len(g.limited), age)
	if !ok {
		return Decision{Defer: unknownSpeedLeast + rand.N(unknownSpeedFor*3/2), Reason: ReasonLimit, Cause: b.cause}, nil
	}
	wait := max(l.untilTurn(now, step), least)
	return Decision{Defer: wait + rand.N(LimitSpread(wait)), Reason: ReasonLimit, Cause: b.cause}, nil
}

// taskEnded notes that an attempt of the task has ended. The caller holds the controller's mu.
func (l *Load) taskEnded() {
	if b := l.block; b != nil && b.held > b.usable {
		b.wake() // others wait for what is free now
	}
}

// began notes that one more slot is in use. The caller holds the controller's mu.
func (b *block) began(busy int) { b.peak = max(b.peak, busy) }

// QuotaConfig is what a quota allocator needs.
type QuotaConfig struct {
	Store   schema.LeaseStore
	Live    *bucketer.Liveness
	Name    string                                      // of the executor
	Session func(now time.Time) (id string, alive bool) // the executor's
	// Epoch returns the home of a limit, and in which epoch our region serves it now, or a
	// schema.NotServedError. It does no I/O. Nil: there are no regions.
	Epoch      func(key schema.LimitKey) (home string, epoch int64, err error)
	Signals    bucketer.Signaller // nil: other executors are not told
	Now        func() time.Time
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// QuotaAllocator keeps the blocks of an executor. One goroutine a block looks after it while runs
// of its task are in hand.
type QuotaAllocator struct {
	QuotaConfig
	controller *Controller
	metrics    *quotaMetrics
	warnings   rate.Sometimes // a store that fails is logged now and then

	// The controller's mutex guards both.
	released map[string]int64           // schema.Session.Released
	had      map[string]schema.LimitKey // by home, a limit of which we had slots, and gave all back

	ending chan struct{} // closed when no more runs come
	loops  sync.WaitGroup
}

// NewQuotaAllocator returns a quota allocator that serves a controller.
func NewQuotaAllocator(g *Controller, c QuotaConfig) *QuotaAllocator {
	k := &QuotaAllocator{
		QuotaConfig: c, controller: g, metrics: newQuotaMetrics(c.Registerer),
		warnings: rate.Sometimes{Interval: 10 * time.Second}, ending: make(chan struct{}), released: make(map[string]int64), had: make(map[string]schema.LimitKey),
	}
	g.attend = k.attend
	return k
}

// attend looks after the block of a load until nobody needs it. The controller's mutex is held.
func (k *QuotaAllocator) attend(l *Load) {
	b := l.block
	k.loops.Go(func() { k.run(l, b) })
}

// Changed has the lease of a limit read, if there is a block of it here. The body of a signal of
// topic "slots" is the key of the limit.
func (k *QuotaAllocator) Changed(body []byte) {
	var of targetKey
	limit := schema.LimitKey(body)
	if task, ok := limit.Task(); ok {
		of = taskKey(task.Tenant, task.Name)
	} else if tenant, ok := limit.Tenant(); ok {
		of = quotaKey(tenant)
	}
	k.controller.mu.Lock()
	defer k.controller.mu.Unlock()
	if l := k.controller.loads[of]; l != nil && l.block != nil {
		l.block.changed = true
		l.block.wake()
	}
}

// Close gives every slot back, and waits until that is done or was tried.
func (k *QuotaAllocator) Close() {
	close(k.ending)
	k.loops.Wait()
}

// run looks after a block until nobody needs it.
func (k *QuotaAllocator) run(l *Load, b *block) {
	var again time.Time // when the lease is read again
	for {
		now := k.Now()
		look, done := k.begin(l, b, now)
		if done {
			return
		}
		err := k.step(l, b, look || !now.Before(again))
		wait := b.tickLength
		switch {
		case errors.Is(err, schema.ErrNotServed): // our session gives the slots up once none of the home is in use
		case err != nil:
			k.warnings.Do(func() {
				k.Log.Warn("slots of the limit of a task or a tenant can be neither taken nor given back", "limit", b.key, "err", err)
			})
			wait, again = retryAfter, now.Add(retryAfter)
		case b.shortages > 0:
			pause := ShortPause(b.shortages)
			wait, again = min(wait, pause), b.read.Add(pause)
		default:
			again = b.read.Add(blockReadEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-k.ending:
			if err != nil || b.session == "" {
				timer.Stop()
				return // our session ends soon, and what we have with it
			}
		case <-b.wakeUp:
			time.Sleep(blockPause)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// begin begins a step. look: a signal said that the lease has changed. done: nobody needs the block
// any more.
func (k *QuotaAllocator) begin(l *Load, b *block, now time.Time) (look, done bool) {
	session, alive := k.Session(now)
	k.controller.mu.Lock()
	defer k.controller.mu.Unlock()
	if !alive {
		session = ""
	}
	if session != b.session { // what we had stays the former one's, until that is over
		b.session, b.held, b.usable, b.absent, b.lease = session, 0, 0, false, schema.Lease{}
	}
	if b.held == 0 && l.busy == 0 && l.waiting == 0 && b.absent {
		if b.home != "" {
			k.had[b.home] = b.key
		}
		l.block = nil
		delete(k.controller.limited, l)
		k.controller.remember(l)
		return false, true
	}
	if now.Sub(b.tick) >= b.tickLength || now.Before(b.tick) {
		b.tick, b.before, b.peak = now, b.peak, l.busy
	}
	look, b.changed = b.changed, false
	return look, false
}

// step brings the block to what is needed, as far as that is possible. With look the lease is read
// first; otherwise only where what is known of it says too little.
func (k *QuotaAllocator) step(l *Load, b *block, look bool) error {
	if b.session == "" {
		return nil // nothing can be had
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: slots go back after the last run, when all else has stopped
	defer cancel()
	home, epoch, err := k.epochOf(b.key)
	if lost := (*schema.NotServedError)(nil); errors.As(err, &lost) {
		return k.release(l, home, lost)
	} else if err != nil {
		return err
	}
	known := b.lease
	if look {
		known = schema.Lease{}
	}
	var p quotaPlan
	var now time.Time
	stands, err := lease.Update(ctx, k.Store, b.key.Lease(), known, func(was schema.Lease, fresh bool) (is schema.Lease, expires time.Time, err error) {
		now = k.Now()
		slots, err := was.Slots()
		if err != nil {
			return is, expires, err
		}
		pruned := false
		if fresh {
			b.read = now
			if pruned, err = k.prune(ctx, &slots, now); err != nil {
				return is, expires, err
			}
		}
		p = k.plan(l, b, &slots, home, epoch, now)
		switch {
		case p.short && !fresh && b.shortages == 0: // the lease is read before a shortage counts
			return is, expires, lease.ErrStale
		case !p.changed && !pruned:
			return is, expires, lease.ErrUnchanged
		}
		k.metrics.swaps.Inc()
		is, err = was.WithSlots(slots, now)
		return is, bucketer.SlotsExpire(&slots, now), err
	})
	if b.lease = stands; err != nil {
		return err
	}
	k.settle(l, b, p, epoch, now)
	return nil
}

// quotaPlan is what a step is about to do.
type quotaPlan struct {
	held, usable int
	changed      bool
	short        bool // more could be used
	waits        bool // the lease says so
	signal       bool // others should look: some may have what we gave up, or have too much where we have too little
}

// plan writes into slots what we need of them. What we are to have less of is not used from here
// on; what more, once the lease says so.
func (k *QuotaAllocator) plan(l *Load, b *block, slots *schema.Slots, home string, epoch int64, now time.Time) (p quotaPlan) {
	ended := false
	select {
	case <-k.ending:
		ended = true
	default:
	}
	contested, waited := slots.Contested(b.session), slots.Waits(b.session)
	k.controller.mu.Lock()
	defer k.controller.mu.Unlock()
	demand := min(l.busy+l.waiting, b.limit, k.controller.slots)
	spare := 0
	if ended {
		demand = l.busy
	} else {
		spare = SpareSlots(demand, b.held, max(b.peak, b.before), min(b.limit, k.controller.slots))
	}
	if b.tickLength = blockTick; contested {
		b.tickLength = contestedTick
	}
	p.held, p.usable, p.changed = slots.Apportion(schema.BlockRequest{
		Executor: k.Name, Session: b.session, Home: home, Epoch: epoch, Limit: b.limit, Busy: l.busy, Want: demand, Spare: spare, Over: now.Sub(b.since) >= blockTick, Now: now,
	})
	p.short, p.waits = p.held < demand && !ended, slots.Waits(b.session)
	p.signal = contested && p.held < b.held || !waited && p.waits
	b.held, b.usable = min(b.held, p.held), min(b.usable, p.usable)
	b.home, b.absent = home, b.absent && !p.changed
	return p
}

// settle notes what the lease says now.
func (k *QuotaAllocator) settle(l *Load, b *block, p quotaPlan, epoch int64, now time.Time) {
	k.controller.mu.Lock()
	if b.epoch = epoch; epoch < k.released[b.home] {
		b.forfeit() // the home was lost meanwhile
		k.controller.mu.Unlock()
		return
	}
	grown := p.held > b.held
	if b.held == 0 && grown {
		b.since = now
	}
	if grown {
		b.peak = max(b.peak, p.held) // what is new does not count as idle
	}
	b.held, b.usable = p.held, min(p.usable, b.limit)
	b.absent = p.held == 0 && !p.waits
	if !StillReached(l.busy, l.waiting, b.usable) {
		b.last = time.Time{}
	}
	if b.usable > l.busy {
		l.wakeOne() // the one that is woken wakes the next
	}
	k.controller.mu.Unlock()
	switch {
	case !p.short:
		b.shortages = 0
	case grown:
		b.shortages = 1
	default:
		b.shortages++
	}
	if p.signal && k.Signals != nil {
		k.Signals.Signal(schema.TopicSlots, []byte(b.key))
	}
}

// prune takes away what executors had whose sessions were declared dead.
func (k *QuotaAllocator) prune(ctx context.Context, slots *schema.Slots, now time.Time) (some bool, err error) {
	stands, err := k.Live.Of(ctx, slots.Sessions())
	if err != nil {
		return false, err
	}
	before := len(slots.Blocks) + len(slots.Taken)
	slots.Prune(now, stands)
	return len(slots.Blocks)+len(slots.Taken) != before, nil
}

// SetMetrics tells how many slots of limits we have, and how many of them are in use.
func (k *QuotaAllocator) SetMetrics() {
	held, busy := 0, 0
	k.controller.mu.Lock()
	for l := range k.controller.limited {
		held += l.block.held
		busy += l.busy
	}
	k.controller.mu.Unlock()
	k.metrics.held.Set(float64(held))
	k.metrics.busy.Set(float64(busy))
}

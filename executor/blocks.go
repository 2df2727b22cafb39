package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// The runs of a task with max_concurrent take their slots from a block that the executor has of the task's limit (schema.Block): to start and to end
// one is a matter of memory. What the lease of the limit says is looked at, and swapped, only when more slots are needed than are there, when some have been
// idle, and when others wait for theirs.
//
// A run for which there is no slot waits here if it is one of a few, about as many as start within a second. All others are put off: a deferral stands in, due
// about when it will be their turn. So a backlog of a task, however large, lies in Cassandra, in the minutes in which it will
// be tried, one row a run; it holds up no cursor, and no partition of it grows without bound. (Rows of what waits, as for the limit of a job, would be one partition for each task,
// that is written and deleted at its head a million times; they would have to be woken one by one, by who has slots, and be put in order by somebody.) The price is
// that who was due first is not always the first to start, and that a run is put off more than once where nobody knew how fast the line would move.
//
// So that slots do not stand idle while runs wait for their time, the line moves twice as fast as runs start, and by askPace runs a second at least; who has waited long is asked
// less often. Hence a limit that is raised is used up within seconds, but for what has waited for many minutes.
const (
	// blockTick is how often it is looked whether slots are idle, contestedTick how often while others could use them: what was not in use for one to two of it is
	// given back. A turn lasts as long as a blockTick.
	blockTick, contestedTick = time.Second, 100 * time.Millisecond
	// blockReadEvery is how often the lease of a limit is read again of which we have slots, should no signal have told that others wait.
	blockReadEvery = 5 * time.Second
	// Who waits for slots reads the lease again after shortFirst, then after twice as long each time, up to shortMost.
	shortFirst, shortMost = 50 * time.Millisecond, 2 * time.Second
	// blockPause is the least time between two looks.
	blockPause = 10 * time.Millisecond

	// quietFor is how long after the last run found no slot a limit counts as reached no more.
	quietFor = 5 * time.Second
	// newlyOff is for how long after a limit was reached nobody knows how fast runs start: all are put off by up to half as much again, and newlyLeast at least.
	newlyOff, newlyLeast = time.Second, 100 * time.Millisecond
	// lineSpeed is by how many runs the line moves for each that starts.
	lineSpeed = 2
	// awaitPart bounds the runs that wait in memory for slots of any task's limit: that part of the executor's slots, and one at least.
	awaitPart = 2
	// askPace is how many of those put off are tried in a second at least, on one executor, shared by the tasks whose limits are reached; each has one.
	askPace = 50
	// Who is put off is not tried again before a stayPart of the time since which the limit is reached has passed once more, at most stayMost.
	stayPart = 8
	stayMost = 5 * time.Minute
)

// block is what an executor has of the limit of a task. The gate's mutex guards it, but for what its keeper alone touches.
type block struct {
	key     schema.LimitKey
	limit   int       // as the task says
	session string    // under which the slots are held
	held    int       // slots that are ours for sure
	use     int       // of these, so many may be in use
	since   time.Time // when we got the first of them: our turn began
	heard   bool      // somebody says that the lease has changed

	peak, before int       // the most slots that were in use in this tick, and in the one before
	tick         time.Time // when this one began

	reached, last time.Time // since when runs find no slot, and when one did last

	all  *int          // how many wait for slots of any task's limit
	poke chan struct{} // cap 1

	// The keeper's own.
	every time.Duration // how long a tick lasts
	lease schema.Lease  // as it stood last; zero key: not known
	sure  bool          // it says nothing of us
	read  time.Time
	short int // how often in a row there were too few slots
}

// call has the keeper of the block look what is to be done.
func (b *block) call() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// taskKey returns under which key the gate counts the runs of a task.
func taskKey(tenant, name string) targetKey { return targetKey{tenant, "task " + name} }

// task returns the load of the task of a wish, with a block that somebody looks after. The caller holds mu.
func (g *gate) task(w wish) *load {
	l := g.load(taskKey(w.target.tenant, w.task), time.Now())
	b := l.block
	if b == nil {
		b = &block{key: schema.TaskLimit(schema.TaskName{Tenant: w.target.tenant, Name: w.task}), limit: w.most, all: &g.waiting, every: blockTick, poke: make(chan struct{}, 1)}
		l.block = b
		g.limited[l] = struct{}{}
		if g.tend != nil {
			g.tend(l)
		}
	}
	if b.limit != w.most {
		b.limit, b.use = w.most, min(b.use, w.most)
		b.call()
	}
	return l
}

// await has a wish wait for a slot of its task's limit, or puts it off. The caller holds mu.
func (g *gate) await(l *load, w wish, now time.Time) (ruling, *load) {
	b := l.block
	b.call()
	if now.Sub(b.last) > quietFor {
		b.reached = now
	}
	b.last = now
	l.roll(now)
	speed := max(l.begun, l.before) // starts a second
	most := max(parkedLeast, min(speed, g.slots/parkedPart))
	if !w.again {
		most -= most / 4 // who was put off before finds room
	}
	if l.parked < most && g.waiting < max(g.slots/awaitPart, 1) { // if none waited, no slot would ever be asked for
		return ruling{wait: l.wait(w.class)}, l
	}
	g.metrics.putOff.WithLabelValues("limit").Inc()
	age := now.Sub(b.reached)
	if age < newlyOff {
		return ruling{putOff: newlyLeast + rand.N(newlyOff*3/2), why: "limit"}, nil
	}
	wait := max(l.inTurn(now, time.Second/time.Duration(max(lineSpeed*speed, askPace/len(g.limited), 1))), min(age/stayPart, stayMost))
	return ruling{putOff: wait + rand.N(wait/8+1), why: "limit"}, nil
}

// freed notes that an attempt of the task has ended. The caller holds the gate's mu.
func (l *load) freed() {
	if b := l.block; b != nil && b.held > b.use {
		b.call() // others wait for what is free now
	}
}

// began notes that one more slot is in use. The caller holds the gate's mu.
func (b *block) began(busy int) { b.peak = max(b.peak, busy) }

// blocks keeps the blocks of an executor.
type blocks struct {
	g       *gate
	store   schema.LeaseStore
	live    *bucketer.Liveness
	name    string
	session func(now time.Time) (id string, alive bool)
	signals bucketer.Signaller // nil: nobody is told
	now     func() time.Time
	log     *slog.Logger
	metrics *blockMetrics
	told    rate.Sometimes // a store that fails is told of now and then

	ending  chan struct{} // closed when no more runs come
	keeping sync.WaitGroup
}

// tend looks after the block of a load until nobody needs it. The gate's mutex is held.
func (k *blocks) tend(l *load) {
	b := l.block
	k.keeping.Go(func() { k.keep(l, b) })
}

// changed has the keeper of a limit look at its lease, if there is one here: the body of a signal of topic "slots" is the key of the limit.
func (k *blocks) changed(body []byte) {
	task, ok := schema.LimitKey(body).Task()
	if !ok {
		return
	}
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	if l := k.g.loads[taskKey(task.Tenant, task.Name)]; l != nil && l.block != nil {
		l.block.heard = true
		l.block.call()
	}
}

// end gives every slot back, and waits until that is done, or was tried.
func (k *blocks) end() {
	close(k.ending)
	k.keeping.Wait()
}

// keep looks after a block until nobody needs it.
func (k *blocks) keep(l *load, b *block) {
	var again time.Time // when the lease is read again
	for {
		now := k.now()
		look, done := k.wake(l, b, now)
		if done {
			return
		}
		err := k.step(l, b, look || !now.Before(again))
		wait := b.every
		switch {
		case err != nil:
			k.told.Do(func() {
				k.log.Warn("slots of a task's limit can be neither taken nor given back", "limit", b.key, "err", err)
			})
			wait, again = postponeFor, now.Add(postponeFor)
		case b.short > 0:
			pause := min(shortFirst<<min(b.short-1, 10), shortMost)
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
		case <-b.poke:
			time.Sleep(blockPause)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// wake begins a step: it reports whether somebody said that the lease has changed, and whether the block is not needed any more.
func (k *blocks) wake(l *load, b *block, now time.Time) (look, done bool) {
	session, alive := k.session(now)
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	if !alive {
		session = ""
	}
	if session != b.session { // what we had stays the former one's, until that is over
		b.session, b.held, b.use, b.sure, b.lease = session, 0, 0, false, schema.Lease{}
	}
	if b.held == 0 && l.busy == 0 && l.parked == 0 && b.sure {
		l.block = nil
		delete(k.g.limited, l)
		k.g.rest(l)
		return false, true
	}
	if now.Sub(b.tick) >= b.every || now.Before(b.tick) {
		b.tick, b.before, b.peak = now, b.peak, l.busy
	}
	look, b.heard = b.heard, false
	return look, false
}

// step brings the block to what is needed, as far as it goes. With look the lease is read before; else only where what is known of it says too little.
func (k *blocks) step(l *load, b *block, look bool) error {
	if b.session == "" {
		return nil // nothing can be had
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout) // whatever has ended: slots go back after the last run, when all else has stopped
	defer cancel()
	anew := false // the lease was read in this step
	for try := range limitTries {
		now := k.now()
		if !anew && (look || b.lease.Key == "") {
			if err := k.readLease(ctx, b, now); err != nil {
				return err
			}
			anew = true
		}
		slots, err := b.lease.Slots()
		if err != nil {
			return err
		}
		pruned := false
		if anew {
			if pruned, err = k.prune(ctx, &slots, now); err != nil {
				return err
			}
		}
		p := k.plan(l, b, &slots, now)
		if p.short && !anew && b.short == 0 {
			look = true // before it counts, who has them is asked for
			continue
		}
		if p.changed || pruned {
			err := k.swap(ctx, b, slots, now)
			switch {
			case errors.Is(err, schema.ErrConflict):
				anew = true
			case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
				anew = false // read again, which decides it
			case err != nil:
				return err
			}
			if err != nil {
				bucketer.SlotsPause(ctx, try)
				continue
			}
		}
		k.settle(l, b, p, now)
		return nil
	}
	return fmt.Errorf("%w: %w", schema.ErrUnavailable, errBusyLimit)
}

// planned is what a step is about to do.
type planned struct {
	held, use int
	changed   bool
	short     bool // more could be used
	waits     bool // the lease says so
	tell      bool // others should look: some may have what we gave up, or have too much where we have too little
}

// plan says in slots what we need of them. What we are to have less of is not used from here on; what more, once the lease says so.
func (k *blocks) plan(l *load, b *block, slots *schema.Slots, now time.Time) (p planned) {
	ended := false
	select {
	case <-k.ending:
		ended = true
	default:
	}
	contested, waited := slots.Contested(b.session), slots.Waits(b.session)
	k.g.mu.Lock()
	defer k.g.mu.Unlock()
	demand := min(l.busy+l.parked, b.limit, k.g.slots)
	spare := 0
	switch {
	case ended:
		demand = l.busy
	case demand <= b.held: // what was in use a moment ago stays, or runs that come one by one would each take a slot and give it back
		spare = min(b.held, max(b.peak, b.before))
	default:
		spare = min(2*b.held, b.limit, k.g.slots)
	}
	if b.every = blockTick; contested {
		b.every = contestedTick
	}
	p.held, p.use, p.changed = slots.Apportion(schema.BlockRequest{
		Executor: k.name, Session: b.session, Limit: b.limit, Busy: l.busy, Want: demand, Spare: spare, Over: now.Sub(b.since) >= blockTick, Now: now,
	})
	p.short, p.waits = p.held < demand && !ended, slots.Waits(b.session)
	p.tell = contested && p.held < b.held || !waited && p.waits
	b.held, b.use = min(b.held, p.held), min(b.use, p.use)
	return p
}

// settle takes what the lease says now.
func (k *blocks) settle(l *load, b *block, p planned, now time.Time) {
	k.g.mu.Lock()
	grown := p.held > b.held
	if b.held == 0 && grown {
		b.since = now
	}
	if grown {
		b.peak = max(b.peak, p.held) // what is new does not count as idle
	}
	b.held, b.use = p.held, min(p.use, b.limit)
	b.sure = p.held == 0 && !p.waits
	if b.use > l.busy {
		l.tell() // who is told tells the next
	}
	k.g.mu.Unlock()
	switch {
	case !p.short:
		b.short = 0
	case grown:
		b.short = 1
	default:
		b.short++
	}
	if p.tell && k.signals != nil {
		k.signals.Signal(queue.TopicSlots, []byte(b.key))
	}
}

// readLease reads the lease, such that every swap before is decided.
func (k *blocks) readLease(ctx context.Context, b *block, now time.Time) error {
	b.lease = schema.Lease{}
	lease, err := k.store.Lease(ctx, b.key.Lease())
	if errors.Is(err, schema.ErrNotFound) {
		lease, err = schema.Lease{}, nil
	}
	if err != nil {
		return err
	}
	lease.Key = b.key.Lease()
	b.lease, b.read = lease, now
	return nil
}

// prune takes away what those had whose sessions fell.
func (k *blocks) prune(ctx context.Context, slots *schema.Slots, now time.Time) (some bool, err error) {
	stands, err := k.live.Of(ctx, slots.Sessions())
	if err != nil {
		return false, err
	}
	before := len(slots.Blocks) + len(slots.Taken)
	slots.Prune(now, stands)
	return len(slots.Blocks)+len(slots.Taken) != before, nil
}

// swap has the lease say slots. With an error it is known how it stands, or that it must be read.
func (k *blocks) swap(ctx context.Context, b *block, slots schema.Slots, now time.Time) error {
	was := b.lease
	is, err := was.WithSlots(slots, now)
	if err != nil {
		return err
	}
	is.Key = b.key.Lease()
	k.metrics.swaps.Inc()
	b.sure = false
	stood, err := k.store.SwapLease(ctx, was, is, bucketer.SlotsExpire(&slots, now))
	switch {
	case err == nil:
		b.lease = is
	case errors.Is(err, schema.ErrConflict):
		stood.Key = is.Key
		b.lease, b.read = stood, now
	default:
		b.lease = schema.Lease{}
	}
	return err
}

// use returns how many slots of limits we have, and how many of them are in use.
func (g *gate) use() (held, busy int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.limited {
		held += l.block.held
		busy += l.busy
	}
	return held, busy
}

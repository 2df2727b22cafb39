package executor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// Executor fetches runs, starts each at its due time, and records what happened.
type Executor struct {
	name, region string
	lanes        int
	store        Store
	writer       Writer
	tasks        Tasks
	tenants      Tenants // nil: none has a quota
	signer       Signer
	secrets      Secrets
	sources      []queue.Consumer // where messages come from: those for all executors, and for our pool
	labels       schema.Labels
	notices      schema.Notices
	targets      target.Set
	halt         *bucketer.Halt
	homes        homes
	homeOf       func(schema.Shard) string                                  // nil: there are no regions
	everywhere   Everywhere                                                 // nil: no claim is confirmed
	seal         func(ctx context.Context, a schema.Attempt) schema.Attempt // nil: what leases say is not sealed
	drain        time.Duration
	maxOutput    int
	now          func() time.Time
	log          *slog.Logger
	metrics      *metrics
	spans        spans

	session       *sessionKeeper
	reader        *rowReader
	recorder      *recorder
	reporter      *reporter
	admission     *admission.Controller
	slots         *admission.Slots
	endedAttempts atomic.Int64     // attempts whose rows were handed to the recorder
	claimSlots    *admission.Slots // as many attempts may use leases at once
	deferSlots    *admission.Slots // as many entries may be deferred at once
	limiter       *admission.SlotLimiter
	quotas        *admission.QuotaAllocator
	storeFailing  atomic.Bool // the last read before a start failed
	preemption    *preemption

	lastClaim atomic.Int64 // when the last claim was made, ns since the Unix epoch

	mu        sync.Mutex
	messages  messagesInHand
	cancels   cancels
	begun     begunRuns
	requested [4]int        // messages that the fetches under way may bring, by priority
	pending   [4]int        // messages in hand that have no slot yet, by priority
	roomFreed chan struct{} // cap 1: a message ended, or a fetch brought fewer than it might
	inUse     chan struct{} // cap 1: a message came, after there was none in hand
	inHand    atomic.Int64
	maxInHand int // how many messages may be in hand, with those asked for
	fetchMost int // how many one fetch may bring

	handlers sync.WaitGroup
}

// New returns an Executor that does nothing until Run.
func New(c Config) (*Executor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = target.DefaultMaxOutput
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
	m := newMetrics(c.Registerer)
	sources := []queue.Consumer{c.Queue}
	if c.Pool != nil {
		sources = append(sources, c.Pool)
	}
	pullers := max(c.Lanes, 1) * len(schema.Priorities) * len(sources)
	maxInHand, fetchMost := MessagesInHand(c.Slots, pullers)
	controller := admission.NewController(c.Slots, c.Logger, c.Registerer)
	session := newSessionKeeper(c.Store, c.Name, c.Now, c.Halt.Halted, c.Logger)
	reader := newRowReader(c.Store, c.Writer, bucketer.NewReaper(c.Store, c.Now, c.Halt.Halted, bucketer.RegionsOf(c.Region, c.Served)), c.Now)
	quotas := admission.NewQuotaAllocator(controller, admission.QuotaConfig{
		Store: c.Store, Live: reader.live, Name: c.Name, Session: session.current, Epoch: c.ServedLimit, Signals: c.Signals, Now: c.Now, Log: c.Logger, Registerer: c.Registerer,
	})
	session.released = quotas.Released
	return &Executor{
		maxInHand: maxInHand, fetchMost: fetchMost,
		name: c.Name, region: c.Region, lanes: max(c.Lanes, 1), store: c.Store, writer: c.Writer, tasks: c.Tasks, tenants: c.Tenants, signer: c.Signer, secrets: c.Secrets,
		sources: sources, labels: c.Labels, notices: c.Notices, targets: c.Targets, halt: c.Halt, homes: c.Served, homeOf: c.HomeOf, everywhere: c.Everywhere, seal: c.Seal, drain: c.DrainTimeout, spans: spans{c.Trace},
		maxOutput: c.MaxOutput, now: c.Now, log: c.Logger, metrics: m,
		session: session,
		reader:  reader,
		limiter: admission.NewSlotLimiter(admission.SlotLimiterConfig{
			Store: c.Store, Live: reader.live, Name: c.Name, Session: session.current, Now: c.Now, Log: c.Logger,
			Wake: func(ctx context.Context, key schema.LimitKey) error {
				_, err := c.Writer.WakeWaiters(ctx, key, reader.live)
				return err
			},
		}),
		recorder:   newRecorder(c.Writer, c.Notices, c.Logger, m, c.Tally, spans{c.Trace}, min(recordLast, c.DrainTimeout)),
		reporter:   newReporter(c.Writer, c.Now, c.Logger, m),
		admission:  controller,
		quotas:     quotas,
		slots:      admission.NewSlots(c.Slots, c.Now),
		claimSlots: admission.NewSlots(claimsAtOnce, c.Now),
		deferSlots: admission.NewSlots(deferralsAtOnce, c.Now),
		messages:   messagesInHand{byRun: make(map[schema.RunID]*attempt)},
		roomFreed:  make(chan struct{}, 1),
		inUse:      make(chan struct{}, 1),
		preemption: newPreemption(),
	}, nil
}

// Running returns how many messages are in hand.
func (x *Executor) Running() int { return int(x.inHand.Load()) }

// Run executes until ctx ends, and then drains: what has not started goes back, what is under way
// may end within the drain time-out, and every outcome is recorded. It returns nil.
func (x *Executor) Run(ctx context.Context) error {
	// They are stopped in this order: fetching, attempts, and what keeps attempts (session,
	// records).
	attempts, stopAttempts := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopAttempts(nil)
	keep, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeping()

	var keepers sync.WaitGroup
	keepers.Go(func() { x.session.run(keep) })
	keepers.Go(func() { x.tend(keep) })
	keepers.Go(func() { x.reporter.run(keep) })
	recording, stopRecording := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRecording()
	var recorders sync.WaitGroup
	recorders.Go(func() { x.recorder.run(recording) })

	var pullers sync.WaitGroup
	for _, source := range x.sources {
		for lane := range x.lanes {
			for _, p := range schema.Priorities {
				pullers.Go(func() { x.pull(ctx, attempts, source, queue.Lane(lane), p) })
			}
		}
	}
	pullers.Wait()

	ended := make(chan struct{})
	go func() {
		x.handlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(x.drain):
		x.log.Warn("drain time-out: attempts under way are stopped", "messages", x.inHand.Load())
		stopAttempts(target.ErrStopped)
		<-ended
	}
	stopRecording()
	recorders.Wait()
	x.limiter.Close()
	x.quotas.Close()
	stopKeeping()
	keepers.Wait()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := x.session.close(bounded); err != nil {
		x.log.Warn("session could not be ended", "err", err)
	}
	return nil
}

// pull fetches messages of a lane and priority from a source while there is room for them.
func (x *Executor) pull(ctx, attempts context.Context, source queue.Consumer, lane queue.Lane, p schema.Priority) {
	for ctx.Err() == nil {
		room := 0
		if _, ok := x.session.current(x.now()); ok && !x.recorder.overfull() && !x.halt.Halted() {
			room = x.reserveRoom(p)
		}
		if room == 0 {
			select {
			case <-ctx.Done():
			case <-x.roomFreed:
			case <-time.After(tendEvery):
			}
			continue
		}
		began := time.Now()
		deliveries, err := source.Fetch(ctx, lane, p, room, fetchWait)
		if err != nil && ctx.Err() == nil {
			x.log.Warn("fetch failed", "priority", p, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(tendEvery):
			}
		}
		for _, d := range deliveries {
			x.take(ctx, attempts, d)
		}
		x.returnRoom(p, room)
		if rest := fetchEvery - time.Since(began); rest > 0 && len(deliveries) < room {
			select {
			case <-ctx.Done():
			case <-time.After(rest):
			}
		}
	}
}

// reserveRoom reserves room for the messages of one fetch and returns for how many, 0 if there is
// none. Messages that only wait to be recorded take none: maxUnrecorded bounds them. Each priority
// has room of its own. While runs wait for slots, a priority gets room for no more than can start
// within a second.
func (x *Executor) reserveRoom(p schema.Priority) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	class := p.Rank()
	free := x.maxInHand - max(x.messages.n-x.recorder.outcomes(), 0)
	for q := range x.requested {
		free -= x.requested[q]
		if own := x.fetchMost * x.lanes * len(x.sources); q != class {
			free -= max(own-x.requested[q]-x.pending[q], 0)
		}
	}
	n := min(x.fetchMost, free)
	if room, full := x.slots.Room(class); full {
		n = min(n, room-x.requested[class]-x.pending[class])
	}
	n = max(n, 0)
	x.requested[class] += n
	return n
}

// returnRoom gives back what a fetch had reserved; what it brought is in hand by now.
func (x *Executor) returnRoom(p schema.Priority, n int) {
	x.mu.Lock()
	x.requested[p.Rank()] -= n
	x.mu.Unlock()
	x.wakePuller()
}

// leavePending notes that a message has its slot, or needs none any more.
func (x *Executor) leavePending(a *attempt) {
	x.mu.Lock()
	if a.place.pending {
		a.place.pending = false
		x.pending[a.entry.Spec.Priority.Rank()]--
	}
	x.mu.Unlock()
}

// wakePuller lets a puller that found no room ask again.
func (x *Executor) wakePuller() { signal(x.roomFreed) }

// newAttempt returns an attempt at its first stage.
func newAttempt(x *Executor, d queue.Delivery, env *queue.Envelope) *attempt {
	a := &attempt{message: message{x: x, delivery: d, env: env, entry: &env.Entry}}
	a.owner, a.limits.a, a.lease.a, a.rows.a, a.feedback.a = a, a, a, a, a
	return a
}

// take starts handling a message.
func (x *Executor) take(ctx, attempts context.Context, d queue.Delivery) {
	a := newAttempt(x, d, d.Envelope())
	a.heldAt, a.receivedAt = time.Now(), x.now()
	a.place.pending = true
	x.mu.Lock()
	a.recheck = x.cancels.heard(a.entry.Run()) || x.messages.has(a.entry.Run()) || x.begun.has(a.entry.Run(), a.heldAt)
	x.messages.add(a)
	x.pending[a.entry.Spec.Priority.Rank()]++
	isFirst := x.messages.n == 1
	x.mu.Unlock()
	if isFirst {
		signal(x.inUse)
	}
	x.metrics.held.Set(float64(x.inHand.Add(1)))
	x.handlers.Go(func() { a.handle(ctx, attempts) })
}

// leave ends a message's stay.
func (x *Executor) leave(a *attempt) {
	x.leavePending(a)
	x.mu.Lock()
	x.passTurnLocked(a)
	x.messages.remove(a)
	if now := time.Now(); a.began.After(now.Add(-beganFor)) {
		x.begun.note(a.entry.Run(), now)
	}
	x.mu.Unlock()
	x.metrics.held.Set(float64(x.inHand.Add(-1)))
	x.wakePuller()
}

// tend goes through the messages in hand, every tendEvery while there are any. It keeps in progress
// those that are not acknowledged, and gives a session cell to what has run for a second: then the
// store knows that it runs, not the stream.
func (x *Executor) tend(ctx context.Context) {
	start, isIdle := time.Now(), false
	tick := time.NewTimer(tendEvery)
	defer tick.Stop()
	next := func(after time.Duration) { tick.Reset(after - time.Since(start)%tendEvery) }
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.inUse:
			if isIdle {
				isIdle = false
				next(tendEvery)
			}
			continue
		case <-tick.C:
		}
		now := x.now()
		x.setSlotMetrics()
		x.mu.Lock()
		all := x.messages.all()
		x.mu.Unlock()
		for _, a := range all {
			a.tend(now)
		}
		if isIdle = len(all) == 0; isIdle {
			next(idleEvery)
		} else {
			next(tendEvery)
		}
	}
}

// setSlotMetrics sets the metrics of slots.
func (x *Executor) setSlotMetrics() {
	busy, waiting := x.slots.InUse()
	x.metrics.slots.Set(float64(x.slots.Size()))
	x.metrics.busy.Set(float64(busy))
	if len(x.labels) > 0 {
		pool := x.labels.String()
		x.metrics.poolSlots.WithLabelValues(pool).Set(float64(x.slots.Size()))
		x.metrics.poolBusy.WithLabelValues(pool).Set(float64(busy))
	}
	x.quotas.SetMetrics()
	for i, p := range schema.Priorities {
		x.metrics.waiting.WithLabelValues(string(p)).Set(float64(waiting[i]))
	}
}

// SlotsInUse returns how many attempts may be under way at once, how many are, and how many wait for
// a slot.
func (x *Executor) SlotsInUse() (total, used, waiting int) {
	used, byPriority := x.slots.InUse()
	for _, n := range byPriority {
		waiting += n
	}
	return x.slots.Size(), used, waiting
}

// Cancel ends the attempts of a run that are under way here. Messages of the run that are in hand,
// or come in the next seconds, read the rows before they start. The body of a signal of topic
// "cancel" is the run's id.
func (x *Executor) Cancel(run schema.RunID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.cancels.note(run, time.Now())
	x.messages.of(run, func(a *attempt) { a.cancel(target.ErrCancelled) })
}

// SlotsChanged has the lease of a limit read: slots of it are wanted, or free. The body of a signal
// of topic "slots" is the limit's key.
func (x *Executor) SlotsChanged(body []byte) { x.quotas.Changed(body) }

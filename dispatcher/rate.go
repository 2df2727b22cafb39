package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

// How starts are taken from the rates of tasks.
const (
	// ratesEvery is how often it is read which tasks have a rate, and which.
	ratesEvery = 5 * time.Second
	// startsSpan is for how long of its rate a dispatcher takes starts at a time, and startsLeast how many it may take however low the rate: no more than
	// runs wait for one, and what it will need until the next time, as lately.
	startsSpan  = time.Second
	startsLeast = 10
	startsAhead = 250 * time.Millisecond
	// startEarly is how long before its start a run may start: to put off everything by a few ms would cost more than that is worth.
	startEarly = 100 * time.Millisecond
	// startKept is how long after its time a start that nobody needed may be used.
	startKept = 500 * time.Millisecond
	// rateReach is how far ahead starts are taken. What does not find one is put off by as much, and asks again.
	rateReach = 10 * time.Minute
	// fullFor is how long it is believed that there is no start within reach.
	fullFor = 500 * time.Millisecond
	// takeTries bounds how often starts are asked for again at once, because somebody else took some or nobody answered.
	takeTries = 8
	// takers bounds the tasks for which starts are taken at once.
	takers = 16
	// deferBatch bounds the entries that a shard puts off in one step.
	deferBatch = 200
)

// pacer gives out the starts of tasks that have a rate: of the whole dispatcher, since they are taken in blocks from a register that all
// dispatchers share. Where no task has a rate it is not asked.
type pacer struct {
	d     *Dispatcher
	rates atomic.Pointer[map[schema.TaskName]schema.Rate] // nil: none has one

	wake chan struct{} // cap 1: somebody is hungry

	mu     sync.Mutex
	paces  map[schema.TaskName]*pace
	hungry []*pace // for which starts are to be taken
}

// pace is what is known of a task's rate. The pacer's mutex guards it.
type pace struct {
	task schema.TaskName
	rate schema.Rate
	gone bool // the rate is another one by now

	starts  schema.Reservations // in hand …
	used    int           // … of which so many are given out or passed
	full    time.Time     // until then nothing is within reach
	waiting []*startClaim
	taking  bool // somebody takes starts
	asked   tally

	known schema.Lease // as last seen; only who takes starts touches it
}

// startClaim is an entry that waits for a start.
type startClaim struct {
	o  *opened
	to *shard
	id schema.EntryID
}

// startGrant is what became of a claim.
type startGrant struct {
	*startClaim
	start start
}

// start is a time at which a run may start. The zero start is none: the claim is to be made again, if there is still a rate.
type start struct {
	at   time.Time
	pace string // the rate from which it was taken; "" = from none: at is when to ask again
}

func newPacer(d *Dispatcher) *pacer {
	return &pacer{d: d, wake: make(chan struct{}, 1), paces: make(map[schema.TaskName]*pace)}
}

// rate returns the rate of an entry's task, if it has one.
func (p *pacer) rate(e *schema.Entry) (schema.Rate, bool) {
	rates := p.rates.Load()
	if rates == nil || e.Spec.Task == "" {
		return schema.Rate{}, false
	}
	r, ok := (*rates)[schema.TaskName{Tenant: e.Spec.Tenant, Name: e.Spec.Task}]
	return r, ok
}

// set takes what the tasks' rates are. Who waits under another one asks again.
func (p *pacer) set(rates map[schema.TaskName]schema.Rate) {
	if len(rates) == 0 {
		p.rates.Store(nil)
	} else {
		p.rates.Store(&rates)
	}
	var again []*startClaim
	p.mu.Lock()
	for name, pc := range p.paces {
		if rates[name] == pc.rate {
			continue
		}
		again = append(again, pc.waiting...)
		pc.waiting, pc.gone = nil, true
		delete(p.paces, name)
	}
	p.mu.Unlock()
	for _, c := range again {
		c.to.mail.addStart(startGrant{startClaim: c})
	}
}

// ask asks for a start of the rate r for an entry, at now or later. If none can be said at once the shard is told by its mailbox.
func (p *pacer) ask(e *schema.Entry, r schema.Rate, c *startClaim, now time.Time) (start, bool) {
	name := schema.TaskName{Tenant: e.Spec.Tenant, Name: e.Spec.Task}
	p.mu.Lock()
	pc := p.paces[name]
	if pc == nil || pc.rate != r {
		was := pc
		pc = &pace{task: name, rate: r, known: schema.Lease{Key: schema.RateLease(name, r)}}
		if was != nil { // the rate has changed, and set is about to say so: who waits waits for the new one
			pc.waiting, was.waiting, was.gone = was.waiting, nil, true
		}
		p.paces[name] = pc
	}
	pc.asked.add(now)
	if len(pc.waiting) == 0 {
		if at, ok := pc.next(now); ok {
			p.mu.Unlock()
			return start{at, r.String()}, true
		}
		if now.Before(pc.full) {
			p.mu.Unlock()
			return start{at: now.Add(rateReach)}, true
		}
	}
	pc.waiting = append(pc.waiting, c)
	idle := !pc.taking
	if idle {
		pc.taking = true
		p.hungry = append(p.hungry, pc)
	}
	p.mu.Unlock()
	if idle {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return start{}, false
}

// next returns the next start in hand.
func (pc *pace) next(now time.Time) (time.Time, bool) {
	for pc.used < pc.starts.Count {
		at := pc.starts.At(pc.used)
		pc.used++
		if !at.Before(now.Add(-startKept)) {
			return at, true
		}
	}
	return time.Time{}, false
}

// want returns how many starts should be taken.
func (pc *pace) want(now time.Time) int {
	soon := pc.asked.recent(now) * int(startsAhead) / int(appetiteSpan)
	return min(len(pc.waiting)+soon, max(pc.rate.In(startsSpan), startsLeast))
}

// leave has a shard that is given up wait for nothing any more. What it was given and cannot use is lost: a few starts.
func (p *pacer) leave(s *shard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pc := range p.paces {
		pc.waiting = slices.DeleteFunc(pc.waiting, func(c *startClaim) bool { return c.to == s })
	}
}

// run takes starts for those who wait, until ctx ends.
func (p *pacer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tokens := make(chan struct{}, takers)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		p.mu.Lock()
		hungry := p.hungry
		p.hungry = nil
		p.mu.Unlock()
		for _, pc := range hungry {
			select {
			case <-ctx.Done():
				return
			case tokens <- struct{}{}:
			}
			wg.Go(func() {
				defer func() { <-tokens }()
				p.feed(ctx, pc)
			})
		}
	}
}

// feed takes starts of a task until nobody waits for one.
func (p *pacer) feed(ctx context.Context, pc *pace) {
	for {
		p.mu.Lock()
		if len(pc.waiting) == 0 || pc.gone {
			pc.taking = false
			p.mu.Unlock()
			return
		}
		n := pc.want(p.d.now())
		p.mu.Unlock()
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		starts, err := p.take(bounded, pc, n)
		cancel()
		if err == nil {
			tellStarts(p.dealt(pc, starts))
			continue
		}
		if ctx.Err() == nil {
			p.d.metrics.failures.WithLabelValues("take starts").Inc()
			p.d.seldom["take starts"].Do(func() {
				p.d.log.Warn("no starts could be taken from the rate of a task: its runs wait", "tenant", pc.task.Tenant, "task", pc.task.Name, "err", err)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPublish):
		}
	}
}

// take takes n starts, or as many of them as lie within reach, from the register of the rate. If we crash behind that they are lost.
func (p *pacer) take(ctx context.Context, pc *pace, n int) (schema.Reservations, error) {
	who := p.d.dispatchID()
	now := p.d.now()
	is, starts := pc.known.Reserve(pc.rate, n, now, rateReach, who)
	for range takeTries {
		switch {
		case p.d.halt.Halted():
			return schema.Reservations{}, errHalted
		case starts.Count == 0:
			return schema.Reservations{}, nil
		}
		p.d.metrics.startLeases.Inc()
		stands, err := p.d.store.SwapLease(ctx, pc.known, is, is.ReservationsExpire())
		switch {
		case err == nil:
			pc.known = is
			p.d.metrics.starts.Add(float64(starts.Count))
			return starts, nil
		case errors.Is(err, schema.ErrConflict):
			stands.Key = is.Key
			pc.known = stands
			now = p.d.now()
			is, starts = pc.known.Reserve(pc.rate, n, now, rateReach, who)
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil: // the same again finds out
		default:
			return schema.Reservations{}, err
		}
	}
	return schema.Reservations{}, schema.ErrUnavailable
}

// errHalted: this node may not act now.
var errHalted = errors.New("this node was stopped, or its clock is off")

// dealt deals starts to those who wait, in the order of their due times, and keeps what is left. None: there are none within reach.
func (p *pacer) dealt(pc *pace, starts schema.Reservations) (grants []startGrant) {
	now := p.d.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if pc.gone {
		return nil
	}
	slices.SortFunc(pc.waiting, func(a, b *startClaim) int { return cmp.Or(a.id.Time().Compare(b.id.Time()), a.id.Compare(b.id)) })
	if starts.Count == 0 {
		pc.full = now.Add(fullFor)
		for _, c := range pc.waiting {
			grants = append(grants, startGrant{c, start{at: now.Add(rateReach)}})
		}
		pc.waiting = nil
		return grants
	}
	pc.starts, pc.used = starts, 0
	for i, c := range pc.waiting {
		at, ok := pc.next(now)
		if !ok {
			pc.waiting = pc.waiting[i:]
			return grants
		}
		grants = append(grants, startGrant{c, start{at, pc.rate.String()}})
	}
	pc.waiting = nil
	return grants
}

// tellStarts tells the shards.
func tellStarts(grants []startGrant) {
	for _, g := range grants {
		g.to.mail.addStart(g)
	}
}

// readRates reads which tasks have a rate.
func (d *Dispatcher) readRates(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	select {
	case d.reading <- struct{}{}: // of two reads the later one counts
		defer func() { <-d.reading }()
	case <-bounded.Done():
		return context.Cause(bounded)
	}
	rates, err := d.rates.Rates(bounded)
	if err != nil {
		if ctx.Err() == nil {
			d.metrics.failures.WithLabelValues("rates").Inc()
			d.seldom["rates"].Do(func() { d.log.Warn("rates of tasks could not be read: those known before are kept", "err", err) })
		}
		return err
	}
	d.pacer.set(rates)
	return nil
}

// TaskChanged takes the rates of tasks in anew: they are kept from its return on. A dispatcher that does not run yet reads them before it dispatches.
func (d *Dispatcher) TaskChanged(ctx context.Context) error {
	if d.rates == nil {
		return nil
	}
	return d.readRates(ctx)
}

// insistRates reads the rates until it has them, as before anything is dispatched: else a node that starts would keep none for a while. False: ctx has ended.
func (d *Dispatcher) insistRates(ctx context.Context) bool {
	for d.rates != nil && d.readRates(ctx) != nil {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryPublish):
		}
	}
	return ctx.Err() == nil
}

// watchRates reads the rates again and again.
func (d *Dispatcher) watchRates(ctx context.Context) {
	if d.rates == nil {
		return
	}
	tick := time.NewTicker(ratesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.insistRates(ctx) // a rate that is new is not kept until it is known
		}
	}
}

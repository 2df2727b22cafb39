package ratelimit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/dispatcher/window"
	"carillon.dev/carillon/schema"
)

const (
	// Reach is how far ahead starts are reserved. An entry that finds none is deferred by as much,
	// and asks again.
	Reach = 10 * time.Minute
	// MinBlock is how many starts a dispatcher may reserve at a time, however low the rate. Of a
	// higher rate it may reserve what is due in blockSpan.
	MinBlock  = 10
	blockSpan = time.Second
	// extraSpan is for how much more demand, at the current rate of asking, a block is reserved.
	extraSpan = 250 * time.Millisecond
	// maxEarly is how long before its reserved start a run may start. A deferral by a few ms would
	// cost more than it is worth.
	maxEarly = 100 * time.Millisecond
	// maxUnused is for how long after its instant a start may still be used.
	maxUnused = 500 * time.Millisecond
	// fullFor is for how long a register without a start within Reach is not asked again.
	fullFor = 500 * time.Millisecond
)

// Waiter is an entry that waits for a start.
type Waiter interface {
	ID() schema.EntryID
	// Reserved brings the answer; it must not block. After the zero Reservation the entry asks
	// again, if its task still has a rate.
	Reserved(r Reservation)
}

// Reservation is a start at an instant.
type Reservation struct {
	At   time.Time
	Rate string // under which it was reserved; "" = there is none within Reach: At is when to ask again
}

// Fits reports whether the entry itself may be published for r, and needs no deferral.
func (r Reservation) Fits(e *schema.Entry, now time.Time) bool {
	due := e.Due()
	return r.Rate != "" && !r.At.After(due.Add(maxEarly)) && now.Before(due.Add(schema.ReservationLife/2))
}

// Limiter gives out the starts of tasks with a rate, for one dispatcher.
type Limiter struct {
	rates  atomic.Pointer[map[schema.TaskName]schema.Rate] // nil: no task has one
	signal chan struct{}                                   // cap 1

	mu      sync.Mutex
	limits  map[schema.TaskName]*Limit
	wanting []*Limit // of which a block is to be reserved
}

// Limit is what a dispatcher knows of one task's rate. The limiter's mutex guards it, but for
// known.
type Limit struct {
	Task schema.TaskName

	rate      schema.Rate
	gone      bool                // the rate has changed
	block     schema.Reservations // in hand …
	used      int                 // … of which so many are dealt or dropped
	full      time.Time           // until then no start is within Reach
	waiting   []Waiter
	reserving bool // somebody reserves a block
	asked     window.Counter

	known schema.Lease // the register as last seen; only who reserves a block touches it
}

// New returns a Limiter for which no task has a rate.
func New() *Limiter {
	return &Limiter{signal: make(chan struct{}, 1), limits: make(map[schema.TaskName]*Limit)}
}

// Rate returns the rate of an entry's task, if it has one.
func (l *Limiter) Rate(e *schema.Entry) (schema.Rate, bool) {
	rates := l.rates.Load()
	if rates == nil || e.Spec.Task == "" {
		return schema.Rate{}, false
	}
	r, ok := (*rates)[schema.TaskName{Tenant: e.Spec.Tenant, Name: e.Spec.Task}]
	return r, ok
}

// SetRates replaces the rates of all tasks. Entries that wait under another rate ask again.
func (l *Limiter) SetRates(rates map[schema.TaskName]schema.Rate) {
	if len(rates) == 0 {
		l.rates.Store(nil)
	} else {
		l.rates.Store(&rates)
	}
	var again []Waiter
	l.mu.Lock()
	for task, lim := range l.limits {
		if rates[task] == lim.rate {
			continue
		}
		again = append(again, lim.waiting...)
		lim.waiting, lim.gone = nil, true
		delete(l.limits, task)
	}
	l.mu.Unlock()
	for _, w := range again {
		w.Reserved(Reservation{})
	}
}

// Reserve returns a start for an entry under rate r, at now or later. It reports false if none can
// be named at once: then w is told.
func (l *Limiter) Reserve(e *schema.Entry, r schema.Rate, w Waiter, now time.Time) (Reservation, bool) {
	task := schema.TaskName{Tenant: e.Spec.Tenant, Name: e.Spec.Task}
	l.mu.Lock()
	lim := l.limits[task]
	if lim == nil || lim.rate != r {
		old := lim
		lim = &Limit{Task: task, rate: r, known: schema.Lease{Key: schema.RateLease(task, r)}}
		if old != nil { // the rate has changed, and SetRates is about to say so: who waits gets a new one
			lim.waiting, old.waiting, old.gone = old.waiting, nil, true
		}
		l.limits[task] = lim
	}
	lim.asked.Add(now)
	if len(lim.waiting) == 0 {
		if at, ok := lim.start(now); ok {
			l.mu.Unlock()
			return Reservation{at, r.String()}, true
		}
		if now.Before(lim.full) {
			l.mu.Unlock()
			return Reservation{At: now.Add(Reach)}, true
		}
	}
	lim.waiting = append(lim.waiting, w)
	idle := !lim.reserving
	if idle {
		lim.reserving = true
		l.wanting = append(l.wanting, lim)
	}
	l.mu.Unlock()
	if idle {
		select {
		case l.signal <- struct{}{}:
		default:
		}
	}
	return Reservation{}, false
}

// start takes the next start of the block in hand.
func (lim *Limit) start(now time.Time) (time.Time, bool) {
	for lim.used < lim.block.Count {
		at := lim.block.At(lim.used)
		lim.used++
		if !at.Before(now.Add(-maxUnused)) {
			return at, true
		}
	}
	return time.Time{}, false
}

// Leave has the entries for which gone is true wait no more. Starts that they were dealt are lost.
func (l *Limiter) Leave(gone func(Waiter) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lim := range l.limits {
		lim.waiting = slices.DeleteFunc(lim.waiting, gone)
	}
}

// Wanting is signalled when TakeWanting has something to return.
func (l *Limiter) Wanting() <-chan struct{} { return l.signal }

// TakeWanting returns the limits of which blocks are to be reserved now. The caller asks Want,
// makes the write and calls Deal, for each until Want reports false.
func (l *Limiter) TakeWanting() []*Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanting := l.wanting
	l.wanting = nil
	return wanting
}

// Want returns how many starts are to be reserved. It reports false, and ends the reserving, if
// nobody waits.
func (l *Limiter) Want(lim *Limit, now time.Time) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(lim.waiting) == 0 || lim.gone {
		lim.reserving = false
		return 0, false
	}
	soon := lim.asked.Recent(now) * int(extraSpan) / int(window.Span)
	return min(len(lim.waiting)+soon, max(lim.rate.In(blockSpan), MinBlock)), true
}

// Known returns the register as it was seen last.
func (lim *Limit) Known() schema.Lease { return lim.known }

// Reserve returns what a register becomes with the next n starts reserved by who, and these starts:
// fewer, or none, if the others lie beyond Reach.
func (lim *Limit) Reserve(was schema.Lease, n int, now time.Time, who string) (is schema.Lease, block schema.Reservations) {
	return was.Reserve(lim.rate, n, now, Reach, who)
}

// Saw notes what the register holds.
func (lim *Limit) Saw(l schema.Lease) {
	l.Key = lim.known.Key
	lim.known = l
}

// Deal deals a block to those who wait, in the order of their due times, and keeps the rest. An
// empty block means that there is no start within Reach.
func (l *Limiter) Deal(lim *Limit, block schema.Reservations, now time.Time) {
	type deal struct {
		to Waiter
		r  Reservation
	}
	var deals []deal
	l.mu.Lock()
	switch {
	case lim.gone:
	case block.Count == 0:
		lim.full = now.Add(fullFor)
		lim.sort()
		for _, w := range lim.waiting {
			deals = append(deals, deal{w, Reservation{At: now.Add(Reach)}})
		}
		lim.waiting = nil
	default:
		lim.block, lim.used = block, 0
		lim.sort()
		for len(lim.waiting) > 0 {
			at, ok := lim.start(now)
			if !ok {
				break
			}
			deals = append(deals, deal{lim.waiting[0], Reservation{at, lim.rate.String()}})
			lim.waiting = lim.waiting[1:]
		}
		if len(lim.waiting) == 0 {
			lim.waiting = nil
		}
	}
	l.mu.Unlock()
	for _, d := range deals {
		d.to.Reserved(d.r)
	}
}

func (lim *Limit) sort() {
	slices.SortFunc(lim.waiting, func(a, b Waiter) int {
		x, y := a.ID(), b.ID()
		return cmp.Or(x.Time().Compare(y.Time()), x.Compare(y))
	})
}

// Waiting returns how many entries wait for a start.
func (l *Limiter) Waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lim := range l.limits {
		n += len(lim.waiting)
	}
	return n
}

package admission

import (
	"context"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue/fair"
	"carillon.dev/carillon/schema"
)

// priorityWeights are how many of the slots that come free each priority gets, in the order of
// schema.Priorities, while runs of all of them wait. What one does not want goes to the others.
var priorityWeights = [4]int{8, 4, 2, 1}

// PriorityWeights returns how many of the slots that come free each priority gets, in the order of
// schema.Priorities, while runs of all of them wait.
func PriorityWeights() [4]int { return priorityWeights }

const (
	// rateSpan is how far back it is counted how many runs of a priority got slots.
	rateSpan = time.Second
	// leastWaitingPart is the part of the slots for which a priority may wait that has started
	// nothing lately.
	leastWaitingPart = 64
)

// Slots are the attempts that may be under way at once, and the attempts that wait for one. A slot
// goes to a priority by deficit round robin with priorityWeights (package fair), within it to
// tenants in turn, and within a tenant in the order of asking.
type Slots struct {
	now func() time.Time

	mu      sync.Mutex
	size    int
	free    int // 0 while somebody waits
	waiting int
	round   fair.Round[*class]
	classes [4]class
	idle    []*waiter // at most as many as there are slots: waiting allocates nothing then
}

// class is what waits of a priority.
type class struct {
	flow     fair.Flow[*class]
	tenants  fair.Round[*tenantQueue]
	byTenant map[string]*tenantQueue // those of whom something waits
	waiting  int

	since       time.Time
	now, before int // slots given in this span, and the one before
}

// tenantQueue is what waits of a tenant.
type tenantQueue struct {
	tenant string
	flow   fair.Flow[*tenantQueue]
	queue  []*waiter
}

// waiter is an attempt that waits for a slot.
type waiter struct {
	client *tenantQueue
	given  chan struct{} // cap 1
	has    bool
}

// NewSlots returns size slots, all free.
func NewSlots(size int, now func() time.Time) *Slots {
	s := &Slots{now: now, size: size, free: size}
	for i := range s.classes {
		c := &s.classes[i]
		c.flow.Of = c
		c.byTenant = make(map[string]*tenantQueue)
		s.round.Weigh(&c.flow, priorityWeights[i])
	}
	return s
}

// Acquire waits for a slot. It reports false, and has none, if ctx ended before.
func (s *Slots) Acquire(ctx context.Context, p schema.Priority, tenant string) bool {
	return s.AcquireOrElse(ctx, p, tenant, nil)
}

// AcquireOrElse is Acquire, and calls noneFree if it has to wait, unless that is nil: a slot that
// comes free by that may be ours.
func (s *Slots) AcquireOrElse(ctx context.Context, p schema.Priority, tenant string, noneFree func()) bool {
	c, now := &s.classes[p.Rank()], s.now()
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		c.granted(now)
		s.mu.Unlock()
		return true
	}
	w := s.newWaiter()
	c.add(w, tenant)
	s.waiting++
	s.round.Join(&c.flow)
	s.mu.Unlock()

	if noneFree != nil {
		noneFree()
	}
	select {
	case <-w.given:
		s.recycle(w)
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	has := w.has
	if !has {
		s.waiting--
		c.remove(w)
		if c.waiting == 0 {
			s.round.Leave(&c.flow)
		}
	}
	s.mu.Unlock()
	if has {
		<-w.given
		s.Release()
	}
	s.recycle(w)
	return false
}

// newWaiter returns an idle waiter, or makes one; mu is held.
func (s *Slots) newWaiter() *waiter {
	n := len(s.idle)
	if n == 0 {
		return &waiter{given: make(chan struct{}, 1)}
	}
	w := s.idle[n-1]
	s.idle = s.idle[:n-1]
	w.has = false
	return w
}

// recycle makes a waiter idle.
func (s *Slots) recycle(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) < s.size {
		s.idle = append(s.idle, w)
	}
}

// Release gives a slot back, to the waiter whose turn it is.
func (s *Slots) Release() { s.release(nil) }

// ReleaseTo gives a slot back, to a waiter of a priority or, if there is none, as Release does.
func (s *Slots) ReleaseTo(p schema.Priority) { s.release(&s.classes[p.Rank()]) }

// release gives a slot to the next waiter of a class; if it is nil, or nothing of it waits, to the
// waiter whose turn it is.
func (s *Slots) release(c *class) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == nil || c.waiting == 0 {
		f := s.round.Next()
		if f == nil {
			s.free++
			return
		}
		c = f.Of
	}
	w := c.next()
	s.waiting--
	if c.waiting == 0 {
		s.round.Leave(&c.flow)
	}
	c.granted(now)
	w.has = true
	w.given <- struct{}{}
}

// Room returns how many messages of a priority may be in hand and wait, while attempts wait for a
// slot: as many as got slots in the last second, since more could not start within the next. ok is
// false while nothing waits.
func (s *Slots) Room(class int) (n int, ok bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return 0, false
	}
	c := &s.classes[class]
	c.advance(now)
	return max(c.now, c.before, s.size/leastWaitingPart, 1), true
}

// Size returns how many slots there are.
func (s *Slots) Size() int { return s.size }

// InUse returns how many slots are taken, and how many runs of each priority wait for one.
func (s *Slots) InUse() (busy int, waiting [4]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.classes {
		waiting[i] = s.classes[i].waiting
	}
	return s.size - s.free, waiting
}

// Unwanted reports that nothing waits for a slot.
func (s *Slots) Unwanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting == 0
}

func (c *class) advance(now time.Time) {
	switch d := now.Sub(c.since); {
	case d >= 2*rateSpan || d < 0:
		c.since, c.now, c.before = now, 0, 0
	case d >= rateSpan:
		c.since, c.now, c.before = c.since.Add(rateSpan), 0, c.now
	}
}

func (c *class) granted(now time.Time) {
	c.advance(now)
	c.now++
}

func (c *class) add(w *waiter, tenant string) {
	t, ok := c.byTenant[tenant]
	if !ok {
		t = &tenantQueue{tenant: tenant}
		t.flow.Of = t
		c.byTenant[tenant] = t
	}
	w.client = t
	t.queue = append(t.queue, w)
	c.waiting++
	c.tenants.Join(&t.flow)
}

// next removes and returns the waiter whose turn it is; there must be one.
func (c *class) next() *waiter {
	t := c.tenants.Next().Of
	w := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	c.left(t)
	return w
}

func (c *class) remove(w *waiter) {
	t := w.client
	i := slices.Index(t.queue, w)
	t.queue = slices.Delete(t.queue, i, i+1)
	c.left(t)
}

// left notes that one waiter of t waits no more. A tenant without waiters is forgotten: its flow
// has neither credit nor debt.
func (c *class) left(t *tenantQueue) {
	c.waiting--
	if len(t.queue) == 0 {
		c.tenants.Leave(&t.flow)
		delete(c.byTenant, t.tenant)
	}
}

// Linger keeps one place of a target with a limit for what goes on though its attempt has ended,
// until it is gone. Nothing waits for that: it may never be.
func (g *Controller) Linger(w Request, gone <-chan struct{}) {
	if w.targetLimit == 0 {
		return
	}
	g.mu.Lock()
	l := g.load(w.target, time.Now())
	l.busy++
	g.mu.Unlock()
	go func() {
		<-gone
		g.mu.Lock()
		defer g.mu.Unlock()
		l.busy--
		l.wakeOne()
		g.remember(l)
	}()
}

package depth

import (
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// Lead is how long before its due time an entry is published to an empty stream.
	Lead = 250 * time.Millisecond
	// LeadMost bounds by how much earlier than Lead an entry is published because of what waits
	// before it in its stream. The scan reads what is due at least that much ahead.
	LeadMost = 450 * time.Millisecond
	// ReadEvery is how often the streams are read at rest.
	ReadEvery = time.Second
	// ReadPressed is how soon a load is read again under pressure, for each live dispatcher: all of
	// them together read ten times a second. The period of one is at most ReadEvery.
	ReadPressed = 100 * time.Millisecond
	// Idle is for how long a subject that nobody asks about is still read.
	Idle = 10 * time.Second
	// readApart is the least time between two readings that count. The second of two close ones
	// would grant again what is on its way. The two periods above coincide once a second.
	readApart = ReadPressed / 4
)

// Subject is a lane, priority and pool: what executors fetch from.
type Subject struct {
	Lane     queue.Lane
	Priority schema.Priority
	Pool     queue.Pool // "": all executors fetch from it
}

// Leads is how long before its due time an entry is published, by priority as in schema.Priorities.
type Leads [4]time.Duration

// Controller steers how much waits in the streams, and shares out what may be published.
type Controller struct {
	pressed chan struct{} // cap 1

	mu       sync.Mutex
	subjects map[Subject]*budget
	weights  weights
}

// New returns a Controller that has read nothing: each subject may begin with minTarget messages.
func New() *Controller {
	return &Controller{pressed: make(chan struct{}, 1), subjects: make(map[Subject]*budget), weights: make(weights)}
}

// budget returns the budget of a subject; the caller holds mu.
func (c *Controller) budget(s Subject) *budget {
	b, ok := c.subjects[s]
	if !ok {
		b = &budget{left: minTarget, given: minTarget}
		c.subjects[s] = b
	}
	return b
}

// SetBudget replaces a subject's budget by one that has read nothing. It is for tests of the users
// of this package.
func (c *Controller) SetBudget(s Subject, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subjects[s] = &budget{left: left}
}

// Pressed is signalled when a reading should come soon: a budget runs out, much was published since
// the last reading, or a tenant is queued.
func (c *Controller) Pressed() <-chan struct{} { return c.pressed }

func (c *Controller) press() {
	select {
	case c.pressed <- struct{}{}:
	default:
	}
}

// Take takes one publication of a tenant from the budget of a subject, and reports whether it
// could. While others are queued, a tenant that is not may take its share of what the last reading
// granted.
func (c *Controller) Take(s Subject, tenant string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.budget(s)
	b.asked = now
	// The load is read soon after much was published, whatever is left: only a reading tells by how
	// much earlier entries must be published once executors are busy.
	if 2*b.left <= b.given || b.published >= leastTarget {
		c.press()
	}
	switch {
	case b.queues.round.Len() > 0:
		if !b.queues.outOfTurn(tenant, c.weights.of(tenant), b.given) {
			return false
		}
	case b.left <= 0:
		return false
	}
	b.left--
	b.published++
	return true
}

// Queue puts an entry that Take refused into its tenant's line. Its recipient hears when it is
// granted.
func (c *Controller) Queue(t *Ticket) {
	c.mu.Lock()
	b := c.budget(t.Subject)
	b.queues.add(t, c.weights.of(t.Tenant))
	granted := b.grant()
	c.mu.Unlock()
	c.press()
	deliver(granted)
}

// Withdraw takes an entry out of its line. It reports false if the ticket was granted before: then
// the caller owes a Return.
func (c *Controller) Withdraw(t *Ticket) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.budget(t.Subject).queues.remove(t)
}

// Return gives back what a tenant was granted and did not use; the next in line gets it.
func (c *Controller) Return(s Subject, tenant string) {
	c.mu.Lock()
	b := c.budget(s)
	b.left++
	b.published--
	b.queues.back(tenant)
	granted := b.grant()
	c.mu.Unlock()
	deliver(granted)
}

// Crowded reports whether so much waits in a subject that work without a deadline should not add to
// it.
func (c *Controller) Crowded(s Subject, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.subjects[s]
	if !ok {
		return false
	}
	b.asked = now // it must be read again, or an old reading would keep it crowded for ever
	return b.waiting > b.target()/4 || b.left <= 0 || b.queues.round.Len() > 0
}

// Leads returns how long before its due time an entry of each priority is published to a lane now.
func (c *Controller) Leads(lane queue.Lane) (leads Leads) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range schema.Priorities {
		leads[i] = Lead
		if b, ok := c.subjects[Subject{Lane: lane, Priority: p}]; ok && b.loaded && b.drain > 0 {
			leads[i] += time.Duration(min(float64(b.waiting)/b.drain, LeadMost.Seconds()) * float64(time.Second))
		}
	}
	return leads
}

// Observe takes in a reading of a subject's load: it sets the budget, and shares it out among those
// that are queued. portion is the part of all shards that is dispatched here.
func (c *Controller) Observe(s Subject, load queue.Load, at time.Time, portion float64) {
	c.mu.Lock()
	b, ok := c.subjects[s]
	if !ok {
		c.mu.Unlock()
		return
	}
	b.observe(load, at, portion)
	b.queues.observed()
	granted := b.grant()
	queued := b.queues.round.Len() > 0
	c.mu.Unlock()
	if queued {
		c.press()
	}
	deliver(granted)
}

// Busy returns the subjects to be read: those asked about lately, and those with a line.
func (c *Controller) Busy(now time.Time) []Subject {
	c.mu.Lock()
	defer c.mu.Unlock()
	var subjects []Subject
	for s, b := range c.subjects {
		if now.Sub(b.asked) < Idle || b.queues.round.Len() > 0 {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

// Backlog is what waits of a subject.
type Backlog struct {
	InStream int            // messages in the stream that no executor holds
	Queued   int            // tickets that were not granted yet
	Oldest   time.Time      // due time of the oldest of them; zero = none is queued
	Tenants  map[string]int // tickets by tenant
}

// Backlogs returns what waits, by subject.
func (c *Controller) Backlogs() map[Subject]Backlog {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[Subject]Backlog, len(c.subjects))
	for s, b := range c.subjects {
		log := Backlog{InStream: b.waiting, Tenants: make(map[string]int)}
		for tenant, q := range b.queues.byTenant {
			n := len(q.tickets)
			if n == 0 {
				continue
			}
			log.Queued += n
			log.Tenants[tenant] = n
			if at := q.tickets[0].ID.Time(); log.Oldest.IsZero() || at.Before(log.Oldest) {
				log.Oldest = at
			}
		}
		all[s] = log
	}
	return all
}

package dispatcher

import (
	"math"
	"sync"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

const (
	// gaugeEvery is how often the streams' loads and fronts are read at rest.
	gaugeEvery = time.Second
	// gaugePressed is how soon a load is read again where somebody waits, or much is published, for each live dispatcher: all of them together ask
	// the servers ten times a second. It is at most gaugeEvery.
	gaugePressed = 100 * time.Millisecond
	// gaugeApart is how far two loads must lie apart: what the first one granted is on its way, and the second would grant it again. The ticks of gaugeEvery and of gaugePressed
	// come together once a second.
	gaugeApart = gaugePressed / 4
	// gaugeIdle is how long a lane and priority that nobody asked about is still read.
	gaugeIdle = 10 * time.Second
	// aimSpan is how long what waits in a subject should keep executors busy: less is idleness until the next reading has had its effect,
	// more is age, and what is too old at its start must be looked at.
	aimSpan = 400 * time.Millisecond
	// minAim and maxAim bound how many messages should wait in a subject. While more comes than is drained, it may be as few as
	// leastAim: what waits in the stream is beyond anybody's choice, and would hold up a tenant that has little to do.
	minAim   = 1000
	leastAim = 100
	maxAim   = 10_000
	// leadMost bounds by how much earlier than Lead entries are published because of what waits before them in the stream. What is due is
	// read scanSlack + Lead before its time at least.
	leadMost = 450 * time.Millisecond
	// mostYield bounds what part of what it published a dispatcher yields at a reading. With ten, which read once a second, it is a tenth.
	mostYield = 0.2
	// frontAge is how old a front may be for an entry to be judged by it.
	frontAge = 5 * time.Second
)

// subject is one lane and priority.
type subject struct {
	lane     queue.Lane
	priority schema.Priority
}

// budget keeps the streams shallow: what waits in each subject is steered to what executors drain in aimSpan, by every live dispatcher
// for its share. Take is called for each publication; refill at each reading. What is refused waits in its tenant's line, and has its turn.
type budget struct {
	mu       sync.Mutex
	subjects map[subject]*allowance
	weights  weights
	behind   map[schema.Shard]unread
	pressed  chan struct{} // cap 1: an allowance runs out before the next reading, much was published since the last, or somebody waits
}

type allowance struct {
	left      int // publications allowed until the next refill; what was given to newcomers beyond it makes it negative
	given     int // what left was at the last refill
	published int // since the last refill

	waiting   int       // at the last reading …
	delivered uint64    // … and how many had been delivered …
	at        time.Time // … which was when
	drain     float64   // messages a second, of all executors together
	loaded    bool      // something waited at the last two readings: the drain is what executors can do

	asked time.Time
	lines lines
}

func newBudget() *budget {
	return &budget{subjects: make(map[subject]*allowance), weights: make(weights), behind: make(map[schema.Shard]unread), pressed: make(chan struct{}, 1)}
}

// of returns the allowance of a subject; the caller holds mu.
func (b *budget) of(s subject) *allowance {
	a, ok := b.subjects[s]
	if !ok {
		a = &allowance{left: minAim, given: minAim}
		b.subjects[s] = a
	}
	return a
}

// press asks for a reading soon.
func (b *budget) press() {
	select {
	case b.pressed <- struct{}{}:
	default:
	}
}

// take takes one publication of a tenant's from the budget of a lane and priority. While others wait, who does not may take
// its share of what was given to all at the last refill: so a tenant with little to do is not held up by one with much.
func (b *budget) take(s subject, tenant string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(s)
	a.asked = now
	// Where much is published it is read soon, whatever is left: once executors have their hands full, who is not late by himself is held up until it is known by
	// how much earlier he is to be published.
	if 2*a.left <= a.given || a.published >= leastAim {
		b.press()
	}
	switch {
	case a.lines.round.Len() > 0:
		if !a.lines.newcomer(tenant, b.weights.of(tenant), a.given) {
			return false
		}
	case a.left <= 0:
		return false
	}
	a.left--
	a.published++
	return true
}

// wait puts an entry that take refused into its tenant's line. Its shard is told when it is its turn, by its mailbox: then it was taken
// from the budget.
func (b *budget) wait(s subject, tenant string, c *claim) {
	b.mu.Lock()
	a := b.of(s)
	a.lines.add(tenant, b.weights.of(tenant), c)
	granted := a.grant()
	b.mu.Unlock()
	b.press()
	tell(granted)
}

// withdraw takes an entry out of its line, and reports false if its turn has come before.
func (b *budget) withdraw(s subject, tenant string, c *claim) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(s).lines.remove(tenant, c)
}

// give gives back what was taken and not used: it is the next one's turn.
func (b *budget) give(s subject, tenant string) {
	b.mu.Lock()
	a := b.of(s)
	a.left++
	a.published--
	a.lines.back(tenant)
	granted := a.grant()
	b.mu.Unlock()
	tell(granted)
}

// crowded reports whether so much waits in a subject already that what can wait should.
func (b *budget) crowded(lane queue.Lane, p schema.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, ok := b.subjects[subject{lane, p}]
	if !ok {
		return false
	}
	a.asked = now // so it is read on, and does not stay crowded by an old reading
	return a.waiting > a.aim()/4 || a.left <= 0 || a.lines.round.Len() > 0
}

// leads returns how long before its due time an entry of each priority (as in schema.Priorities) is to be published: Lead, and longer by what
// it will wait in the stream, so that who is not late by himself does not become late there.
func (b *budget) leads(lane queue.Lane) (leads [4]time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, p := range schema.Priorities {
		leads[i] = Lead
		if a, ok := b.subjects[subject{lane, p}]; ok && a.loaded && a.drain > 0 {
			leads[i] += time.Duration(min(float64(a.waiting)/a.drain, leadMost.Seconds()) * float64(time.Second))
		}
	}
	return leads
}

// refill sets the allowance of a subject from a reading of its load, and shares it out among those that wait. portion is what part of all shards is
// dispatched here.
func (b *budget) refill(s subject, load queue.Load, at time.Time, portion float64) {
	b.mu.Lock()
	a, ok := b.subjects[s]
	if !ok {
		b.mu.Unlock()
		return
	}
	a.refill(load, at, portion)
	a.lines.turn()
	granted := a.grant()
	waits := a.lines.round.Len() > 0
	b.mu.Unlock()
	if waits {
		b.press()
	}
	tell(granted)
}

// grant shares out what is left among those that wait.
func (a *allowance) grant() (granted []*claim) {
	for a.left > 0 {
		c := a.lines.next()
		if c == nil {
			break
		}
		a.left--
		a.published++
		granted = append(granted, c)
	}
	return granted
}

// refill steers what waits to the aim. A dispatcher publishes as much again as it did since the last reading, corrected by
// its part of what is missing below the aim and of the growth since: the growth of which it does not know who caused it. While
// executors take all there is, it publishes half as much again; when there is twice as much as there should be and it
// grows, half as much.
//
// This alone is content with any division: who began with more, or happens to read when little waits, would publish nearly everything until its backlog is
// through, and what is due in the shards of the others at the same instants waited for that. So up to twice the aim there is left at least its
// portion of the shards of what executors drained, less that of what waits beyond the aim; who has more than that feels what is too much
// then. And among those that have more because others have nothing to publish, each yields some, and parts go half by portions and half by what was
// published: increase that is alike for all and decrease in proportion tend to what is fair (Chiu and Jain, "Analysis of the Increase and Decrease
// Algorithms", 1989), while one that has all the work is given back most of what it yields.
func (a *allowance) refill(load queue.Load, at time.Time, portion float64) {
	first, span := a.at.IsZero(), at.Sub(a.at)
	if !first && span >= 0 && span < gaugeApart {
		return
	}
	growth, part := load.Waiting-a.waiting, portion
	if all := growth + int(load.Delivered-a.delivered); !first && load.Delivered >= a.delivered && all > 0 {
		part = (portion + min(float64(a.published)/float64(all), 1)) / 2
	}
	a.measure(load, at)
	published, aim := float64(a.published), float64(a.aim())
	missing := aim - float64(load.Waiting)
	left := published*(1-min(mostYield, portion, 1-portion)) + (missing-float64(growth))*part
	switch {
	case max(load.Waiting, a.waiting) < int(aim)/4:
		left = published + max(published/2, aim*portion)
	case float64(load.Waiting) < 2*aim:
		left = max(left, portion*aim/10)
		if !first {
			left = max(left, portion*(a.drain*min(span, gaugeEvery).Seconds()+min(missing, 0)))
		}
	case growth > 0:
		left = min(left, published/2)
	}
	a.left = max(int(math.Round(left)), 0)
	a.given, a.published = a.left, 0
	a.waiting, a.delivered, a.at = load.Waiting, load.Delivered, at
}

// measure updates the drain, which goes half of the way to what was seen since the last reading. While nothing waits, executors might
// drain more than what is seen: then it does not fall.
func (a *allowance) measure(load queue.Load, at time.Time) {
	span := at.Sub(a.at).Seconds()
	if a.at.IsZero() || span <= 0 || load.Delivered < a.delivered {
		return
	}
	seen := float64(load.Delivered-a.delivered) / span
	a.loaded = load.Waiting > 0 && a.waiting > 0
	if seen > a.drain || a.loaded {
		a.drain += (seen - a.drain) / 2
	}
}

// aim is how many messages should wait.
func (a *allowance) aim() int {
	least := minAim
	if a.loaded && a.drain > 0 {
		least = leastAim
	}
	return min(max(int(a.drain*aimSpan.Seconds()), least), maxAim)
}

// busy returns the subjects asked about lately, and those for which somebody waits.
func (b *budget) busy(now time.Time) []subject {
	b.mu.Lock()
	defer b.mu.Unlock()
	var subjects []subject
	for s, a := range b.subjects {
		if now.Sub(a.asked) < gaugeIdle || a.lines.round.Len() > 0 {
			subjects = append(subjects, s)
		}
	}
	return subjects
}

package planner

import (
	"time"

	rules "carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/schema"
)

// limit is how many runs of a task may be under way at once, in all executors, and the lease that
// counts its slots.
type limit struct {
	most   int
	slots  schema.Slots // as the lease says
	fence  int          // how often it was changed
	places []*place     // of all executors
}

// block is what an executor has of a limit's slots, as admission.QuotaAllocator keeps it. What was
// idle for a second or two is given back, and what others wait for. A run that needs it again lacks
// a slot for a moment.
type block struct {
	limit    *limit
	of       *site
	held     int           // slots that are this executor's
	usable   int           // of these, so many may be in use
	since    time.Duration // when it got the first of them: its turn began
	isAbsent bool          // the lease says nothing of this executor that counts

	peak, peakBefore int // the most that were in use in this tick, and in the one before
	tick, tickLength time.Duration

	attended bool          // somebody looks after it …
	looks    time.Duration // … next at that time
	changed  bool          // a signal says that the lease has changed

	known     schema.Slots // the lease as it stood last
	fence     int          // of that; -1: it is not known
	read      time.Duration
	again     time.Duration // when it is read again
	shortages int           // how often in a row there were too few slots
}

// newBlock returns the block that an executor has of a limit before any of its runs came.
func newBlock(x *site, l *limit) *block {
	return &block{limit: l, of: x, tick: never, tickLength: rules.BlockTick, fence: -1}
}

// attend has the block of a limit be looked after, soon.
func (x *site) attend(s *place) {
	if s.attended {
		x.wake(s)
		return
	}
	*s.block = *newBlock(x, s.limit)
	s.attended = true
	x.look(s, x.p.now)
}

// wake has the block be looked after in a moment.
func (x *site) wake(s *place) {
	if soon := x.p.now + rules.BlockPause; s.attended && soon < s.looks {
		x.look(s, soon)
	}
}

// look has the block looked after at that time, and not at the one that was said before.
func (x *site) look(s *place, at time.Duration) {
	s.looks = at
	x.p.at(at, func() {
		if s.attended && s.looks == at {
			x.apportion(s)
		}
	})
}

// apportion takes slots of the limit and gives them back, by what is wanted.
func (x *site) apportion(s *place) {
	now := x.p.now
	if s.held == 0 && s.busy == 0 && s.waiting == 0 && s.isAbsent {
		s.attended = false
		return
	}
	if now-s.tick >= s.tickLength {
		s.tick, s.peakBefore, s.peak = now, s.peak, s.busy
	}
	fresh := s.changed || now >= s.again || s.fence < 0
	s.changed = false
	if fresh {
		x.readLease(s)
	}
	slots := s.known
	plan := x.plan(s, &slots)
	if !fresh && (plan.short && s.shortages == 0 || plan.changed && s.fence != s.limit.fence) {
		x.readLease(s)
		slots = s.known
		plan = x.plan(s, &slots)
	}
	if plan.changed {
		s.limit.slots = slots
		s.limit.fence++
		s.known, s.fence = slots, s.limit.fence
	}
	x.settle(s, plan)
}

func (x *site) readLease(s *place) {
	s.known, s.fence, s.read = s.limit.slots, s.limit.fence, x.p.now
}

// slotPlan is what a block is about to be.
type slotPlan struct {
	held, usable int
	changed      bool // the lease is to say something else
	short        bool // more could be used
	waits        bool // the lease says so
	signal       bool // others should look
}

// plan writes into slots what the executor needs of them.
func (x *site) plan(s *place, slots *schema.Slots) (n slotPlan) {
	contested, waited := slots.Contested(x.name), slots.Waits(x.name)
	most := min(s.limit.most, x.slots)
	demand := min(s.busy+s.waiting, most)
	if s.tickLength = rules.BlockTick; contested {
		s.tickLength = rules.ContestedTick
	}
	n.held, n.usable, n.changed = slots.Apportion(schema.BlockRequest{
		Executor: x.name, Session: x.name, Limit: s.limit.most, Busy: s.busy, Want: demand,
		Spare: rules.SpareSlots(demand, s.held, max(s.peak, s.peakBefore), most),
		Over:  x.p.now-s.since >= rules.BlockTick, Now: time.Unix(0, 0).Add(x.p.now),
	})
	n.short, n.waits = n.held < demand, slots.Waits(x.name)
	n.signal = contested && n.held < s.held || !waited && n.waits
	s.held, s.usable = min(s.held, n.held), min(s.usable, n.usable)
	return n
}

// settle has the block be what the lease says now, and says when it is looked after again.
func (x *site) settle(s *place, n slotPlan) {
	now := x.p.now
	grown := n.held > s.held
	if grown {
		if s.held == 0 {
			s.since = now
		}
		s.peak = max(s.peak, n.held) // what is new does not count as idle
	}
	s.held, s.usable = n.held, n.usable
	s.isAbsent = n.held == 0 && !n.waits
	if !rules.StillReached(s.busy, s.waiting, s.usable) {
		s.lacked = never
	}
	switch {
	case !n.short:
		s.shortages = 0
	case grown:
		s.shortages = 1
	default:
		s.shortages++
	}
	wait := s.tickLength
	s.again = s.read + rules.BlockReadEvery
	if s.shortages > 0 {
		pause := rules.ShortPause(s.shortages)
		wait, s.again = min(wait, pause), s.read+pause
	}
	x.look(s, now+wait)
	if n.signal {
		for _, other := range s.limit.places {
			if other.attended {
				other.changed = true
				other.of.wake(other)
			}
		}
	}
	if s.usable > s.busy {
		x.wakeOne(s)
	}
}

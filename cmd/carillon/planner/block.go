package planner

import (
	"time"

	rules "carillon.dev/carillon/executor/admission"
)

// block is what executors have of a limit's slots, as admission.QuotaAllocator keeps it. What was
// idle for a second or two is given back. A run that needs it again lacks a slot for a moment.
type block struct {
	usable           int // slots
	peak, peakBefore int // the most that were in use in this tick, and in the one before
	tick             time.Duration
	attended         bool          // somebody looks after it …
	looks            time.Duration // … next at that time
}

// attend has the block of a limit be looked after, soon.
func attend(p *play, s *place) {
	if !s.attended {
		s.attended = true
		look(p, s, p.now)
		return
	}
	if soon := p.now + rules.BlockPause; soon < s.looks {
		look(p, s, soon)
	}
}

// look has the block looked after at that time, and not at the one that was said before.
func look(p *play, s *place, at time.Duration) {
	s.looks = at
	p.at(at, func() {
		if s.attended && s.looks == at {
			apportion(p, s)
		}
	})
}

// apportion takes slots of the limit and gives them back, by what is wanted.
func apportion(p *play, s *place) {
	if p.now-s.tick >= rules.BlockTick {
		s.tick, s.peakBefore, s.peak = p.now, s.peak, s.busy
	}
	most := min(s.limit, p.c.Slots)
	demand := min(s.busy+s.waiting, most)
	usable := max(demand, rules.SpareSlots(demand, s.usable, max(s.peak, s.peakBefore), most))
	if usable > s.usable {
		s.peak = max(s.peak, usable) // what is new does not count as idle
	}
	s.usable = usable
	if !rules.StillReached(s.busy, s.waiting, s.usable) {
		s.lacked = never
	}
	if s.usable == 0 {
		s.attended = false
		return
	}
	look(p, s, p.now+rules.BlockTick)
	if s.usable > s.busy {
		p.wakeOne(s)
	}
}

package flow

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A Place names a call that is expected: of a step of a run, both counted from 0.
type Place struct{ Run, Step int }

// A visit is what the sink saw of a step.
type visit struct {
	at  time.Time // the first arrival; zero: none
	end time.Time // the first answer of 2xx; zero: none
}

// A Board holds what a sink saw of runs that have the same number of steps.
type Board struct {
	// Extra counts the arrivals of a step beyond its first, Unexpected those of no step that was
	// asked for.
	Extra, Unexpected int

	steps  int
	visits []visit // by run, then by step
}

// NewBoard returns an empty Board for runs of so many steps each.
func NewBoard(runs, steps int) *Board { return &Board{steps: steps, visits: make([]visit, runs*steps)} }

// Read notes everything that a sink saw. place says which step a call is of; false: of none. The calls
// may be in any order.
func (b *Board) Read(seen []check.Sighting, place func(s *check.Sighting) (Place, bool)) {
	for i := range seen {
		if p, ok := place(&seen[i]); ok {
			b.note(p, &seen[i])
		} else {
			b.Unexpected++
		}
	}
}

func (b *Board) note(p Place, s *check.Sighting) {
	if p.Run < 0 || p.Step < 0 || p.Step >= b.steps || p.Run >= len(b.visits)/b.steps {
		b.Unexpected++
		return
	}
	v := &b.visits[p.Run*b.steps+p.Step]
	if !v.at.IsZero() {
		b.Extra++
	}
	if v.at.IsZero() || s.At.Before(v.at) {
		v.at = s.At
	}
	if s.Status/100 == 2 && !s.End.IsZero() && (v.end.IsZero() || s.End.Before(v.end)) {
		v.end = s.End
	}
}

// Missed returns how many steps were never called.
func (b *Board) Missed() int {
	n := 0
	for i := range b.visits {
		if b.visits[i].at.IsZero() {
			n++
		}
	}
	return n
}

// Arrivals returns the first arrival of each step that was called, by run and then by step.
func (b *Board) Arrivals() []time.Time {
	all := make([]time.Time, 0, len(b.visits))
	for i := range b.visits {
		if at := b.visits[i].at; !at.IsZero() {
			all = append(all, at)
		}
	}
	return all
}

// Last returns the latest of Arrivals; zero if there is none.
func (b *Board) Last() time.Time {
	var last time.Time
	for i := range b.visits {
		if b.visits[i].at.After(last) {
			last = b.visits[i].at
		}
	}
	return last
}

// Gaps returns the gap before each step of chains, the first step of each run left out, in the order of
// Arrivals. A step that was early has the gap 0 and counts in early. So does one that arrived although
// the step before it was never answered. A step that never arrived has none.
func (b *Board) Gaps() (gaps []time.Duration, early int) {
	for i := range b.visits {
		if i%b.steps == 0 || b.visits[i].at.IsZero() {
			continue
		}
		before := b.visits[i-1].end
		gap := b.visits[i].at.Sub(before)
		if before.IsZero() || gap < 0 {
			early++
			gap = 0
		}
		gaps = append(gaps, gap)
	}
	return gaps, early
}

// Join returns, of a Board of one run whose last step comes after all others, the gap between the last
// of their answers and its arrival, and when the last of them arrived. A negative gap means that the
// last step was early. It is false if a step was never called, or one before the last never answered.
func (b *Board) Join() (gap time.Duration, fanned time.Time, ok bool) {
	last := len(b.visits) - 1
	var ended time.Time
	for i := range b.visits {
		v := &b.visits[i]
		if v.at.IsZero() || i < last && v.end.IsZero() {
			return 0, time.Time{}, false
		}
		if i == last {
			break
		}
		if v.at.After(fanned) {
			fanned = v.at
		}
		if v.end.After(ended) {
			ended = v.end
		}
	}
	return b.visits[last].at.Sub(ended), fanned, true
}

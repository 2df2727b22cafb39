package admission

import "time"

// This file holds the numbers of admission as pure functions. The simulator of `carillon simulate`
// plays by them too, so that it foretells what an executor does.

// SlowAfter is from when on an attempt counts as slow.
const SlowAfter = slowAfter

// Share returns how many of an executor's slots one target, or one tenant, may have; and with how
// many slow attempts it gets no more while another target, or tenant, is there.
func Share(slots int) (most, half int) {
	return max(slots-slots/reservedPart, 1), max(slots/2, 1)
}

// RivalsFor is how long another target, or tenant, counts as present after it asked.
const RivalsFor = rivalsFor

// IsSlow reports whether a target, or a tenant, with so many slow attempts is slow, by its Share.
func IsSlow(slow, most, half int) bool { return slow >= max(min(most, half)/2, 1) }

// MostWaiting returns how many attempts wait in memory for a slow target, or tenant.
func MostWaiting(slots int) int { return max(slots/waitingPart, waitingLeast) }

// ShareStep returns how far apart deferred runs come back to a target, or a tenant, that may have
// most attempts, which take about took.
func ShareStep(took time.Duration, most int) time.Duration {
	return max(took, slowAfter) / time.Duration(most)
}

// ShareLeast returns the least delay of a run that is deferred for the sake of a share, and was
// deferred so often before.
func ShareLeast(deferrals int) time.Duration { return backedOff(deferrals) / (1 << 2) }

// DeferSpread bounds what is added at random to such a delay.
func DeferSpread(wait time.Duration) time.Duration { return wait/2 + 1 }

// NextTurn returns how long it will be until one more deferred run finds room, where the last one
// finds it after that long. Each takes a place in a line that moves by one in every step.
func NextTurn(last, step time.Duration) time.Duration {
	if last = max(last, time.Second); last < 2*deferMost {
		last += step
	}
	return last
}

// MostWaitingForLimit returns how many runs wait in memory for slots of a limit under which speed
// runs started in the last second, and how many of all limits. A run that was deferred before finds
// more room.
func MostWaitingForLimit(speed, slots int, deferred bool) (of, all int) {
	of = max(waitingLeast, min(speed, slots/waitingPart))
	if !deferred {
		of -= of / 4
	}
	return of, max(slots/inMemoryPart, 1)
}

// ReachedFor is how long after a run last found no slot a limit counts as reached, unless slots are
// idle before: StillReached.
const ReachedFor = reachedFor

// StillReached reports whether a limit that was reached still counts as reached, once its block has
// what could be had: usable slots, of which busy are in use, while so many runs wait for one. A run
// also lacks a slot for a moment if idle ones were just given back. Such moments are frequent where
// a limit is used to 80 or 90 %, and do not add up.
func StillReached(busy, waiting, usable int) bool { return busy+waiting >= usable }

// LimitStep returns how far apart deferred runs come back that wait for one of so many limits, and
// their least delay, where the limit has been reached for age. False means that nobody knows yet
// how fast runs start: a deferral is UnknownSpeedLeast, and up to UnknownSpeedSpread at random.
func LimitStep(speed, limits int, age time.Duration) (step, least time.Duration, ok bool) {
	if age < unknownSpeedFor {
		return 0, 0, false
	}
	return time.Second / time.Duration(max(lineSpeed*speed, retriesPerSecond/max(limits, 1), 1)), min(age/agePart, ageMost), true
}

// The delay of a run where nobody knows how fast runs start.
const (
	UnknownSpeedLeast  = unknownSpeedLeast
	UnknownSpeedSpread = unknownSpeedFor * 3 / 2
)

// LimitSpread bounds what is added at random to the delay of a run that waits for a limit.
func LimitSpread(wait time.Duration) time.Duration { return wait/8 + 1 }

// When a block of slots of a limit is looked after: BlockPause after a run lacked one, and every
// BlockTick, or ContestedTick while other executors want slots. Its lease is read every
// BlockReadEvery, or where slots are short, after ShortPause.
const (
	BlockTick      = blockTick
	ContestedTick  = contestedTick
	BlockPause     = blockPause
	BlockReadEvery = blockReadEvery
)

// ShortPause returns how long after a read of the lease it is read again, where slots were short so
// often in a row.
func ShortPause(shortages int) time.Duration {
	return min(shortFirst<<min(shortages-1, 10), shortMost)
}

// SpareSlots returns how many slots a block of held would have, in use or not, while nobody else
// wants them: as many as were in use at once lately (peak, in this tick and in the one before), or,
// where more are demanded, twice as many as it has.
func SpareSlots(demand, held, peak, most int) int {
	if demand <= held { // what was in use a moment ago stays, or runs that come one by one would each take a slot and give it back
		return min(held, peak)
	}
	return min(2*held, most)
}

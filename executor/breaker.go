package executor

import "time"

// The rules of breakers.
const (
	// A breaker opens when of at least breakerAttempts in the last breakerPeriod (and up to half of it more) nine tenths failed.
	breakerAttempts = 20
	breakerPeriod   = 30 * time.Second
	// breakerDelay is how long it is open before breakerProbes attempts are let through, all of which must succeed. It doubles each time they do not, up
	// to breakerMost.
	breakerDelay  = 5 * time.Second
	breakerMost   = time.Minute
	breakerProbes = 3
)

// breaker keeps attempts from a target that fails again and again (a circuit breaker: M. Nygard, "Release It!", 2007). It has no clock and no lock of
// its own. The zero breaker is closed. Attempts that were begun before it opened tell nothing any more: of a target that hangs they end,
// one after the other, while it is probed.
type breaker struct {
	half          int64 // the half period in which was counted …
	now, before   tally // … and the counts of it and of the one before
	until         time.Time
	delay         time.Duration // while it is not closed; 0 = closed
	probes, right int           // under way · succeeded
}

type tally struct{ ended, failed int }

// closed reports whether everything is let through.
func (b *breaker) closed() bool { return b.delay == 0 }

// admits reports whether an attempt may begin at now, and whether it is a probe; if not, how long to wait at least.
func (b *breaker) admits(now time.Time) (probe, ok bool, wait time.Duration) {
	switch {
	case b.closed():
		return false, true, 0
	case now.Before(b.until):
		return false, false, b.until.Sub(now)
	case b.probes+b.right >= breakerProbes:
		return false, false, b.delay
	}
	return true, true, 0
}

// begin counts a probe that admits has let through.
func (b *breaker) begin(probe bool) {
	if probe {
		b.probes++
	}
}

// end takes in what an attempt found, and reports whether the breaker opened or closed by it.
func (b *breaker) end(h health, probe bool, now time.Time) (changed bool) {
	switch {
	case b.closed():
		return !probe && b.count(h, now)
	case !probe:
		return false
	}
	b.probes = max(b.probes-1, 0)
	switch h {
	case well:
		if b.right++; b.right < breakerProbes {
			return false
		}
		*b = breaker{}
		return true
	case sick:
		b.delay = min(2*b.delay, breakerMost)
		b.until, b.right = now.Add(b.delay), 0
	}
	return false
}

// count counts an attempt while the breaker is closed, and opens it if there were too many failures.
func (b *breaker) count(h health, now time.Time) bool {
	switch half := now.UnixNano() / int64(breakerPeriod/2); half - b.half {
	case 0:
	case 1:
		b.half, b.before, b.now = half, b.now, tally{}
	default:
		b.half, b.before, b.now = half, tally{}, tally{}
	}
	switch h {
	case well:
		b.now.ended++
	case sick:
		b.now.ended++
		b.now.failed++
	}
	ended, failed := b.now.ended+b.before.ended, b.now.failed+b.before.failed
	if ended < breakerAttempts || failed*10 < ended*9 {
		return false
	}
	*b = breaker{delay: breakerDelay, until: now.Add(breakerDelay)}
	return true
}

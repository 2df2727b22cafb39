package admission

import (
	"cmp"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"carillon.dev/carillon/executor/target"
)

// The rules of breakers.
const (
	// A breaker opens when of at least BreakerAttempts in the last breakerPeriod the part
	// breakerFailed failed.
	BreakerAttempts = 20
	breakerPeriod   = 30 * time.Second
	breakerFailed   = 0.9
	// breakerDelay is how long it is open before breakerProbes attempts at once are let through. It
	// closes once that many of them succeeded. It opens anew as soon as one fails, with a delay
	// that doubles up to breakerMost.
	breakerDelay  = 5 * time.Second
	breakerMost   = time.Minute
	breakerProbes = 3
)

// breaker keeps attempts from a target that fails again and again (a circuit breaker: M. Nygard,
// "Release It!", 2007). States and counting are failsafe-go's. It counts only attempts that were
// begun since it opened last: earlier ones, such as those of a target that hangs, end one after the
// other while it is probed. It has no lock.
type breaker struct {
	circuit circuitbreaker.CircuitBreaker[any] // a new one whenever it opens, as the delay of one is fixed
	delay   time.Duration                      // while it is not closed; 0 = closed
	opened  int                                // how often it has opened
	spare   int                                // permits of the circuit that no probe uses

	// What is told of it (states.go). All begin anew when it closes.
	since    time.Time // since when it is not closed; zero: it is
	failed   uint      // attempts that failed, but those that the circuit counts
	deferred int       // how often a start was deferred because of it

	lastError  string // of the last failure, in short
	lastFailed time.Time
}

// ignored is the opening of an attempt that tells the breaker nothing.
const ignored = -1

func newBreaker() *breaker { return &breaker{circuit: newCircuit(breakerDelay)} }

func newCircuit(delay time.Duration) circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(breakerFailed, BreakerAttempts, breakerPeriod).
		WithSuccessThreshold(breakerProbes).WithDelay(delay).Build()
}

// closed reports whether everything is let through.
func (b *breaker) closed() bool { return b.delay == 0 }

// admits reports whether an attempt may begin now; if not, how long to wait at least.
func (b *breaker) admits() (ok bool, wait time.Duration) {
	if b.closed() {
		return true, 0
	}
	if b.spare == 0 && b.circuit.TryAcquirePermit() {
		b.spare++
	}
	return b.spare > 0, cmp.Or(b.circuit.RemainingDelay(), b.delay)
}

// begin notes that an attempt begins, whether admits let it through or was not asked. It returns
// what end needs to know of it; 0 is that of an attempt which began before there was a breaker.
func (b *breaker) begin(admitted bool) (opened int) {
	switch {
	case b.closed():
	case !admitted:
		return ignored
	default:
		b.spare--
	}
	return b.opened
}

// end takes in what an attempt found that was begun after so many openings, and reports whether the
// breaker opened or closed by it.
func (b *breaker) end(h target.Health, opened int) (changed bool) {
	if opened != b.opened {
		return false
	}
	switch h {
	case target.Healthy:
		b.circuit.RecordSuccess()
	case target.Unhealthy:
		b.circuit.RecordFailure()
	case target.UnknownHealth:
		b.spare++ // the next probe's; while closed they count for nothing
	}
	closed := b.closed()
	switch {
	case b.circuit.IsOpen():
		failed := b.failed + b.circuit.Metrics().Failures()
		*b = breaker{
			delay: max(min(2*b.delay, breakerMost), breakerDelay), opened: b.opened + 1, since: b.since, failed: failed, deferred: b.deferred,
			lastError: b.lastError, lastFailed: b.lastFailed,
		}
		b.circuit = newCircuit(b.delay)
		b.circuit.Open()
		if closed {
			b.since = time.Now().UTC()
		}
		return closed
	case !closed && b.circuit.IsClosed():
		b.delay, b.since, b.failed, b.deferred, b.lastError, b.lastFailed = 0, time.Time{}, 0, 0, "", time.Time{}
		return true
	}
	return false
}

// failedWith notes what an attempt said that failed, whenever it began.
func (b *breaker) failedWith(text string, now time.Time) {
	if len(text) > MaxTargetError {
		text = strings.ToValidUTF8(text[:MaxTargetError], "")
	}
	b.lastError, b.lastFailed = text, now.UTC()
}

// reset closes it. Attempts that were begun before do not count any more.
func (b *breaker) reset() { *b = breaker{circuit: newCircuit(breakerDelay), opened: b.opened + 1} }

// state returns where it stands: CircuitClosed, CircuitOpen, or CircuitHalfOpen once its delay is
// over, and when it probes next.
func (b *breaker) state(now time.Time) (state string, probe time.Time) {
	switch left := b.circuit.RemainingDelay(); {
	case b.closed():
		return CircuitClosed, time.Time{}
	case b.circuit.IsOpen() && left > 0:
		return CircuitOpen, now.Add(left)
	}
	return CircuitHalfOpen, time.Time{}
}

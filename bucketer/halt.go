package bucketer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	haltStep  = 250 * time.Millisecond // how often the process looks at its clocks
	haltAfter = 2 * time.Second        // a longer step than this means that the process was stopped
	// how much wall and monotonic clock may differ over a step
	clockSlip = schema.MaxClockSlip
)

// Halt finds out that the process was stopped (SIGSTOP, a suspended machine, a starved core) or
// that its clock was set. What it holds in memory is then out of date.
//
// A process that was stopped does not know it in the instant in which it goes on. So Halted, which
// is cheap, also compares the time with the last step itself. Code that is about to act on what it
// remembers asks Halted first.
type Halt struct {
	now  func() time.Time
	last atomic.Pointer[time.Time] // the last step; carries the monotonic reading

	also func() bool // another reason; nil = none

	halts atomic.Int64

	mu   sync.Mutex
	subs []chan struct{}
}

// NewHalt returns a detector on the clock now, which must carry a monotonic reading to notice clock
// steps.
func NewHalt(now func() time.Time) *Halt {
	h := &Halt{now: now}
	h.Begin()
	return h
}

// Also makes f another reason to be halted while it returns true. When it returns false again,
// everything in memory counts as out of date. Also is called before anything else.
func (h *Halt) Also(f func() bool) { h.also = f }

// Halted reports that the process was stopped and Run has not noticed it yet, or that another
// reason holds.
func (h *Halt) Halted() bool { return stopped(*h.last.Load(), h.now()) || h.another() }

func (h *Halt) another() bool { return h.also != nil && h.also() }

// stopped reports whether the process was stopped, or its clock was set, between two steps.
func stopped(last, now time.Time) bool {
	return outOfStep(now.Sub(last), now.Round(0).Sub(last.Round(0)))
}

// outOfStep judges what has passed between two steps by the monotonic clock and by the wall clock.
func outOfStep(mono, wall time.Duration) bool {
	slip := wall - mono
	return mono > haltAfter || wall > haltAfter || slip > clockSlip || slip < -clockSlip
}

// Halts returns how often the process was found to have been stopped. Halted no longer reports a
// halt that was counted. So code that acts on what it remembers from before compares the counts as
// well.
func (h *Halt) Halts() int { return int(h.halts.Load()) }

// Subscribe returns a channel that receives, coalesced, each time the process is found to have been
// stopped.
func (h *Halt) Subscribe() <-chan struct{} {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs = append(h.subs, c)
	return c
}

// Begin has the time count from now on: that a process started slowly is no halt. It is called
// before anything is kept in memory that may be out of date.
func (h *Halt) Begin() {
	t := h.now()
	h.last.Store(&t)
}

// Run watches until ctx ends. It returns nil.
func (h *Halt) Run(ctx context.Context) error {
	tick := time.NewTicker(haltStep)
	defer tick.Stop()
	h.Begin()
	other := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := h.now()
		was := other
		other = h.another()
		if stopped(*h.last.Load(), now) || was && !other {
			h.tell()
		}
		h.last.Store(&now)
	}
}

func (h *Halt) tell() {
	h.halts.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

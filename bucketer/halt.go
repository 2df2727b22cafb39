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
	// wall and monotonic clock may differ by this much over a step
	clockSlip = schema.MaxClockSlip
)

// Halt finds out that the process was stopped (SIGSTOP, a suspended machine, a starved core) or
// that its clock was set: what it holds in memory is then out of date.
//
// A process that was stopped cannot know it in the instant in which it goes on. So Halted, which is
// cheap, also compares the time with the last step itself; whoever is about to act on what it
// remembers asks it first.
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
	t := now()
	h.last.Store(&t)
	return h
}

// Also makes f another reason to be halted for as long as it says so; when it does no more,
// everything in memory counts as out of date. It is set before anything else is called.
func (h *Halt) Also(f func() bool) { h.also = f }

// Halted reports that the process was stopped and has not taken note of it yet, or that another
// reason holds.
func (h *Halt) Halted() bool { return stopped(*h.last.Load(), h.now()) || h.another() }

func (h *Halt) another() bool { return h.also != nil && h.also() }

// stopped reports whether what lies between two steps says that the process was stopped or its
// clock was set.
func stopped(last, now time.Time) bool {
	return outOfStep(now.Sub(last), now.Round(0).Sub(last.Round(0)))
}

// outOfStep judges what has passed between two steps by the monotonic clock and by the wall clock.
func outOfStep(mono, wall time.Duration) bool {
	slip := wall - mono
	return mono > haltAfter || wall > haltAfter || slip > clockSlip || slip < -clockSlip
}

// Halts returns how often the process was found to have been stopped. Once that was counted Halted
// does not tell of it any more: whoever acts on what it remembers from before compares the counts
// as well.
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

// Run watches until ctx ends. It returns nil.
func (h *Halt) Run(ctx context.Context) error {
	tick := time.NewTicker(haltStep)
	defer tick.Stop()
	t := h.now()
	h.last.Store(&t)
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

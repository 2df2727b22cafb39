package executor

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"carillon.dev/carillon/executor/admission"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

const (
	// preemptsPerSecond bounds how many runs an executor stops for critical ones, preemptsAtOnce of
	// them at one moment. Critical runs beyond that wait for their turn.
	preemptsPerSecond = 10
	preemptsAtOnce    = 10
)

// preemption stops attempts for critical runs that may not start otherwise: there is no free slot,
// or their target or tenant has its share of them. One that is stopped ends as if its executor were
// drained: it uses no attempt, and its message goes back, so that the run starts again. Its slot,
// and its place in the share, go to a critical run.
//
// A run is stopped at most schema.MaxPreemptions times, counted by its rows before each start, and
// then runs to its end. Two executors that have a run at the same time, because one was frozen or
// cut off, may each stop it once.
type preemption struct {
	freeSlot func() // stopOne of any

	n  atomic.Int64 // how many may be stopped: without any, nothing is locked
	mu sync.Mutex
	// running are the attempts under way that may be stopped, and were not yet.
	running map[*attempt]struct{}
	bound   *rate.Limiter
}

func newPreemption() *preemption {
	p := &preemption{running: make(map[*attempt]struct{}), bound: rate.NewLimiter(preemptsPerSecond, preemptsAtOnce)}
	p.freeSlot = func() { p.stopOne(nil) }
	return p
}

// stopOne stops an attempt that has a place of a target or tenant (nil: of any), and reports
// whether there was one, and the bound allowed it.
func (p *preemption) stopOne(of *admission.Load) bool {
	if p.n.Load() == 0 {
		return false
	}
	a := p.take(of, time.Now())
	if a == nil {
		return false
	}
	a.isVictim.Store(true)
	a.cancel(target.ErrPreempted)
	return true
}

// add notes an attempt that is under way, if it may be stopped.
func (p *preemption) add(a *attempt) {
	if !isPreemptible(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[a] = struct{}{}
	p.n.Store(int64(len(p.running)))
}

// remove notes that an attempt has ended.
func (p *preemption) remove(a *attempt) {
	if !isPreemptible(a) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, a)
	p.n.Store(int64(len(p.running)))
}

// take returns the attempt that is to be stopped, which it forgets: the one that began last, since
// that loses the least work. nil: there is none, or too many were stopped lately.
func (p *preemption) take(of *admission.Load, now time.Time) *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	var last *attempt
	for a := range p.running {
		if (of == nil || a.limits.permit.Holds(of)) && (last == nil || a.start.began.After(last.start.began)) {
			last = a
		}
	}
	if last == nil || !p.bound.AllowN(now, 1) {
		return nil
	}
	delete(p.running, last)
	p.n.Store(int64(len(p.running)))
	return last
}

// isPreemptible reports whether the attempt may be stopped for a critical run: its work allows
// that, it is of low priority, a second call does no harm, and it was not stopped too often.
func isPreemptible(a *attempt) bool {
	return a.work.Preemptible && a.entry.Spec.Priority == schema.Low && a.work.Guarantee == schema.AtLeastOnce &&
		a.basis.preempted < schema.MaxPreemptions
}

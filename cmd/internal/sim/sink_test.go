package sim

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// sink is the callee of all jobs. It records each call, by true time and by the clock of the
// calling node.
type sink struct {
	n *Node
	l *life
}

// withinSession bounds effectively_once work: the time between the last sign of life of its
// executor and the next start.
const withinSession = executor.CalleeTime

var errRefused = errors.New("the callee refuses")

// Run answers after a while, sometimes a long one, and sometimes with an error.
func (s sink) Run(ctx context.Context, call target.Call) target.Result {
	c := s.n.c
	if off := s.n.offset(); off.Abs() > trusted {
		c.fault("%s started attempt %d of %s while its clock was off by %v", s.n.name, call.Number, call.Run, off)
	}
	at := s.n.now(s.l.dead).Round(0)
	select {
	case <-s.l.dead:
		return target.Result{Outcome: schema.Failed}
	default:
	}
	c.regions.acts(s.n, s.l, call.Run.Shard(), "start", 0)
	c.regions.required(s.n, &call)
	s.n.fits(&call)
	if s.n.crashes(s.l, stepCall, func() {}) {
		return target.Result{Outcome: schema.Failed}
	}
	kind, draw := c.chance(func(f Faults) float64 { return f.Target }, 2)
	c.mu.Lock()
	took := time.Duration(c.rng.ExpFloat64() * float64(30*time.Millisecond))
	if c.works > 0 {
		took = time.Duration(c.rng.Float64() * float64(c.works))
	}
	if kind == 1 {
		took = time.Duration(draw * float64(20*time.Second)) // a slow one
	}
	if call.Work.Guarantee == schema.EffectivelyOnce {
		took = min(took, withinSession)
	}
	ref, _ := check.ParseRef(call.Work.HTTP.URL)
	if ref.Source == limitedSource || ref.Source == concurrentSource {
		took = time.Duration(c.rng.Float64() * float64(limitedTook))
	}
	if ref.Source == lowSource && call.Work.Guarantee != schema.EffectivelyOnce {
		took = time.Duration(c.rng.Float64() * float64(lowTook))
	}
	if ref.Source == stepSource && kind != 1 {
		took = time.Duration(c.rng.Float64() * float64(stepTook))
	}
	lasts := call.Work.Timeout.Std() - time.Minute
	if lasts > 0 { // a job that lasts
		took = time.Duration(c.rng.Float64() * float64(lasts))
	}
	if ref.Source == longSource {
		took = max(lasts, time.Millisecond)
	}
	c.mu.Unlock()
	saw := check.Sighting{
		Run: call.Run.String(), Ref: ref, Attempt: call.Number, Fence: int64(call.Fence), Caller: s.n.caller(s.l), Due: call.Due, At: time.Now(), Clock: at, Status: 200,
		Sent: &check.Sent{Key: call.Run.String(), Job: jobOf(&call), Type: check.JSONType, Body: check.Hash(0).Add(call.Payload)},
		End:  time.Now().Add(took), // whether its caller is there or not
	}
	res := target.Result{Outcome: schema.Succeeded, Output: outputOf(call.Work.HTTP.URL, ref.Line, call.Number, call.Fence)}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		if first := ref.Source == longSource && call.Number == 1; first && ref.Line == longAgain {
			saw.Status, res = 503, target.Result{Outcome: schema.Failed, Error: errRefused.Error(), Status: 503, RetryAfter: longTook}
		} else if first && ref.Line == longRefuse {
			saw.Status, res = 400, target.Result{Outcome: schema.Failed, Error: errRefused.Error(), Status: 400, Final: true}
		} else if ref.Source == refusedSource || ref.Source == joinRefused || ref.Source == pausingSource && ref.Line%2 == 1 {
			saw.Status, res = 400, target.Result{Outcome: schema.Failed, Error: errRefused.Error(), Status: 400, Final: true}
		} else if kind == 0 {
			saw.Status, res = 503, target.Result{Outcome: schema.Failed, Error: errRefused.Error(), Status: 503}
		}
	case <-s.l.dead:
		saw.Status, saw.Gone = 0, time.Now()
		res = target.Result{Outcome: schema.Failed}
	case <-ctx.Done():
		saw.Gone = time.Now()
		saw.Status, res = 0, target.Result{Outcome: schema.Failed, Error: context.Cause(ctx).Error()}
		res.Stopped = errors.Is(context.Cause(ctx), target.ErrPreempted)
		if errors.Is(context.Cause(ctx), target.ErrCancelled) {
			res.Outcome = schema.Cancelled
		}
	}
	c.mu.Lock()
	if ref.Source == limitedSource && res.Outcome == schema.Cancelled {
		saw.End = saw.Gone // a limit counts who calls, and who died goes on to
	}
	if lasts > 0 && call.Work.Guarantee == schema.EffectivelyOnce && !saw.Gone.IsZero() {
		saw.End = saw.Gone // who works for longer than withinSession stops when its caller is gone
	}
	c.seen = append(c.seen, saw)
	c.mu.Unlock()
	return res
}

// jobOf returns the id that a call gives for its job, as the HTTP target does.
func jobOf(call *target.Call) string {
	if call.Job.IsZero() {
		return call.Run.String()
	}
	return call.Job.String()
}

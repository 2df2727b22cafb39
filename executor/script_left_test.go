package executor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// oneScript is a target whose commands run once at a time each.
type oneScript struct{ *world }

func (oneScript) Limit(*schema.ScriptTarget) int { return 1 }

// ofScript makes the work of an entry a command that has a second.
func ofScript(command string) func(*schema.Spec) {
	return func(s *schema.Spec) {
		s.Work.HTTP, s.Work.Script, s.Work.Timeout = nil, &schema.ScriptTarget{Command: command}, schema.Duration(time.Second)
		s.Work.Retry = &schema.Retry{MaxAttempts: 1}
	}
}

// TestAScriptThatIsLeftKeepsItsPlaceAlone: a script that could not be ended kept its slot, and its
// run was running, for as long as it went on. It keeps its place of those that may run of its
// command, and nothing else.
func TestAScriptThatIsLeftKeepsItsPlaceAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x", func(c *Config) { c.Slots, c.Targets.Script = 1, oneScript{w} })
		gone := make(chan struct{})
		w.answer(func(ctx context.Context, c target.Call) target.Result {
			if c.Work.Script == nil || c.Work.Script.Command == "quick" || len(w.started()) > 1 {
				return target.Result{Outcome: schema.Succeeded}
			}
			<-ctx.Done()
			return target.Result{Outcome: schema.TimedOut, Error: "it may still run", Lingering: gone}
		})
		stuck := w.entry(inAWhile(time.Second), ofScript("stuck"))
		w.publish(stuck, time.Now())
		time.Sleep(5 * time.Second)
		if got := w.story(stuck.ID); got != "1 timed_out" || w.state(stuck.ID) != schema.StateFailed {
			t.Errorf("the run is %s after %q, want failed after its time-out", w.state(stuck.ID), got)
		}
		if got := counted(t, x.metrics.scriptsLeft); got != 1 {
			t.Errorf("%v scripts are said to be left, want 1", got)
		}
		next, other, call := w.entry(inAWhile(0), ofScript("stuck")), w.entry(inAWhile(0), ofScript("quick")), w.entry(inAWhile(0))
		for _, e := range []schema.Entry{next, other, call} {
			w.publish(e, time.Now())
		}
		time.Sleep(5 * time.Second)
		for _, e := range []schema.Entry{other, call} {
			if got := w.state(e.ID); got != schema.StateSucceeded {
				t.Errorf("a run of something else is %s while the script goes on, want that it had its slot", got)
			}
		}
		if got := w.story(next.ID); got != "" {
			t.Errorf("another run of the command: %q while the script goes on, want that none starts", got)
		}
		close(gone)
		time.Sleep(5 * time.Second)
		if got := w.state(next.ID); got != schema.StateSucceeded {
			t.Errorf("another run of the command is %s when the script has ended, want succeeded", got)
		}
	})
}

// TestAScriptThatIsLeftKeepsNothingWithoutALimit: it counted among what its tenant has under way,
// as one that takes long.
func TestAScriptThatIsLeftKeepsNothingWithoutALimit(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x := w.begin("x", func(c *Config) { c.Targets.Script = c.Targets.HTTP })
		gone := make(chan struct{})
		defer close(gone)
		w.answer(func(ctx context.Context, _ target.Call) target.Result {
			<-ctx.Done()
			return target.Result{Outcome: schema.TimedOut, Error: "it may still run", Lingering: gone}
		})
		stuck := w.entry(inAWhile(time.Second), ofScript("stuck"))
		w.publish(stuck, time.Now())
		time.Sleep(5 * time.Second)
		busy, known := x.admission.UnderWay("t", "script stuck")
		if !known || busy != 0 || w.state(stuck.ID) != schema.StateFailed {
			t.Errorf("the run is %s, and its command has %d under way (known: %t); want failed, and nothing", w.state(stuck.ID), busy, known)
		}
	})
}

// TestAScriptThatIsLeftInSilenceIsTheLast: an executor that misses its session for a while tells
// its effectively_once scripts to end. The run of one that could not be ended started again at once
// when the session was renewed after all, beside the script.
func TestAScriptThatIsLeftInSilenceIsTheLast(t *testing.T) {
	for _, left := range []bool{false, true} {
		t.Run(fmt.Sprintf("left: %t", left), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				alone := new(alone)
				w.begin("x", cutOff(alone), func(c *Config) { c.Targets.Script = c.Targets.HTTP })
				gone := make(chan struct{})
				defer close(gone)
				w.answer(func(ctx context.Context, _ target.Call) target.Result {
					<-ctx.Done()
					if !left {
						return target.Result{Outcome: schema.Cancelled}
					}
					return target.Result{Outcome: schema.Cancelled, Lingering: gone}
				})
				e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce), ofScript("stuck"), func(s *schema.Spec) {
					s.Work.Guarantee, s.Work.Timeout, s.Work.Retry = schema.EffectivelyOnce, schema.Duration(time.Minute), &schema.Retry{MaxAttempts: 3, Jitter: "none"}
				})
				w.publish(e, time.Now())
				time.Sleep(2 * time.Second)
				alone.cut.Store(true)
				time.Sleep(sessionLife + time.Second) // its session is not to be trusted any more, and nobody has declared it dead
				alone.cut.Store(false)
				time.Sleep(time.Minute)
				want := schema.StatePending // a dispatcher would find it open
				if left {
					want = schema.StateFailed
				}
				if got := w.story(e.ID); got != "1 lost" || w.state(e.ID) != want {
					t.Errorf("the run is %s after %q, want %s after an attempt that was lost", w.state(e.ID), got, want)
				}
			})
		})
	}
}

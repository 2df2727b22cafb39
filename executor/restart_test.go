package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestClaimsOutlastTheNextLife: an executor that was killed and is back at once took its
// predecessor's session away, and with it its claims: while the callee was still at work for it, or
// it was not dead and only stopped, the next attempt started.
func TestClaimsOutlastTheNextLife(t *testing.T) {
	for _, c := range []struct {
		name  string
		g     schema.Guarantee
		lives func(w *world) // after the first
		waits bool
		story string
	}{
		{"effectively_once", schema.EffectivelyOnce, func(w *world) { w.begin("x1") }, true, "1 lost, 2 succeeded"},
		{"effectively_once, the fourth life of one second each", schema.EffectivelyOnce, func(w *world) {
			for range 3 {
				w.die(w.begin("x1", cutOff(new(alone))))
			}
			w.begin("x1")
		}, true, "1 lost, 2 succeeded"},
		{"effectively_once, and the next life ends in order", schema.EffectivelyOnce, func(w *world) {
			w.begin("x1").kill()
			w.begin("x2")
		}, true, "1 lost, 2 succeeded"},
		{"effectively_once, one life of two ends in order and a third begins", schema.EffectivelyOnce, func(w *world) {
			w.begin("x1").kill()
			w.begin("x1")
		}, true, "1 lost, 2 succeeded"},
		{"at_most_once", schema.AtMostOnce, func(w *world) { w.begin("x1") }, true, "1 lost"},
		{"at_least_once waits for nothing", schema.AtLeastOnce, func(w *world) { w.begin("x1") }, false, "1 lost, 2 succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				x1 := w.begin("x1", cutOff(new(alone)))
				hang := make(chan struct{})
				w.stops = append(w.stops, func() { close(hang) })
				w.answer(func(_ context.Context, call target.Call) target.Result {
					if call.Number == 1 {
						<-hang // deaf, and at work for longer than anybody waits
					}
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(inAWhile(time.Second), guarded(c.g))
				w.publish(e, time.Now())
				time.Sleep(3 * time.Second) // under way, and out of the stream
				stored, err := w.inner.Session(t.Context(), "x1")
				if err != nil {
					t.Fatalf("Session: %v", err)
				}
				w.die(x1)
				c.lives(w)
				dead := stored.Expires.Add(schema.SessionGrace)
				ended := func() bool { return w.story(e.ID) == c.story }
				var at time.Time
				for i := range 60 {
					w.publish(e, time.Now(), again(i+1))
					time.Sleep(500 * time.Millisecond)
					if ended() {
						at = time.Now()
						break
					}
				}
				switch {
				case at.IsZero():
					t.Fatalf("the run is %s after %q; want %q", w.state(e.ID), w.story(e.ID), c.story)
				case c.waits && at.Before(dead):
					t.Errorf("the claim of the first life was taken %v before that life would have been declared dead", dead.Sub(at))
				case c.waits && at.After(dead.Add(5*time.Second)):
					t.Errorf("the claim of the first life stood for %v longer than it may", at.Sub(dead))
				case !c.waits && !at.Before(dead.Add(-5*time.Second)):
					t.Errorf("the run started again %v after its executor came back, want at once", at.Sub(stored.Expires.Add(-sessionLife)))
				}
				if c.waits {
					time.Sleep(sessionLife)
					s, err := w.inner.Session(t.Context(), "x1")
					if err != nil && !errors.Is(err, schema.ErrNotFound) || len(s.Former) > 0 {
						t.Errorf("Session when all is over = %+v, %v; want none, or one that remembers nothing", s, err)
					}
				}
			})
		})
	}
}

// die leaves an executor to itself that was begun with cutOff: nobody hears of it any more, and its
// session is not renewed.
func (w *world) die(n *node) {
	w.t.Helper()
	s, ok := n.session.store.(*alone)
	if !ok {
		w.t.Fatal("the executor was not begun with cutOff")
	}
	s.cut.Store(true)
	n.conn.Cut()
}

// TestWhatAStopCutsShortIsNotOverlapped: an effectively_once call that the stop of its executor cut
// off may go on at its callee. The run was free at once, and started elsewhere beside it; it waits
// as long as after a crash. A script is gone with its executor, and waits for nothing, unless it
// could not be ended.
func TestWhatAStopCutsShortIsNotOverlapped(t *testing.T) {
	for _, c := range []struct {
		name   string
		script bool
		left   bool          // the script could not be ended
		after  time.Duration // its start the executor is told to stop
		wait   time.Duration // from the first start to the next
	}{
		{"at once", false, false, 500 * time.Millisecond, sessionReserve + schema.SessionGrace},
		{"when it is long known", false, false, 4 * time.Second, sessionReserve + schema.SessionGrace},
		{"when its callee must have ended", false, false, sessionReserve + schema.SessionGrace + time.Second, 0},
		{"of a script", true, false, 500 * time.Millisecond, 0},
		{"of a script that could not be ended", true, true, 500 * time.Millisecond, sessionReserve + schema.SessionGrace},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				scripts := func(cfg *Config) { cfg.Targets.Script = cfg.Targets.HTTP }
				x := w.begin("x1", scripts, func(cfg *Config) { cfg.DrainTimeout = time.Nanosecond })
				gone := make(chan struct{})
				w.stops = append(w.stops, func() { close(gone) })
				w.answer(func(ctx context.Context, call target.Call) target.Result {
					res := onStop(ctx, call)
					if c.left {
						res.Lingering = gone
					}
					return res
				})
				run := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce), func(s *schema.Spec) {
					if c.script {
						s.Work.HTTP, s.Work.Script = nil, &schema.ScriptTarget{Command: "s"}
					}
				})
				w.publish(run, time.Now())
				time.Sleep(time.Until(run.Due().Add(c.after)))
				x.kill()
				w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
				w.begin("x2", scripts)
				next := run
				for _, a := range w.attempts(run.ID) {
					if a.Number == 0 {
						next = w.find(a.Record.To)
					}
				}
				if c.wait > 0 == (next.ID == run.ID) {
					t.Fatalf("an entry stands in: %v, want %v", next.ID != run.ID, c.wait > 0)
				}
				w.publish(next, time.Now(), redispatched)
				time.Sleep(time.Minute)
				starts := w.started()
				if len(starts) != 2 || starts[1].Number != 1 || w.state(run.ID) != schema.StateSucceeded {
					t.Fatalf("%d starts, the last with number %d, the run is %s; want 2, number 1, succeeded", len(starts), starts[len(starts)-1].Number, w.state(run.ID))
				}
				if apart := starts[1].at.Sub(starts[0].at); apart < c.wait || c.wait == 0 && apart > c.after+3*time.Second {
					t.Errorf("started again %v after the start, want after %v", apart, c.wait)
				}
			})
		})
	}
}

// halfway starts an effectively_once run on an executor that waits for nothing when it is told to
// stop, and returns half a second later, in the middle of the work.
func (w *world) halfway() (x *node, run schema.Entry) {
	w.t.Helper()
	x = w.begin("x1", func(cfg *Config) { cfg.DrainTimeout = time.Nanosecond })
	w.answer(onStop)
	run = w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
	w.publish(run, time.Now())
	time.Sleep(time.Until(run.Due().Add(500 * time.Millisecond)))
	return x, run
}

// TestDeathBetweenStandInAndRelease: an executor that is told to stop has an entry stand in for
// what it cut off, and is gone before it has released the claim: the claim falls with its session,
// the attempt counts, and the run goes on by that entry, no sooner.
func TestDeathBetweenStandInAndRelease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x, run := w.halfway()
		w.breakDown("SwapLease", "SwapSession")
		x.kill()
		w.breakDown()
		if l, _ := w.lease(run.ID); l.Holder == nil {
			t.Fatal("the claim was released")
		}
		var next schema.Entry
		for _, a := range w.attempts(run.ID) {
			if a.Number == 0 {
				next = w.find(a.Record.To)
			}
		}
		if next.ID.IsZero() {
			t.Fatal("no entry stands in")
		}
		w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
		w.begin("x2")
		time.Sleep(30 * time.Second) // its session falls
		for _, e := range []schema.Entry{run, next} {
			w.publish(e, time.Now(), redispatched)
		}
		time.Sleep(time.Minute)
		starts := w.started()
		if len(starts) != 2 || starts[1].Number != 2 || w.state(run.ID) != schema.StateSucceeded {
			t.Errorf("%d starts, the last with number %d, the run is %s; want 2, number 2, succeeded: %s", len(starts), starts[len(starts)-1].Number, w.state(run.ID), w.story(run.ID))
		}
	})
}

// TestAStandInThatMayBeThere: the store does not say whether the entry is there that is to stand in
// after a stop. It may be met beside the first one: the run starts once more, and no more often.
func TestAStandInThatMayBeThere(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		x, run := w.halfway()
		w.befallOnce("PutEntries", schematest.Fault{Lose: true})
		x.kill()
		w.answer(func(context.Context, target.Call) target.Result { return target.Result{Outcome: schema.Succeeded} })
		w.begin("x2")
		w.publish(run, time.Now(), redispatched)
		there := 0
		for now, b := schema.BucketOf(time.Now()), schema.Bucket(-1); b <= 1; b++ {
			rows, err := w.inner.Entries(t.Context(), schema.Partition{Bucket: now + b}, schema.IDRange{}, 10)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rows {
				if rows[i].ID != run.ID && rows[i].Run() == run.ID {
					there++
					w.publish(rows[i], time.Now(), redispatched)
				}
			}
		}
		if there != 1 {
			t.Fatalf("%d entries stand in, want one", there)
		}
		time.Sleep(time.Minute)
		if starts := w.started(); len(starts) != 2 || starts[1].Number != 1 || w.state(run.ID) != schema.StateSucceeded {
			t.Errorf("%d starts, the run is %s; want 2 and succeeded: %s", len(starts), w.state(run.ID), w.story(run.ID))
		}
	})
}

// forgetful is a store that once says of a renewal that it may have been made, and then that there
// is no session.
type forgetful struct {
	Store
	swaps, reads atomic.Bool
}

func (s *forgetful) SwapSession(ctx context.Context, was, is schema.Session) error {
	if s.swaps.Swap(false) {
		return schema.ErrUnknown
	}
	return s.Store.SwapSession(ctx, was, is)
}

func (s *forgetful) Session(ctx context.Context, executor string) (schema.Session, error) {
	if s.reads.Swap(false) {
		return schema.Session{}, schema.ErrNotFound
	}
	return s.Store.Session(ctx, executor)
}

// TestACallOfALostSessionIsNotOverlapped: an executor loses its session long before that would
// expire, and abandons an effectively_once call, at which its callee works on. It ended the claim
// itself, and the run started beside it at once.
func TestACallOfALostSessionIsNotOverlapped(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var s forgetful
		w.begin("x1", func(c *Config) { s.Store, c.Store = c.Store, &s })
		w.answer(func(ctx context.Context, call target.Call) target.Result {
			if call.Number == 1 {
				<-ctx.Done()
				return target.Result{Outcome: schema.Failed}
			}
			return target.Result{Outcome: schema.Succeeded}
		})
		e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
		w.dispatch(time.Until(e.Due()) + 100*time.Millisecond)
		s.swaps.Store(true)
		s.reads.Store(true)
		w.begin("x2")
		for i := range 60 { // as when the message was not acknowledged, and then as the dispatcher does
			w.publish(e, time.Now(), again(i+1))
			time.Sleep(time.Second)
		}
		starts := w.started()
		if len(starts) != 2 || w.state(e.ID) != schema.StateSucceeded {
			t.Fatalf("%d calls, the run is %s after %q; want two, and that it succeeded", len(starts), w.state(e.ID), w.story(e.ID))
		}
		if apart := starts[1].at.Sub(starts[0].at); apart < CalleeTime {
			t.Errorf("the next call begins %v after the first one, which may last %v", apart, CalleeTime)
		}
	})
}

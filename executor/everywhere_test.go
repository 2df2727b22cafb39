package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// otherRegions are told of claims.
type otherRegions struct {
	mu             sync.Mutex
	refuses, fails bool
	told           []string // keys of leases
	meanwhile      func()   // while they are told; nil: nothing happens
}

func (o *otherRegions) set(refuses, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses, o.fails = refuses, fails
}

func (o *otherRegions) ReadyToClaim() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuses {
		return &schema.NotEverywhereError{Regions: []string{"us"}}
	}
	return nil
}

func (o *otherRegions) ConfirmClaim(_ context.Context, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.meanwhile != nil {
		o.meanwhile()
	}
	if o.fails {
		return &schema.NotEverywhereError{Regions: []string{"us"}, Written: true}
	}
	o.told = append(o.told, key)
	return nil
}

func (o *otherRegions) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.told)
}

func everywhere(s *schema.Spec) { s.Everywhere = true }

// TestAClaimIsToldBeforeTheCall: a guarded run of durability everywhere starts once every region
// knows of its claim, and not before. Another run asks nobody.
func TestAClaimIsToldBeforeTheCall(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var o otherRegions
				w.begin("x1", func(c *Config) { c.Everywhere = &o })
				var told atomic.Int64
				w.answer(func(context.Context, target.Call) target.Result {
					told.Store(int64(o.count()))
					return target.Result{Outcome: schema.Succeeded}
				})
				home, plain := w.entry(inAWhile(time.Second), guarded(g)), w.entry(inAWhile(time.Second), everywhere)
				w.publish(home, time.Now())
				w.publish(plain, time.Now())
				time.Sleep(5 * time.Second)
				if len(w.started()) != 2 || o.count() != 0 {
					t.Errorf("a guarded run of durability home, and another one: %d starts, %d claims told; want two, none", len(w.started()), o.count())
				}
				e := w.entry(inAWhile(time.Second), guarded(g), everywhere)
				w.publish(e, time.Now())
				time.Sleep(5 * time.Second)
				if got := w.state(e.ID); got != schema.StateSucceeded || told.Load() != 1 || o.told[0] != schema.RunLease(e.ID) {
					t.Errorf("the run is %s, and %d claims were told before its call: %v; want that it succeeded after its own was", got, told.Load(), o.told)
				}
			})
		})
	}
}

// TestAClaimThatIsNotToldStartsNothing: the run is free then for whoever serves its home next. It
// is not claimed at all while a region is known not to answer, and starts once all do.
func TestAClaimThatIsNotToldStartsNothing(t *testing.T) {
	for _, g := range guarantees {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var o otherRegions
				o.set(false, true)
				w.begin("x1", func(c *Config) { c.Everywhere = &o })
				e := w.entry(inAWhile(time.Second), guarded(g), everywhere)
				w.publish(e, time.Now())
				time.Sleep(3 * time.Second)
				o.set(true, true)
				time.Sleep(10 * time.Second)
				l, _ := w.lease(e.ID)
				if len(w.started()) != 0 || l.Holder != nil {
					t.Fatalf("a region does not answer: %d starts, the lease is held by %v; want none, nobody", len(w.started()), l.Holder)
				}
				fence := l.Fence
				time.Sleep(20 * time.Second)
				if l, _ = w.lease(e.ID); l.Fence != fence {
					t.Errorf("known not to answer: the run was claimed again (fence %d, then %d), want that it is not", fence, l.Fence)
				}
				o.set(false, false)
				time.Sleep(30 * time.Second)
				if got := w.state(e.ID); got != schema.StateSucceeded || len(w.started()) != 1 {
					t.Errorf("all answer: %s after %d starts (%s), want one that succeeded", got, len(w.started()), w.story(e.ID))
				}
			})
		})
	}
}

// TestTheLeaseOnTheHomeEndsWhileAClaimIsTold: the run does not start here.
func TestTheLeaseOnTheHomeEndsWhileAClaimIsTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var elsewhere atomic.Bool
		o := otherRegions{meanwhile: func() { elsewhere.Store(true) }}
		w.begin("x1", servedUnless(&elsewhere), func(c *Config) { c.Everywhere = &o })
		e := w.entry(inAWhile(time.Second), guarded(schema.AtMostOnce), everywhere)
		w.publish(e, time.Now())
		time.Sleep(10 * time.Second)
		if len(w.started()) != 0 || o.count() == 0 {
			t.Errorf("the lease ended meanwhile: %d starts after %d claims were told, want none after one", len(w.started()), o.count())
		}
	})
}

// TestACutOffRegionStopsWhatAnotherMayStart: an effectively_once call that other regions know of is
// stopped when its region cannot learn any more who serves the home. Another call runs on.
func TestACutOffRegionStopsWhatAnotherMayStart(t *testing.T) {
	for _, row := range []struct {
		name    string
		g       schema.Guarantee
		of      func(*schema.Spec)
		stopped bool
	}{
		{"effectively_once, everywhere", schema.EffectivelyOnce, everywhere, true},
		{"effectively_once, home", schema.EffectivelyOnce, func(*schema.Spec) {}, false},
		{"at_most_once, everywhere", schema.AtMostOnce, everywhere, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var cut atomic.Bool
				var o otherRegions
				w.begin("x1", servedUnless(&cut), func(c *Config) { c.Everywhere = &o })
				var took atomic.Int64
				w.answer(func(ctx context.Context, _ target.Call) target.Result {
					began := time.Now()
					timer := time.NewTimer(15 * time.Second)
					defer timer.Stop()
					select {
					case <-ctx.Done():
					case <-timer.C:
					}
					took.Store(int64(time.Since(began)))
					if ctx.Err() != nil {
						return target.Result{Outcome: schema.Failed}
					}
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(inAWhile(time.Second), guarded(row.g), row.of)
				w.publish(e, time.Now())
				time.Sleep(time.Until(e.Due()) + 3*time.Second)
				cut.Store(true)
				time.Sleep(20 * time.Second)
				if stopped := time.Duration(took.Load()) < 5*time.Second; len(w.started()) != 1 || stopped != row.stopped {
					t.Errorf("cut off after 3 s: %d calls, which took %v; want one that is stopped: %t", len(w.started()), time.Duration(took.Load()), row.stopped)
				}
			})
		})
	}
}

// dying is a store whose executor dies as it ends a claim: no write about sessions and claims is
// sent any more, or answered.
type dying struct {
	Store
	after bool        // right after that, else right before
	dies  func()      // what else its death is
	dead  atomic.Bool // it has died
	over  chan struct{}
}

func (s *dying) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if is.Holder == nil && !s.after {
		s.die()
	}
	s.wait()
	stands, err := s.Store.SwapLease(ctx, was, is, expires)
	if is.Holder == nil && s.after {
		s.die()
	}
	s.wait()
	return stands, err
}

func (s *dying) SwapSession(ctx context.Context, was, is schema.Session) error {
	s.wait()
	return s.Store.SwapSession(ctx, was, is)
}

func (s *dying) die() {
	if !s.dead.Swap(true) {
		s.dies()
	}
}

// wait lasts until the test is over if the executor is dead.
func (s *dying) wait() {
	if s.dead.Load() {
		<-s.over
	}
}

// TestDeathWhileAnAbandonedCallEnds: an effectively_once call that its cut-off region abandoned
// works on at its callee. If the executor dies before the claim is ended, or right after, the
// message comes again before the callee must have ended: the next call waits for that all the same.
func TestDeathWhileAnAbandonedCallEnds(t *testing.T) {
	for _, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "before its claim is ended", true: "right after"}[after], func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var cut atomic.Bool
				var o otherRegions
				d := &dying{after: after, over: make(chan struct{})}
				x1 := w.begin("x1", servedUnless(&cut), func(c *Config) { c.Everywhere = &o; d.Store, c.Store = c.Store, d })
				d.dies = x1.conn.Cut
				w.stops = append(w.stops, func() { close(d.over) })
				w.answer(func(ctx context.Context, call target.Call) target.Result {
					if call.Number == 1 {
						<-ctx.Done()
						return target.Result{Outcome: schema.Failed}
					}
					return target.Result{Outcome: schema.Succeeded}
				})
				e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce), everywhere)
				w.dispatch(time.Until(e.Due()) + 100*time.Millisecond)
				cut.Store(true)
				w.begin("x2", func(c *Config) { c.Everywhere = &o })
				w.dispatch(40 * time.Second)
				w.settle()
				w.dispatch(10 * time.Second)
				starts := w.started()
				if !d.dead.Load() || len(starts) != 2 || w.state(e.ID) != schema.StateSucceeded {
					t.Fatalf("died: %t, %d calls, the run is %s after %q; want two, and that it succeeded", d.dead.Load(), len(starts), w.state(e.ID), w.story(e.ID))
				}
				if apart := starts[1].at.Sub(starts[0].at); apart < CalleeTime {
					t.Errorf("the next call begins %v after the first one, which may last %v", apart, CalleeTime)
				}
			})
		})
	}
}

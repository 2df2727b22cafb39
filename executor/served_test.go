package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// TestNothingStartsOfAHomeThatIsServedElsewhere: what is in hand when the region's lease on the home
// ends goes back unbegun and undecided. What runs then runs on, and its outcome is recorded.
func TestNothingStartsOfAHomeThatIsServedElsewhere(t *testing.T) {
	for _, g := range []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce} {
		t.Run(string(g), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var elsewhere atomic.Bool
				w.begin("x1", servedUnless(&elsewhere))
				e := w.entry(inAWhile(2*time.Second), guarded(g), func(s *schema.Spec) {
					s.Misfire = &schema.Misfire{Policy: schema.RunAll, Deadline: schema.Duration(5 * time.Second)}
				})
				w.publish(e, time.Now())
				time.Sleep(time.Second) // it has the message in hand
				elsewhere.Store(true)
				time.Sleep(time.Minute)
				if len(w.started()) != 0 || w.story(e.ID) != "" || w.open() != 1 {
					t.Errorf("served elsewhere: %d starts, attempts %q, %d messages; want none, none, one: nobody decides that it is too late",
						len(w.started()), w.story(e.ID), w.open())
				}
				elsewhere.Store(false)
				time.Sleep(10 * time.Second)
				if got := w.state(e.ID); got != schema.StateMissed || w.open() != 0 {
					t.Errorf("served here again, too late: %s, %d messages; want that it is missed by its policy", got, w.open())
				}
			})
		})
	}
}

// TestARunWaitsForItsRegion: where a job, or its task, requires a region, executors of others defer
// its runs, with the reason, and it uses no attempt. Others run there.
func TestARunWaitsForItsRegion(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		home := "us"
		w.begin("x1", func(c *Config) {
			c.Region, c.Served = "eu", func(schema.Shard) (int64, error) { return 1, nil }
			c.HomeOf = func(schema.Shard) string { return home }
		})
		bound := schema.Task{Tenant: "t", Name: "bound", Work: schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}}, Region: schema.RegionChoice{Name: "us", Require: true}, UpdatedAt: time.Now()}
		if err := w.inner.PutTask(t.Context(), bound); err != nil {
			t.Fatal(err)
		}
		require := func(s *schema.Spec) { s.RequireRegion = true }
		job, task, other := w.entry(inAWhile(time.Second), require), w.entry(inAWhile(time.Second), func(s *schema.Spec) { s.Work, s.Task = nil, "bound" }), w.entry(inAWhile(time.Second))
		for _, e := range []schema.Entry{job, task, other} {
			w.publish(e, time.Now())
		}
		time.Sleep(2 * time.Second)
		for what, e := range map[string]schema.Entry{"its job": job, "its task": task} {
			all := w.deferrals(e)
			if len(all) != 1 || all[0].Spec.AttemptNumber() != 1 || w.state(e.Run()) != schema.StatePending || w.causeOf(e) != schema.CauseRegion {
				t.Fatalf("%s requires another region: %d entries stand in, it is %s, deferred for %q; want one, pending, for its region", what, len(all), w.state(e.Run()), w.causeOf(e))
			}
		}
		if n := len(w.started()); n != 1 || w.state(other.Run()) != schema.StateSucceeded {
			t.Errorf("%d starts, the run that requires nothing is %s; want that one alone", n, w.state(other.Run()))
		}
		home = "eu"
		again := w.deferrals(job)[0]
		w.publish(again, time.Now())
		time.Sleep(time.Until(again.Due()) + time.Second)
		if got := w.state(job.Run()); got != schema.StateSucceeded {
			t.Errorf("where its region is ours it is %s, want succeeded", got)
		}
	})
}

// causeOf returns why an entry was deferred last.
func (w *world) causeOf(e schema.Entry) (cause schema.Cause) {
	for _, a := range w.attempts(e.Run()) {
		if a.Number == 0 && a.Record != nil && a.Record.Outcome == schema.Replaced {
			cause = a.Record.Cause
		}
	}
	return cause
}

// TestAClaimOutlastsNoLease: where the lease on the home ends while a run is being claimed, it does
// not start, and is free for whoever serves the home next.
func TestAClaimOutlastsNoLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var elsewhere atomic.Bool
		w.begin("x1", servedUnless(&elsewhere))
		e := w.entry(inAWhile(time.Second), guarded(schema.AtMostOnce))
		w.befallOnce("SwapLease", schematest.Fault{Delay: 500 * time.Millisecond})
		w.publish(e, time.Now())
		time.Sleep(time.Until(e.Due()) + 100*time.Millisecond)
		elsewhere.Store(true)
		time.Sleep(time.Minute)
		if len(w.started()) != 0 || w.story(e.ID) != "1 unstarted" {
			t.Errorf("the lease ended during the claim: %d starts, attempts %q; want none, and one that is recorded as unstarted", len(w.started()), w.story(e.ID))
		}
		elsewhere.Store(false)
		time.Sleep(30 * time.Second)
		if got := w.state(e.ID); got != schema.StateSucceeded || len(w.started()) != 1 {
			t.Errorf("served here again: %s, %d starts; want one that succeeded", got, len(w.started()))
		}
	})
}

// TestAClaimInDoubtIsGivenUp: a claim is not answered, and before it can be made again another region
// serves the home. The executor lives on, so nobody else would ever end that claim.
func TestAClaimInDoubtIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault schematest.Fault // of the claim
		late  bool             // the store does it all the same, 10 s later
		story string
	}{
		{"it stands", schematest.Fault{Lose: true}, false, "1 unstarted"},
		{"it does not stand", schematest.Fault{Silent: true}, false, ""},
		{"it comes to stand", schematest.Fault{Silent: true}, true, "1 unstarted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var elsewhere, claimed atomic.Bool
				store := &refusingStore{Store: w.store, elsewhere: &elsewhere}
				w.begin("x1", servedUnless(&elsewhere), func(cfg *Config) { cfg.Store = store })
				e := w.entry(inAWhile(time.Second), guarded(schema.EffectivelyOnce))
				w.befall(func(_ context.Context, op string) schematest.Fault {
					if op == "SwapLease" && !claimed.Swap(true) {
						elsewhere.Store(true)
						return c.fault
					}
					return schematest.Fault{}
				})
				w.publish(e, time.Now())
				time.Sleep(time.Until(e.Due()) + 10*time.Second)
				if c.late {
					if _, err := w.inner.SwapLease(t.Context(), schema.Lease{}, store.firstClaim(), time.Now().Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(2 * time.Minute)
				lease, err := w.inner.Lease(t.Context(), schema.RunLease(e.ID))
				if err != nil && !errors.Is(err, schema.ErrNotFound) || lease.Holder != nil {
					t.Errorf("its lease has the holder %v, %v; want none", lease.Holder, err)
				}
				if len(w.started()) != 0 || w.story(e.ID) != c.story || w.open() != 1 {
					t.Errorf("%d starts, attempts %q, %d messages; want none, %q, one", len(w.started()), w.story(e.ID), w.open(), c.story)
				}
				elsewhere.Store(false)
				time.Sleep(30 * time.Second)
				if got := w.state(e.ID); got != schema.StateSucceeded || len(w.started()) != 1 {
					t.Errorf("served here again: %s, %d starts; want one that succeeded", got, len(w.started()))
				}
			})
		})
	}
}

// refusingStore lets nobody take a lease while the home is served elsewhere, as package homes does.
type refusingStore struct {
	schema.Store
	elsewhere *atomic.Bool
	claim     atomic.Pointer[schema.Lease] // the first
}

func (s *refusingStore) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if is.Holder != nil {
		s.claim.CompareAndSwap(nil, &is)
		if s.elsewhere.Load() {
			return schema.Lease{}, &schema.NotServedError{Home: "h", Asked: "eu", Now: time.Now()}
		}
	}
	return s.Store.SwapLease(ctx, was, is, expires)
}

func (s *refusingStore) firstClaim() schema.Lease { return *s.claim.Load() }

// TestOutcomesAreRecordedWithoutTheLease: a call that is under way when it ends.
func TestOutcomesAreRecordedWithoutTheLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var elsewhere atomic.Bool
		w.begin("x1", servedUnless(&elsewhere))
		w.answer(func(context.Context, target.Call) target.Result {
			time.Sleep(5 * time.Second)
			return target.Result{Outcome: schema.Succeeded}
		})
		e := w.entry(inAWhile(time.Second))
		w.publish(e, time.Now())
		time.Sleep(time.Until(e.Due()) + time.Second)
		elsewhere.Store(true)
		time.Sleep(10 * time.Second)
		if got := w.state(e.ID); got != schema.StateSucceeded || w.story(e.ID) != "1 succeeded" || w.open() != 0 {
			t.Errorf("ended without the lease: %s after %q, %d messages; want that it succeeded", got, w.story(e.ID), w.open())
		}
	})
}

// TestAMessageOfAFormerEpochStartsNothing: it is acknowledged, whether our region serves the home again
// or another one does, and nothing is decided of its run. One of no epoch is older than regions.
func TestAMessageOfAFormerEpochStartsNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var epoch atomic.Int64
		var elsewhere atomic.Bool
		epoch.Store(3)
		w.begin("x1", func(c *Config) {
			c.Served = func(schema.Shard) (int64, error) {
				if elsewhere.Load() {
					return 0, &schema.NotServedError{Home: "h", Asked: "eu", Lease: schema.HomeLease{Epoch: schema.Epoch{Number: epoch.Load(), Region: "us"}}}
				}
				return epoch.Load(), nil
			}
		})
		in := func(n int64) func(*queue.Envelope) { return func(e *queue.Envelope) { e.Epoch = n } }
		old, now, none := w.entry(inAWhile(time.Second)), w.entry(inAWhile(time.Second)), w.entry(inAWhile(time.Second))
		w.publish(old, time.Now(), in(2))
		w.publish(now, time.Now(), in(3))
		w.publish(none, time.Now())
		time.Sleep(5 * time.Second)
		if w.story(old.ID) != "" || w.state(now.ID) != schema.StateSucceeded || w.state(none.ID) != schema.StateSucceeded || w.open() != 0 {
			t.Errorf("in epoch 3: of epoch 2 %q, of epoch 3 %s, of none %s, %d messages; want nothing, two that succeeded, none",
				w.story(old.ID), w.state(now.ID), w.state(none.ID), w.open())
		}
		held := w.entry(inAWhile(5 * time.Second))
		w.publish(held, time.Now(), in(3))
		time.Sleep(time.Second) // it has the message in hand
		epoch.Store(4)
		elsewhere.Store(true)
		time.Sleep(10 * time.Second)
		if w.story(held.ID) != "" || w.open() != 0 {
			t.Errorf("served elsewhere since: attempts %q, %d messages; want none, none: it does not come again for ever", w.story(held.ID), w.open())
		}
	})
}

// servedUnless has an executor's region serve every home while elsewhere is not set.
func servedUnless(elsewhere *atomic.Bool) func(*Config) {
	return func(c *Config) {
		c.Served = func(schema.Shard) (int64, error) {
			if elsewhere.Load() {
				return 0, &schema.NotServedError{Home: "h", Asked: "eu", Now: time.Now()}
			}
			return 1, nil
		}
	}
}

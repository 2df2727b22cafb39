package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// lasts has each call last until it is stopped, or end is called for its run.
func (w *world) lasts() (end func(schema.RunID)) {
	var mu sync.Mutex
	ends := make(map[schema.RunID]chan struct{})
	of := func(run schema.RunID) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if ends[run] == nil {
			ends[run] = make(chan struct{})
		}
		return ends[run]
	}
	w.answer(func(ctx context.Context, c target.Call) target.Result {
		select {
		case <-of(c.Run):
			return target.Result{Outcome: schema.Succeeded}
		case <-ctx.Done():
			return target.Ended(ctx)
		}
	})
	return func(run schema.RunID) { close(of(run)) }
}

func preemptible(s *schema.Spec) {
	s.Priority = schema.Low
	s.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Timeout: schema.Duration(time.Hour), Preemptible: true}
}

func critical(s *schema.Spec) {
	s.Priority = schema.Critical
	s.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}, Timeout: schema.Duration(time.Hour)}
}

func ofTenant(tenant string) func(*schema.Spec) { return func(s *schema.Spec) { s.Tenant = tenant } }

func slots(n int) func(*Config) { return func(c *Config) { c.Slots = n } }

// TestACriticalRunTakesASlot: a critical run that finds no free slot, or whose tenant has its share
// of them, takes that of the preemptible run that began last. That one uses no attempt, and starts
// again; after three times it is left alone.
func TestACriticalRunTakesASlot(t *testing.T) {
	t.Run("no slot is free", func(t *testing.T) { takesASlot(t, "a", "b", "c") })
	t.Run("its tenant has its share", func(t *testing.T) { takesASlot(t, "a", "a", "a") })
}

// takesASlot has runs of two tenants take both slots, and one tenant then ask for critical runs.
func takesASlot(t *testing.T, first, second, third string) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		end := w.lasts()
		x := w.begin("x1", slots(2))
		older, last := w.entry(inAWhile(time.Second), preemptible, ofTenant(first)), w.entry(inAWhile(2*time.Second), preemptible, ofTenant(second))
		w.publish(older, time.Now())
		w.publish(last, time.Now())
		time.Sleep(4 * time.Second)
		stops := func(e schema.Entry) int { return schema.CountPreempted(w.attempts(e.Run())) }
		for n := 1; n <= schema.MaxPreemptions; n++ {
			urgent := w.entry(inAWhile(time.Second), critical, ofTenant(third))
			w.publish(urgent, time.Now())
			time.Sleep(4 * time.Second)
			if got := w.state(urgent.Run()); got != schema.StateRunning {
				t.Fatalf("critical run %d is %s, want running", n, got)
			}
			if got := w.state(last.Run()); stops(last) != n || got != schema.StatePending || stops(older) != 0 {
				t.Fatalf("after critical run %d the run that began last was stopped %d times and is %s, the other one %d times; want %d, pending and never",
					n, stops(last), got, stops(older), n)
			}
			end(urgent.Run())
			time.Sleep(time.Second)
			w.publish(last, time.Now(), again(n)) // as the dispatcher does that finds it open
			time.Sleep(2 * time.Second)
			if got := w.state(last.Run()); got != schema.StateRunning {
				t.Fatalf("once critical run %d has ended, the run that was stopped is %s, want running", n, got)
			}
		}
		urgent := w.entry(inAWhile(time.Second), critical, ofTenant(third))
		w.publish(urgent, time.Now())
		time.Sleep(4 * time.Second)
		if got := w.state(urgent.Run()); stops(last) != schema.MaxPreemptions || stops(older) != 1 || got != schema.StateRunning {
			t.Errorf("after one more the run was stopped %d times, the other one %d times, and the critical run is %s; want %d, once, and running",
				stops(last), stops(older), got, schema.MaxPreemptions)
		}
		if got := counted(t, x.metrics.preempted); got != schema.MaxPreemptions+1 {
			t.Errorf("%v attempts count as preempted, want %d", got, schema.MaxPreemptions+1)
		}
		end(last.Run())
		end(urgent.Run())
		time.Sleep(2 * time.Second)
		for _, a := range w.attempts(last.Run()) {
			if a.Number > 1 {
				t.Errorf("the run that was stopped used attempt %d, want the first alone", a.Number)
			}
		}
		if got := w.state(last.Run()); got != schema.StateSucceeded {
			t.Errorf("the run that was stopped is %s in the end, want succeeded", got)
		}
		w.publish(older, time.Now(), again(1))
		time.Sleep(2 * time.Second)
		end(older.Run())
		time.Sleep(2 * time.Second)
		if got := w.state(older.Run()); got != schema.StateSucceeded {
			t.Errorf("the other run is %s in the end, want succeeded", got)
		}
	})
}

// TestWhatWasPreemptedHasBegun: a run that was stopped starts again when its message comes back,
// even if its misfire policy would not let it start so late, and counts as started once.
func TestWhatWasPreemptedHasBegun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		end := w.lasts()
		x := w.begin("x1", slots(1))
		low := w.entry(inAWhile(time.Second), preemptible, func(s *schema.Spec) {
			s.Misfire = &schema.Misfire{Policy: "run_all", Deadline: schema.Duration(2 * time.Second)}
		})
		urgent := w.entry(inAWhile(1500*time.Millisecond), critical)
		w.publish(low, time.Now())
		w.publish(urgent, time.Now())
		time.Sleep(5 * time.Second)
		if a, b := w.state(low.Run()), w.state(urgent.Run()); a != schema.StatePending || b != schema.StateRunning {
			t.Fatalf("the run of low priority is %s, the critical one %s; want pending, running", a, b)
		}
		end(urgent.Run())
		time.Sleep(3 * time.Second)
		if got := w.state(low.Run()); got != schema.StateRunning {
			t.Errorf("past its deadline the run that was stopped is %s, want running", got)
		}
		end(low.Run())
		time.Sleep(2 * time.Second)
		if got := w.state(low.Run()); got != schema.StateSucceeded {
			t.Errorf("the run that was stopped is %s, want succeeded", got)
		}
		if got, _ := observed(t, x.metrics.lateness); got != 2 {
			t.Errorf("%d first starts are counted of two runs", got)
		}
	})
}

// TestWhatWasPreemptedIsNotSkipped: a run that was stopped waits for a slot of its job's limit as
// one does that is tried again.
func TestWhatWasPreemptedIsNotSkipped(t *testing.T) {
	for preempted, want := range []bool{false, true} {
		a := attemptOf(nil, new(schema.Entry))
		a.basis = startBasis{number: 1, preempted: preempted, limit: &schema.Concurrency{OnLimit: schema.OnLimitSkip}}
		if got := a.limits.waitsForJobSlot(); got != want {
			t.Errorf("stopped %d times, it waits for a slot: %v, want %v", preempted, got, want)
		}
	}
}

// TestWhoIsNotPreempted: runs of other priorities, of work that does not allow it or is guarded,
// keep their slots, and other runs than critical ones take none.
func TestWhoIsNotPreempted(t *testing.T) {
	for _, c := range []struct {
		name          string
		holder, wants func(*schema.Spec)
	}{
		{"normal priority", func(s *schema.Spec) { preemptible(s); s.Priority = schema.Normal }, critical},
		{"work that does not allow it", func(s *schema.Spec) { preemptible(s); s.Work.Preemptible = false }, critical},
		{"at_most_once", func(s *schema.Spec) { preemptible(s); s.Work.Guarantee = schema.AtMostOnce }, critical},
		{"effectively_once", func(s *schema.Spec) { preemptible(s); s.Work.Guarantee = schema.EffectivelyOnce }, critical},
		{"a run of high priority", preemptible, func(s *schema.Spec) { critical(s); s.Priority = schema.High }},
	} {
		for _, tenant := range []string{"a", "b"} {
			t.Run(c.name+", of "+tenant, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					end := w.lasts()
					w.begin("x1", slots(1))
					holder, waits := w.entry(inAWhile(time.Second), c.holder, ofTenant(tenant)), w.entry(inAWhile(4*time.Second), c.wants, ofTenant("b"))
					w.publish(holder, time.Now())
					time.Sleep(3 * time.Second)
					w.publish(waits, time.Now())
					time.Sleep(3 * time.Second)
					if a, b := w.state(holder.Run()), w.state(waits.Run()); a != schema.StateRunning || b != schema.StatePending {
						t.Errorf("who has the slot is %s, who waits for it %s; want running, pending", a, b)
					}
					end(holder.Run())
					end(waits.Run())
					time.Sleep(3 * time.Second)
				})
			})
		}
	}
}

// TestPreemptionsAreBounded: an executor stops no more runs in a second than its bound says.
func TestPreemptionsAreBounded(t *testing.T) {
	p, now := newPreemption(), time.Now()
	e := new(schema.Entry)
	preemptible(&e.Spec)
	for range 3 * preemptsAtOnce {
		a := attemptOf(nil, e)
		a.work.Work = e.Spec.Work.InForce()
		p.add(a)
	}
	taken := func(at time.Time) (n int) {
		for range 2 * preemptsAtOnce {
			if p.take(nil, at) != nil {
				n++
			}
		}
		return n
	}
	if got := taken(now); got != preemptsAtOnce {
		t.Errorf("%d attempts were stopped at once, want %d", got, preemptsAtOnce)
	}
	if got := taken(now.Add(time.Second / 2)); got != preemptsPerSecond/2 {
		t.Errorf("%d attempts were stopped in half a second, want %d", got, preemptsPerSecond/2)
	}
}

// TestPreemptionCostsNothing: where no work is preemptible, nothing is allocated or remembered.
func TestPreemptionCostsNothing(t *testing.T) {
	x := &Executor{preemption: newPreemption()}
	e := new(schema.Entry)
	critical(&e.Spec)
	a := attemptOf(x, e)
	a.work.Work = e.Spec.Work.InForce()
	if n := testing.AllocsPerRun(100, func() {
		x.preemption.freeSlot()
		x.preemption.add(a)
		x.preemption.remove(a)
	}); n != 0 || len(x.preemption.running) != 0 {
		t.Errorf("an attempt that may not be stopped costs %v allocations, and %d are remembered; want none", n, len(x.preemption.running))
	}
}

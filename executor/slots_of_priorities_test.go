package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// TestCriticalOvertakesLow: runs of critical start while an executor is full of low ones, before
// what it has in hand of them: where slots are what is scarce, and where it is a tenant's part of
// them, or a target's.
func TestCriticalOvertakesLow(t *testing.T) {
	for name, of := range map[string]struct{ tenants, targets int }{"slots are scarce": {16, 16}, "a tenant's part is": {1, 16}, "a target's part is": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				const size, urgent = 256, 1000
				w.begin("x1", func(c *Config) { c.Slots = size })
				w.answer(func(context.Context, target.Call) target.Result {
					time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond))
					return target.Result{Outcome: schema.Succeeded}
				})
				priority := make(map[schema.RunID]schema.Priority)
				publish := func(p schema.Priority, n int) {
					for i := range n {
						e := w.entry(inAWhile(0), func(s *schema.Spec) {
							s.Priority, s.Tenant = p, fmt.Sprintf("t-%d", i%of.tenants)
							s.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: fmt.Sprintf("http://sink-%d/", i%of.targets)}}
						})
						priority[e.ID] = p
						w.publish(e, time.Now())
					}
				}
				publish(schema.Low, 6000)
				time.Sleep(2 * time.Second)
				began := time.Now()
				publish(schema.Critical, urgent)
				time.Sleep(4 * time.Second)
				n, low, before := 0, 0, 0
				for _, s := range w.started() {
					switch {
					case s.at.Before(began):
					case priority[s.Run] == schema.Critical:
						n++
						before = low
					default:
						low++
					}
				}
				// Of 9 starts 8 could be critical, while some wait: it takes a moment until others
				// have been fetched.
				if n != urgent || before > urgent*2/3 || before < urgent/14 {
					t.Errorf("%d of %d critical runs started, and %d low ones before the last of them; want all, and from %d to %d", n, urgent, before, urgent/14, urgent*2/3)
				} else {
					t.Logf("%d low ones started before the last of %d critical ones", before, urgent)
				}
			})
		})
	}
}

// TestOnlyWhatCanStartIsFetched: while every slot is taken, what waits for one in memory is what
// can start within a second.
func TestOnlyWhatCanStartIsFetched(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const size = 128
		x := w.begin("x1", func(c *Config) { c.Slots = size })
		var calls atomic.Int64
		w.answer(func(context.Context, target.Call) target.Result {
			takes := 8 * time.Second
			if n := calls.Add(1); n <= size { // then 16 of them end in each second
				takes = time.Duration(n) * takes / size
			}
			time.Sleep(takes)
			return target.Result{Outcome: schema.Succeeded}
		})
		for range 1000 {
			w.publish(w.entry(inAWhile(0)), time.Now())
		}
		time.Sleep(20 * time.Second)
		for range 50 {
			time.Sleep(500 * time.Millisecond)
			_, waiting := x.slots.InUse()
			if waiting[2] > 2*size/8 {
				t.Fatalf("%d wait for a slot in memory, want at most %d", waiting[2], 2*size/8)
			}
		}
	})
}

// TestSlotsAreCounted: the gauges tell how many slots are taken and who waits for one, and that
// nobody does when all have ended.
func TestSlotsAreCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const size, more = 8, 12
		x := w.begin("x1", func(c *Config) { c.Slots = size })
		end := make(chan struct{})
		w.answer(func(context.Context, target.Call) target.Result {
			<-end
			return target.Result{Outcome: schema.Succeeded}
		})
		publish := func(n int, of ...schema.Priority) {
			for i := range n { // of as many tenants: none has more than its part
				w.publish(w.entry(inAWhile(0), func(s *schema.Spec) { s.Tenant, s.Priority = fmt.Sprint("t-", i), of[i%len(of)] }), time.Now())
			}
			time.Sleep(time.Second)
		}
		// want checks the gauges: who is in hand and has no slot waits for one, some of waiters and
		// of nobody else.
		want := func(when string, started int, busy float64, waiters ...schema.Priority) {
			t.Helper()
			if got := counted(t, x.metrics.slots); got != size {
				t.Errorf("%s: %v slots, want %d", when, got, size)
			}
			if got := counted(t, x.metrics.busy); got != busy || len(w.started()) != started {
				t.Errorf("%s: %v slots busy, %d runs started; want %v and %d", when, got, len(w.started()), busy, started)
			}
			all := 0.0
			for _, p := range schema.Priorities {
				n := counted(t, x.metrics.waiting.WithLabelValues(string(p)))
				all += n
				if (n > 0) != slices.Contains(waiters, p) {
					t.Errorf("%s: %v of %s wait for a slot, want some of %v", when, n, p, waiters)
				}
			}
			if inHand := float64(x.Running()); all != inHand-busy {
				t.Errorf("%s: %v in hand, %v slots busy, %v wait for one; want all the others", when, inHand, busy, all)
			}
		}
		want("at first", 0, 0)
		publish(size, schema.Normal)
		want("as many runs as slots, which hang", size, size)
		publish(more, schema.High, schema.Low)
		want("more runs", size, size, schema.High, schema.Low)
		close(end)
		time.Sleep(2 * time.Second)
		want("when all have ended", size+more, 0)
	})
}

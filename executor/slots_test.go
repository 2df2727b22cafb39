package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
)

// queued makes n runs wait for a slot; each notes who it is when it has one.
func queued(s *slots, p schema.Priority, tenant string, n int, got *[]string, wg *sync.WaitGroup) {
	for range n {
		wg.Go(func() {
			if s.take(context.Background(), p, tenant) {
				*got = append(*got, string(p)+tenant) // one at a time: there is one slot
			}
		})
		synctest.Wait()
	}
}

// TestSlotsFollowPriorities: while all priorities have work, of any 15 slots low is given one, and the others what their weights say; what one
// does not want goes to the others.
func TestSlotsFollowPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, time.Now)
		s.take(t.Context(), schema.Low, "t")
		var got []string
		var wg sync.WaitGroup
		for _, p := range []schema.Priority{schema.Low, schema.Normal, schema.High, schema.Critical} { // the most urgent ones come last
			queued(s, p, "", 60, &got, &wg)
		}
		for range 240 {
			s.release()
			synctest.Wait()
		}
		wg.Wait()
		count := func(part []string) (n [4]int) {
			for i, p := range schema.Priorities {
				for _, g := range part {
					if g == string(p) {
						n[i]++
					}
				}
			}
			return n
		}
		for i := range 60 { // critical is used up after some 112
			if n := count(got[i : i+15]); n != priorityWeights {
				t.Fatalf("slots %d to %d went to %v, want %v", i, i+15, n, priorityWeights)
			}
		}
		if n := count(got); n != [4]int{60, 60, 60, 60} {
			t.Errorf("slots went to %v, want 60 of each", n)
		}
		if n := count(got[210:]); n[0] != 0 || n[3] < 30/3 {
			t.Errorf("the last 30 went to %v, want none to critical, which had its own, and a third or more to low", n)
		}
		if busy, waiting := s.use(); busy != 1 || waiting != [4]int{} {
			t.Errorf("use = %d busy, %v wait, want 1 and none", busy, waiting)
		}
	})
}

// TestTenantsTakeTurnsForSlots: within a priority a tenant with many runs in hand does not hold up one with few.
func TestTenantsTakeTurnsForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, time.Now)
		s.take(t.Context(), schema.Normal, "x")
		var got []string
		var wg sync.WaitGroup
		queued(s, schema.Normal, "-much", 50, &got, &wg)
		queued(s, schema.Normal, "-little", 3, &got, &wg)
		for range 53 {
			s.release()
			synctest.Wait()
		}
		wg.Wait()
		if n := len(slices.DeleteFunc(slices.Clone(got[:6]), func(g string) bool { return g == "normal-much" })); n != 3 {
			t.Errorf("of the first 6 slots %d went to the tenant with 3 runs, want 3: %v", n, got[:6])
		}
	})
}

// TestOnlyTenantsThatWaitAreRemembered: as many tenants as ever wait or have waited, those of whom nothing waits are gone with their last one, so that
// nobody who comes has to look for them.
func TestOnlyTenantsThatWaitAreRemembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &newSlots(1, time.Now).classes[2]
		waits := make(map[string]int)
		var seekers []*seeker
		gone := func(w *seeker) {
			tenant := w.client.tenant
			if waits[tenant]--; waits[tenant] == 0 {
				delete(waits, tenant)
			}
			seekers = slices.DeleteFunc(seekers, func(v *seeker) bool { return v == w })
		}
		tenants := rapid.IntRange(1, 600).Draw(t, "tenants")
		for range rapid.IntRange(1, 1000).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 3).Draw(t, "act"); {
			case act >= 2 || len(seekers) == 0:
				tenant := fmt.Sprint("t-", rapid.IntRange(1, tenants).Draw(t, "tenant"))
				w := new(seeker)
				c.add(w, tenant)
				seekers = append(seekers, w)
				waits[tenant]++
			case act == 1:
				w := rapid.SampledFrom(seekers).Draw(t, "who gives up")
				c.remove(w)
				gone(w)
			default:
				gone(c.next())
			}
			if len(c.byTenant) != len(waits) || c.tenants.Len() != len(waits) || c.waiting != len(seekers) {
				t.Fatalf("%d tenants are remembered, %d take turns, %d runs wait; want %d, %d, %d", len(c.byTenant), c.tenants.Len(), c.waiting, len(waits), len(waits), len(seekers))
			}
		}
	})
}

// TestNoSlotIsLost: whoever comes and gives up, as many are in use as there are, and none is idle while somebody waits.
func TestNoSlotIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			size := rapid.IntRange(1, 5).Draw(rt, "slots")
			s := newSlots(size, time.Now)
			n := rapid.IntRange(1, 60).Draw(rt, "runs")
			var mu sync.Mutex
			using, most, served := 0, 0, 0
			var wg sync.WaitGroup
			for i := range n {
				p := rapid.SampledFrom(schema.Priorities).Draw(rt, "priority")
				tenant := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "tenant")
				comes := time.Duration(rapid.IntRange(0, 30).Draw(rt, "comes")) * time.Millisecond
				waits := time.Duration(rapid.IntRange(0, 30).Draw(rt, "waits")) * time.Millisecond
				takes := time.Duration(rapid.IntRange(0, 10).Draw(rt, "takes")) * time.Millisecond
				wg.Go(func() {
					time.Sleep(comes)
					ctx, cancel := context.WithTimeout(context.Background(), waits)
					defer cancel()
					if i%3 > 0 {
						ctx = context.Background()
					}
					if !s.take(ctx, p, tenant) {
						return
					}
					mu.Lock()
					using++
					served++
					most = max(most, using)
					mu.Unlock()
					time.Sleep(takes)
					mu.Lock()
					using--
					mu.Unlock()
					s.release()
				})
			}
			wg.Wait()
			if most > size || served < n-(n+2)/3 {
				t.Errorf("%d slots: %d in use at once, %d of %d served, want at most %d, and all that do not give up", size, most, served, n, size)
			}
			if busy, waiting := s.use(); busy != 0 || waiting != [4]int{} || s.waiting != 0 || s.round.Len() != 0 {
				t.Errorf("in the end %d are in use and %v wait, want none", busy, waiting)
			}
		})
	})
}

// TestCriticalOvertakesLow: runs of critical start while an executor is full of low ones, before what it has in hand of them: where slots are what is
// scarce, and where it is a tenant's part of them, or a target's.
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
				// Of 9 starts 8 could be critical, while some wait: it takes a moment until others have been fetched.
				if n != urgent || before > urgent*2/3 || before < urgent/14 {
					t.Errorf("%d of %d critical runs started, and %d low ones before the last of them; want all, and from %d to %d", n, urgent, before, urgent/14, urgent*2/3)
				} else {
					t.Logf("%d low ones started before the last of %d critical ones", before, urgent)
				}
			})
		})
	}
}

// TestOnlyWhatCanStartIsFetched: while every slot is taken, what waits for one in memory is what can start within a second.
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
			_, waiting := x.slots.use()
			if waiting[2] > 2*size/8 {
				t.Fatalf("%d wait for a slot in memory, want at most %d", waiting[2], 2*size/8)
			}
		}
	})
}

// TestSlotsAreCounted: the gauges tell how many slots are taken and who waits for one, and that nobody does when all have ended.
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
		// want checks the gauges: who is in hand and has no slot waits for one, some of waiters and of nobody else.
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

package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

// queued makes n runs wait for a slot; each notes who it is when it has one.
func queued(s *Slots, p schema.Priority, tenant string, n int, got *[]string, wg *sync.WaitGroup) {
	for range n {
		wg.Go(func() {
			if s.Acquire(context.Background(), p, tenant) {
				*got = append(*got, string(p)+tenant) // one at a time: there is one slot
			}
		})
		synctest.Wait()
	}
}

// TestSlotsFollowPriorities: while all priorities have work, of any 15 slots low is given one, and
// the others what their weights say; what one does not want goes to the others.
func TestSlotsFollowPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, time.Now)
		s.Acquire(t.Context(), schema.Low, "t")
		var got []string
		var wg sync.WaitGroup
		for _, p := range []schema.Priority{schema.Low, schema.Normal, schema.High, schema.Critical} { // the most urgent ones come last
			queued(s, p, "", 60, &got, &wg)
		}
		for range 240 {
			s.Release()
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
		if busy, waiting := s.InUse(); busy != 1 || waiting != [4]int{} {
			t.Errorf("use = %d busy, %v wait, want 1 and none", busy, waiting)
		}
	})
}

// TestTenantsTakeTurnsForSlots: within a priority a tenant with many runs in hand does not hold up
// one with few.
func TestTenantsTakeTurnsForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, time.Now)
		s.Acquire(t.Context(), schema.Normal, "x")
		var got []string
		var wg sync.WaitGroup
		queued(s, schema.Normal, "-much", 50, &got, &wg)
		queued(s, schema.Normal, "-little", 3, &got, &wg)
		for range 53 {
			s.Release()
			synctest.Wait()
		}
		wg.Wait()
		if n := len(slices.DeleteFunc(slices.Clone(got[:6]), func(g string) bool { return g == "normal-much" })); n != 3 {
			t.Errorf("of the first 6 slots %d went to the tenant with 3 runs, want 3: %v", n, got[:6])
		}
	})
}

// TestOnlyTenantsThatWaitAreRemembered: as many tenants as ever wait or have waited, those of whom
// nothing waits are gone with their last one, so that nobody who comes has to look for them.
func TestOnlyTenantsThatWaitAreRemembered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &NewSlots(1, time.Now).classes[2]
		waits := make(map[string]int)
		var seekers []*waiter
		gone := func(w *waiter) {
			tenant := w.client.tenant
			if waits[tenant]--; waits[tenant] == 0 {
				delete(waits, tenant)
			}
			seekers = slices.DeleteFunc(seekers, func(v *waiter) bool { return v == w })
		}
		tenants := rapid.IntRange(1, 600).Draw(t, "tenants")
		for range rapid.IntRange(1, 1000).Draw(t, "steps") {
			switch act := rapid.IntRange(0, 3).Draw(t, "act"); {
			case act >= 2 || len(seekers) == 0:
				tenant := fmt.Sprint("t-", rapid.IntRange(1, tenants).Draw(t, "tenant"))
				w := new(waiter)
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

// TestNoSlotIsLost: whoever comes and gives up, as many are in use as there are, and none is idle
// while somebody waits.
func TestNoSlotIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			size := rapid.IntRange(1, 5).Draw(rt, "slots")
			s := NewSlots(size, time.Now)
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
					if !s.Acquire(ctx, p, tenant) {
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
					s.Release()
				})
			}
			wg.Wait()
			if most > size || served < n-(n+2)/3 {
				t.Errorf("%d slots: %d in use at once, %d of %d served, want at most %d, and all that do not give up", size, most, served, n, size)
			}
			if busy, waiting := s.InUse(); busy != 0 || waiting != [4]int{} || s.waiting != 0 || s.round.Len() != 0 {
				t.Errorf("in the end %d are in use and %v wait, want none", busy, waiting)
			}
		})
	})
}

// TestASlotForAPriority: a slot is given back to a waiter of the priority that is named. If there
// is none it goes to whom it would have gone, and is free if nothing waits.
func TestASlotForAPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, time.Now)
		s.Acquire(t.Context(), schema.Low, "t")
		var got []string
		var wg sync.WaitGroup
		for range 2 {
			queued(s, schema.High, "", 1, &got, &wg)
			queued(s, schema.Low, "", 1, &got, &wg)
		}
		for range 4 {
			s.ReleaseTo(schema.Low)
			synctest.Wait()
		}
		wg.Wait()
		if want := []string{"low", "low", "high", "high"}; !slices.Equal(got, want) {
			t.Errorf("slots for low went to %v, want %v", got, want)
		}
		s.ReleaseTo(schema.Low)
		if busy, waiting := s.InUse(); busy != 0 || waiting != [4]int{} {
			t.Errorf("use = %d busy, %v wait, want none", busy, waiting)
		}
	})
}

// TestWhoFindsNoSlotMayFreeOne: who finds none free waits before it does what frees one, so that
// nobody else gets that.
func TestWhoFindsNoSlotMayFreeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := NewSlots(1, time.Now), 0
		free := func() {
			asked++
			s.ReleaseTo(schema.Critical)
		}
		if !s.AcquireOrElse(t.Context(), schema.Low, "t", free) || asked != 0 {
			t.Errorf("a slot was freed %d times while one was free, want never", asked)
		}
		var got []string
		var wg sync.WaitGroup
		queued(s, schema.High, "", 1, &got, &wg)
		if !s.AcquireOrElse(t.Context(), schema.Critical, "t", free) || asked != 1 || len(got) != 0 {
			t.Errorf("a slot was freed %d times, and %v have one that waited before; want once, for who freed it", asked, got)
		}
		s.Release()
		wg.Wait()
		if n := testing.AllocsPerRun(100, func() {
			s.Release()
			s.AcquireOrElse(t.Context(), schema.Critical, "t", free)
		}); n != 0 {
			t.Errorf("a free slot costs %v allocations, want none", n)
		}
	})
}

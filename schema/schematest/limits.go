package schematest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

var blockRules = []rule{
	{"never more slots of a limit are in use than there are, whatever is answered and whoever dies", func(b *bench) {
		const executors, steps, limit = 6, 12, 7
		s := &sharing{
			bench: b, limit: limit, dead: make(map[string]bool), key: schema.TaskLimit(schema.TaskName{Tenant: b.tenant, Name: "a"}),
			faulty: Faulty(b.store, Seeded(b.rnd.Uint64(), Odds{Delay: 0.1, Fail: 0.05, Lose: 0.15, MaxDelay: 5 * time.Millisecond})),
		}
		var wg sync.WaitGroup
		for i := range executors {
			rnd := rand.New(rand.NewPCG(b.rnd.Uint64(), uint64(i)))
			wg.Go(func() { s.take(i, steps, rnd) })
		}
		wg.Wait()
		lease, err := b.store.Lease(b.ctx, s.key.Lease())
		b.must(err, "Lease in the end")
		slots, err := lease.Slots()
		b.must(err, "Slots in the end")
		for _, block := range slots.Blocks {
			if !s.dead[block.Session] {
				b.Errorf("in the end %s has %d slots, and waits for %d", block.Session, block.Held, block.Wanted)
			}
		}
		if s.most == 0 {
			b.Error("no slot was in use at any time")
		}
		b.Logf("%d of %d slots were in use at once at most", s.most, limit)
	}},
}

// sharing is several executors that share a limit's slots.
type sharing struct {
	*bench
	faulty schema.Store
	key    schema.LimitKey
	limit  int

	mu    sync.Mutex
	dead  map[string]bool // sessions that were declared dead
	inUse int
	most  int
}

// use takes n more slots into use (or fewer, below 0).
func (s *sharing) use(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inUse += n
	if s.most = max(s.most, s.inUse); s.inUse > s.limit {
		s.Errorf("%d slots are in use, of %d", s.inUse, s.limit)
	}
}

func (s *sharing) live(ref schema.SessionRef) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead[ref.ID]
}

// take is executor i. In each step it wants some slots and uses what it has. In the end it gives
// back what it has.
func (s *sharing) take(i, steps int, rnd *rand.Rand) {
	life, busy := 0, 0
	var use int
	for step := range steps {
		session := fmt.Sprintf("%d-%d", i, life)
		want := rnd.IntN(2 * s.limit)
		if step == 0 {
			want = s.limit // somebody wants all of them
		}
		if got, ok := s.settle(s.faulty, session, busy, max(want, busy), &use, step%3 == 0); ok {
			use = got
		}
		if more := use - busy; more > 0 {
			busy += more
			s.use(more)
		}
		time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
		if rnd.IntN(8) == 0 { // it dies; what it began goes on until its session is declared dead
			s.use(-busy)
			s.mu.Lock()
			s.dead[session] = true
			s.mu.Unlock()
			life, busy, use = life+1, 0, 0
			continue
		}
		less := rnd.IntN(busy + 1)
		busy -= less
		s.use(-less)
	}
	s.use(-busy)
	for {
		if _, ok := s.settle(s.store, fmt.Sprintf("%d-%d", i, life), 0, 0, &use, false); ok {
			return
		}
	}
}

// settle asks for slots, and returns how many may be used then. False: that is not known, and what
// use says may still be used.
func (s *sharing) settle(store schema.Store, session string, busy, want int, use *int, over bool) (int, bool) {
	for range 20 {
		lease, err := store.Lease(s.ctx, s.key.Lease())
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return 0, false
		}
		slots, err := lease.Slots()
		s.must(err, "Slots")
		before := len(slots.Blocks)
		now := time.Now()
		slots.Prune(now, s.live)
		_, may, changed := slots.Apportion(schema.BlockRequest{Executor: "x", Session: session, Limit: s.limit, Busy: busy, Want: want, Over: over, Now: now})
		*use = min(*use, may) // what is given up is not used from here on
		if !changed && len(slots.Blocks) == before {
			return may, true
		}
		is, err := lease.WithSlots(slots, now)
		s.must(err, "WithSlots")
		is.Key = s.key.Lease()
		switch _, err := store.SwapLease(context.WithoutCancel(s.ctx), lease, is, time.Time{}); {
		case err == nil:
			return may, true
		case errors.Is(err, schema.ErrConflict), errors.Is(err, schema.ErrUnknown):
			time.Sleep(time.Millisecond)
		default:
			return 0, false
		}
	}
	return 0, false
}

var rateRules = []rule{
	// The lease of a rate is a register like others. That what is taken from it is each taken once,
	// also by those who were not answered, is what it is for.
	{"starts are taken once, by many at a time", func(b *bench) {
		task := schema.TaskName{Tenant: b.tenant, Name: "t"}
		rate := schema.Rate{Count: 50, Per: time.Second}
		const takers, blocks, each = 4, 5, 3
		var mu sync.Mutex
		var all []time.Time
		var wg sync.WaitGroup
		for taker := range takers {
			wg.Go(func() {
				lease := schema.Lease{Key: schema.RateLease(task, rate)}
				for block := 0; block < blocks; {
					is, starts := lease.Reserve(rate, each, b.now, time.Hour, fmt.Sprintf("%d-%d", taker, block))
					stands, err := b.store.SwapLease(b.ctx, lease, is, is.ReservationsExpire())
					if err == nil {
						mu.Lock()
						for i := range starts.Count {
							all = append(all, starts.At(i))
						}
						mu.Unlock()
						block++
					}
					if stands.Fence != 0 {
						lease = stands
					}
				}
			})
		}
		wg.Wait()
		slices.SortFunc(all, time.Time.Compare)
		if n := len(slices.Compact(slices.Clone(all))); n != takers*blocks*each {
			b.Fatalf("%d different starts, want %d", n, takers*blocks*each)
		}
		for i := range len(all) - rate.Count {
			if span := all[i+rate.Count].Sub(all[i]); span < rate.Per {
				b.Errorf("%d starts within %s", rate.Count+1, span)
			}
		}
	}},
}

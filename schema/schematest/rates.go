package schematest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

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

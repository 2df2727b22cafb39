package sim

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// aheads plans cursors that are moved into the future, as by a machine whose clock is wrong and does not know it.
func (w *world) aheads(wg *sync.WaitGroup) {
	rng := rand.New(rand.NewPCG(w.s.Seed, 7)) // #nosec G404 -- drawn from the seed
	for range w.s.Aheads {
		when := time.Duration(rng.Float64() * float64(w.s.Span))
		by := time.Minute + time.Duration(rng.Float64()*float64(9*time.Minute))
		shard := schema.Shard(rng.IntN(w.s.Shards)) // #nosec G115 -- a few
		wg.Go(func() {
			time.Sleep(when)
			ctx := context.Background() // the store itself has no faults
			c, err := w.c.store.Cursor(ctx, shard)
			if err == nil {
				c.Dispatched = schema.BucketOf(time.Now().Add(by))
				c.Settled = c.Dispatched
				err = w.c.store.AdvanceCursor(ctx, c)
			}
			if err != nil {
				panic(err)
			}
		})
	}
}

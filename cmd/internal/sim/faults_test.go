package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/schema"
)

// minStep and maxStep bound by how much a clock is set wrong at once.
const (
	minStep = 300 * time.Millisecond
	maxStep = 90 * time.Second
)

// minDown and maxDown bound how long a stopped node is away.
const (
	minDown = 3 * time.Second
	maxDown = 30 * time.Second
)

// planFaults plans kills, stops, freezes and lost streams.
func (w *world) planFaults(wg *sync.WaitGroup) {
	at := func() time.Duration { return time.Duration(w.rng.Float64() * float64(w.s.Span)) }
	for range w.s.Kills {
		n, when, back := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at(), time.Duration(w.rng.Float64()*float64(w.c.away))
		wg.Go(func() {
			time.Sleep(when)
			n.Kill()
			time.Sleep(back)
			if err := n.Start(); err != nil {
				panic(err)
			}
		})
	}
	for range w.s.Stops {
		n, when, back := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at(), minDown+time.Duration(w.rng.Float64()*float64(maxDown-minDown))
		wg.Go(func() {
			time.Sleep(when)
			n.Stop()
			time.Sleep(back)
			if err := n.Start(); err != nil {
				panic(err)
			}
		})
	}
	for range w.s.Freezes {
		n, when, back := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at(), time.Duration(w.rng.Float64()*float64(freezeLasts))
		wg.Go(func() {
			time.Sleep(when)
			n.Freeze()
			time.Sleep(back)
			n.Thaw()
		})
	}
	for range w.s.StreamLosses {
		when := at()
		wg.Go(func() {
			time.Sleep(when)
			w.mu.Lock()
			w.streamLosses = append(w.streamLosses, time.Now())
			w.mu.Unlock()
			w.c.broker.DeleteStream(0)
		})
	}
	w.steps(wg, at)
	w.planCursorsAhead(wg)
	w.cuts(wg)
}

// steps plans clocks that are set wrong and right again.
func (w *world) steps(wg *sync.WaitGroup, at func() time.Duration) {
	turn := w.s.Span / time.Duration(max(w.s.Steps, 1))
	for i := range w.s.Steps {
		n, when := w.c.nodes[w.rng.IntN(len(w.c.nodes))], at()
		back := time.Duration(w.rng.Float64() * float64(40*time.Second))
		if w.s.InTurn {
			when = turn*time.Duration(i) + time.Duration(w.rng.Float64()*float64(turn)/4)
			back = time.Duration(w.rng.Float64() * float64(turn) / 4)
		}
		size := minStep * time.Duration(math.Pow(float64(maxStep/minStep), w.rng.Float64())*1000) / 1000
		// What NTP may slew in the rest of the turn, half of the time.
		slew := w.rng.IntN(2) == 0 && float64(size) <= float64(turn)/2*slewRate
		if w.rng.IntN(2) == 0 {
			size = -size
		}
		wg.Go(func() {
			time.Sleep(when)
			n.Step(size)
			time.Sleep(back)
			if slew {
				n.Discipline()
				return
			}
			n.Correct()
		})
	}
}

// planCursorsAhead plans moves of cursors into the future, as a machine with a wrong clock would
// make them.
func (w *world) planCursorsAhead(wg *sync.WaitGroup) {
	rng := rand.New(rand.NewPCG(w.s.Seed, 7)) // #nosec G404 -- drawn from the seed
	for range w.s.CursorsAhead {
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

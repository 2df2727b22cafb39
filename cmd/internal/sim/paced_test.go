package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs of one task with a rate call an address of pacedSource.
const (
	pacedSource = "paced"
	pacedTask   = "paced"
	// pacedWindow is the span in which starts are counted, and pacedSlack for how much longer the rate may have been good: how far a start may lie from the
	// one that was taken for it (DESIGN 7).
	pacedWindow = 10 * time.Second
	pacedSlack  = 6 * time.Second
)

var pacedRate = schema.Rate{Count: 2, Per: time.Second}

// pace makes the task, and asks for its runs: most of them at once, many more than may start.
func (w *world) pace(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Paced == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 5)) // #nosec G404 -- drawn from the seed
	wg.Go(func() {
		time.Sleep(15 * time.Second) // until the shards have found their owners; the change is in force at once
		err := w.insist(func(b *bucketer.Bucketer) error {
			_, _, err := b.PutTask(ctx, schema.Task{Tenant: "default", Name: pacedTask, Rate: pacedRate.String(), Work: schema.Work{
				HTTP: &schema.HTTPTarget{URL: "http://sink/" + pacedSource + "/1"}, Timeout: schema.Duration(15 * time.Second),
			}})
			return err
		})
		if err != nil {
			return
		}
		w.mu.Lock()
		w.pacedFrom = time.Now()
		w.mu.Unlock()
		for line := range w.s.Paced {
			at := time.Time{}
			if line%3 > 0 {
				at = time.Now().Add(time.Duration(rng.Float64() * float64(20*time.Second)))
			}
			job := bucketer.Job{Tenant: "default", Task: pacedTask, At: at}
			if b := w.someNode(); b != nil {
				if r, err := b.Submit(ctx, job); err == nil {
					w.mu.Lock()
					w.paced = append(w.paced, r.Run)
					w.mu.Unlock()
				}
			}
			if line%20 == 19 {
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
}

// judgePaced judges that every acknowledged run of the task ended well, and that never more of them started than the rate allows.
func (w *world) judgePaced(ctx context.Context, b *bucketer.Bucketer, seen []check.Sighting) error {
	wrong := func(format string, args ...any) { w.out.Wrong = append(w.out.Wrong, fmt.Sprintf(format, args...)) }
	for _, id := range w.paced {
		run, err := b.Run(ctx, "default", id)
		if err != nil {
			return err
		}
		if ok := run.State == schema.StateSucceeded || w.s.Faults.Target > 0 && run.State == schema.StateFailed; !ok {
			wrong("run %s of a task with a rate is %s in the end", id, run.State)
		}
	}
	var starts []time.Time
	for _, s := range seen {
		starts = append(starts, s.At)
	}
	slices.SortFunc(starts, time.Time.Compare)
	most, limit := 0, pacedRate.In(pacedWindow+pacedSlack+2*w.off())+1
	for i, j := 0, 0; j < len(starts); j++ {
		for starts[j].Sub(starts[i]) >= pacedWindow {
			i++
		}
		most = max(most, j-i+1)
	}
	if most > limit {
		wrong("%d starts of a task with the rate %s within %s, want at most %d", most, pacedRate, pacedWindow, limit)
	}
	w.out.MostPaced = most
	if n := len(starts); w.s.Promise.Paced && n > 0 {
		should := time.Duration(n) * pacedRate.Per / time.Duration(pacedRate.Count)
		if took := starts[n-1].Sub(w.pacedFrom); took > should*10/9+5*time.Second {
			wrong("%d runs of a task with the rate %s took %s, promised nine tenths of the rate", n, pacedRate, took)
		}
	}
	return nil
}

package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs of one task with a rate call an address of ratedSource.
const (
	ratedSource = "paced"
	ratedTask   = "paced"
	// ratedWindow is the span in which starts are counted. A start may lie check.RateSlack away
	// from its reservation, so a window may hold that much more of the rate.
	ratedWindow = 10 * time.Second
)

var ratedRate = schema.Rate{Count: 2, Per: time.Second}

// askRated makes the task and asks for its runs, most of them at once: many more than may start.
func (w *world) askRated(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Rated == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 5)) // #nosec G404 -- drawn from the seed
	wg.Go(func() {
		// until the shards have found their owners; the change is in force at once
		time.Sleep(15 * time.Second)
		err := w.retry(func(b *engine.Engine) error {
			_, _, err := b.PutTask(ctx, schema.Task{Tenant: "default", Name: ratedTask, Rate: ratedRate.String(), Work: schema.Work{
				HTTP: &schema.HTTPTarget{URL: "http://sink/" + ratedSource + "/1"}, Timeout: schema.Duration(15 * time.Second),
			}})
			return err
		})
		if err != nil {
			return
		}
		w.mu.Lock()
		w.ratedFrom = time.Now()
		w.mu.Unlock()
		for line := range w.s.Rated {
			at := time.Time{}
			if line%3 > 0 {
				at = time.Now().Add(time.Duration(rng.Float64() * float64(20*time.Second)))
			}
			job := bucketer.Job{Tenant: "default", Task: ratedTask, At: at}
			if b := w.someNode(); b != nil {
				if r, err := b.Submit(ctx, job); err == nil {
					w.mu.Lock()
					w.rated = append(w.rated, r.Run)
					w.mu.Unlock()
				}
			}
			if line%20 == 19 {
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
}

// judgeRated judges that every acknowledged run of the task succeeded, and that never more started
// than the rate allows.
func (w *world) judgeRated(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	wrong := func(format string, args ...any) { w.out.Wrong = append(w.out.Wrong, fmt.Sprintf(format, args...)) }
	for _, id := range w.rated {
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
	most, limit := 0, ratedRate.In(ratedWindow+check.RateSlack+2*w.off())+1
	for i, j := 0, 0; j < len(starts); j++ {
		for starts[j].Sub(starts[i]) >= ratedWindow {
			i++
		}
		most = max(most, j-i+1)
	}
	if most > limit {
		wrong("%d starts of a task with the rate %s within %s, want at most %d", most, ratedRate, ratedWindow, limit)
	}
	w.out.MostRated = most
	if n := len(starts); w.s.Promise.Rated && n > 0 {
		should := time.Duration(n) * ratedRate.Per / time.Duration(ratedRate.Count)
		if took := starts[n-1].Sub(w.ratedFrom); took > should*10/9+5*time.Second {
			wrong("%d runs of a task with the rate %s took %s, promised nine tenths of the rate", n, ratedRate, took)
		}
	}
	return nil
}

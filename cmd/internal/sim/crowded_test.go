package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs of one task of which only so many may be under way at once call an address of crowdedSource, for up to limitedTook each.
const (
	crowdedSource = "crowded"
	crowdedTask   = "crowded"
	crowdedLimit  = 5
)

// crowd makes the task, and asks for its runs: at first many more than may be under way, then few.
func (w *world) crowd(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Crowded == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 6)) // #nosec G404 -- drawn from the seed
	wg.Go(func() {
		time.Sleep(15 * time.Second) // until the shards have found their owners; the change is in force at once
		work := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/" + crowdedSource + "/1"}, Timeout: schema.Duration(15 * time.Second)}
		if w.s.Guarantees {
			work.Guarantee = []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce}[rng.IntN(3)]
		}
		if err := w.insist(func(b *bucketer.Bucketer) error {
			_, _, err := b.PutTask(ctx, schema.Task{Tenant: "default", Name: crowdedTask, MaxConcurrent: crowdedLimit, Work: work})
			return err
		}); err != nil {
			return
		}
		for line := range w.s.Crowded {
			job := bucketer.Job{Tenant: "default", Task: crowdedTask}
			if line%3 > 0 {
				job.At = time.Now().Add(time.Duration(rng.Float64() * float64(20*time.Second)))
			}
			if b := w.someNode(); b != nil {
				if r, err := b.Submit(ctx, job); err == nil {
					w.mu.Lock()
					w.crowded = append(w.crowded, r.Run)
					w.mu.Unlock()
				}
			}
			if line > w.s.Crowded*2/3 {
				time.Sleep(time.Duration(rng.Float64() * float64(4*time.Second)))
			}
		}
	})
}

// judgeCrowded judges that never more runs of the task were under way than may, that every acknowledged one ended well, and that nobody has slots of it in the end.
func (w *world) judgeCrowded(ctx context.Context, b *bucketer.Bucketer, seen []check.Sighting) error {
	if w.s.Crowded == 0 {
		return nil
	}
	w.out.MostCrowded = atOnce(seen)
	if n := w.out.MostCrowded; n > crowdedLimit && w.s.Freezes+w.s.Steps == 0 {
		w.c.broken("%d runs of a task at once, which allows %d", n, crowdedLimit)
	}
	deadly := w.s.Kills+w.s.Freezes+w.s.Steps > 0 || w.s.Faults.Crash > 0
	for _, id := range w.crowded {
		run, err := b.Run(ctx, "default", id)
		if err != nil {
			return err
		}
		failed := run.State == schema.StateFailed && (w.s.Faults.Target > 0 || w.s.Guarantees && deadly) // a lost at_most_once attempt is the last
		if run.State != schema.StateSucceeded && !failed {
			w.c.broken("run %s of a task with a limit is %s in the end: %+v", id, run.State, run.Attempts)
		}
	}
	lease, err := w.c.store.Lease(ctx, schema.TaskLimit(schema.TaskName{Tenant: "default", Name: crowdedTask}).Lease())
	if err != nil {
		return fmt.Errorf("the slots of the task: %w", err)
	}
	slots, err := lease.Slots()
	if err != nil {
		return err
	}
	for _, block := range slots.Blocks {
		if s, err := w.c.store.Session(ctx, block.Executor); err == nil && s.ID == block.Session { // of one who is gone the next who wants some takes them
			w.c.broken("%s has %d slots of the task in the end, and wants %d", block.Executor, block.Held, block.Wanted)
		}
	}
	return nil
}

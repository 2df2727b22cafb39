package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/schema"
)

// Runs of one task of which only so many may be under way at once call an address of
// concurrentSource, for up to limitedTook each.
const (
	concurrentSource = "crowded"
	concurrentTask   = "crowded"
	concurrentLimit  = 5
)

// tenantQuota is how many runs of the tenant may be under way at once where it has a quota: fewer
// than its task and its jobs allow.
const tenantQuota = 4

// quotaOf is the quota of every tenant.
type quotaOf int

// Concurrency implements executor.Tenants.
func (q quotaOf) Concurrency(context.Context, string) (int, error) { return int(q), nil }

// AdmitScheduled implements executor.Tenants: there is no quota of runs a minute.
func (quotaOf) AdmitScheduled(context.Context, string) (time.Duration, error) { return 0, nil }

// judgeQuota judges that never more runs of the tenant were under way than its quota says. All of
// them are short: a call ends before the session of an executor that died does.
func (w *world) judgeQuota(seen []check.Sighting) {
	if n := atOnce(seen); w.s.Quota > 0 && n > w.s.Quota && w.s.Freezes+w.s.Steps == 0 {
		w.c.fault("%d runs of a tenant at once, whose quota is %d:%s", n, w.s.Quota, describeOverlap(seen, n))
	}
}

// askConcurrent makes the task and asks for its runs: first many more than may be under way, then
// few.
func (w *world) askConcurrent(ctx context.Context, wg *sync.WaitGroup) {
	if w.s.Concurrent == 0 {
		return
	}
	rng := rand.New(rand.NewPCG(w.s.Seed, 6)) // #nosec G404 -- drawn from the seed
	wg.Go(func() {
		// until the shards have found their owners; the change is in force at once
		time.Sleep(15 * time.Second)
		work := schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/" + concurrentSource + "/1"}, Timeout: schema.Duration(15 * time.Second)}
		if w.s.Guarantees {
			work.Guarantee = []schema.Guarantee{schema.AtLeastOnce, schema.AtMostOnce, schema.EffectivelyOnce}[rng.IntN(3)]
		}
		if err := w.retry(func(b *engine.Engine) error {
			_, _, err := b.PutTask(ctx, schema.Task{Tenant: "default", Name: concurrentTask, MaxConcurrent: concurrentLimit, Work: work})
			return err
		}); err != nil {
			return
		}
		for line := range w.s.Concurrent {
			job := bucketer.Job{Tenant: "default", Task: concurrentTask}
			if line%3 > 0 {
				job.At = time.Now().Add(time.Duration(rng.Float64() * float64(20*time.Second)))
			}
			if b := w.someNode(); b != nil {
				if r, err := b.Submit(ctx, job); err == nil {
					w.mu.Lock()
					w.concurrent = append(w.concurrent, r.Run)
					w.mu.Unlock()
				}
			}
			if line > w.s.Concurrent*2/3 {
				time.Sleep(time.Duration(rng.Float64() * float64(4*time.Second)))
			}
		}
	})
}

// judgeConcurrent judges that never more runs of the task were under way than allowed, that every
// acknowledged one succeeded, and that no executor holds slots in the end.
func (w *world) judgeConcurrent(ctx context.Context, b *engine.Engine, seen []check.Sighting) error {
	if w.s.Concurrent == 0 {
		return nil
	}
	w.out.MostConcurrent = atOnce(seen)
	if n := w.out.MostConcurrent; n > concurrentLimit && w.s.Freezes+w.s.Steps == 0 {
		w.c.fault("%d runs of a task at once, which allows %d", n, concurrentLimit)
	}
	deadly := w.s.Kills+w.s.Freezes+w.s.Steps > 0 || w.s.Faults.Crash > 0
	for _, id := range w.concurrent {
		run, err := b.Run(ctx, "default", id)
		if err != nil {
			return err
		}
		// a lost at_most_once attempt is the last
		failed := run.State == schema.StateFailed && (w.s.Faults.Target > 0 || w.s.Guarantees && deadly)
		if run.State != schema.StateSucceeded && !failed {
			w.c.fault("run %s of a task with a limit is %s in the end: %+v", id, run.State, run.Attempts)
		}
	}
	lease, err := w.c.store.Lease(ctx, schema.TaskLimit(schema.TaskName{Tenant: "default", Name: concurrentTask}).Lease())
	if err != nil {
		return fmt.Errorf("the slots of the task: %w", err)
	}
	slots, err := lease.Slots()
	if err != nil {
		return err
	}
	for _, block := range slots.Blocks {
		// of one who is gone, or has released them, the next who wants some takes them
		ref := schema.SessionRef{Executor: block.Executor, ID: block.Session, Home: block.Home, Epoch: block.Epoch}
		if s, err := w.c.store.Session(ctx, block.Executor); err == nil && s.Supports(ref, time.Now()) {
			w.c.fault("%s has %d slots of the task in the end, and wants %d", block.Executor, block.Held, block.Wanted)
		}
	}
	return nil
}

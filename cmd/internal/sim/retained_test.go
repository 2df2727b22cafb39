package sim

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// leftWithin is how long after its end all of a run has left whose tenant keeps its history for
// longRetention: its last entry may be due, and so be kept from, some minutes after its end, and
// what is written of an attempt stays for the time-out of its work longer.
const leftWithin = longHop + longTook + time.Minute + longRetention + bucketer.Outlast

// retainedFor is the retention of the tenant in days, of longRetention each.
func (s *Scenario) retainedFor() int {
	if s.Retained {
		return schema.MinRetention
	}
	return 0
}

// takeRetentionBack has the tenant keep its history for as long as the cluster does, while runs
// wait that were asked for before: they keep the retention that they have. When it returns, every
// node knows.
func (w *world) takeRetentionBack(ctx context.Context) error {
	if err := w.putTenant(ctx, schema.Tenant{Name: tenant}); err != nil {
		return err
	}
	time.Sleep(tenantKnown)
	for _, k := range w.long {
		k.leaves = true
	}
	return nil
}

// judgeLeft waits until the runs have left that were asked for while the tenant had a retention,
// and judges that nothing of them is there. The cluster would keep them for days.
func (w *world) judgeLeft(ctx context.Context) error {
	if !w.s.Retained {
		return nil
	}
	var last time.Time
	for _, k := range w.long {
		if k.ended.After(last) {
			last = k.ended
		}
	}
	time.Sleep(time.Until(last.Add(leftWithin)))
	reader, err := w.reader(ctx)
	if err != nil {
		return err
	}
	for _, k := range w.long {
		_, err := reader.Run(ctx, tenant, k.run)
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return err
		}
		attempts, err2 := w.c.store.Attempts(ctx, k.run.Partition(), []schema.RunID{k.run})
		if err2 != nil {
			return err2
		}
		there := err == nil || len(attempts) > 0
		switch {
		case there && k.leaves:
			w.c.fault("%s: of run %s, which ended %v ago, %d attempts are there, and its row is %t:\n%s",
				k.kind, k.run, time.Since(k.ended), len(attempts), err == nil, w.trace(ctx, k.run))
		case !there && !k.leaves:
			w.c.fault("%s: run %s, asked for after the retention was taken back, left with it", k.kind, k.run)
		}
	}
	return nil
}

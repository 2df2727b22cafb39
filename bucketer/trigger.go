package bucketer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// TriggerJob runs a job now, whatever its schedule says and also while it is paused; a cancelled job answers ErrFinished. The same key
// and body give the same run.
func (b *Bucketer) TriggerJob(ctx context.Context, tenant string, id schema.JobID, key, bodyHash string) (Receipt, error) {
	now := b.now()
	if _, err := b.ready(); err != nil {
		b.metrics.refused.WithLabelValues("not_ready").Inc()
		return Receipt{}, err
	}
	job, err := b.JobByID(ctx, tenant, id)
	if err != nil {
		return Receipt{}, err
	}
	if fault := job.Current.Fault; fault != nil {
		return Receipt{}, fmt.Errorf("trigger job %s: %w", id, fault)
	}
	if job.Current.State == schema.JobCancelled {
		return Receipt{}, fmt.Errorf("trigger job %s: %w", id, ErrFinished)
	}
	// What the job says may have been found good by a task that said something else. A task that is gone is no matter of its payload.
	if err := b.CheckTask(ctx, tenant, job.Current.Spec.Task, job.Current.Spec.Payload); err != nil && !errors.Is(err, ErrNoTask) {
		return Receipt{}, fmt.Errorf("trigger job %s: %w", id, err)
	}
	e, err := b.RunOf(&job, schema.TriggerManual, DueTime(time.Time{}, now), now)
	if err != nil {
		return Receipt{}, err
	}
	if err := b.room(&e); err != nil {
		return Receipt{}, err
	}
	if key != "" {
		return b.submitKeyed(ctx, &Job{Tenant: tenant, Key: key, BodyHash: bodyHash}, e, now)
	}
	return Receipt{Run: e.ID}, b.writeOne(ctx, e)
}

// asked makes a run of the job that its schedule did not name.
func (b *Bucketer) RunOf(job *schema.Job, trigger schema.Trigger, due, now time.Time) (schema.Entry, error) {
	spec := &job.Current.Spec
	id := schema.MakeEntryID(due, job.ID.Shard(), schema.RandomHash())
	return schema.NewEntry(id, schema.Spec{
		Tenant: spec.Tenant, Nominal: id.Time(), Accepted: now.UnixMicro(), Job: job.ID, JobName: spec.Name, Generation: job.Current.Number,
		Trigger: trigger, Priority: spec.Priority, Task: spec.Task, Work: spec.Work, Labels: spec.Labels, Concurrency: spec.Concurrency,
	}, spec.Payload, b.expiry(id.Time(), now))
}

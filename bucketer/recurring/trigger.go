package recurring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// TriggerJob is Trigger of the job with that id.
func (j *Changer) TriggerJob(
	ctx context.Context, tenant string, id schema.JobID, payload json.RawMessage, key, bodyHash string,
) (bucketer.Receipt, error) {
	job, err := j.JobByID(ctx, tenant, id)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	return j.Trigger(ctx, job, payload, key, bodyHash)
}

// Trigger runs a job now, whatever its schedule says and also while it is paused; a cancelled job
// answers ErrFinished. job was just read. payload is that of the run; nil means the job's. The same
// key and body give the same run.
func (j *Changer) Trigger(ctx context.Context, job schema.Job, payload json.RawMessage, key, bodyHash string) (bucketer.Receipt, error) {
	now, tenant, id := j.now(), job.Current.Spec.Tenant, job.ID
	if err := j.core.MayWrite(id.Shard()); err != nil {
		j.core.CountRefused("not_ready")
		return bucketer.Receipt{}, err
	}
	if fault := job.Current.Fault; fault != nil {
		return bucketer.Receipt{}, fmt.Errorf("trigger job %s: %w", id, fault)
	}
	if job.Current.State == schema.JobCancelled {
		return bucketer.Receipt{}, fmt.Errorf("trigger job %s: %w", id, bucketer.ErrFinished)
	}
	// The task may have changed since the payload was checked. A task that does not exist is no
	// fault of the payload: the run will say so.
	if payload != nil {
		job.Current.Spec.Payload = payload
	}
	if err := j.core.CheckTask(ctx, tenant, job.Current.Spec.Task, job.Current.Spec.Payload); err != nil && !errors.Is(err, bucketer.ErrNoTask) {
		return bucketer.Receipt{}, fmt.Errorf("trigger job %s: %w", id, err)
	}
	e, err := j.RunOf(&job, schema.TriggerManual, bucketer.DueTime(time.Time{}, now), now)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if err := j.core.TakeRoom(&e); err != nil {
		return bucketer.Receipt{}, err
	}
	if key != "" {
		return j.core.SubmitKeyed(ctx, &bucketer.Job{Tenant: tenant, Key: key, BodyHash: bodyHash}, e, now)
	}
	return bucketer.Receipt{Run: e.ID, Entry: &e}, j.core.WriteNew(ctx, e)
}

// RunOf makes a run of the job that its schedule did not name.
func (j *Reader) RunOf(job *schema.Job, trigger schema.Trigger, due, now time.Time) (schema.Entry, error) {
	spec := &job.Current.Spec
	id := schema.MakeEntryID(due, job.ID.Shard(), schema.RandomHash())
	says := schema.Spec{
		Tenant: spec.Tenant, Nominal: id.Time(), Accepted: now.UnixMicro(), Job: job.ID, JobName: spec.Name, Generation: job.Current.Number,
		Trigger: trigger, Priority: spec.Priority, Task: spec.Task, Work: spec.Work, Labels: spec.Labels, Concurrency: spec.Concurrency,
		Workflow: spec.WorkflowRun(), PauseAfter: spec.PauseAfter, Everywhere: spec.Durability == schema.DurableEverywhere,
		CreatedBy: spec.CreatedBy, Retention: j.core.RetentionOf(spec.Tenant),
	}
	return schema.NewEntry(id, says, spec.Payload, j.core.ExpiryOf(&says, id.Time(), now))
}

package runs

import (
	"context"
	"errors"
	"fmt"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// ErrNotFinished: the run has not ended, and cannot be run again (409).
var ErrNotFinished = errors.New("the run has not ended")

// ErrWaitsForJobs: the run waits until other jobs have ended, and cannot be changed before (409).
var ErrWaitsForJobs = errors.New("the run waits for other jobs")

// workflows is what package orchestration does with workflow runs.
type workflows struct {
	retry func(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error)
	waits func(ctx context.Context, runs []*Run) (reads int, err error) // nil: nobody knows
}

// RetryWorkflows says how runs of workflows are run again. It must be called before any is.
func (r *Runs) RetryWorkflows(f func(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error)) {
	r.Control.workflows.retry = f
}

// AskWaits says how it is found out which workflow runs that are under way do nothing but wait: f sets
// Run.Waits, and returns about how many reads it took. It must be called before any is listed.
func (r *Runs) AskWaits(f func(ctx context.Context, runs []*Run) (reads int, err error)) {
	r.Reader.workflows.waits = f
}

// Retry runs a run that has ended again, now, as a new one-off run of the same work, payload and name
// of a job, whose origin it is. The same key gives the same run. A dead letter of the run goes on
// waiting: only Replay and Discard settle one, at the home of its tenant.
func (c *Control) Retry(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error) {
	run, err := c.reader.Run(ctx, tenant, id)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if !run.State.Terminal() {
		return bucketer.Receipt{}, fmt.Errorf("retry run %s: %w", id, ErrNotFinished)
	}
	payload, err := c.reader.Payload(ctx, run)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if st := run.Entry.Spec.Step; st != nil && !st.Starts() {
		return bucketer.Receipt{}, fmt.Errorf("retry run %s: the step calls nothing: %w", id, bucketer.ErrFinished)
	}
	if run.Entry.Spec.Workflow != nil {
		return c.workflows.retry(ctx, tenant, id, key)
	}
	s := &run.Current.Spec
	job := bucketer.Job{
		Tenant: tenant, Task: s.Task, Work: s.Work, Priority: s.Priority, Misfire: s.Misfire, Labels: s.Labels, Payload: payload,
		JobName: run.Entry.Spec.JobName, Trigger: schema.TriggerRetry, Origin: id, OriginJob: run.Entry.Spec.ListedWith(),
		RequireRegion: s.RequireRegion, Durability: schema.OfEntry(s), CreatedBy: s.CreatedBy,
	}
	if key != "" {
		job.Key, job.BodyHash = key, "retry "+id.String()
	}
	return c.core.Submit(ctx, job)
}

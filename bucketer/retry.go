package bucketer

import (
	"context"
	"errors"
	"fmt"

	"carillon.dev/carillon/schema"
)

// ErrNotFinished: the run has not ended, and cannot be run again (409).
var ErrNotFinished = errors.New("the run has not ended")

// Retry runs a run that has ended again, now: as a new one-off run, of the same work and payload, whose origin it is. The same key gives the
// same run.
func (b *Bucketer) Retry(ctx context.Context, tenant string, id schema.RunID, key string) (Receipt, error) {
	run, err := b.Run(ctx, tenant, id)
	if err != nil {
		return Receipt{}, err
	}
	if !run.State.Terminal() {
		return Receipt{}, fmt.Errorf("retry run %s: %w", id, ErrNotFinished)
	}
	payload, err := b.Payload(ctx, run)
	if err != nil {
		return Receipt{}, err
	}
	s := &run.Current.Spec
	job := Job{
		Tenant: tenant, Task: s.Task, Work: s.Work, Priority: s.Priority, Misfire: s.Misfire, Labels: s.Labels, Payload: payload,
		Trigger: schema.TriggerRetry, Origin: id,
	}
	if key != "" {
		job.Key, job.BodyHash = key, "retry "+id.String()
	}
	return b.Submit(ctx, job)
}

package recurring

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

// subscribe has a job hear of the event that it is to run on, before its row says so.
func (j *upkeep) subscribe(ctx context.Context, job *schema.Job) error {
	on := job.Current.Spec.On
	if on == nil {
		if err := j.useCalendars(ctx, job); err != nil {
			return err
		}
		return j.follow(ctx, job)
	}
	if schema.IsSystemEvent(on.Event) {
		if err := j.store.PutListening(ctx, job.Current.Spec.Tenant, time.UnixMicro(job.Current.Number)); err != nil {
			return err
		}
	}
	return j.store.PutSubscription(ctx, schema.Subscription{
		Tenant: job.Current.Spec.Tenant, Event: on.Event, Subscriber: schema.EntryID(job.ID), Written: time.UnixMicro(job.Current.Number),
	})
}

// unsubscribe removes the subscription of a job to an event that it does not run on any more. If
// that fails, the job is asked in vain.
func (j *upkeep) unsubscribe(ctx context.Context, was, is *schema.Job) {
	on := was.Current.Spec.On
	if on == nil || !is.Current.State.Ended() && is.Current.Spec.On != nil && is.Current.Spec.On.Event == on.Event {
		return
	}
	err := j.store.DeleteSubscription(ctx, schema.Subscription{
		Tenant: was.Current.Spec.Tenant, Event: on.Event, Subscriber: schema.EntryID(was.ID), Written: time.UnixMicro(is.Current.Number - 1),
	})
	if err != nil {
		j.log.Debug("a job stays subscribed to an event that it does not run on", "job", was.ID, "event", on.Event, "err", err)
	}
}

// follow has a job hear of the ends of the runs of others, before its row says so.
func (j *upkeep) follow(ctx context.Context, job *schema.Job) error {
	after := job.Current.Spec.After
	if after == nil {
		return nil
	}
	for _, u := range after.Jobs {
		err := j.store.PutSubscription(ctx, schema.Subscription{
			Tenant: job.Current.Spec.Tenant, Event: schema.EndOf(u.Job), Subscriber: schema.EntryID(job.ID), Written: time.UnixMicro(job.Current.Number),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unfollow has a job not hear any more of jobs that it does not run after. If that fails, it is asked
// in vain.
func (j *upkeep) unfollow(ctx context.Context, was, is *schema.Job) {
	after := was.Current.Spec.After
	if after == nil {
		return
	}
	for _, u := range after.Jobs {
		if !is.Current.State.Ended() && is.Current.Spec.After.Has(u.Job) {
			continue
		}
		err := j.store.DeleteSubscription(ctx, schema.Subscription{
			Tenant: was.Current.Spec.Tenant, Event: schema.EndOf(u.Job), Subscriber: schema.EntryID(was.ID), Written: time.UnixMicro(is.Current.Number - 1),
		})
		if err != nil {
			j.log.Debug("a job goes on hearing of one that it does not run after", "job", was.ID, "upstream", u.Job, "err", err)
		}
	}
}

package engine

import (
	"context"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// What somebody asks for by these methods is acknowledged once every region holds it, if its
// durability is everywhere (schema.DurableEverywhere). New one-off jobs, triggered runs and events
// are confirmed where they are written (bucketer.WriteNew). The parts call each other beside these
// methods: what follows from a run is confirmed nowhere, so that runs go on while a region is cut
// off.
//
//	new        nothing is written while a region is known not to answer
//	a change   it is written here in any case, and acts here; the answer tells that another region
//	           may not know
//
// Not confirmed are tasks, tenants, keys and secrets: they are one for all regions, in force in
// each within 10 s of the answer, and what was changed just before a region is lost may have to be
// changed again. Nor are resolutions of dead letters, operations and what they change, and steps
// that are skipped by hand (deploy/REGIONS.md).

// Cancel is runs.Control.Cancel.
func (e *Engine) Cancel(ctx context.Context, tenant string, id schema.RunID, by string) (runs.Run, error) {
	run, err := e.runParts.Cancel(ctx, tenant, id, by)
	if err == nil {
		err = e.confirmRun(ctx, &run)
	}
	return run, err
}

// Reschedule is runs.Control.Reschedule.
func (e *Engine) Reschedule(ctx context.Context, tenant string, id schema.RunID, change runs.Change) (runs.Run, error) {
	run, err := e.runParts.Reschedule(ctx, tenant, id, change)
	if err == nil {
		err = e.confirmRun(ctx, &run)
	}
	return run, err
}

// confirmRun has every region hold a run that was changed: its row with its marks, and that of the
// entry which starts it.
func (e *Engine) confirmRun(ctx context.Context, run *runs.Run) error {
	rows := schema.Copies{Entries: []schema.EntryID{run.ID}}
	if at := run.Current.ID; !at.IsZero() && at != run.ID {
		rows.Entries = append(rows.Entries, at)
	}
	if !run.Entry.Spec.Everywhere {
		return nil
	}
	return e.confirm(ctx, run.ID.Shard(), rows)
}

// confirm has every region hold rows of a shard, which our region may acknowledge after that.
func (e *Engine) confirm(ctx context.Context, shard schema.Shard, rows schema.Copies) error {
	if err := e.Regions().Confirm(ctx, true, rows); err != nil {
		return err
	}
	return e.Regions().Acknowledges(shard)
}

// CreateJob is recurring.Creator.CreateJob.
func (e *Engine) CreateJob(ctx context.Context, spec schema.JobSpec, key, bodyHash string) (job schema.Job, existing bool, err error) {
	if spec.Durability, err = e.newDurability(ctx, &spec); err != nil {
		return schema.Job{}, false, err
	}
	job, existing, err = e.jobs.CreateJob(ctx, spec, key, bodyHash)
	if err == nil {
		err = e.confirmJob(ctx, &job, isEverywhere(&spec), key)
	}
	return job, existing, err
}

// CreateJobs makes each of many jobs as CreateJob does. Those that can share batches (see
// recurring.SharesBatches), and are not to be held everywhere before they are answered; the others
// cost what CreateJob costs. answer is called exactly once for each, in any order, from any
// goroutine, before CreateJobs returns. A job that fails does not stop the others.
func (e *Engine) CreateJobs(ctx context.Context, all []recurring.Creation, answer func(i int, job schema.Job, existing bool, err error)) {
	var alone errgroup.Group
	alone.SetLimit(createdAtOnce)
	var specs []schema.JobSpec
	var places []int
	for i := range all {
		c := &all[i]
		if recurring.SharesBatches(&c.Spec, c.Key) {
			d, err := e.newDurability(ctx, &c.Spec)
			if err != nil {
				answer(i, schema.Job{}, false, err)
				continue
			}
			if d != schema.DurableEverywhere {
				c.Spec.Durability = d
				specs, places = append(specs, c.Spec), append(places, i)
				continue
			}
		}
		alone.Go(func() error {
			job, existing, err := e.CreateJob(ctx, c.Spec, c.Key, c.BodyHash)
			answer(i, job, existing, err)
			return nil
		})
	}
	if len(specs) > 0 {
		e.jobs.CreateJobs(ctx, specs, func(k int, job schema.Job, err error) { answer(places[k], job, false, err) })
	}
	_ = alone.Wait() // each job was answered
}

// createdAtOnce bounds the jobs of one CreateJobs that are being made each by itself.
const createdAtOnce = 16

// PutJob is recurring.Changer.PutJob.
func (e *Engine) PutJob(ctx context.Context, tenant, name string, ifMatch int64, spec schema.JobSpec) (job schema.Job, created bool, err error) {
	spec.Tenant = tenant
	if spec.Durability, err = e.newDurability(ctx, &spec); err != nil {
		return schema.Job{}, false, err
	}
	job, created, err = e.jobs.PutJob(ctx, tenant, name, ifMatch, spec)
	if err == nil {
		err = e.confirmJob(ctx, &job, isEverywhere(&spec), "")
	}
	return job, created, err
}

// ChangeJob is recurring.Changer.ChangeJob.
func (e *Engine) ChangeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64, change func(*schema.JobSpec) error) (schema.Job, error) {
	return e.changed(ctx)(e.jobs.ChangeJob(ctx, tenant, id, ifMatch, func(s *schema.JobSpec) error {
		err := change(s)
		if err == nil {
			s.Durability, err = e.Regions().DurabilityOf(ctx, tenant, s.Durability)
		}
		return err
	}))
}

// PauseJob is recurring.Changer.PauseJob.
func (e *Engine) PauseJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return e.changed(ctx)(e.jobs.PauseJob(ctx, tenant, id, ifMatch))
}

// ResumeJob is recurring.Changer.ResumeJob.
func (e *Engine) ResumeJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return e.changed(ctx)(e.jobs.ResumeJob(ctx, tenant, id, ifMatch))
}

// CancelJob is recurring.Changer.CancelJob.
func (e *Engine) CancelJob(ctx context.Context, tenant string, id schema.JobID, ifMatch int64) (schema.Job, error) {
	return e.changed(ctx)(e.jobs.CancelJob(ctx, tenant, id, ifMatch))
}

// changed has every region hold a job that was changed without an error.
func (e *Engine) changed(ctx context.Context) func(schema.Job, error) (schema.Job, error) {
	return func(job schema.Job, err error) (schema.Job, error) {
		if err == nil {
			err = e.confirmJob(ctx, &job, false, "")
		}
		return job, err
	}
}

// newDurability returns the durability in force for a job that is to be made or replaced. If every
// region is to hold it, they must answer as far as is known.
func (e *Engine) newDurability(ctx context.Context, spec *schema.JobSpec) (schema.Durability, error) {
	d, err := e.Regions().DurabilityOf(ctx, spec.Tenant, spec.Durability)
	if err == nil && d == schema.DurableEverywhere {
		if err = e.Regions().ServesTenant(spec.Tenant); err == nil { // else it is for another region to say
			err = e.Regions().Ready(true)
		}
	}
	return d, err
}

func isEverywhere(s *schema.JobSpec) bool { return s.Durability == schema.DurableEverywhere }

// confirmJob has every region hold a job: its row, its place in the list, its name, by what it
// hears of others, its next run, and the key that it was made with. One that was everywhere until
// now is confirmed too.
func (e *Engine) confirmJob(ctx context.Context, job *schema.Job, asked bool, key string) error {
	spec := &job.Current.Spec
	if !asked && !isEverywhere(spec) && (job.Before == nil || !isEverywhere(&job.Before.Spec)) {
		return nil
	}
	rows := schema.Copies{Jobs: []schema.JobID{job.ID}, Listed: []schema.JobID{job.ID}, Tenant: spec.Tenant}
	if key != "" {
		rows.Keys = []schema.TenantName{{Tenant: spec.Tenant, Name: key}}
	}
	if spec.Name != "" {
		rows.Names = []schema.TenantName{{Tenant: spec.Tenant, Name: spec.Name}}
	}
	hears := func(event string) {
		rows.Subscriptions = append(rows.Subscriptions, schema.Subscription{Tenant: spec.Tenant, Event: event, Subscriber: schema.EntryID(job.ID)})
	}
	if spec.On != nil {
		hears(spec.On.Event)
	}
	if spec.After != nil {
		for _, u := range spec.After.Jobs {
			hears(schema.EndOf(u.Job))
		}
	}
	if next, ok := e.NextRun(*job, e.Now()); ok {
		rows.Entries = []schema.EntryID{next.ID}
	}
	return e.confirm(ctx, job.ID.Shard(), rows)
}

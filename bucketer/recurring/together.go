package recurring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

const (
	// groupsAtOnce bounds the groups of one CreateJobs that are being written.
	groupsAtOnce = 8
	// firstsAtOnce bounds the batches of first occurrences of a group that are being written.
	firstsAtOnce = 8
)

// SharesBatches reports whether a job of this spec and key can be made by CreateJobs. It cannot if
// something is to be written under a condition first, or if it is to hear of something.
func SharesBatches(spec *schema.JobSpec, key string) bool {
	return key == "" && spec.Name == "" && spec.After == nil && spec.On == nil && len(calendarsOf(spec)) == 0
}

// CreateJobs makes jobs as CreateJob does each without a key, in batches that they share. Each of
// the specs SharesBatches. answer is called exactly once for each, in any order, from any
// goroutine, before CreateJobs returns. A job that fails does not stop those of other groups.
//
// A group is up to bucketer.BatchRows jobs of one tenant, all in one shard, which is drawn for it.
// Each group is written as one job is: all places in the list and all first occurrences, and then
// all rows of jobs, one batch. So what a crash leaves is of each job what CreateJob leaves.
//
//	a group of n jobs costs        batches
//	their places in the list       1
//	their first occurrences        1 where they fall into one minute, about n/50 over a day
//	their rows                     1
//
// A group that fails fails as a whole. After an error that is an ErrUnknown any of its jobs may
// have been made.
func (j *Creator) CreateJobs(ctx context.Context, specs []schema.JobSpec, answer func(i int, job schema.Job, err error)) {
	settings, err := j.core.InForce()
	if err != nil {
		for i := range specs {
			j.core.CountRefused("not_ready")
			answer(i, schema.Job{}, err)
		}
		return
	}
	now := j.now()
	filling := make(map[string]*group) // by tenant
	var written errgroup.Group
	written.SetLimit(groupsAtOnce)
	write := func(g *group) {
		written.Go(func() error {
			j.createGroup(ctx, g, specs, answer)
			return nil
		})
	}
	for i := range specs {
		tenant := specs[i].Tenant
		g, ok := filling[tenant]
		if !ok {
			shard, err := j.core.Regions().Draw(tenant, settings.Shards)
			if err != nil {
				answer(i, schema.Job{}, err)
				continue
			}
			g = &group{tenant: tenant, shard: shard, began: now}
			filling[tenant] = g
		}
		made, err := j.newJob(ctx, specs[i], g.shard, now)
		if err != nil {
			answer(i, schema.Job{}, err)
			continue
		}
		made.i = i
		if g.jobs = append(g.jobs, made); len(g.jobs) == bucketer.BatchRows {
			delete(filling, tenant)
			write(g)
		}
	}
	for _, g := range filling {
		write(g)
	}
	_ = written.Wait() // each job was answered
}

// group is new jobs of one tenant and shard, which are written together.
type group struct {
	tenant string
	shard  schema.Shard
	began  time.Time
	jobs   []newJob
}

// newJob is a job that is to be made.
type newJob struct {
	i     int // where it stands in the request
	job   schema.Job
	first []schema.Entry // its first occurrence; a job without a schedule has none
}

// newJob makes, without writing it, a job and its first occurrence.
func (j *Creator) newJob(ctx context.Context, spec schema.JobSpec, shard schema.Shard, now time.Time) (newJob, error) {
	if err := j.core.CheckTask(ctx, spec.Tenant, spec.Task, spec.Payload); err != nil {
		return newJob{}, err
	}
	id, err := j.define(ctx, &spec, shard, now)
	if err != nil {
		return newJob{}, err
	}
	made := newJob{job: schema.Job{ID: id, Current: schema.Generation{Number: firstGeneration(id), State: schema.JobActive, Spec: spec}}}
	s, nominal, ok, err := firstBy(j.series.once, &made.job)
	switch {
	case err != nil:
		return newJob{}, err
	case spec.Schedule != nil && !ok:
		return newJob{}, noTimeToCome()
	case s == nil:
		return made, nil
	}
	row, err := j.occurrence(s, nominal, now)
	made.first = []schema.Entry{row}
	return made, err
}

// define draws the id of a new job, and completes its spec.
func (j *Creator) define(ctx context.Context, spec *schema.JobSpec, shard schema.Shard, now time.Time) (schema.JobID, error) {
	id := schema.MakeJobID(now, shard, schema.RandomHash())
	created := now.UTC().Truncate(time.Millisecond)
	spec.Created, spec.Updated = created, created
	if err := j.resolveCalendars(ctx, spec); err != nil {
		return id, err
	}
	return id, complete(id, spec, created)
}

func noTimeToCome() error {
	return schedule.Faults{{Location: "end", Message: "leaves no time to come"}}
}

// createGroup makes the jobs of a group and answers each.
func (j *Creator) createGroup(ctx context.Context, g *group, specs []schema.JobSpec, answer func(i int, job schema.Job, err error)) {
	if len(g.jobs) == 0 {
		return
	}
	err := j.writeGroup(ctx, g)
	if errors.Is(err, schema.ErrTooLarge) { // one of them is, and no job was made
		for k := range g.jobs {
			job, _, err := j.CreateJob(ctx, specs[g.jobs[k].i], "", "")
			answer(g.jobs[k].i, job, err)
		}
		return
	}
	now := j.now()
	for k := range g.jobs {
		made, err := &g.jobs[k], err
		job := made.job
		if err == nil && (now.Sub(g.began) > slowCreation || len(made.first) > 0 && now.After(made.first[0].Due().Add(bucketer.LateAfter))) {
			job, err = j.createdLate(ctx, job, now)
		}
		if err == nil {
			err = j.core.Regions().Acknowledges(g.shard)
		}
		if err != nil {
			job = schema.Job{}
		}
		answer(made.i, job, err)
	}
}

// writeGroup lists the jobs of a group and holds their first occurrences, both at once, and then
// their rows.
func (j *Creator) writeGroup(ctx context.Context, g *group) error {
	ids, jobs := make([]schema.JobID, len(g.jobs)), make([]schema.Job, len(g.jobs))
	var firsts []schema.Entry
	for k := range g.jobs {
		made := &g.jobs[k]
		ids[k], jobs[k] = made.job.ID, made.job
		firsts = append(firsts, made.first...)
	}
	var listing sync.WaitGroup
	var unlisted error
	listing.Go(func() { unlisted = j.store.ListJobs(ctx, g.tenant, ids) })
	err := j.putFirsts(ctx, firsts)
	listing.Wait()
	switch {
	case err != nil:
		return fmt.Errorf("first runs: %w", err)
	case unlisted != nil:
		return fmt.Errorf("list jobs: %w", unlisted)
	}
	j.core.CountWritten(firsts)
	if err := j.createRows(ctx, jobs); err != nil {
		return err
	}
	j.hintSoon(firsts)
	return nil
}

// putFirsts holds first occurrences, in as few batches as their partitions allow.
func (j *Creator) putFirsts(ctx context.Context, rows []schema.Entry) error {
	var put errgroup.Group
	put.SetLimit(firstsAtOnce)
	for _, batch := range bucketer.Batches(rows) {
		put.Go(func() error { return j.core.PutRows(ctx, bucketer.Pick(rows, batch)) })
	}
	return put.Wait()
}

// createRows writes the rows of new jobs. Writing them again finds out what became of them, or does
// it. If that fails too, any of them may be there: the error is an ErrUnknown.
func (j *Creator) createRows(ctx context.Context, jobs []schema.Job) error {
	inDoubt := func(err error) bool {
		return errors.Is(err, schema.ErrUnknown) || errors.Is(err, schema.ErrUnavailable) && !errors.Is(err, schema.ErrNotServed)
	}
	err := j.store.CreateJobs(ctx, jobs)
	if !inDoubt(err) {
		return err
	}
	if ctx.Err() == nil {
		if err = j.store.CreateJobs(ctx, jobs); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
}

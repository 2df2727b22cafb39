package httpapi

import (
	"context"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// A viewer sees that a call carries a header, and not its value: that is where the secrets of the
// callee are. Who may change a task or a job may read them, since a change starts from what there
// is.

// discreet reports whether the values of headers are to be hidden from the caller.
func discreet(ctx context.Context) bool { return callerOf(ctx).role == schema.Viewer }

// hideIn hides the values of headers in a work that others hold as well.
func hideIn(w **schema.Work) {
	if *w != nil {
		h := withoutSecrets(**w)
		*w = &h
	}
}

// discreetTasks hides secrets of tasks.
type discreetTasks struct{ tasks }

func (d discreetTasks) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	t, err := d.tasks.Task(ctx, tenant, name)
	if discreet(ctx) {
		t.Work = withoutSecrets(t.Work)
	}
	return t, err
}

func (d discreetTasks) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	all, err := d.tasks.Tasks(ctx, tenant, after, limit)
	if discreet(ctx) {
		for i := range all {
			all[i].Work = withoutSecrets(all[i].Work)
		}
	}
	return all, err
}

// discreetRuns hides secrets of one-off jobs.
type discreetRuns struct{ allRuns }

// allRuns is Runs under a name that does not hide its method Runs.
type allRuns = Runs

func (d discreetRuns) Run(ctx context.Context, tenant string, id schema.RunID) (runs.Run, error) {
	r, err := d.allRuns.Run(ctx, tenant, id)
	if discreet(ctx) {
		hideIn(&r.Entry.Spec.Work)
		hideIn(&r.Current.Spec.Work)
	}
	return r, err
}

// discreetRecurring hides secrets of jobs that can have many runs.
type discreetRecurring struct{ Recurring }

func hideInJob(j *schema.Job) {
	hideIn(&j.Current.Spec.Work)
	if j.Before != nil {
		before := *j.Before
		hideIn(&before.Spec.Work)
		j.Before = &before
	}
}

func (d discreetRecurring) JobByID(ctx context.Context, tenant string, id schema.JobID) (schema.Job, error) {
	j, err := d.Recurring.JobByID(ctx, tenant, id)
	if discreet(ctx) {
		hideInJob(&j)
	}
	return j, err
}

func (d discreetRecurring) JobByName(ctx context.Context, tenant, name string) (schema.Job, error) {
	j, err := d.Recurring.JobByName(ctx, tenant, name)
	if discreet(ctx) {
		hideInJob(&j)
	}
	return j, err
}

func (d discreetRecurring) ListJobs(ctx context.Context, tenant string, f recurring.JobFilter, before schema.JobID, limit int) ([]schema.Job, *schema.JobID, error) {
	all, next, err := d.Recurring.ListJobs(ctx, tenant, f, before, limit)
	if discreet(ctx) {
		for i := range all {
			hideInJob(&all[i])
		}
	}
	return all, next, err
}

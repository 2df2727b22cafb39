package httpapi

import (
	"context"
	"net/url"

	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// A viewer sees that a call carries a header, but not the header's value, which may be a secret of
// the callee. A caller that may change a task or a job may read the values, because a change starts
// from what there is.

// redacts reports whether the values of headers are to be hidden from the caller.
func redacts(ctx context.Context) bool { return callerOf(ctx).role == schema.Viewer }

// redactWork replaces a work, which others may hold, by a copy without the values of headers.
func redactWork(w **schema.Work) {
	if *w != nil {
		h := withoutSecrets(**w)
		*w = &h
	}
}

// redactRun is redactWork for the work of a run with those labels. Of a message of a rule for
// notifications the URL goes as well, but its host.
func redactRun(w **schema.Work, labels map[string]string) {
	redactWork(w)
	if *w != nil && (*w).HTTP != nil && postsByURL(labels) {
		h := *(*w).HTTP
		h.URL = hostAlone(h.URL)
		(*w).HTTP = &h
	}
}

// postsByURL reports whether a run with those labels is a message to a sink: its URL may let
// everybody post who knows it.
func postsByURL(labels map[string]string) bool {
	return labels[notifications.RuleLabel] != "" && labels[notifications.SinkLabel] != ""
}

// hostAlone returns a URL without what follows its host, which lets others post; "" stays "".
func hostAlone(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return hidden
	}
	return u.Scheme + "://" + u.Host + "/" + hidden
}

// redactedTasks redacts tasks.
type redactedTasks struct{ tasks }

func (r redactedTasks) Task(ctx context.Context, tenant, name string) (schema.Task, error) {
	t, err := r.tasks.Task(ctx, tenant, name)
	if redacts(ctx) {
		t.Work = withoutSecrets(t.Work)
	}
	return t, err
}

func (r redactedTasks) Tasks(ctx context.Context, tenant, after string, limit int) ([]schema.Task, error) {
	all, err := r.tasks.Tasks(ctx, tenant, after, limit)
	if redacts(ctx) {
		for i := range all {
			all[i].Work = withoutSecrets(all[i].Work)
		}
	}
	return all, err
}

// redactedRuns redacts one-off jobs.
type redactedRuns struct{ allRuns }

// allRuns is Runs under a name that does not hide its method Runs.
type allRuns = Runs

func (r redactedRuns) Run(ctx context.Context, tenant string, id schema.RunID) (runs.Run, error) {
	run, err := r.allRuns.Run(ctx, tenant, id)
	if redacts(ctx) {
		redactRun(&run.Entry.Spec.Work, run.Entry.Spec.Labels)
		redactRun(&run.Current.Spec.Work, run.Current.Spec.Labels)
	}
	return run, err
}

// redactedRecurring redacts jobs that can have many runs.
type redactedRecurring struct{ Recurring }

func redactJob(j *schema.Job) {
	redactWork(&j.Current.Spec.Work)
	if j.Before != nil {
		before := *j.Before
		redactWork(&before.Spec.Work)
		j.Before = &before
	}
}

func (r redactedRecurring) JobByID(ctx context.Context, tenant string, id schema.JobID) (schema.Job, error) {
	j, err := r.Recurring.JobByID(ctx, tenant, id)
	if redacts(ctx) {
		redactJob(&j)
	}
	return j, err
}

func (r redactedRecurring) JobByName(ctx context.Context, tenant, name string) (schema.Job, error) {
	j, err := r.Recurring.JobByName(ctx, tenant, name)
	if redacts(ctx) {
		redactJob(&j)
	}
	return j, err
}

func (r redactedRecurring) ListJobs(ctx context.Context, tenant string, f recurring.JobFilter, before schema.JobID, limit int) ([]schema.Job, *schema.JobID, error) {
	all, next, err := r.Recurring.ListJobs(ctx, tenant, f, before, limit)
	if redacts(ctx) {
		for i := range all {
			redactJob(&all[i])
		}
	}
	return all, next, err
}

package events

import (
	"context"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Hearers are those who would hear of an event now. What their filters say of its body is not asked.
type Hearers struct {
	Jobs  []schema.Job // jobs and workflows that it would start
	Steps []Waiting    // that wait for it
	More  bool         // there are more
}

// Waiting is a step that waits for an event.
type Waiting struct {
	Step     runs.Run
	Workflow string // the name of its workflow; "" if that is not known
}

// Hearers returns who would hear of an event of the tenant if it was published now, in the order in
// which they would be told, of the first `limit` subscriptions. It costs about three reads.
func (v *Events) Hearers(ctx context.Context, tenant, event string, limit int) (Hearers, error) {
	subscribers, err := v.store.Subscribers(ctx, tenant, event, schema.EntryID{}, limit+1)
	if err != nil {
		return Hearers{}, err
	}
	var out Hearers
	if out.More = len(subscribers) > limit; out.More {
		subscribers = subscribers[:limit]
	}
	ids, steps := jobsAndSteps(subscribers)
	jobs, err := v.jobs.Jobs(ctx, ids)
	if err != nil {
		return Hearers{}, err
	}
	for _, id := range ids {
		if job := jobs[id]; job != nil && job.Current.Fault == nil && listens(job, tenant, event) {
			out.Jobs = append(out.Jobs, *job)
		}
	}
	out.Steps, err = v.waiting(ctx, tenant, event, steps)
	return out, err
}

// listens reports whether events of that name start runs of a job.
func listens(job *schema.Job, tenant, event string) bool {
	spec := &job.Current.Spec
	return job.Current.State == schema.JobActive && spec.On != nil && spec.On.Event == event && spec.Tenant == tenant
}

// waiting returns those of the steps that wait for an event. A step that has ended may be subscribed
// still, and so may one whose workflow run has.
func (v *Events) waiting(ctx context.Context, tenant, event string, steps []schema.RunID) ([]Waiting, error) {
	open, err := v.open(ctx, steps, func(row *schema.Entry) bool {
		st := row.Spec.Step
		return st != nil && st.Wait != nil && st.Wait.Event == event && row.Spec.Tenant == tenant
	})
	if err != nil {
		return nil, err
	}
	var whole []schema.RunID
	seen := make(map[schema.RunID]bool)
	for _, step := range open {
		if of := step.Entry.Spec.Step.Workflow; !seen[of] {
			seen[of] = true
			whole = append(whole, of)
		}
	}
	workflows, err := v.open(ctx, whole, func(row *schema.Entry) bool { return row.Spec.Workflow != nil })
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, id := range steps {
		step, waits := open[id]
		if !waits {
			continue
		}
		if of, ok := workflows[step.Entry.Spec.Step.Workflow]; ok {
			out = append(out, Waiting{Step: step, Workflow: of.Entry.Spec.JobName})
		}
	}
	return out, nil
}

// open returns those of the runs whose rows are wanted that have not ended.
func (v *Events) open(ctx context.Context, ids []schema.RunID, wanted func(row *schema.Entry) bool) (map[schema.RunID]runs.Run, error) {
	found, err := v.core.Stored(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]schema.Entry, 0, len(found))
	for _, row := range found {
		if row.Fault == nil && wanted(&row) {
			rows = append(rows, row)
		}
	}
	list, err := v.runs.Fold(ctx, rows)
	if err != nil {
		return nil, err
	}
	open := make(map[schema.RunID]runs.Run, len(list))
	for i := range list {
		if !list[i].State.Terminal() {
			open[list[i].ID] = list[i]
		}
	}
	return open, nil
}

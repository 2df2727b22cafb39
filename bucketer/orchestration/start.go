package orchestration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// writesAtOnce bounds the batches of entries that one call writes at once.
const writesAtOnce = 8

// expires returns when rows of the run leave.
func (a starter) expires() time.Time {
	return a.o.core.ExpiryOf(&a.State.entry.Spec, a.State.until, a.now)
}

// waitFence is the fence of the record that a step has waited long enough.
func waitFence(id schema.RunID) schema.Fence {
	return schema.Fence(schema.HashOf("waited", id.String())) // #nosec G115 -- 62 bits
}

// spec returns what the entries of a step say.
func (a starter) spec(step int) schema.Spec {
	s := a.State
	def, own := s.graph.Step(step), &s.entry.Spec
	// It becomes due now, or with the workflow run if that begins a little before its time.
	due := bucketer.CeilMilli(bucketer.Latest(a.now, s.entry.Due()))
	spec := schema.Spec{
		Tenant: own.Tenant, Nominal: own.Nominal, Accepted: due.UnixMicro(), Trigger: schema.TriggerDependency,
		Priority: def.Priority, Task: def.Task, Work: def.Work, Labels: own.Labels, Event: own.Event, Everywhere: own.Everywhere, CreatedBy: own.CreatedBy, Retention: own.Retention,
		Step: &schema.Step{Workflow: a.Run, Name: def.Name, Due: due.UTC(), Until: s.until},
	}
	if spec.Priority == "" {
		spec.Priority = own.Priority
	}
	if def.Deadline > 0 {
		spec.Step.Deadline = due.Add(def.Deadline.Std()).UTC()
	}
	if of, ok := s.groups[step]; ok { // an item: the deadline is that of the step as a whole
		spec.Step.Deadline = of
	}
	if w := def.Wait; w != nil {
		spec.Step.Wait = &schema.StepWait{Event: w.Event, Filter: w.Filter}
		if at, ok := w.Due(due); ok {
			spec.Step.Wait.Until = at
		}
		if w.Deadline > 0 {
			spec.Step.Deadline = due.Add(w.Deadline.Std()).UTC()
		}
	}
	return spec
}

// add makes the entry of a step or item, to be written.
func (a starter) add(id schema.RunID, spec schema.Spec, payload json.RawMessage) error {
	row, err := schema.NewEntry(id, spec, payload, a.expires())
	if err != nil {
		return err
	}
	a.rows = append(a.rows, row)
	return nil
}

// addStep makes the entry of a step (item 0) or of an item, which may start. cause: it cannot be
// started, since its payload does not fit its task.
func (a starter) addStep(step, item int, payload json.RawMessage) (cause, err error) {
	return a.addRun(step, item, a.spec(step), payload)
}

// addRun makes the entry of a run of a step, with that payload.
func (a starter) addRun(step, item int, spec schema.Spec, payload json.RawMessage) (cause, err error) {
	if len(payload) > schema.MaxPayload {
		return fmt.Errorf("its payload has %d bytes, at most %d are taken", len(payload), schema.MaxPayload), nil
	}
	if err := a.add(schema.MakeStepID(a.Run, step, item), spec, payload); err != nil {
		return nil, err
	}
	a.opened(&a.rows[len(a.rows)-1])
	a.o.metrics.steps.WithLabelValues("started").Inc()
	return nil, nil
}

// addGroup makes the entry that says how many items a step has.
func (a starter) addGroup(step, items int) error {
	spec := a.spec(step)
	spec.Step.Items = &items
	if !spec.Step.Deadline.IsZero() {
		a.State.groups[step] = spec.Step.Deadline
	}
	return a.add(schema.MakeStepID(a.Run, step, 0), spec, nil)
}

// addChild makes the entry of a step (item 0) or item that is a workflow run of its own. cause: there is no such
// workflow, or too many workflows stand in one another.
func (a starter) addChild(ctx context.Context, step, item int, payload json.RawMessage) (cause, err error) {
	name := a.State.graph.Step(step).Workflow
	spec := a.spec(step)
	if depth := a.State.entry.Spec.Workflow.Depth + 1; depth < MaxDepth {
		spec.Workflow = &schema.WorkflowRun{Depth: depth}
	} else {
		return fmt.Errorf("workflows may stand in one another %d deep", MaxDepth), nil
	}
	job, err := a.o.jobs.JobByName(ctx, spec.Tenant, name)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return fmt.Errorf("there is no workflow %q", name), nil
	case err != nil:
		return nil, err
	case job.Current.Fault != nil || job.Current.Spec.Workflow == nil:
		return fmt.Errorf("%q is no workflow", name), nil
	}
	spec.Job, spec.JobName, spec.Generation = job.ID, name, job.Current.Number
	if len(payload) == 0 {
		payload = job.Current.Spec.Payload
	}
	return a.addRun(step, item, spec, payload)
}

// failStep has a step fail that cannot be started.
func (a starter) failStep(step int, cause error) error {
	if err := a.failItem(step, 0, cause); err != nil {
		return err
	}
	a.State.progress.Fail(step)
	return nil
}

// failItem has a step (item 0) or an item fail that cannot be started.
func (a starter) failItem(step, item int, cause error) error {
	name := a.State.graph.Step(step).Name
	if a.State.cause == "" {
		a.State.cause = fmt.Sprintf("step %q failed: %s", name, cause)
	}
	a.o.metrics.steps.WithLabelValues("failed").Inc()
	rec := schema.Record{Outcome: schema.Failed, Final: true, Error: cause.Error()}
	spec := a.spec(step)
	spec.Step.Fault = cause.Error()
	if err := a.notStarted(schema.MakeStepID(a.Run, step, item), spec, rec); err != nil {
		return err
	}
	if item > 0 {
		a.State.progress.End(step, item-1, workflow.Failed)
	}
	return nil
}

// skipStep skips a step by its own condition.
func (a starter) skipStep(step int) error {
	a.o.metrics.steps.WithLabelValues("skipped").Inc()
	rec := schema.Record{Outcome: schema.Skipped, Reason: "its condition was not met"}
	spec := a.spec(step)
	spec.Step.Skipped = true
	if err := a.notStarted(schema.MakeStepID(a.Run, step, 0), spec, rec); err != nil {
		return err
	}
	a.State.progress.Skip(step, workflow.Succeeded)
	return nil
}

// notStarted makes the entry of a step that does not start, and says so, and an attempt 0, by which
// the state of its run is what it is to be.
func (a starter) notStarted(id schema.RunID, spec schema.Spec, rec schema.Record) error {
	if err := a.add(id, spec, nil); err != nil {
		return err
	}
	a.attempts = append(a.attempts, a.o.runs.NotStarted(a.rows[len(a.rows)-1], rec, a.now))
	return nil
}

// write writes what was decided about the runs. Then it sorts the entries by whether they may be
// published, or must be inspected first.
func (o *Orchestrator) write(ctx context.Context, all []*advance) {
	var writing []*advance
	var ids []schema.EntryID
	var attempts []schema.Attempt
	for _, a := range all {
		if a.Err != nil || len(a.rows) == 0 {
			continue
		}
		writing, attempts = append(writing, a), append(attempts, a.attempts...)
		if a.known == nil {
			ids = append(ids, bucketer.IDsOf(a.rows)...)
		}
	}
	if len(writing) == 0 {
		return
	}
	there, err := o.core.Stored(ctx, ids)
	if err == nil {
		err = o.runs.Record(ctx, attempts)
	}
	if err != nil {
		for _, a := range writing {
			a.Err = err
		}
		return
	}
	var rows []schema.Entry
	var whose []*advance
	for _, a := range writing {
		for i := range a.rows {
			if _, known := there[a.rows[i].ID]; !known {
				rows, whose = append(rows, a.rows[i]), append(whose, a)
			}
		}
	}
	if err := o.subscribe(ctx, rows); err != nil {
		for _, a := range writing {
			a.Err = err
		}
		return
	}
	o.putRows(ctx, rows, func(i int, err error) { whose[i].Err = fmt.Errorf("steps of %s: %w", whose[i].Run, err) })
	o.core.CountWritten(rows)
	for _, a := range writing {
		if a.Err == nil {
			(starter{a}).written(there)
		}
	}
}

// putRows writes entries in batches, several at once. failed is called for each that may not be held.
func (o *Orchestrator) putRows(ctx context.Context, rows []schema.Entry, failed func(i int, err error)) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(writesAtOnce)
	for _, batch := range bucketer.Batches(rows) {
		g.Go(func() error {
			err := o.core.PutRows(ctx, bucketer.Pick(rows, batch))
			if err == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for _, i := range batch {
				failed(i, err)
			}
			return nil
		})
	}
	_ = g.Wait() // each row has its error
}

// errDiverged: another owner has come to another conclusion about a step. The rows decide.
var errDiverged = errors.New("another owner of the shard is ahead")

// written sorts the entries that are held now. there are those that were there before.
func (a starter) written(there map[schema.EntryID]schema.Entry) {
	for i := range a.rows {
		row := a.rows[i]
		if old, known := there[row.ID]; known && !sameFate(old.Spec.Step, row.Spec.Step) {
			a.Err = fmt.Errorf("step %s: %w", row.ID, errDiverged)
			return
		}
		if _, large := row.LargePayload(); large {
			row.Payload = nil // it is read where it is needed
		}
		if _, open := a.State.open[row.ID]; !open {
			continue
		}
		old, known := there[row.ID]
		switch {
		case row.Spec.Workflow != nil:
			a.Advance = append(a.Advance, row)
		case !row.Spec.Step.Starts():
		case known:
			a.Inspect = append(a.Inspect, old)
		default:
			a.Start = append(a.Start, row)
		}
	}
}

// sameFate reports whether two rows of one step say that the same becomes of it.
func sameFate(a, b *schema.Step) bool {
	return a != nil && a.Skipped == b.Skipped && (a.Fault == "") == (b.Fault == "") && (a.Items == nil) == (b.Items == nil) &&
		(a.Items == nil || *a.Items == *b.Items) && a.From == b.From
}

// cancelRun cancels the run of a step: one that has ended is left alone.
func (a starter) cancelRun(ctx context.Context, id schema.RunID, run *openRun) error {
	_, err := a.o.runs.Cancel(ctx, run.tenant, id, runs.ByWorkflow)
	if errors.Is(err, bucketer.ErrFinished) || errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	return err
}

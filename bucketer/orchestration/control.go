package orchestration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// ErrNoStep: the workflow run has no step of that name (404).
var ErrNoStep = errors.New("the workflow run has no such step")

// ErrNotBegun: the workflow run is due later (409).
var ErrNotBegun = errors.New("the workflow run has not begun")

// ErrNoWorkflow: the run is not one of a workflow (409).
var ErrNoWorkflow = errors.New("the run is not one of a workflow")

// NewJobWorkflow returns what a job says that is a workflow of that definition.
// schema.ErrTooLarge: its stored form has more than schema.MaxPayload bytes.
func NewJobWorkflow(d *workflow.Definition) (*schema.JobWorkflow, error) {
	stored, err := EncodeDefinition(d)
	if err != nil {
		return nil, err
	}
	if len(stored) > schema.MaxPayload {
		return nil, fmt.Errorf("definition: %w: compressed it has %d bytes, at most %d", schema.ErrTooLarge, len(stored), schema.MaxPayload)
	}
	deadline := d.Deadline
	if deadline == 0 {
		deadline = schema.Duration(DefaultDeadline)
	}
	return &schema.JobWorkflow{Definition: stored, Deadline: deadline}, nil
}

// RetryWorkflow runs a workflow run that has ended again, as a new run of the same definition and payload
// whose origin it is. Steps that succeeded are taken over with their outputs; the others start
// again. The same key gives the same run.
//
// The new run's definition and what it takes over are held before its own entry is. So it never
// begins without them.
func (o *Orchestrator) RetryWorkflow(ctx context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error) {
	now := o.core.Now()
	if err := o.core.MayWrite(id.Shard()); err != nil {
		return bucketer.Receipt{}, err
	}
	run, err := o.runs.Run(ctx, tenant, id)
	switch {
	case err != nil:
		return bucketer.Receipt{}, err
	case run.Entry.Spec.Workflow == nil:
		return bucketer.Receipt{}, fmt.Errorf("retry run %s: %w", id, ErrNoWorkflow)
	case run.Entry.Spec.Step != nil:
		return bucketer.Receipt{}, fmt.Errorf("retry run %s: %w: it is a step of run %s", id, ErrNoWorkflow, run.Entry.Spec.Step.Workflow)
	case !run.State.Terminal():
		return bucketer.Receipt{}, fmt.Errorf("retry run %s: %w", id, runs.ErrNotFinished)
	}
	spec := run.Entry.Spec
	payload, err := o.runs.Payload(ctx, run)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	next := schema.MakeEntryID(bucketer.DueTime(time.Time{}, now), id.Shard(), schema.RandomHash())
	spec.Trigger, spec.Origin, spec.Accepted, spec.Misfire = schema.TriggerRetry, id, now.UnixMicro(), nil
	spec.PayloadAt, spec.Retention = schema.EntryID{}, o.core.RetentionOf(tenant)
	e, err := schema.NewEntry(next, spec, payload, o.core.ExpiryOf(&spec, next.Time(), now))
	if err != nil {
		return bucketer.Receipt{}, err
	}
	if err := o.takeOver(ctx, &run, &e, now); err != nil {
		return bucketer.Receipt{}, err
	}
	if key != "" {
		return o.core.SubmitKeyed(ctx, &bucketer.Job{Tenant: tenant, Key: key, BodyHash: "retry " + id.String()}, e, now)
	}
	return bucketer.Receipt{Run: next}, o.core.WriteNew(ctx, e)
}

// takeOver writes the definition of the run that e repeats as e's, and the steps of it that
// succeeded as steps of e that have.
func (o *Orchestrator) takeOver(ctx context.Context, was *runs.Run, e *schema.Entry, now time.Time) error {
	a := &advance{o: o, now: now, Turn: &Turn{Run: was.ID, State: &State{entry: was.Entry}}}
	definition, err := (ending{a}).definition(ctx)
	if errors.Is(err, schema.ErrNotFound) {
		return nil // it never began: the new run takes the workflow as it is
	}
	if err != nil {
		return err
	}
	stored, err := o.runs.EntryPayload(ctx, &definition)
	if err != nil {
		return err
	}
	if err := (loader{a}).compile(ctx, stored); err != nil {
		return err
	}
	until := e.Due().Add(definition.Spec.Workflow.Until.Sub(was.Entry.Due()))
	expires := o.core.ExpiryOf(&e.Spec, until, now)
	spec := definition.Spec
	spec.Of, spec.PayloadAt, spec.Accepted, spec.Retention = e.ID, schema.EntryID{}, e.Spec.Accepted, e.Spec.Retention
	spec.Workflow = &schema.WorkflowRun{Depth: spec.Workflow.Depth, Until: until}
	row, err := schema.NewEntry(schema.DefinitionID(e.ID), spec, stored, expires)
	if err != nil {
		return err
	}
	rows := []schema.Entry{row}
	steps, attempts, err := o.stepRows(ctx, was.ID)
	if err != nil {
		return err
	}
	(loader{a}).place(steps, attempts)
	var done []schema.Attempt
	for i := range steps {
		if _, err := a.show(ctx, &View{Steps: make([]StepView, a.State.graph.Len())}, &steps[i], attempts[steps[i].ID]); err != nil {
			return err
		}
	}
	for i := range steps {
		s := &steps[i]
		step, item := s.ID.StepOf()
		if item > 0 || step >= a.State.graph.Len() || a.State.progress.Verdict(step) != workflow.Succeeded {
			continue
		}
		spec := s.Spec
		of := *spec.Step
		of.Workflow, of.Until, of.Items, of.Deadline = e.ID, until, nil, time.Time{}
		if of.From.IsZero() {
			of.From = s.ID
		}
		spec.Step, spec.Accepted, spec.PayloadAt, spec.PayloadSize, spec.Retention = &of, e.Spec.Accepted, schema.EntryID{}, 0, e.Spec.Retention
		row, err := schema.NewEntry(schema.MakeStepID(e.ID, step, 0), spec, nil, expires)
		if err != nil {
			return err
		}
		rec := schema.Record{Outcome: schema.Succeeded}
		if isSkipped(s, attempts[s.ID]) {
			rec = schema.Record{Outcome: schema.Skipped, Reason: "it was skipped in the run that this one repeats"}
		}
		done = append(done, o.runs.NotStarted(row, rec, now))
		rows = append(rows, row)
	}
	if err := o.runs.Record(ctx, done); err != nil {
		return err
	}
	o.putRows(ctx, rows, func(_ int, e error) { err = e })
	if err != nil {
		return fmt.Errorf("steps that %s takes over: %w", e.ID, err)
	}
	return nil
}

// SkipStep has a step of a workflow run not run, by hand: it counts as succeeded for the steps after
// it. A step that runs is cancelled. Skipping twice is the same as once, also when the run has ended
// meanwhile. bucketer.ErrFinished: the run, or the step, has ended. ErrNotBegun: the run is due
// later.
//
// The decision is written first. Whoever finds an end of the step later goes by it.
func (o *Orchestrator) SkipStep(ctx context.Context, tenant string, id schema.RunID, name string) error {
	if err := o.core.MayWrite(id.Shard()); err != nil {
		return err
	}
	run, err := o.runs.Run(ctx, tenant, id)
	if err != nil {
		return err
	}
	if run.Entry.Spec.Workflow == nil {
		return fmt.Errorf("skip a step of run %s: %w", id, ErrNoWorkflow)
	}
	view, err := o.View(ctx, &run)
	if err != nil {
		return err
	}
	for _, s := range view.Steps {
		switch {
		case s.Name != name || !s.State.Terminal():
		case s.State == schema.StateSkipped && s.Reason == byHand:
			return nil
		default:
			return fmt.Errorf("skip step %q of run %s: the step has ended: %w", name, id, bucketer.ErrFinished)
		}
	}
	if run.State.Terminal() {
		return fmt.Errorf("skip step %q of run %s: %w", name, id, bucketer.ErrFinished)
	}
	a := &advance{o: o, now: o.core.Now(), Turn: &Turn{
		Run: id, State: &State{entry: run.Entry, open: make(map[schema.RunID]*openRun), groups: make(map[int]time.Time)},
	}}
	definition, err := (ending{a}).definition(ctx)
	if errors.Is(err, schema.ErrNotFound) {
		err = schema.ErrUnavailable // it begins now
		if run.Current.Due().After(a.now) {
			err = ErrNotBegun
		}
		return fmt.Errorf("skip step %q of run %s: the run has not begun: %w", name, id, err)
	}
	if err != nil {
		return err
	}
	stored, err := o.runs.EntryPayload(ctx, &definition)
	if err != nil {
		return err
	}
	a.State.until = definition.Spec.Workflow.Until
	if err := (loader{a}).compile(ctx, stored); err != nil {
		return err
	}
	step, ok := a.State.graph.Index(name)
	if !ok {
		return fmt.Errorf("skip step %q of run %s: %w", name, id, ErrNoStep)
	}
	return a.skipByHand(ctx, &run, step)
}

func (a *advance) skipByHand(ctx context.Context, run *runs.Run, step int) error {
	o := a.o
	first := schema.MakeStepID(run.ID, step, 0)
	found, err := o.core.Stored(ctx, []schema.EntryID{first})
	if err != nil {
		return err
	}
	row, started := found[first]
	if started && row.Spec.Step.Items != nil {
		return fmt.Errorf("skip step %q of run %s: its items have started; cancel those: %w", row.Spec.Step.Name, run.ID, bucketer.ErrFinished)
	}
	v, err := (loader{a}).decide(ctx, first, skippedByHand)
	if err != nil {
		return err
	}
	if v != skippedByHand {
		return fmt.Errorf("skip a step of run %s: the step has ended: %w", run.ID, bucketer.ErrFinished)
	}
	if started {
		if _, err := o.runs.Cancel(ctx, run.Entry.Spec.Tenant, first, runs.BySkip); err != nil && !errors.Is(err, bucketer.ErrFinished) {
			return err
		}
	} else {
		rec := schema.Record{Outcome: schema.Skipped, Reason: byHand}
		spec := (starter{a}).spec(step)
		spec.Step.Skipped = true
		if err := (starter{a}).notStarted(first, spec, rec); err != nil {
			return err
		}
		o.write(ctx, []*advance{a})
		if a.Err != nil {
			return a.Err
		}
	}
	return o.runs.Wake(ctx, &run.Current)
}

// byHand is why a step was skipped by hand.
const byHand = "by hand"

// skippedByHand is the decision that a step was skipped by hand.
const skippedByHand workflow.Verdict = "skipped"

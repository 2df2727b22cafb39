package httpapi

import (
	"context"
	"fmt"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/orchestration"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// stubSteps is what a stub says of the steps of a workflow run. They are part of it, and under its
// lock.
type stubSteps struct {
	view    orchestration.View
	skipped []string
}

// stepsOf returns what is said of the steps of a run: at first that all are pending.
func (s *stub) stepsOf(run *runs.Run) (*stubSteps, error) {
	if known := s.steps[run.ID]; known != nil {
		return known, nil
	}
	job, err := s.job(run.Entry.Spec.Tenant, run.Entry.Spec.Job)
	if err != nil {
		return nil, err
	}
	g, err := compiled(job.Current.Spec.Workflow.Definition)
	if err != nil {
		return nil, err
	}
	steps := &stubSteps{view: orchestration.View{Graph: g, Steps: make([]orchestration.StepView, g.Len())}}
	for i := range steps.view.Steps {
		steps.view.Steps[i] = orchestration.StepView{Name: g.Step(i).Name, State: schema.StatePending}
	}
	s.steps[run.ID] = steps
	return steps, nil
}

// anew returns with what status the workflow of a name is put: 200 if there is one.
func (s *stub) anew(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.named(defaultTenant, name); err == nil {
		return 200
	}
	return 201
}

func (s *stub) View(_ context.Context, run *runs.Run) (orchestration.View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return orchestration.View{}, s.err
	}
	steps, err := s.stepsOf(run)
	if err != nil {
		return orchestration.View{}, err
	}
	return steps.view, nil
}

// StepRuns makes a run of each step that has one.
func (s *stub) StepRuns(_ context.Context, of *runs.Run, step string, f runs.Filter, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, next, s.err
	}
	steps, err := s.stepsOf(of)
	if err != nil {
		return nil, next, err
	}
	if _, ok := steps.view.Graph.Index(step); step != "" && !ok {
		return nil, next, fmt.Errorf("runs of steps: %w", orchestration.ErrNoStep)
	}
	for _, v := range steps.view.Steps {
		if v.Run.IsZero() || v.Run.Compare(after) <= 0 || step != "" && v.Name != step {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		e := schema.Entry{ID: v.Run, Spec: schema.Spec{Tenant: of.Entry.Spec.Tenant, Trigger: schema.TriggerDependency, Step: &schema.Step{Workflow: of.ID, Name: v.Name}}}
		if run := (runs.Run{ID: v.Run, Entry: e, Current: e, State: v.State}); f.Matches(&run, testNow) {
			list = append(list, run)
		}
	}
	return list, next, nil
}

func (s *stub) RetryWorkflow(_ context.Context, tenant string, id schema.RunID, key string) (bucketer.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, err := s.find(tenant, id)
	switch {
	case err != nil:
		return bucketer.Receipt{}, err
	case run.Entry.Spec.Workflow == nil:
		return bucketer.Receipt{}, fmt.Errorf("retry: %w", orchestration.ErrNoWorkflow)
	case !run.State.Terminal():
		return bucketer.Receipt{}, fmt.Errorf("retry: %w", runs.ErrNotFinished)
	}
	if known, ok := s.jobs.made[tenant+"/"+key]; ok && key != "" {
		if known.hash != "retry "+id.String() {
			return bucketer.Receipt{}, fmt.Errorf("retry: %w", bucketer.ErrKeyReused)
		}
		return bucketer.Receipt{Run: known.run, Existing: true}, nil
	}
	job, err := s.job(tenant, run.Entry.Spec.Job)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	again, err := s.occur(job, testNow, schema.TriggerRetry, run.Entry.Payload)
	if err != nil {
		return bucketer.Receipt{}, err
	}
	s.runs[again].Entry.Spec.Origin = id
	if key != "" {
		s.jobs.made[tenant+"/"+key] = stubKey{run: again, hash: "retry " + id.String()}
	}
	return bucketer.Receipt{Run: again}, nil
}

func (s *stub) SkipStep(_ context.Context, tenant string, id schema.RunID, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, err := s.find(tenant, id)
	switch {
	case err != nil:
		return err
	case run.Entry.Spec.Workflow == nil:
		return fmt.Errorf("skip: %w", orchestration.ErrNoWorkflow)
	case run.State.Terminal():
		return fmt.Errorf("skip: %w", bucketer.ErrFinished)
	}
	steps, err := s.stepsOf(run)
	if err != nil {
		return err
	}
	for i := range steps.view.Steps {
		if step := &steps.view.Steps[i]; step.Name == name {
			if step.State.Terminal() && step.State != schema.StateSkipped {
				return fmt.Errorf("skip: %w", bucketer.ErrFinished)
			}
			step.State, step.Reason = schema.StateSkipped, "by hand"
			steps.skipped = append(steps.skipped, name)
			return nil
		}
	}
	return fmt.Errorf("skip: %w", orchestration.ErrNoStep)
}

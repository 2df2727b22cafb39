package orchestration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// View is a workflow run as its rows tell it.
type View struct {
	Graph *workflow.Graph
	Until time.Time // when the run ends at the latest; zero: it has not begun
	Steps []StepView
	// Waiting: nothing but waits is under way.
	Waiting bool
}

// StepView is a step of a workflow run.
type StepView struct {
	Name string
	// Run is the run of the step; zero: it has none, because it has not started, or was skipped
	// since its upstreams ended otherwise. A step with items has one for each.
	Run   schema.RunID
	State schema.State
	// Why it waits, was skipped or failed, in words; "": nothing is to be said.
	Reason            string
	Attempts          int
	Started, Finished time.Time
	Output            string
	// Event is the event that ended its wait. Zero: none did, it is not known any more, or as many
	// steps before it waited for events as are told of (maxHeardShown).
	Event schema.EntryID
	// Items counts the items by state; nil: it has none.
	Items map[schema.State]int
	// Total is how many items there are, once it is known.
	Total int
}

// View returns a workflow run with its steps, in the order of its definition. It reads the rows of
// all steps.
func (o *Orchestrator) View(ctx context.Context, run *runs.Run) (View, error) {
	a := &advance{o: o, Turn: &Turn{Run: run.ID, Over: run.State.Terminal()}, now: o.core.Now()}
	s := &State{entry: run.Entry}
	a.State = s
	row, err := (ending{a}).definition(ctx)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return o.notBegun(ctx, run)
	case err != nil:
		return View{}, err
	}
	stored, err := o.runs.EntryPayload(ctx, &row)
	if err != nil {
		return View{}, err
	}
	if err := (loader{a}).compile(ctx, stored); err != nil {
		return View{}, err
	}
	rows, attempts, err := o.stepRows(ctx, run.ID)
	if err != nil {
		return View{}, err
	}
	(loader{a}).place(rows, attempts)
	v := View{Graph: s.graph, Until: row.Spec.Workflow.Until, Steps: make([]StepView, s.graph.Len())}
	for i := range v.Steps {
		v.Steps[i].Name = s.graph.Step(i).Name
	}
	waits, open := 0, 0
	for i := range rows {
		state, err := a.show(ctx, &v, &rows[i], attempts[rows[i].ID])
		if err != nil {
			return View{}, err
		}
		if !state.Terminal() && rows[i].Spec.Step.Items == nil {
			if open++; rows[i].Spec.Step.Wait != nil {
				waits++
			}
		}
	}
	v.Waiting = open > 0 && open == waits && !run.State.Terminal()
	if err := a.o.noteHeard(ctx, &v, rows); err != nil {
		return View{}, err
	}
	a.explain(&v, run.Entry.Marks.Cancelled != nil, run.State.Terminal())
	return v, nil
}

// maxHeardShown bounds the steps of a view whose event is looked up: each is a read.
const maxHeardShown = 20

// noteHeard notes which events ended the waits of steps.
func (o *Orchestrator) noteHeard(ctx context.Context, v *View, rows []schema.Entry) error {
	looked := 0
	for i := range rows {
		wait := rows[i].Spec.Step.Wait
		step, item := rows[i].ID.StepOf()
		if wait == nil || wait.Event == "" || item > 0 || step >= len(v.Steps) || v.Steps[step].State != schema.StateSucceeded || looked == maxHeardShown {
			continue
		}
		looked++
		text, err := o.store.Decided(ctx, stepKey(rows[i].ID))
		switch {
		case errors.Is(err, schema.ErrNotFound):
			continue
		case err != nil:
			return fmt.Errorf("event that ended step %s: %w", rows[i].ID, err)
		}
		if id, ended := strings.CutPrefix(text, endedBy); ended {
			if v.Steps[step].Event, err = schema.ParseEntryID(id); err != nil {
				return fmt.Errorf("event that ended step %s: %w: %w", rows[i].ID, schema.ErrNotUnderstood, err)
			}
		}
	}
	return nil
}

// passedDeadline reports whether a step was cancelled since its deadline had passed: it has failed.
func passedDeadline(row *schema.Entry) bool {
	c, at := row.Marks.Cancelled, row.Spec.Step.Deadline
	return c != nil && c.By == runs.ByWorkflow && !at.IsZero() && !c.At.Before(at)
}

// endedBefore is why a step never starts whose workflow run is over.
const endedBefore = "the workflow run ended before it"

// notBegun shows a run that has not begun: its steps are those that the workflow has now.
func (o *Orchestrator) notBegun(ctx context.Context, run *runs.Run) (View, error) {
	jobs, err := o.jobs.Jobs(ctx, []schema.JobID{run.Entry.Spec.Job})
	if err != nil {
		return View{}, err
	}
	job := jobs[run.Entry.Spec.Job]
	if job == nil || job.Current.Spec.Workflow == nil {
		return View{}, nil
	}
	g, err := o.graphOf(job.Current.Spec.Workflow.Definition)
	if err != nil {
		return View{}, err
	}
	v := View{Graph: g, Steps: make([]StepView, g.Len())}
	for i := range v.Steps {
		v.Steps[i] = StepView{Name: g.Step(i).Name, State: schema.StatePending, Reason: "the workflow run has not begun"}
	}
	return v, nil
}

// show puts the row of a step or item into the view, and returns the state of its run.
func (a *advance) show(ctx context.Context, v *View, row *schema.Entry, attempts []schema.Attempt) (schema.State, error) {
	step, item := row.ID.StepOf()
	if step >= len(v.Steps) {
		return schema.StateSkipped, nil
	}
	sv := &v.Steps[step]
	if n := row.Spec.Step.Items; n != nil {
		sv.Total, sv.Items, sv.State = *n, make(map[schema.State]int), schema.StateRunning
		sv.Started = row.Due()
		return sv.State, nil
	}
	live, err := a.o.live.Of(ctx, attempts)
	if err != nil {
		return "", err
	}
	state := schema.Fold(row.Marks, attempts, live)
	tooLate, overdue := a.Over && !state.Terminal(), state == schema.StateCancelled && passedDeadline(row)
	switch {
	case tooLate:
		state = schema.StateCancelled
	case overdue:
		state = schema.StateFailed
	}
	skipped := state == schema.StateCancelled && row.Marks.Cancelled != nil && row.Marks.Cancelled.By == runs.BySkip
	switch {
	case skipped:
		state = schema.StateSkipped
		a.State.progress.Skip(step, workflow.Succeeded)
	case state.Terminal() && state != schema.StateSkipped:
		a.State.progress.End(step, max(item-1, 0), verdictOf(state))
	}
	var last *schema.Record
	for i := range attempts {
		at := &attempts[i]
		if at.Number > 0 && !at.Unstarted() {
			sv.Attempts++
		}
		if at.Session != nil && (sv.Started.IsZero() || at.Session.Started.Before(sv.Started)) {
			sv.Started = at.Session.Started
		}
		if r := at.Record; r != nil && !r.Unstarted && (last == nil || r.Finished.After(last.Finished)) {
			last = r
		}
		if r := at.Record; r != nil && !r.Started.IsZero() && (sv.Started.IsZero() || r.Started.Before(sv.Started)) {
			sv.Started = r.Started
		}
	}
	if last != nil && state.Terminal() && last.Finished.After(sv.Finished) {
		sv.Finished = last.Finished
	}
	if item > 0 {
		if sv.Items == nil {
			sv.Items = make(map[schema.State]int)
		}
		sv.Items[state]++
		if last != nil && state == schema.StateFailed && sv.Reason == "" {
			sv.Reason = last.Error
		}
		return state, nil
	}
	sv.Run, sv.State = row.ID, state
	if last != nil {
		sv.Output, sv.Reason = last.Output, last.Error
		if last.Reason != "" && state != schema.StateSucceeded {
			sv.Reason = last.Reason
		}
	}
	switch {
	case skipped:
		sv.Reason = byHand
	case tooLate:
		sv.Reason = endedBefore
	case overdue:
		sv.Reason = "its deadline has passed"
	}
	if w := row.Spec.Step.Wait; w != nil && !state.Terminal() {
		sv.State, sv.Reason = schema.StateRunning, "it waits for the event "+w.Event
		if !w.Until.IsZero() {
			sv.Reason = "it waits until " + w.Until.UTC().Format(time.RFC3339Nano)
		}
	}
	return state, nil
}

// explain says how the steps stand that have no rows, and those with items.
func (a *advance) explain(v *View, cancelled, over bool) {
	p := a.State.progress
	if cancelled {
		p.Cancel()
	}
	for again := true; again; {
		again = false
		for _, act := range p.Next() {
			if act.Kind == workflow.SkipStep {
				p.Skip(act.Step, act.Verdict)
				v.Steps[act.Step].State, v.Steps[act.Step].Reason = schema.StateSkipped, act.Reason
				again = true
			}
		}
	}
	for i := range v.Steps {
		sv := &v.Steps[i]
		switch verdict := p.Verdict(i); {
		case sv.State == "" && over:
			sv.State, sv.Reason = schema.StateSkipped, endedBefore
		case sv.State == "":
			sv.State, sv.Reason = schema.StatePending, "it waits for steps before it"
		case sv.Items != nil && verdict == workflow.Succeeded:
			sv.State = schema.StateSucceeded
		case sv.Items != nil && verdict == workflow.Failed:
			sv.State = schema.StateFailed
		case sv.Items != nil && verdict == workflow.Cancelled:
			sv.State = schema.StateCancelled
		}
	}
}

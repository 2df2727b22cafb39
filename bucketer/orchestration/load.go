package orchestration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// runRows is what the rows say of runs whose state is made of them.
type runRows struct {
	entries  map[schema.EntryID]schema.Entry // the runs' own, and their definitions
	attempts map[schema.RunID][]schema.Attempt
	jobs     map[schema.JobID]*schema.Job // of those that have not begun
}

// readRuns reads the rows of runs.
func (o *Orchestrator) readRuns(ctx context.Context, runs []schema.RunID) (rows runRows, err error) {
	// In this order: another owner may begin a run meanwhile, and writes the definition first.
	if rows.attempts, err = o.core.AttemptsOf(ctx, runs); err != nil {
		return runRows{}, err
	}
	ids := make([]schema.EntryID, 0, 2*len(runs))
	for _, id := range runs {
		ids = append(ids, id, schema.DefinitionID(id))
	}
	if rows.entries, err = o.core.Stored(ctx, ids); err != nil {
		return runRows{}, err
	}
	var jobs []schema.JobID
	for _, id := range runs {
		if _, begun := beganAt(rows.attempts[id]); begun {
			continue
		}
		if e, ok := rows.entries[id]; ok && e.Fault == nil && e.Spec.Workflow != nil {
			jobs = append(jobs, e.Spec.Job)
		}
	}
	if len(jobs) == 0 {
		return rows, nil
	}
	if rows.jobs, err = o.jobs.Jobs(ctx, jobs); err != nil {
		return runRows{}, fmt.Errorf("workflows: %w", err)
	}
	return rows, nil
}

// load makes the states of the runs that have none from their rows, and begins those that have not
// begun.
func (o *Orchestrator) load(ctx context.Context, all []*advance) {
	var some []*advance
	var ids []schema.RunID
	for _, a := range all {
		if a.State == nil {
			some, ids = append(some, a), append(ids, a.Run)
		}
	}
	if len(some) == 0 {
		return
	}
	o.metrics.loads.Add(float64(len(some)))
	rows, err := o.readRuns(ctx, ids)
	forEach(some, func(a *advance) error {
		own, err := rows, err
		if err != nil && len(some) > 1 { // what cannot be read may be the rows of another run
			own, err = o.readRuns(ctx, []schema.RunID{a.Run})
		}
		if err == nil {
			err = (loader{a}).load(ctx, &own)
		}
		return a.orFailed(err)
	})
	o.beginRuns(ctx, some)
	forEach(some, func(a *advance) error {
		if a.end != nil || a.definitionRow != nil {
			return nil // a run that begins just now has no rows of steps
		}
		return a.orFailed((loader{a}).loadSteps(ctx))
	})
}

// orFailed has the run fail by an error of its rows that no later turn would do better with. It
// returns any other.
func (a *advance) orFailed(err error) error {
	if a.State == nil || !errors.Is(err, schema.ErrNotUnderstood) && !errors.Is(err, schema.ErrNotFound) {
		return err
	}
	a.end = &workflow.Action{Kind: workflow.EndRun, Verdict: workflow.Failed, Reason: err.Error()}
	return nil
}

// load makes the state of the run from its own rows. It notes that the run is over, if there is
// nothing to advance, and how it begins, if it has not begun.
func (a loader) load(ctx context.Context, rows *runRows) error {
	e, ok := rows.entries[a.Run]
	if !ok || e.Fault != nil || e.Spec.Workflow == nil {
		a.Over = true // it has left the store
		return nil
	}
	a.parent = parentOf(&e)
	own := rows.attempts[a.Run]
	began, begun := beganAt(own)
	over := schema.Fold(e.Marks, own, noSession).Terminal()
	if over && slices.ContainsFunc(own, saysEnd) {
		return a.over(a.endAgain(ctx, &e, own))
	}
	s := &State{
		entry: e, began: began, until: e.Due().Add(DefaultDeadline),
		items: make(map[int][]json.RawMessage), groups: make(map[int]time.Time), open: make(map[schema.RunID]*openRun),
	}
	a.State = s
	if over { // cancelled before it began; once that is recorded, a beginning whose write comes late does not count
		return a.over(ending(a).dropped(ctx, schema.Record{Outcome: schema.Cancelled}))
	}
	definition, kept := rows.entries[schema.DefinitionID(a.Run)]
	var stored []byte
	if kept {
		var err error
		if stored, err = a.o.runs.EntryPayload(ctx, &definition); err != nil {
			return err
		}
		if w := definition.Spec.Workflow; w != nil {
			s.until, s.limited = w.Until, w.Limited
		}
	}
	switch {
	case begun && !kept:
		return fmt.Errorf("definition of workflow run %s: %w", a.Run, schema.ErrNotFound)
	case !begun:
		return ending(a).begin(ctx, rows.jobs[e.Spec.Job], stored)
	}
	a.Cancelled = a.Cancelled || e.Marks.Cancelled != nil
	return a.compile(ctx, stored)
}

// over notes that there is nothing to advance, unless err says that it could not be recorded.
func (a loader) over(err error) error {
	if err == nil {
		a.Over, a.Parent = true, a.parent
	}
	return err
}

// endAgain does what follows from the end of the run: who recorded it may not have come to that.
func (a loader) endAgain(ctx context.Context, e *schema.Entry, attempts []schema.Attempt) error {
	for i := range attempts {
		if !saysEnd(attempts[i]) {
			continue
		}
		err := schema.ErrUnavailable
		a.o.runs.FollowUp(ctx, []bucketer.Finished{{Entry: *e, Attempt: attempts[i]}}, func(_ int, failed error) { err = failed })
		if err != nil {
			return err
		}
	}
	return nil
}

// saysEnd reports whether an attempt of a workflow run says how the run ended.
func saysEnd(a schema.Attempt) bool {
	return a.Record != nil && a.Record.Outcome != schema.Replaced && a.Record.Outcome != schema.Began
}

// noSession is for runs of workflows, which no session holds.
func noSession(schema.SessionRef) bool { return false }

// beganAt returns when a workflow run began, and whether it has.
func beganAt(attempts []schema.Attempt) (time.Time, bool) {
	for i := range attempts {
		if r := attempts[i].Record; r != nil && r.Outcome == schema.Began {
			return r.Started, true
		}
	}
	return time.Time{}, false
}

// compile has the run go by a definition as it is stored.
func (a loader) compile(ctx context.Context, stored []byte) (err error) {
	s := a.State
	if s.graph, err = a.o.graphOf(stored); err != nil {
		return err
	}
	s.progress = workflow.NewProgress(s.graph)
	payload, err := a.o.runs.EntryPayload(ctx, &s.entry)
	if err != nil {
		return err
	}
	// A payload that a trigger brought need be no template: then it is taken as it is.
	if s.input, err = workflow.ResolveRunPayload(payload, a.Run.String(), s.entry.Spec.Nominal); err != nil {
		s.input = payload
	}
	return nil
}

// stepRows reads the entries of all steps and items of a workflow run, in the order of their ids,
// and the attempts of their runs.
func (o *Orchestrator) stepRows(ctx context.Context, run schema.RunID) ([]schema.Entry, map[schema.RunID][]schema.Attempt, error) {
	var rows []schema.Entry
	for r := schema.StepRange(run); ; {
		page, err := o.store.Entries(ctx, schema.DefinitionID(run).Partition(), r, rowsPage)
		if err != nil {
			return nil, nil, fmt.Errorf("steps of %s: %w", run, err)
		}
		for i := range page {
			// Two runs of one ms and shard may lie between each other.
			if st := page[i].Spec.Step; page[i].Fault == nil && st != nil && st.Workflow == run {
				rows = append(rows, page[i])
			}
		}
		if len(page) < rowsPage {
			break
		}
		r.After = page[len(page)-1].ID
	}
	attempts, err := o.core.AttemptsOf(ctx, bucketer.IDsOf(rows))
	return rows, attempts, err
}

// loadSteps makes the progress of the run from the rows of its steps.
func (a loader) loadSteps(ctx context.Context) error {
	rows, attempts, err := a.o.stepRows(ctx, a.Run)
	if err != nil {
		return err
	}
	a.place(rows, attempts)
	a.known = make(map[schema.EntryID]schema.Entry, len(rows))
	for i := range rows {
		row := &rows[i]
		a.known[row.ID] = *row
		of := attempts[row.ID]
		if row.Spec.Step.Items != nil || isSkipped(row, of) {
			continue
		}
		if row.Spec.Step.Fault != "" {
			a.noteFault(row.Spec.Step)
			a.ended(row.ID, workflow.Failed)
			continue
		}
		ended, err := a.endOf(ctx, row, of)
		if err != nil {
			return err
		}
		if !ended {
			a.opened(row)
			switch {
			case row.Spec.Workflow != nil:
				a.Advance = append(a.Advance, *row)
			case row.Spec.Step.Starts():
				a.Inspect = append(a.Inspect, *row)
			}
		}
	}
	return nil
}

// place notes which steps and items were started or skipped, by their rows.
func (a loader) place(rows []schema.Entry, attempts map[schema.RunID][]schema.Attempt) {
	s := a.State
	launched := make(map[int]int) // items without a gap: of a batch that was torn the rest is written again
	for i := range rows {
		row := &rows[i]
		step, item := row.ID.StepOf()
		if step >= s.graph.Len() {
			continue
		}
		switch {
		case item > 0:
			if item == launched[step]+1 {
				launched[step] = item
			}
		case row.Spec.Step.Items != nil:
			s.progress.Start(step, *row.Spec.Step.Items)
			if d := row.Spec.Step.Deadline; !d.IsZero() && s.groups != nil {
				s.groups[step] = d
			}
		case isSkipped(row, attempts[row.ID]):
			s.progress.Skip(step, workflow.Succeeded)
		default:
			if from := row.Spec.Step.From; !from.IsZero() {
				if s.from == nil {
					s.from = make(map[int]schema.RunID)
				}
				s.from[step] = from
			}
			s.progress.Start(step, 1)
			launched[step] = 1
		}
	}
	for step, n := range launched {
		s.progress.Launch(step, n)
	}
}

// isSkipped reports whether a step was skipped by its own condition, or by hand.
func isSkipped(row *schema.Entry, attempts []schema.Attempt) bool {
	if row.Spec.Step.Skipped {
		return true
	}
	for i := range attempts {
		if r := attempts[i].Record; r != nil && r.Outcome == schema.Skipped {
			return true
		}
	}
	return false
}

// endOf notes the end of a step's run, if its rows say that it has ended.
func (a loader) endOf(ctx context.Context, row *schema.Entry, attempts []schema.Attempt) (ended bool, err error) {
	live, err := a.o.live.Of(ctx, attempts)
	if err != nil {
		return false, err
	}
	state := schema.Fold(row.Marks, attempts, live)
	if !state.Terminal() {
		return false, nil
	}
	if row.Spec.Step.Wait == nil && a.mayBeCalled(row.Marks, attempts) {
		a.lookAgain(row.ID, row.Marks.Cancelled.At.Add(cancelledFor))
		return false, nil
	}
	v := verdictOf(state)
	if v != workflow.Succeeded || !isClean(row.Marks, attempts) || a.isNearly(row.Spec.Step.Deadline) {
		if v, err = a.decide(ctx, row.ID, v); err != nil {
			return false, err
		}
		switch {
		case isEvent(v) && state != schema.StateSucceeded: // its record is being written
			a.lookAgain(row.ID, a.now.Add(soonest))
			return false, nil
		case isEvent(v), v == skippedByHand:
			v = workflow.Succeeded
		}
	}
	if v == workflow.Failed && a.State.cause == "" {
		a.State.cause = failureOf(row.Spec.Step.Name, attempts)
	}
	a.ended(row.ID, v)
	return true, nil
}

// noteFault notes why a step could not be started.
func (a loader) noteFault(s *schema.Step) {
	if a.State.cause == "" {
		a.State.cause = fmt.Sprintf("step %q failed: %s", s.Name, s.Fault)
	}
}

// mayBeCalled reports whether a run that was cancelled may be called yet: an executor that has begun
// leaves no trace in the rows for a moment.
func (a loader) mayBeCalled(marks schema.Marks, attempts []schema.Attempt) bool {
	if marks.Cancelled == nil || !a.now.Before(marks.Cancelled.At.Add(cancelledFor)) {
		return false
	}
	for i := range attempts {
		if r := attempts[i].Record; r != nil && !r.Unstarted && (attempts[i].Number > 0 || r.Outcome == schema.Cancelled) {
			return false
		}
	}
	return true
}

// lookAgain has the rows of a step's run read again at an instant.
func (a loader) lookAgain(run schema.RunID, at time.Time) {
	if a.State.look == nil {
		a.State.look = make(map[schema.RunID]time.Time)
	}
	a.State.look[run] = at
}

// isNearly reports whether an instant has come, by a clock that is right: another owner may act on
// it.
func (a loader) isNearly(at time.Time) bool {
	return !at.IsZero() && !a.now.Before(at.Add(-schema.MaxClockDifference))
}

// verdictOf says what the end of a step's run is for the steps after it.
func verdictOf(s schema.State) workflow.Verdict {
	switch s {
	case schema.StateSucceeded, schema.StateSkipped:
		return workflow.Succeeded
	case schema.StateCancelled:
		return workflow.Cancelled
	}
	return workflow.Failed
}

// isClean reports whether nothing stands beside a success: nobody can have read these rows, or
// fewer of them, and found another end.
func isClean(marks schema.Marks, attempts []schema.Attempt) bool {
	if marks.Cancelled != nil {
		return false
	}
	for i := range attempts {
		a := &attempts[i]
		if a.Fault != nil {
			return false
		}
		if r := a.Record; r != nil && !r.Unstarted && (r.Final || r.Doubt || r.Outcome == schema.Cancelled || r.Outcome == schema.Missed) {
			return false
		}
	}
	return true
}

// stepKey returns the key under which the end of a step's run is decided.
func stepKey(run schema.RunID) string { return "step/" + run.String() }

// decide decides once which end of a step's run counts, and returns it.
func (a loader) decide(ctx context.Context, run schema.RunID, v workflow.Verdict) (workflow.Verdict, error) {
	decided, err := a.o.store.Decide(ctx, stepKey(run), string(v), a.o.core.Expiry(a.State.until, a.now))
	if err != nil {
		return "", fmt.Errorf("end of step %s: %w", run, err)
	}
	return workflow.Verdict(decided), nil
}

// failureOf says in words why a step failed.
func failureOf(step string, attempts []schema.Attempt) string {
	var last *schema.Record
	for i := range attempts {
		if r := attempts[i].Record; r != nil && r.Final && (last == nil || r.Finished.After(last.Finished)) {
			last = r
		}
	}
	switch {
	case last == nil:
		return fmt.Sprintf("step %q failed", step)
	case last.Error == "":
		return fmt.Sprintf("step %q failed: %s", step, last.Outcome)
	}
	return fmt.Sprintf("step %q failed: %s", step, last.Error)
}

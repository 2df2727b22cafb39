package orchestration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const (
	// roomWait is the pause before a run goes on for which there was no room.
	roomWait = 100 * time.Millisecond
	// cancelsAtOnce bounds the steps of a run that are cancelled at once.
	cancelsAtOnce = 8
	// cancelsATurn bounds the steps of a run that are cancelled in one turn.
	cancelsATurn = 500
	// cancelledFor is how long after its cancel a run may be called of which the rows say nothing.
	cancelledFor = bucketer.TaskChangeWithin + 2*time.Second
	// idleFor is how long a run that was stopped is left alone of which nothing ends.
	idleFor = 10 * time.Minute
	// soonest is the least time until a run is advanced again by time.
	soonest = time.Second
)

// advance is a Turn under way.
type advance struct {
	*Turn
	o     *Orchestrator
	now   time.Time
	room  int
	known map[schema.EntryID]schema.Entry // the rows of all steps; nil: they were not read in this turn

	parent        schema.RunID    // the workflow run of which this one is a step
	definitionRow *schema.Entry   // of a run that begins, to be written first, unless it is there
	beginning     *schema.Attempt // of a run that begins, to be written next

	attempts []schema.Attempt // attempts 0 of steps that are not started, and …
	rows     []schema.Entry   // … the entries of steps, to be written
	full     bool             // there was no room for more
	end      *workflow.Action // how the run ends; nil: it goes on
	output   json.RawMessage  // what it puts out, if it is a step of another
}

// The parts of an advance, each in the file of its kind of work.
type (
	loader  struct{ *advance } // load.go: what the rows say
	starter struct{ *advance } // start.go: rows of steps
	outputs struct{ *advance } // output.go: what steps put out
	ending  struct{ *advance } // end.go: the run's beginning and end
)

// openRun is a run of a step that has not ended.
type openRun struct {
	step      *schema.Step
	tenant    string
	cancelled bool // we have cancelled it
}

// decideAll finds out what has become of the run's steps, and decides what follows. What it decides
// is to be written.
func (a *advance) decideAll(ctx context.Context) error {
	if a.end != nil {
		return nil
	}
	if err := a.takeEnds(ctx); err != nil {
		return err
	}
	if err := a.takeTimes(ctx); err != nil {
		return err
	}
	if a.Cancelled && !a.State.stopped {
		a.State.stopped = true
		a.State.progress.Cancel()
	}
	if a.State.stopped {
		if err := a.cancelOpen(ctx); err != nil {
			return err
		}
	}
	var err error
	if a.end, err = a.decideSteps(ctx); err != nil {
		return err
	}
	a.setWake()
	return nil
}

// opened notes a run of a step that may start.
func (a *advance) opened(row *schema.Entry) {
	a.State.open[row.ID] = &openRun{step: row.Spec.Step, tenant: row.Spec.Tenant}
}

// ended notes the end of a step's run.
func (a *advance) ended(run schema.RunID, v workflow.Verdict) {
	step, item := run.StepOf()
	delete(a.State.open, run)
	a.State.progress.End(step, max(item-1, 0), v)
}

// takeEnds notes what has ended, and reads the rows of what may have.
func (a *advance) takeEnds(ctx context.Context) error {
	var unsure []schema.RunID
	for _, e := range a.Ended {
		run, open := a.State.open[e.Run]
		if !open {
			continue
		}
		if e.Succeeded && !(loader{a}).isNearly(run.step.Deadline) {
			a.ended(e.Run, workflow.Succeeded)
			continue
		}
		unsure = append(unsure, e.Run)
	}
	return a.readEnds(ctx, unsure)
}

// readEnds reads the rows of runs, and notes which of them have ended.
func (a *advance) readEnds(ctx context.Context, ids []schema.RunID) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := a.o.core.Stored(ctx, ids)
	if err != nil {
		return err
	}
	attempts, err := a.o.core.AttemptsOf(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if row, ok := rows[id]; ok {
			if _, err := (loader{a}).endOf(ctx, &row, attempts[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeTimes ends what waited for an instant that has come, and what has passed its deadline.
func (a *advance) takeTimes(ctx context.Context) error {
	s := a.State
	if !s.stopped && !a.now.Before(s.until) {
		s.stopped = true
		s.progress.Expire()
	}
	var again []schema.RunID
	for id, at := range s.look {
		if !a.now.Before(at) {
			delete(s.look, id)
			again = append(again, id)
		}
	}
	if err := a.readEnds(ctx, again); err != nil {
		return err
	}
	for id, run := range s.open {
		switch w := run.step.Wait; {
		case w != nil && !w.Until.IsZero() && !a.now.Before(w.Until):
			if err := a.waited(ctx, id); err != nil {
				return err
			}
		case !run.step.Deadline.IsZero() && !a.now.Before(run.step.Deadline):
			if err := a.readEnds(ctx, []schema.RunID{id}); err != nil {
				return err
			}
			if _, open := s.open[id]; !open {
				continue // it ended in time
			}
			v, err := (loader{a}).decide(ctx, id, workflow.Failed)
			if err != nil {
				return err
			}
			switch {
			case isEvent(v): // its record is being written
				(loader{a}).lookAgain(id, a.now.Add(soonest))
				continue
			case v == skippedByHand:
				v = workflow.Succeeded
			}
			if v == workflow.Failed {
				if s.cause == "" {
					s.cause = fmt.Sprintf("step %q failed: its deadline has passed", run.step.Name)
				}
				if err := (starter{a}).cancelRun(ctx, id, run); err != nil {
					return err
				}
			}
			a.ended(id, v)
		}
	}
	return nil
}

// waited records that the instant has come for which a step waited.
func (a *advance) waited(ctx context.Context, id schema.RunID) error {
	run := a.State.open[id]
	rec := schema.Record{Entry: id, Started: run.step.Wait.Until, Finished: a.now.UTC(), Outcome: schema.Succeeded}
	row := schema.Attempt{
		Run: id, Number: 1, Fence: waitFence(id), Record: &rec, Written: a.now.UnixMicro(), Expires: (starter{a}).expires(),
	}
	if err := a.o.runs.Record(ctx, []schema.Attempt{row}); err != nil {
		return err
	}
	a.ended(id, workflow.Succeeded)
	return nil
}

// cancelOpen cancels the runs of steps that have not ended, each once, and notes which have ended by
// that. Steps that are always run are left alone.
func (a *advance) cancelOpen(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(cancelsAtOnce)
	var ids []schema.RunID
	for id, run := range a.State.open {
		if a.isAlways(id) {
			continue
		}
		if len(ids) == cancelsATurn {
			a.full = true
			break
		}
		ids = append(ids, id)
		if run.cancelled {
			continue
		}
		g.Go(func() error {
			err := (starter{a}).cancelRun(ctx, id, run)
			run.cancelled = err == nil
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return a.readEnds(ctx, ids)
}

// isAlways reports whether a step runs also after a cancel of the workflow run.
func (a *advance) isAlways(id schema.RunID) bool {
	step, _ := id.StepOf()
	return a.State.graph.Step(step).When == workflow.Always
}

// decideSteps does what follows from what is known, until nothing follows any more. It returns how
// the run ends; nil: it has not ended.
func (a *advance) decideSteps(ctx context.Context) (end *workflow.Action, err error) {
	s := a.State
	for !a.full {
		actions := s.progress.Next()
		if len(actions) == 0 {
			break
		}
		for i := range actions {
			switch act := &actions[i]; act.Kind {
			case workflow.SkipStep:
				s.progress.Skip(act.Step, act.Verdict)
				a.o.metrics.steps.WithLabelValues("skipped").Inc()
			case workflow.PrepareStep:
				err = a.prepare(ctx, act.Step)
			case workflow.LaunchItems:
				err = a.launch(ctx, act.Step, act.From, act.To)
			case workflow.EndRun:
				return act, nil
			}
			if err != nil {
				return nil, err
			}
			if a.full {
				break
			}
		}
	}
	return nil, nil
}

// prepare evaluates a step whose time has come, and starts it, skips it, or has it fail.
func (a *advance) prepare(ctx context.Context, step int) error {
	s := a.State
	prepared, cause, err := a.evaluate(ctx, step)
	switch {
	case err != nil:
		return err
	case cause != nil:
		return (starter{a}).failStep(step, cause)
	case prepared.Skip:
		return (starter{a}).skipStep(step)
	}
	def := s.graph.Step(step)
	switch {
	case def.ForEach != nil:
		n := len(prepared.Items)
		if err := (starter{a}).addGroup(step, n); err != nil {
			return err
		}
		s.progress.Start(step, n)
		if n > 0 {
			s.items[step] = prepared.Items
		}
		return nil
	case def.Workflow != "":
		cause, err = (starter{a}).addChild(ctx, step, 0, payloadOf(prepared))
	default:
		cause, err = (starter{a}).addStep(step, 0, payloadOf(prepared))
	}
	switch {
	case err != nil:
		return err
	case cause != nil:
		return (starter{a}).failStep(step, cause)
	}
	s.progress.Start(step, 1)
	s.progress.Launch(step, 1)
	return nil
}

func payloadOf(p workflow.Prepared) json.RawMessage {
	if len(p.Items) == 0 {
		return nil
	}
	return p.Items[0]
}

// evaluate asks the definition what a step is to do. cause is why the step fails; err is the
// store's.
func (a *advance) evaluate(ctx context.Context, step int) (prepared workflow.Prepared, cause, err error) {
	s := a.State
	in := workflow.Input{
		Payload: s.input, RunID: a.Run.String(), Nominal: s.entry.Spec.Nominal,
		Output: func(of int) (json.RawMessage, error) { return (outputs{a}).output(ctx, of) },
		State:  func(of int) string { return a.stateOf(of) },
	}
	prepared, err = s.graph.Prepare(step, in)
	var failure *workflow.Failure
	if errors.As(err, &failure) {
		return workflow.Prepared{}, failure, nil
	}
	return prepared, nil, err
}

// stateOf returns what conditions see as the state of a step.
func (a *advance) stateOf(step int) string {
	if a.State.progress.Skipped(step) {
		return string(schema.StateSkipped)
	}
	return string(a.State.progress.Verdict(step))
}

// launch makes the entries of some items of a step, as far as there is room.
func (a *advance) launch(ctx context.Context, step, from, to int) error {
	s := a.State
	items, ok := s.items[step]
	gone := errFewerItems
	if !ok {
		prepared, cause, err := a.evaluate(ctx, step)
		if err != nil {
			return err
		}
		if cause != nil { // it was right when the step was started
			gone = cause
		}
		items = prepared.Items
		s.items[step] = items
	}
	if to > from+a.room {
		to, a.full = from+a.room, true
	}
	a.room -= to - from
	for item := from; item < to; item++ {
		if _, there := a.known[schema.MakeStepID(a.Run, step, item+1)]; there {
			continue // of a batch that was torn
		}
		var cause, err error
		switch {
		case item >= len(items):
			cause = gone
		case s.graph.Step(step).Workflow != "":
			cause, err = (starter{a}).addChild(ctx, step, item+1, items[item])
		default:
			cause, err = (starter{a}).addStep(step, item+1, items[item])
		}
		if err == nil && cause != nil {
			err = (starter{a}).failItem(step, item+1, cause)
		}
		if err != nil {
			return err
		}
	}
	s.progress.Launch(step, to)
	if to == s.progress.Counts(step).Items {
		delete(s.items, step)
	}
	return nil
}

// errFewerItems: the list of a step's items is not what it was.
var errFewerItems = errors.New("the list has fewer items than when the step was started")

// setWake says when the run is to be advanced again, and whether it is idle until then.
func (a *advance) setWake() {
	s := a.State
	a.Wake, a.Idle = s.until, true
	if s.stopped {
		a.Wake = a.now.Add(idleFor)
	}
	for _, run := range s.open {
		a.Idle = a.Idle && run.step.Wait != nil
		for _, at := range []time.Time{run.step.Deadline, waitUntil(run.step)} {
			if !at.IsZero() && at.Before(a.Wake) {
				a.Wake = at
			}
		}
	}
	for id, at := range s.look {
		if _, open := s.open[id]; open && at.Before(a.Wake) {
			a.Wake, a.Idle = at, false
		}
	}
	switch {
	case a.full:
		a.Wake, a.Idle = a.now.Add(roomWait), false
	case s.stopped && len(s.open) > 0:
		a.Idle = false
	}
	if at := a.now.Add(soonest); !a.full && a.Wake.Before(at) && a.Wake.Before(a.now) {
		a.Wake = at
	}
}

func waitUntil(s *schema.Step) time.Time {
	if s.Wait == nil {
		return time.Time{}
	}
	return s.Wait.Until
}

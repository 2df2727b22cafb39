package orchestration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const (
	// maxOutput bounds what a step may refer to of the steps before it, in bytes: the output of one
	// step, or of all items of one.
	maxOutput = workflow.MaxOutput
	// outputsAtOnce bounds the outputs of items that are read at once.
	outputsAtOnce = 16
)

// output returns what a step put out, as JSON; of a step with items, a list in their order. A
// workflow.Failure says why it cannot be used; any other error is the store's.
func (a outputs) output(ctx context.Context, step int) (json.RawMessage, error) {
	text, cause, err := a.readOutput(ctx, step)
	if cause != nil {
		return nil, &workflow.Failure{Reason: cause.Error()}
	}
	return text, err
}

func (a outputs) readOutput(ctx context.Context, step int) (text json.RawMessage, cause, err error) {
	s := a.State
	name := s.graph.Step(step).Name
	of, items := a.Run, 0
	if s.graph.Step(step).ForEach != nil {
		items = s.progress.Counts(step).Items
	}
	if from, ok := s.from[step]; ok {
		if of, items, err = a.takenOver(ctx, from); err != nil {
			return nil, nil, err
		}
	}
	if s.graph.Step(step).ForEach == nil {
		text, cause, err = a.outputOf(ctx, schema.MakeStepID(of, step, 0))
		if cause != nil {
			cause = fmt.Errorf("the output of step %q %w", name, cause)
		}
		return text, cause, err
	}
	list := make([]json.RawMessage, items)
	runs := make([]schema.RunID, items)
	for i := range runs {
		runs[i] = schema.MakeStepID(of, step, i+1)
	}
	attempts, err := a.o.core.AttemptsOf(ctx, runs)
	if err != nil {
		return nil, nil, err
	}
	var g errgroup.Group
	g.SetLimit(outputsAtOnce)
	causes := make([]error, len(list))
	for i := range list {
		if text, ok := shortOutput(attempts[runs[i]]); ok {
			if list[i], err = asJSON([]byte(text)); err != nil {
				return nil, nil, err
			}
			continue
		}
		g.Go(func() (err error) {
			list[i], causes[i], err = a.outputOf(ctx, runs[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	size := 0
	for i := range list {
		if causes[i] != nil {
			return nil, fmt.Errorf("the output of item %d of step %q %w", i, name, causes[i]), nil
		}
		if size += len(list[i]) + 1; size > maxOutput {
			return nil, fmt.Errorf("the outputs of step %q have more than %d bytes", name, maxOutput), nil
		}
	}
	text, err = json.Marshal(list)
	return text, nil, err
}

// ofRun returns what a workflow run put out that is a step of another: an object of the outputs of the
// steps that none comes after, by their names. A workflow.Failure says why it has none.
func (a outputs) ofRun(ctx context.Context) (json.RawMessage, error) {
	g := a.State.graph
	followed := make(map[string]bool)
	for i := range g.Len() {
		for _, name := range g.Step(i).After {
			followed[name] = true
		}
	}
	all := make(map[string]json.RawMessage)
	for i := range g.Len() {
		if name := g.Step(i).Name; !followed[name] && !a.State.progress.Skipped(i) {
			text, err := a.output(ctx, i)
			if err != nil {
				return nil, err
			}
			all[name] = text
		}
	}
	text, err := json.Marshal(all)
	if err == nil && len(text) > schema.MaxPayload {
		err = &workflow.Failure{Reason: fmt.Sprintf("the outputs of its last steps have %d bytes, at most %d are kept", len(text), schema.MaxPayload)}
	}
	return text, err
}

// takenOver returns the workflow run of a step that was taken over, and how many items it had.
func (a outputs) takenOver(ctx context.Context, from schema.RunID) (run schema.RunID, items int, err error) {
	rows, err := a.o.core.Stored(ctx, []schema.EntryID{from})
	if err != nil {
		return schema.RunID{}, 0, err
	}
	row, ok := rows[from]
	if !ok || row.Spec.Step == nil {
		return from, 0, nil // it has left the store: it has no output any more
	}
	if n := row.Spec.Step.Items; n != nil {
		items = *n
	}
	return row.Spec.Step.Workflow, items, nil
}

// outputOf returns what the run of a step put out, as JSON. Text that is not JSON is a JSON string.
// A step that put out nothing has the output null.
func (a outputs) outputOf(ctx context.Context, run schema.RunID) (text json.RawMessage, cause, err error) {
	out, err := a.o.runs.Output(ctx, a.State.entry.Spec.Tenant, run, 0)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return json.RawMessage("null"), nil, nil // it was skipped
	case errors.Is(err, schema.ErrSealed):
		return nil, fmt.Errorf("cannot be read: %w", err), nil
	case err != nil:
		return nil, nil, err
	case out.Size > maxOutput || out.Cut:
		return nil, fmt.Errorf("has more than %d bytes", maxOutput), nil
	}
	var b bytes.Buffer
	for chunk, err := range out.Chunks {
		if errors.Is(err, schema.ErrSealed) {
			return nil, fmt.Errorf("cannot be read: %w", err), nil
		}
		if err != nil {
			return nil, nil, err
		}
		b.Write(chunk)
	}
	text, err = asJSON(b.Bytes())
	return text, nil, err
}

// shortOutput returns the output of a run that has one attempt, which succeeded, if all of it lies in
// the record.
func shortOutput(attempts []schema.Attempt) (string, bool) {
	if len(attempts) != 1 {
		return "", false
	}
	r := attempts[0].Record
	if r == nil || r.Outcome != schema.Succeeded || r.OutputSize > 0 || r.OutputCut || r.Sealed != "" {
		return "", false
	}
	return r.Output, true
}

// asJSON returns an output as JSON: nothing is null, text that is not JSON a string.
func asJSON(output []byte) (json.RawMessage, error) {
	switch {
	case len(bytes.TrimSpace(output)) == 0:
		return json.RawMessage("null"), nil
	case json.Valid(output):
		return output, nil
	}
	return json.Marshal(string(output))
}

package orchestration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// endedBy is the beginning of the decision that an event ended the wait of a step; its id follows.
const endedBy = "event/"

// isEvent reports whether a decision about a step is that an event ended its wait.
func isEvent(v workflow.Verdict) bool { return strings.HasPrefix(string(v), endedBy) }

// subscription returns what says that the step of a row waits for an event.
func subscription(row *schema.Entry) schema.Subscription {
	s := schema.Subscription{
		Tenant: row.Spec.Tenant, Event: row.Spec.Step.Wait.Event, Subscriber: row.ID,
		Written: row.Spec.Step.Due, Expires: row.Expires,
	}
	return s
}

// waitsForEvent reports whether the step of a row waits for an event.
func waitsForEvent(row *schema.Entry) bool {
	w := row.Spec.Step.Wait
	return w != nil && w.Event != "" && !row.Spec.Step.Skipped && row.Spec.Step.Fault == ""
}

// StepHeard tells a step that waits for an event of one, and has its workflow run advanced. It does
// nothing if the step does not wait any more, or its filter does not take the event. Telling it
// again is harmless.
//
// The decision is written first: the event has ended the wait, and nothing else has. Then the record
// has the event's body as output. If we crash in between, the event is planned again.
func (o *Orchestrator) StepHeard(ctx context.Context, step schema.RunID, e *schema.Entry, body json.RawMessage, value workflow.Value) error {
	found, err := o.core.Stored(ctx, []schema.EntryID{step})
	if err != nil {
		return err
	}
	row, ok := found[step]
	if !ok || row.Fault != nil || row.Spec.Step == nil || !waitsForEvent(&row) || row.Spec.Tenant != e.Spec.Tenant || row.Spec.Step.Wait.Event != e.Spec.Event.Name {
		return nil
	}
	// The step may have begun by a clock that is ahead of that of the event's node.
	if row.Spec.Step.Due.After(e.Run().Time().Add(schema.MaxClockDifference)) {
		return nil
	}
	attempts, err := o.core.AttemptsOf(ctx, []schema.RunID{step})
	if err != nil {
		return err
	}
	a := &advance{o: o, now: o.core.Now(), Turn: &Turn{Run: row.Spec.Step.Workflow, State: &State{until: row.Spec.Step.Until}}}
	whole, err := o.core.Stored(ctx, []schema.EntryID{a.Run})
	if err != nil {
		return err
	}
	run, ok := whole[a.Run]
	if !ok {
		return a.hearNoMore(ctx, &row)
	}
	mine := workflow.Verdict(endedBy + e.Run().String())
	ended := schema.Fold(row.Marks, attempts[step], noSession).Terminal()
	if !ended {
		if takes, err := o.takes(ctx, &row, &run, value); err != nil || !takes {
			return err
		}
	}
	// Of a step that has ended it may have been this event that ended it, and its run not been woken.
	var decided workflow.Verdict
	if ended {
		var text string
		text, err = o.store.Decided(ctx, stepKey(step))
		if errors.Is(err, schema.ErrNotFound) {
			err = nil
		}
		decided = workflow.Verdict(text)
	} else {
		decided, err = (loader{a}).decide(ctx, step, mine)
	}
	switch {
	case err != nil:
		return err
	case decided != mine && isEvent(decided):
		return nil // whoever plans that event finds the step by its subscription, and removes it
	case decided != mine:
		return a.hearNoMore(ctx, &row)
	}
	rec := schema.Record{Entry: step, Started: row.Spec.Step.Due, Finished: a.now.UTC(), Outcome: schema.Succeeded, Output: string(body)}
	attempt := schema.Attempt{Run: step, Tenant: row.Spec.Tenant, Number: 1, Fence: waitFence(step), Record: &rec, Written: a.now.UnixMicro(), Expires: (starter{a}).expires()}
	if err := o.runs.Record(ctx, []schema.Attempt{attempt}); err != nil {
		return err
	}
	if err := o.runs.Wake(ctx, &run); err != nil {
		return err
	}
	return a.hearNoMore(ctx, &row)
}

// hearNoMore removes the subscription of a step that has ended.
func (a *advance) hearNoMore(ctx context.Context, row *schema.Entry) error {
	s := subscription(row)
	s.Written = a.now
	return a.o.store.DeleteSubscription(ctx, s)
}

// takes reports whether the filter of a step takes an event. One that cannot be evaluated does not.
func (o *Orchestrator) takes(ctx context.Context, row, run *schema.Entry, event workflow.Value) (bool, error) {
	text := row.Spec.Step.Wait.Filter
	if text == "" {
		return true, nil
	}
	f := o.filters.Filter(text)
	if f == nil {
		return false, nil
	}
	payload, err := o.runs.EntryPayload(ctx, run)
	if err != nil {
		return false, err
	}
	input, err := workflow.ResolveRunPayload(payload, run.ID.String(), run.Spec.Nominal)
	if err != nil {
		input = payload
	}
	value, err := workflow.ParseValue(input)
	if err != nil {
		return false, fmt.Errorf("payload of %s: %w: %w", run.ID, schema.ErrNotUnderstood, err)
	}
	takes, err := f.Match(event, value)
	if err != nil {
		o.log.Debug("a filter cannot be evaluated: the step goes on waiting", "step", row.ID, "err", err)
	}
	return takes && err == nil, nil
}

// subscribe has steps that wait for an event hear of it, before their entries are held.
func (o *Orchestrator) subscribe(ctx context.Context, rows []schema.Entry) error {
	for i := range rows {
		if waitsForEvent(&rows[i]) {
			if s := &rows[i].Spec; schema.IsSystemEvent(s.Step.Wait.Event) {
				if err := o.store.PutListening(ctx, s.Tenant, s.Step.Due); err != nil {
					return err
				}
			}
			if err := o.store.PutSubscription(ctx, subscription(&rows[i])); err != nil {
				return err
			}
		}
	}
	return nil
}

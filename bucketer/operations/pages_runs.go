package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// place is where the listing of runs goes on: within one window after another or, of the runs of a
// job, before the last one.
type place struct {
	From  time.Time     `json:"from"`
	After runs.Position `json:"after"`
}

// filterPlace begins where an operation goes on whose filter not every build knows, from its
// beginning on. A build that does not know it cannot read such a place, and leaves the operation to
// others: it would act on other runs too.
const filterPlace = "filter "

// OpenStates are the states in which a run has not ended, as filters of operations name them;
// EndedStates are the others.
var (
	OpenStates  = append(slices.Clone(firstStates), string(schema.StateWaiting), string(schema.StateStuck))
	EndedStates = []string{string(schema.StateFailed), string(schema.StateMissed), string(schema.StateCancelled), string(schema.StateSucceeded)}

	firstStates = []string{string(schema.StatePending), string(schema.StateRunning), string(schema.StateRetrying)}
)

// beginning returns where an operation on runs with that filter begins: "" if every build knows all
// that the filter says.
func beginning(f *schema.OperationFilter) string {
	known := schema.OperationFilter{From: f.From, To: f.To, Task: f.Task}
	if slices.Contains(firstStates, f.State) || slices.Contains(EndedStates, f.State) {
		known.State = f.State
	}
	if reflect.DeepEqual(*f, known) {
		return ""
	}
	return filterPlace
}

// runsPage lists runs, as lists of runs do: in the order of due time, an hour at a time, or those of
// a job, the latest due first.
func (o *pages) runsPage(ctx context.Context, op *schema.Operation, at string, limit int) ([]target, string, error) {
	prefix := beginning(&op.Spec.Filter)
	here := place{From: op.Spec.Filter.From}
	if at = strings.TrimPrefix(at, prefix); at != "" {
		if err := json.Unmarshal([]byte(at), &here); err != nil {
			return nil, "", fmt.Errorf("where an operation goes on: %w", err)
		}
	}
	page, next, err := o.runsFrom(ctx, op, here, limit)
	if err != nil {
		return nil, "", err
	}
	var targets []target
	for i := range page {
		r := &page[i]
		// A retry made by this operation may be due within the window as well, and may fail again.
		if op.Spec.Action == ActionRetry && (!r.State.Terminal() || !r.Current.Due().Before(op.ID.Time())) {
			continue
		}
		targets = append(targets, target{name: "run " + r.ID.String(), act: func(ctx context.Context) (bool, error) { return o.actOnRun(ctx, op, r) }})
	}
	if next == nil {
		return targets, "", nil
	}
	text, err := json.Marshal(next)
	return targets, prefix + string(text), err
}

// runsFrom returns at most limit runs that match from a place on, and where to go on; nil: the end.
func (o *pages) runsFrom(ctx context.Context, op *schema.Operation, here place, limit int) ([]runs.Run, *place, error) {
	f := &op.Spec.Filter
	w := runs.Window{Tenant: op.Tenant, From: f.From, To: f.To}
	var err error
	if w.Filter, err = filterOf(f); err != nil {
		return nil, nil, err
	}
	calls := w.CallsTo(func(tenant, task string) (schema.Task, error) { return o.task(ctx, tenant, task) })
	var page []runs.Run
	var next *place
	if f.Job != "" {
		page, next, err = o.runsOfJob(ctx, &w, f.Job, here, limit)
	} else {
		page, next, err = o.runsDue(ctx, w, here, limit)
	}
	if err == nil {
		err = calls.Unread() // else a run may be missing
	}
	return page, next, err
}

// filterOf returns what runs an operation's filter selects, besides a job and due times.
func filterOf(f *schema.OperationFilter) (runs.Filter, error) {
	text := runs.FilterText{States: f.States, Task: f.Task, Host: f.Host, Labels: f.Labels, Late: f.Late, Key: f.Key}
	if f.State != "" {
		text.States = append([]string{f.State}, text.States...)
	}
	if f.Label != "" {
		text.Labels = append([]string{f.Label}, text.Labels...)
	}
	filter, faults := text.Parse()
	if len(faults) > 0 {
		return filter, fmt.Errorf("filter of an operation: %s %s: %w", faults[0].Field, faults[0].Message, schema.ErrNotUnderstood)
	}
	return filter, nil
}

// runsDue lists the runs of w from a place on, an hour at a time.
func (o *pages) runsDue(ctx context.Context, w runs.Window, here place, limit int) ([]runs.Run, *place, error) {
	end := w.To
	w.From = here.From
	if hour := here.From.Add(operationWindow); hour.Before(end) {
		w.To = hour
	}
	page, next, err := o.runs.Runs(ctx, w, here.After, limit)
	switch {
	case err != nil:
		return nil, nil, err
	case next != nil:
		return page, &place{From: here.From, After: *next}, nil
	case w.To.Before(end):
		return page, &place{From: w.To}, nil
	}
	return page, nil, nil
}

// runsOfJob lists the runs of a job in w from a place on, the latest due first: they may lie in many
// partitions, and the job's history knows which.
func (o *pages) runsOfJob(ctx context.Context, w *runs.Window, text string, here place, limit int) ([]runs.Run, *place, error) {
	id, err := schema.ParseJobID(text)
	if err != nil {
		return nil, nil, fmt.Errorf("job of an operation: %w: %w", schema.ErrNotUnderstood, err)
	}
	if only, ok := id.OneOff(); ok {
		run, err := o.runs.Run(ctx, w.Tenant, only)
		if errors.Is(err, schema.ErrNotFound) || err == nil && !w.Holds(&run, o.now()) {
			return nil, nil, nil
		}
		return []runs.Run{run}, nil, err
	}
	filter := recurring.JobRunFilter{Filter: w.Filter, From: w.From, To: w.To, Own: true}
	page, next, err := o.jobs.JobRuns(ctx, w.Tenant, id, filter, here.After, limit)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return nil, nil, nil
	case err != nil || next == nil:
		return page, nil, err
	}
	return page, &place{From: here.From, After: *next}, nil
}

func (o *pages) actOnRun(ctx context.Context, op *schema.Operation, r *runs.Run) (changed bool, err error) {
	switch op.Spec.Action {
	case ActionCancel:
		if r.State.Terminal() {
			return false, nil
		}
		_, err = o.runs.Cancel(ctx, op.Tenant, r.ID, op.Spec.By)
	case ActionRetry:
		_, err = o.runs.Retry(ctx, op.Tenant, r.ID, keyOf(op, r.ID))
	default:
		return false, fmt.Errorf("%q of a run is no action", op.Spec.Action)
	}
	return err == nil, err
}

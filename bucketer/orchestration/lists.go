package orchestration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

const (
	// viewsAtOnce bounds the workflow runs of a list whose rows are read at once.
	viewsAtOnce = 16
	// stepRowsRead bounds the rows that one page of runs of steps reads, about.
	stepRowsRead = 5000
)

// FindWaits sets Waits of those of the workflow runs under way of which nothing but waits is, as View
// says it. It returns about how many reads it took. All rows of a run are read only if a wait of it is
// open, and none if its workflow has no waits. A run of which that is not understood does not wait.
func (o *Orchestrator) FindWaits(ctx context.Context, open []*runs.Run) (reads int, err error) {
	graphs, reads, err := o.graphsOf(ctx, open)
	if err != nil {
		return reads, err
	}
	var ids []schema.EntryID
	for run, g := range graphs {
		for i := range g.Len() {
			if g.Step(i).Wait != nil {
				ids = append(ids, schema.MakeStepID(run, i, 0))
			}
		}
	}
	waiting, more, err := o.openWaits(ctx, ids)
	if reads += more; err != nil {
		return reads, err
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(viewsAtOnce)
	for _, run := range open {
		if !waiting[run.ID] {
			continue
		}
		g.Go(func() error {
			waits, n, err := o.onlyWaits(ctx, run.ID)
			mu.Lock()
			defer mu.Unlock()
			run.Waits = waits
			reads += n
			return err
		})
	}
	err = g.Wait() // reads counts on until then
	return reads, err
}

// graphsOf returns the workflows of runs that have begun, as far as they are understood.
func (o *Orchestrator) graphsOf(ctx context.Context, open []*runs.Run) (graphs map[schema.RunID]*workflow.Graph, reads int, err error) {
	ids := make([]schema.EntryID, len(open))
	for i, run := range open {
		ids[i] = schema.DefinitionID(run.ID)
	}
	found, err := o.core.Stored(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	reads = partitionsOf(ids)
	graphs = make(map[schema.RunID]*workflow.Graph, len(open))
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(viewsAtOnce)
	for i, run := range open {
		row, ok := found[ids[i]]
		if !ok || row.Spec.Workflow == nil {
			continue
		}
		if _, large := row.LargePayload(); large {
			reads++
		}
		g.Go(func() error {
			stored, err := o.runs.EntryPayload(ctx, &row)
			var graph *workflow.Graph
			if err == nil {
				graph, err = o.graphOf(stored)
			}
			switch {
			case errors.Is(err, schema.ErrNotUnderstood), errors.Is(err, schema.ErrNotFound):
				return nil
			case err != nil:
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			graphs[run.ID] = graph
			return nil
		})
	}
	return graphs, reads, g.Wait()
}

// openWaits returns the workflow runs of which one of these waits is open.
func (o *Orchestrator) openWaits(ctx context.Context, ids []schema.EntryID) (open map[schema.RunID]bool, reads int, err error) {
	found, err := o.core.Stored(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	var rows []schema.Entry
	for _, id := range ids {
		if row, ok := found[id]; ok && row.Spec.Step != nil && row.Spec.Step.Wait != nil {
			rows = append(rows, row)
		}
	}
	waits, err := o.runs.Fold(ctx, rows)
	if err != nil {
		return nil, 0, err
	}
	open = make(map[schema.RunID]bool)
	for i := range waits {
		if w := &waits[i]; !w.State.Terminal() {
			open[w.Entry.Spec.Step.Workflow] = true
		}
	}
	return open, partitionsOf(ids) + partitionsOf(bucketer.IDsOf(rows)), nil
}

// onlyWaits reports whether all steps of a workflow run are waits that are open, of those that are.
func (o *Orchestrator) onlyWaits(ctx context.Context, run schema.RunID) (waits bool, reads int, err error) {
	rows, attempts, err := o.stepRows(ctx, run)
	if err != nil {
		return false, 0, err
	}
	reads = len(rows)/rowsPage + len(rows)/bucketer.ReadIDs + 2
	for i := range rows {
		row := &rows[i]
		if row.Spec.Step.Items != nil {
			continue
		}
		live, err := o.live.Of(ctx, attempts[row.ID])
		if err != nil {
			return false, reads, err
		}
		if schema.Fold(row.Marks, attempts[row.ID], live).Terminal() {
			continue
		}
		if row.Spec.Step.Wait == nil {
			return false, reads, nil
		}
		waits = true
	}
	return waits, reads, nil
}

// partitionsOf counts the partitions of ids.
func partitionsOf(ids []schema.EntryID) int {
	seen := make(map[schema.Partition]struct{})
	for _, id := range ids {
		seen[id.Partition()] = struct{}{}
	}
	return len(seen)
}

// StepRuns returns the runs of the steps of a workflow run, each item of a step with for_each as one of
// its own, in the order of the workflow's steps, then of items: at most limit of those that f selects,
// after that one (zero: from the first), only of the step of that name unless it is "". next is after
// which to go on; zero: there are no more. A page reads a bounded number of rows, so it may hold fewer
// than limit, even none. ErrNoStep: the workflow has no such step.
//
// A step that was skipped since those before it ended otherwise has no run.
func (o *Orchestrator) StepRuns(ctx context.Context, of *runs.Run, step string, f runs.Filter, after schema.RunID, limit int) (list []runs.Run, next schema.RunID, err error) {
	within := schema.StepRange(of.ID)
	if step != "" {
		graphs, _, err := o.graphsOf(ctx, []*runs.Run{of})
		if err != nil {
			return nil, next, err
		}
		g, begun := graphs[of.ID]
		if !begun {
			return nil, next, nil
		}
		i, ok := g.Index(step)
		if !ok {
			return nil, next, fmt.Errorf("runs of step %q: %w", step, ErrNoStep)
		}
		within = schema.StepRunRange(of.ID, i)
	}
	if !after.IsZero() {
		within.After = after
	}
	now := o.core.Now()
	page := min(max(limit, bucketer.ReadIDs), rowsPage)
	for read := 0; read < stepRowsRead; read += page {
		rows, err := o.store.Entries(ctx, schema.DefinitionID(of.ID).Partition(), within, page)
		if err != nil {
			return nil, next, fmt.Errorf("steps of %s: %w", of.ID, err)
		}
		ended := len(rows) < page
		if !ended {
			within.After = rows[len(rows)-1].ID
		}
		rows = slices.DeleteFunc(rows, func(e schema.Entry) bool {
			st := e.Spec.Step
			// The row of a step with items is no run: the items are.
			return e.Fault != nil || st == nil || st.Workflow != of.ID || st.Items != nil || !f.MayMatch(&e, &e)
		})
		some, err := o.foldSteps(ctx, of, rows)
		if err != nil {
			return nil, next, err
		}
		for i := range some {
			if !f.Matches(&some[i], now) {
				continue
			}
			if list = append(list, some[i]); len(list) == limit {
				return list, some[i].ID, nil
			}
		}
		if ended {
			return list, schema.RunID{}, nil
		}
	}
	return list, within.After, nil
}

// foldSteps makes runs of the rows of steps of a workflow run, as runs.Reader.Run shows each.
func (o *Orchestrator) foldSteps(ctx context.Context, of *runs.Run, rows []schema.Entry) ([]runs.Run, error) {
	some, err := o.runs.Fold(ctx, rows)
	if err != nil {
		return nil, err
	}
	for i := range some {
		if of.State.Terminal() && some[i].State == schema.StatePending {
			some[i].State = schema.StateCancelled // it came late: nobody starts it
		}
	}
	_, err = o.runs.NoteWaits(ctx, some)
	return some, err
}

package runs

import (
	"context"
	"errors"
	"fmt"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Run returns a run of the tenant, or schema.ErrNotFound.
func (r *Reader) Run(ctx context.Context, tenant string, id schema.RunID) (Run, error) {
	rows, err := r.store.EntriesByID(ctx, id.Partition(), []schema.EntryID{id})
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	if len(rows) == 0 || rows[0].Spec.Tenant != tenant || !isFirst(&rows[0]) {
		return Run{}, fmt.Errorf("run %s: %w", id, schema.ErrNotFound)
	}
	runs, err := r.Fold(ctx, rows)
	if err != nil {
		return Run{}, err
	}
	run := &runs[0]
	if err := r.endWithItsWorkflow(ctx, run); err != nil {
		return Run{}, err
	}
	if run.State == schema.StateRunning {
		if run.Progress, err = r.progress(ctx, run); err != nil {
			return Run{}, err
		}
	}
	return *run, nil
}

// isFirst reports whether e is the row that its run was born with.
func isFirst(e *schema.Entry) bool {
	return e.Spec.Kind == schema.KindRun || e.Spec.Kind == schema.KindJoin && e.Spec.Of == e.ID
}

// endWithItsWorkflow has a step that never started count as cancelled once its workflow run has
// ended. Its row came late, by a write whose outcome nobody knew: nobody starts it.
func (r *Reader) endWithItsWorkflow(ctx context.Context, run *Run) error {
	step := run.Entry.Spec.Step
	if step == nil || run.State != schema.StatePending {
		return nil
	}
	rows, err := r.store.EntriesByID(ctx, step.Workflow.Partition(), []schema.EntryID{step.Workflow})
	if err != nil {
		return fmt.Errorf("workflow run of step %s: %w", run.ID, err)
	}
	whole, err := r.Fold(ctx, rows)
	if err != nil {
		return err
	}
	if len(whole) > 0 && whole[0].State.Terminal() {
		run.State = schema.StateCancelled
	}
	return nil
}

// Fold makes runs of their first rows. It reads the entries to which they were moved, their
// attempts and sessions.
func (r *Reader) Fold(ctx context.Context, rows []schema.Entry) ([]Run, error) {
	runs := make([]Run, len(rows))
	var moved []schema.EntryID
	for i, row := range rows {
		runs[i] = Run{ID: row.ID, Entry: row, Current: row}
		if to := row.Marks.MovedTo; !to.IsZero() {
			moved = append(moved, to)
		}
	}
	current, err := r.core.Stored(ctx, moved)
	if err != nil {
		return nil, err
	}
	attempts, err := r.core.AttemptsOf(ctx, bucketer.IDsOf(rows))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		run := &runs[i]
		if e, ok := current[run.Entry.Marks.MovedTo]; ok {
			run.Current = e
		}
		run.Attempts = attempts[run.ID]
		live, err := r.live.Of(ctx, run.Attempts)
		if err != nil {
			return nil, err
		}
		run.State = schema.Fold(run.Entry.Marks, run.Attempts, live)
	}
	return runs, nil
}

// starter returns the entry that started the attempt of f. That may be another entry of the run
// than f.Entry, with another spec, if the run was moved.
func (r *Reader) starter(ctx context.Context, f *bucketer.Finished) (schema.Entry, error) {
	at := f.Attempt.Record.Entry
	if at.IsZero() || at == f.Entry.ID {
		return f.Entry, nil
	}
	rows, err := r.store.EntriesByID(ctx, at.Partition(), []schema.EntryID{at})
	switch {
	case err != nil:
		return schema.Entry{}, fmt.Errorf("entry %s that was started: %w", at, err)
	case len(rows) > 0 && rows[0].Fault == nil:
		return rows[0], nil
	}
	return f.Entry, nil
}

// Payload returns the payload of the entry that starts the run; nil = none.
func (r *Reader) Payload(ctx context.Context, run Run) ([]byte, error) {
	return r.EntryPayload(ctx, &run.Current)
}

// EntryPayload returns the payload of an entry, wherever it lies; nil = none. schema.ErrSealed
// comes with the payload as it is stored.
func (r *Reader) EntryPayload(ctx context.Context, e *schema.Entry) ([]byte, error) {
	payload := e.Payload
	if at, large := e.LargePayload(); large && schema.ClearSize(payload) <= schema.InlinePayload {
		var err error
		if payload, err = r.store.Payload(ctx, at); err != nil {
			return nil, fmt.Errorf("payload of %s: %w", e.ID, err)
		}
	}
	if !schema.IsSealed(payload) {
		return payload, nil
	}
	opener, ok := r.store.(schema.PayloadOpener)
	if !ok {
		return payload, fmt.Errorf("payload of %s: %w", e.ID, schema.ErrSealed)
	}
	of := *e
	of.Payload = payload
	text, err := opener.OpenPayload(&of)
	if err != nil {
		return payload, fmt.Errorf("payload of %s: %w", e.ID, err)
	}
	return text, nil
}

// progress returns the last progress that the attempt under way reported.
func (r *Reader) progress(ctx context.Context, run *Run) (*schema.RunProgress, error) {
	for i := len(run.Attempts) - 1; i >= 0; i-- {
		a := &run.Attempts[i]
		if a.Number == 0 || a.Record != nil || a.Session == nil {
			continue
		}
		p, err := r.store.LastPart(ctx, a.Run, schema.ReportPart, schema.PartKey{Attempt: a.Number, Fence: a.Fence})
		switch {
		case errors.Is(err, schema.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("progress of %s: %w", a.Run, err)
		}
		r, err := schema.DecodeReport(p.Data)
		if err != nil {
			return nil, fmt.Errorf("progress of %s: %w", a.Run, err)
		}
		return r.Progress, nil
	}
	return nil, nil
}

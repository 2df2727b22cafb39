package orchestration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/workflow"
	"carillon.dev/carillon/schema"
)

// beganFence is the fence of attempt 1 of a workflow run: its beginning and its end share a row.
func beganFence(run schema.RunID) schema.Fence {
	return schema.Fence(schema.HashOf("workflow", run.String())) // #nosec G115 -- 62 bits
}

// beganWritten is the write timestamp of the record of a run's beginning, in µs. It lies an hour
// before the run's due time: every end is later.
func beganWritten(e *schema.Entry) int64 { return e.Due().Add(-time.Hour).UnixMicro() }

// begin begins the run: it takes a slot of the workflow's limit, if there is one, and notes what is to
// be written. job is the workflow, nil if it was not found. stored is the definition that an owner
// before has kept; nil: the workflow says it.
func (a ending) begin(ctx context.Context, job *schema.Job, stored []byte) error {
	s, e := a.State, &a.State.entry
	kept := stored != nil
	if !kept {
		w, limit, rec, err := a.workflow(ctx, job)
		if err == nil && rec.Outcome == "" && limit != nil {
			rec, err = a.takeSlot(ctx, limit)
		}
		switch {
		case err != nil:
			return err
		case rec.Outcome == schema.Replaced: // it waits
			return loader(a).over(nil)
		case rec.Outcome != "":
			return loader(a).over(a.dropped(ctx, rec))
		}
		stored, s.limited = w.Definition, limit != nil
		// From now on, if the run is late: it was not under way before.
		s.until = bucketer.Latest(a.now, e.Due()).Add(w.Deadline.Std()).UTC().Truncate(time.Millisecond)
	}
	if err := loader(a).compile(ctx, stored); err != nil {
		return err
	}
	if !kept {
		row, err := schema.NewEntry(schema.DefinitionID(a.Run), schema.Spec{
			Tenant: e.Spec.Tenant, Kind: schema.KindDefinition, Of: a.Run, Nominal: e.Spec.Nominal, Accepted: e.Spec.Accepted,
			Workflow: &schema.WorkflowRun{Depth: e.Spec.Workflow.Depth, Until: s.until, Limited: s.limited}, Retention: e.Spec.Retention,
		}, stored, starter(a).expires())
		if err != nil {
			return err
		}
		a.definitionRow = &row
	}
	s.began = bucketer.Latest(a.now, e.Due()).UTC()
	a.beginning = &schema.Attempt{
		Run: a.Run, Number: 1, Fence: beganFence(a.Run), Written: beganWritten(e), Expires: starter(a).expires(),
		Record: &schema.Record{Entry: e.ID, Started: s.began, Finished: s.began, Outcome: schema.Began},
	}
	return nil
}

// beginRuns keeps the definitions of the runs that begin, then says that they have begun.
func (o *Orchestrator) beginRuns(ctx context.Context, all []*advance) {
	o.confirm(ctx, all)
	var rows []schema.Entry
	var whose []*advance
	for _, a := range all {
		if a.Err == nil && a.definitionRow != nil {
			rows, whose = append(rows, *a.definitionRow), append(whose, a)
		}
	}
	o.putRows(ctx, rows, func(i int, err error) { whose[i].Err = fmt.Errorf("definition of %s: %w", whose[i].Run, err) })
	var begun []*advance
	var attempts []schema.Attempt
	for _, a := range all {
		if a.Err == nil && a.beginning != nil {
			begun, attempts = append(begun, a), append(attempts, *a.beginning)
		}
	}
	if len(begun) == 0 {
		return
	}
	if err := o.runs.Record(ctx, attempts); err != nil {
		for _, a := range begun {
			a.Err = err
		}
		return
	}
	o.metrics.begun.Add(float64(len(begun)))
}

// readMaxAge bounds the age of the rows by which a run begins. A change of a job rests on it: it
// counts from 2 s after it is committed (package recurring). queue.FreshFor is the same for the runs
// that executors start.
const readMaxAge = 1900 * time.Millisecond

// errOutdated: the rows no longer say that a run may begin. Its next turn goes by what they say now.
var errOutdated = errors.New("changed while the run was about to begin")

// confirm reads the rows again of the runs whose definitions are about to be kept, if they are older
// than readMaxAge. It has those fail that may no longer begin. A run with a definition begins: whoever
// kept it has confirmed that.
func (o *Orchestrator) confirm(ctx context.Context, all []*advance) {
	var old []*advance
	var ids []schema.RunID
	for now, i := o.core.Now(), 0; i < len(all); i++ {
		if a := all[i]; a.Err == nil && a.definitionRow != nil && now.Sub(a.now) > readMaxAge {
			old, ids = append(old, a), append(ids, a.Run)
		}
	}
	if len(old) == 0 {
		return
	}
	rows, err := o.readRuns(ctx, ids)
	for _, a := range old {
		if a.Err = err; err == nil && !(ending{a}).mayBegin(&rows) {
			a.Err = fmt.Errorf("workflow run %s: %w", a.Run, errOutdated)
		}
	}
}

// mayBegin reports whether rows that were read just now still let the run begin.
func (a ending) mayBegin(rows *runRows) bool {
	e, ok := rows.entries[a.Run]
	if !ok || e.Marks.Cancelled != nil {
		return false
	}
	job := rows.jobs[e.Spec.Job]
	if job == nil {
		return false
	}
	start := job.DecideStart(&e, a.o.core.Now())
	return !start.Unknown && start.Outcome == ""
}

// definition reads the entry that keeps the definition.
func (a ending) definition(ctx context.Context) (schema.Entry, error) {
	id := schema.DefinitionID(a.Run)
	found, err := a.o.core.Stored(ctx, []schema.EntryID{id})
	if err != nil {
		return schema.Entry{}, err
	}
	row, ok := found[id]
	if !ok || row.Spec.Workflow == nil {
		return schema.Entry{}, fmt.Errorf("definition of workflow run %s: %w", a.Run, schema.ErrNotFound)
	}
	return row, nil
}

// workflow returns what the run's workflow says in the generation that the run belongs to, and the limit
// in force for it, nil if there is none; or what is recorded instead of a beginning. job is the workflow
// as it was read, nil if it was not found.
func (a ending) workflow(
	ctx context.Context, job *schema.Job,
) (w *schema.JobWorkflow, limit *schema.Concurrency, instead schema.Record, err error) {
	e := &a.State.entry
	right := schema.StartDecision{Unknown: true}
	if job != nil {
		right = job.DecideStart(e, a.now)
	}
	if right.Unknown { // a write that is not decided yet
		decided, err := a.o.store.Job(ctx, e.Spec.Job)
		switch {
		case errors.Is(err, schema.ErrNotFound):
			return nil, nil, schema.Record{Outcome: schema.Cancelled, Reason: "the workflow does not exist"}, nil
		case errors.Is(err, schema.ErrNotUnderstood):
			return nil, nil, schema.Record{Outcome: schema.Missed, Reason: "fault: what is stored of the workflow could not be read"}, nil
		case err != nil:
			return nil, nil, instead, fmt.Errorf("workflow %s: %w", e.Spec.Job, err)
		}
		job, right = &decided, decided.DecideStart(e, a.now)
	}
	if right.Outcome != "" {
		return nil, nil, schema.Record{Outcome: right.Outcome, Reason: right.Reason}, nil
	}
	if e.Spec.Step == nil {
		if rec, missed := a.o.jobs.Misfired(job, e, a.now); missed {
			return nil, nil, schema.Record{Outcome: rec.Outcome, Reason: rec.Reason}, nil
		}
		limit = job.Current.Spec.Concurrency
	}
	for _, g := range []*schema.Generation{&job.Current, job.Before} {
		if g != nil && g.Number == e.Spec.Generation && g.Spec.Workflow != nil {
			return g.Spec.Workflow, limit, instead, nil
		}
	}
	return nil, nil, schema.Record{Outcome: schema.Missed, Reason: "changed: the workflow was changed before the run could begin"}, nil
}

// dropped records why the run never begins.
func (a ending) dropped(ctx context.Context, rec schema.Record) error {
	row := a.o.runs.NotStarted(a.State.entry, rec, a.now)
	if err := a.o.runs.Record(ctx, []schema.Attempt{row}); err != nil {
		return err
	}
	err := schema.ErrUnavailable
	a.o.runs.FollowUp(ctx, []bucketer.Finished{{Entry: a.State.entry, Attempt: row}}, func(_ int, e error) { err = e })
	if err == nil {
		a.o.core.CountMissed(&a.State.entry, row.Record)
	}
	return err
}

// endRuns ends the runs that have come to their end. Any end but a success is decided once: two
// owners may differ in whether a cancel or the deadline was first. A success stands in any case: its
// record is the later one of the two that share a cell.
func (o *Orchestrator) endRuns(ctx context.Context, all []*advance) {
	var over []*advance
	var rows []schema.Attempt
	for _, a := range all {
		if a.Err != nil || a.end == nil {
			continue
		}
		if a.end.Verdict == workflow.Succeeded && a.State.entry.Spec.Step != nil {
			if a.Err = (ending{a}).putOut(ctx); a.Err != nil {
				continue
			}
		}
		if a.end.Verdict != workflow.Succeeded {
			end := *a.end
			if end.Verdict, a.Err = (loader{a}).decide(ctx, a.Run, end.Verdict); a.Err != nil {
				continue
			}
			a.end = &end
		}
		over, rows = append(over, a), append(rows, (ending{a}).lastRecord())
	}
	if len(over) == 0 {
		return
	}
	if err := o.runs.Record(ctx, rows); err != nil {
		for _, a := range over {
			a.Err = err
		}
		return
	}
	finished := make([]bucketer.Finished, len(over))
	for i, a := range over {
		finished[i] = bucketer.Finished{Entry: a.State.entry, Attempt: rows[i]}
	}
	o.runs.FollowUp(ctx, finished, func(i int, err error) {
		a := over[i]
		if a.Err = err; err == nil {
			a.Over, a.Parent = true, parentOf(&a.State.entry)
			(ending{a}).releaseSlot(ctx)
			o.metrics.ended.WithLabelValues(string(rows[i].Record.Outcome)).Inc()
			o.ended(&a.State.entry, rows[i].Record)
		}
	})
}

// putOut finds out what a run that has succeeded puts out as a step of another. One whose outputs cannot
// be kept has failed.
func (a ending) putOut(ctx context.Context) (err error) {
	var failure *workflow.Failure
	if a.output, err = outputs(a).ofRun(ctx); errors.As(err, &failure) {
		a.end = &workflow.Action{Kind: workflow.EndRun, Verdict: workflow.Failed, Reason: failure.Error()}
		err = nil
	}
	return err
}

// lastRecord makes the record of how the run ended.
func (a ending) lastRecord() schema.Attempt {
	s := a.State
	rec := schema.Record{
		Entry: s.entry.ID, Started: s.began, Finished: bucketer.Latest(a.now, s.began).UTC(), Announce: a.o.core.Announces(s.entry.Spec.Tenant),
	}
	switch a.end.Verdict {
	case workflow.Succeeded:
		rec.Outcome, rec.Output = schema.Succeeded, string(a.output)
	case workflow.Cancelled:
		rec.Outcome, rec.Reason = schema.Cancelled, a.end.Reason
	default:
		rec.Outcome, rec.Final, rec.Error = schema.Failed, true, cmp.Or(s.cause, a.end.Reason)
	}
	written := beganWritten(&s.entry) + 1
	if rec.Outcome == schema.Succeeded {
		written = bucketer.Latest(a.now, s.entry.Due()).UnixMicro()
	}
	return schema.Attempt{Run: a.Run, Tenant: s.entry.Spec.Tenant, Number: 1, Fence: beganFence(a.Run), Record: &rec, Written: written, Expires: starter(a).expires()}
}

// parentOf returns the workflow run of which e's run is a step; zero: of none.
func parentOf(e *schema.Entry) schema.RunID {
	if e.Spec.Step == nil {
		return schema.RunID{}
	}
	return e.Spec.Step.Workflow
}

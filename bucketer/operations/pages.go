package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// pages lists what an operation's filter matches, and acts on it.
type pages struct {
	runs *runs.Runs
	jobs *recurring.Jobs
	task func(ctx context.Context, tenant, name string) (schema.Task, error) // or schema.ErrNotFound
	now  func() time.Time
	note func(op *schema.Operation, job *schema.Job) // may be nil
}

// beginsAt returns where an operation begins that pages work off: "" unless its filter must be kept
// from builds that do not know it.
func beginsAt(spec *schema.OperationSpec) string {
	switch f := &spec.Filter; {
	case spec.Backfill != nil:
		return beginningOfBackfill(spec.Backfill)
	case spec.OfDeadLetters():
		return beginningOfLetters(f)
	case f.From.IsZero():
		return ""
	default:
		return beginning(f)
	}
}

// page returns at most limit targets that match from at on, and where to go on. "" is the
// beginning, and the end.
func (o *pages) page(ctx context.Context, op *schema.Operation, at string, limit int) ([]target, string, error) {
	switch {
	case op.Spec.OfDeadLetters():
		return o.lettersPage(ctx, op, at, limit)
	case op.Spec.Filter.From.IsZero():
		return o.jobsPage(ctx, op, at, limit)
	}
	return o.runsPage(ctx, op, at, limit)
}

// jobsPage lists jobs, newest first, from the newest one at the time when the operation was made.
func (o *pages) jobsPage(ctx context.Context, op *schema.Operation, at string, limit int) ([]target, string, error) {
	f := &op.Spec.Filter
	filter := recurring.JobFilter{Kind: recurring.NoWorkflows, State: schema.JobState(f.State), NamePrefix: f.NamePrefix}
	filter.Label, filter.Value, _ = strings.Cut(f.Label, "=")
	before := schema.MakeJobID(op.ID.Time().Add(time.Millisecond), 0, 0)
	if at != "" {
		var err error
		if before, err = schema.ParseJobID(at); err != nil {
			return nil, "", fmt.Errorf("where an operation goes on: %w", err)
		}
	}
	jobs, next, err := o.jobs.ListJobs(ctx, op.Tenant, filter, before, limit)
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		targets[i] = target{name: "job " + j.ID.String(), act: func(ctx context.Context) (bool, error) { return o.actOnJob(ctx, op, j) }}
	}
	if next == nil {
		return targets, "", nil
	}
	return targets, next.String(), nil
}

func (o *pages) actOnJob(ctx context.Context, op *schema.Operation, j *schema.Job) (changed bool, err error) {
	state := j.Current.State
	switch op.Spec.Action {
	case ActionCancel:
		if state.Ended() {
			return false, nil
		}
		_, err = o.jobs.CancelJob(ctx, op.Tenant, j.ID, 0)
	case ActionPause:
		if state != schema.JobActive {
			return false, nil
		}
		_, err = o.jobs.PauseJob(ctx, op.Tenant, j.ID, 0)
	case ActionResume:
		if state != schema.JobPaused {
			return false, nil
		}
		_, err = o.jobs.ResumeJob(ctx, op.Tenant, j.ID, 0)
	case ActionTrigger:
		_, err = o.jobs.TriggerJob(ctx, op.Tenant, j.ID, nil, keyOf(op, j.ID), "operation")
	default:
		return false, fmt.Errorf("%q of a job is no action", op.Spec.Action)
	}
	if err == nil && o.note != nil && op.Spec.Action != ActionTrigger {
		o.note(op, j)
	}
	return err == nil, err
}

// keyOf returns the idempotency key of what an operation makes of a job or a run. It is longer than
// clients' keys may be.
func keyOf[ID ~[16]byte](op *schema.Operation, of ID) string {
	return bucketer.OwnKey("operation " + op.ID.String() + " of " + schema.JobID(of).String())
}

// patternPlace begins where an operation goes on that selects by the pattern of an error, from its
// beginning on. A build that knows no patterns cannot read such a place, and leaves the operation to
// others: it would act on other dead letters too.
const patternPlace = "pattern "

// errorPlace is the same of one that selects by a text of the error: builds that know patterns and
// labels do not know that either.
const errorPlace = "error "

// beginningOfLetters returns where an operation on dead letters with that filter begins: "" if every
// build knows all that the filter says. Labels and jobs are younger than patterns, texts than both.
func beginningOfLetters(f *schema.OperationFilter) string {
	switch {
	case f.Error != "":
		return errorPlace
	case f.Label != "" || len(f.Labels) > 0 || f.Job != "":
		return filterPlace
	case f.ErrorPattern != "":
		return patternPlace
	default:
		return ""
	}
}

// lettersPage lists dead letters, the latest due first. One that is replayed and fails again lies
// before where the list goes on.
func (o *pages) lettersPage(ctx context.Context, op *schema.Operation, at string, limit int) ([]target, string, error) {
	f := &op.Spec.Filter
	var pos *runs.DeadLetterPosition
	prefix := beginningOfLetters(f)
	query := runs.DeadLetterQuery{Tenant: op.Tenant, From: f.From, To: f.To, Task: f.Task, Pattern: f.ErrorPattern, Error: f.Error, Labels: f.Labels}
	if f.Label != "" {
		query.Labels = append(slices.Clone(f.Labels), f.Label)
	}
	if f.Job != "" {
		var err error
		if query.Job, err = schema.ParseJobID(f.Job); err != nil {
			return nil, "", fmt.Errorf("the job of an operation: %w", err)
		}
	}
	if at = strings.TrimPrefix(at, prefix); at != "" {
		pos = new(runs.DeadLetterPosition)
		if err := json.Unmarshal([]byte(at), pos); err != nil {
			return nil, "", fmt.Errorf("where an operation goes on: %w", err)
		}
	}
	letters, next, err := o.runs.DeadLetters(ctx, query, pos, limit)
	if err != nil {
		return nil, "", err
	}
	targets := make([]target, len(letters))
	for i := range letters {
		run := letters[i].Run
		targets[i] = target{name: "dead letter " + run.String(), act: func(ctx context.Context) (bool, error) { return o.actOnLetter(ctx, op, run) }}
	}
	if next == nil {
		return targets, "", nil
	}
	text, err := json.Marshal(next)
	return targets, prefix + string(text), err
}

func (o *pages) actOnLetter(ctx context.Context, op *schema.Operation, run schema.RunID) (changed bool, err error) {
	if op.Spec.Action == ActionDiscard {
		return o.runs.Discard(ctx, op.Tenant, run, op.Spec.By)
	}
	receipt, err := o.runs.Replay(ctx, op.Tenant, run, op.Spec.By)
	return err == nil && !receipt.Existing, err
}

package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// The bounds of backfills.
const (
	// MaxBackfill is how many nominal times one backfill may be for.
	MaxBackfill = 100_000
	// MaxBackfillRuns bounds what max_concurrent may be; backfillRuns is what it is if nothing is
	// said.
	MaxBackfillRuns      = 100
	DefaultMaxConcurrent = 5
	// A backfill is looked at again after backfillSoon if a run of it ended or began, else after
	// backfillLater.
	backfillSoon  = 250 * time.Millisecond
	backfillLater = time.Second
	// backfillYield is how late a run of a backfill may start before the backfill asks for nothing
	// more, because executors are busy with work on time.
	backfillYield = 2 * time.Second
)

// Backfill is a validated request for runs of a job for nominal times that have passed: From ≤
// nominal time < To.
type Backfill struct {
	From, To      time.Time
	MaxConcurrent int  // runs that are unfinished at a time
	Missing       bool // only times that have no run, or one that was missed
}

// Backfill begins an operation that asks for a run of the job for each nominal time of the stretch
// that its schedule, as it is now, names, in their order. These runs are additional to what ran or
// was missed at those times. They have the lowest priority, and at most MaxConcurrent of them are
// unfinished at a time.
//
// With Missing the times that have runs when it is asked for are left out. Which these are is
// written with the operation, before anything is asked for.
//
// A paused job may be backfilled. One that was cancelled or has finished answers ErrFinished.
// Stretches that name no times, or too many, are Faults. About key see Begin.
func (o *Operations) Backfill(ctx context.Context, tenant string, id schema.JobID, r Backfill, by, key, bodyHash string) (Begun, error) {
	begun, err := o.begin(ctx, tenant, key, bodyHash, func(time.Time) (schema.OperationSpec, error) {
		f, named, err := (backfillPlanner{o}).plan(ctx, tenant, id, r)
		switch {
		case err != nil:
		case named == 0:
			err = bucketer.Faults{{Location: "body.to", Message: "leaves nothing: the schedule names no time in this stretch"}}
		case f.Count == 0:
			err = bucketer.Faults{{Location: "body.missing", Message: "leaves nothing: each time that the schedule names in this stretch has a run"}}
		}
		return schema.OperationSpec{Action: ActionBackfill, Backfill: f, By: by}, err
	})
	if err == nil {
		begun.Matched, begun.All = begun.Operation.Spec.Backfill.Count, true
	}
	return begun, err
}

// BackfillPreview is what a backfill would do.
type BackfillPreview struct {
	*schema.Backfill
	Named       int64     // times that the schedule names in the stretch; Count of them would have a run
	First, Last time.Time // of those that would have a run; zero: none would
}

// PreviewBackfill says what a backfill would do that was asked for now, and writes nothing. It
// answers as Backfill does, but that a stretch may leave nothing.
func (o *Operations) PreviewBackfill(ctx context.Context, tenant string, id schema.JobID, r Backfill) (BackfillPreview, error) {
	f, named, err := (backfillPlanner{o}).plan(ctx, tenant, id, r)
	if err != nil {
		return BackfillPreview{}, err
	}
	out := BackfillPreview{Backfill: f, Named: named}
	if f.Count == 0 {
		return out, nil
	}
	s, err := timesOf(f)
	if err != nil {
		return BackfillPreview{}, err
	}
	for at := range s.From(f.From.Add(-time.Millisecond)) {
		if !at.Before(f.To) {
			break
		}
		if out.Last = at; out.First.IsZero() {
			out.First = at
		}
	}
	return out, nil
}

// backfillPlanner decides what a backfill is to do. It only reads.
type backfillPlanner struct{ *Operations }

// plan returns what a backfill is to do, and how many times the schedule names in its stretch.
func (o backfillPlanner) plan(ctx context.Context, tenant string, id schema.JobID, r Backfill) (f *schema.Backfill, named int64, err error) {
	job, err := o.jobs.JobByID(ctx, tenant, id)
	if err != nil {
		return nil, 0, err
	}
	if job.Current.State.Ended() {
		return nil, 0, fmt.Errorf("backfill job %s, which is %s: %w", id, job.Current.State, bucketer.ErrFinished)
	}
	if f, err = backfillOf(&job, r); err != nil {
		return nil, 0, err
	}
	if named = f.Count; r.Missing && named > 0 {
		if err = o.skipRuns(ctx, tenant, f); err == nil {
			err = noteBefore(f, job.Current.Spec.Created)
		}
	}
	return f, named, err
}

// noteBefore notes how many runs of a backfill are for times before the job was made.
func noteBefore(f *schema.Backfill, made time.Time) error {
	s, err := timesOf(f)
	if err != nil {
		return err
	}
	n := 0
	for at := range s.From(f.From.Add(-time.Millisecond)) {
		if !at.Before(f.To) || !at.Before(made) {
			break
		}
		n++
	}
	if n > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("%d of the runs are for times before the job was made, at %s", n, made.UTC().Format(time.RFC3339)))
	}
	return nil
}

// backfillOf clips the stretch to what the job's schedule names, and counts its times.
func backfillOf(job *schema.Job, r Backfill) (*schema.Backfill, error) {
	spec := &job.Current.Spec
	if job.Current.Fault != nil {
		return nil, fmt.Errorf("backfill job %s: %w", job.ID, job.Current.Fault)
	}
	if spec.Schedule == nil {
		return nil, bucketer.Faults{{Location: "path.id", Message: "is a job without schedule: it has no times to backfill"}}
	}
	f := &schema.Backfill{
		Job: job.ID, JobName: spec.Name, From: bucketer.CeilMilli(r.From).UTC(), To: bucketer.CeilMilli(r.To).UTC(), Schedule: *spec.Schedule, MaxConcurrent: r.MaxConcurrent,
	}
	if start := f.Schedule.Start; f.From.Before(start) {
		f.Notes = append(f.Notes, "from was moved to "+start.Format(time.RFC3339Nano)+", the start of the schedule")
		f.From = start
	}
	if end := f.Schedule.End; !end.IsZero() && f.To.After(end) {
		f.Notes = append(f.Notes, "to was moved to "+end.Format(time.RFC3339Nano)+", the end of the schedule")
		f.To = end
	}
	s, err := schedule.Compile(f.Schedule, recurring.SeedOf(job.ID))
	if err != nil {
		return nil, fmt.Errorf("schedule of job %s: %w: %w", job.ID, schema.ErrNotUnderstood, err)
	}
	f.Count = int64(s.Count(f.From.Add(-time.Millisecond), f.To.Add(-time.Millisecond), recurring.MaxStretch))
	if f.Count > MaxBackfill {
		message := fmt.Sprintf("makes the stretch too long: the schedule names %d times in it, and one backfill is for at most %d", f.Count, MaxBackfill)
		return nil, bucketer.Faults{{Location: "body.to", Message: message}}
	}
	return f, nil
}

// backfillStep looks at the unfinished runs of a backfill, and asks for more if there is room.
//
// Which times come next, and when their runs are due, is decided once for every node before rows
// are written. If we crash, or two nodes work on the same backfill, the same decisions are read and
// the same rows are written again. A node that goes on from old progress reads all decisions, and
// all runs that they led to, before it makes a new one.
func (o *Operations) backfillStep(ctx context.Context, op *schema.Operation, p *schema.Progress) (wait time.Duration, err error) {
	f, now := op.Spec.Backfill, o.now()
	job, err := o.jobs.JobByID(ctx, op.Tenant, f.Job)
	gone := errors.Is(err, schema.ErrNotFound) || err == nil && job.Current.State == schema.JobCancelled
	if err == nil {
		err = job.Current.Fault // the rows say what the job says: another node may understand it
	}
	if err != nil && !gone {
		return 0, err
	}
	held, err := o.unfinished(ctx, p, now)
	if err != nil {
		return 0, err
	}
	s, err := timesOf(f)
	if err != nil {
		fault(p, "this version does not understand the schedule")
		p.Done = true
		return 0, nil //nolint:nilerr // told of, and it will not get better
	}
	last, prefix := f.From.Add(-time.Millisecond), beginningOfBackfill(f)
	if at := strings.TrimPrefix(p.At, prefix); at != "" {
		ms, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("where a backfill goes on: %w", err)
		}
		last = time.UnixMilli(ms).UTC()
	}
	next, more := s.Next(last)
	more = more && next.Before(f.To)
	if more && gone {
		fault(p, "the job was cancelled: no run was asked for from "+next.Format(time.RFC3339Nano)+" on")
		p.At, more = prefix+strconv.FormatInt(f.To.UnixMilli(), 10), false
	}
	if room := f.MaxConcurrent - len(p.Unfinished); more && room > 0 && !held {
		n, quota, err := o.left(ctx, op.Tenant, room)
		if err != nil {
			return 0, err
		}
		if wait = quota; n > 0 {
			wait = 0
			if err := o.askFor(ctx, op, p, s, &job, next, n); err != nil {
				return 0, err
			}
		}
	}
	p.Done = !more && len(p.Unfinished) == 0
	switch {
	case p.Done, wait > 0 && len(p.Unfinished) == 0:
		return wait, nil
	case p.At != op.Progress.At, len(p.Unfinished) != len(op.Progress.Unfinished):
		return backfillSoon, nil
	}
	return backfillLater, nil
}

// unfinished takes the runs out of p.Unfinished that have ended, and counts them. held says that
// one of the others should have started.
func (o *Operations) unfinished(ctx context.Context, p *schema.Progress, now time.Time) (held bool, err error) {
	if len(p.Unfinished) == 0 {
		return false, nil
	}
	rows, err := o.bucketer.Stored(ctx, p.Unfinished)
	if err != nil {
		return false, err
	}
	births := make([]schema.Entry, 0, len(rows))
	for _, id := range p.Unfinished {
		if row, ok := rows[id]; ok {
			births = append(births, row)
			continue
		}
		p.Failed++
		fault(p, "run "+id.String()+": has left the store unfinished")
	}
	runs, err := o.runs.Fold(ctx, births)
	if err != nil {
		return false, err
	}
	open := make([]schema.RunID, 0, len(runs))
	for i := range runs {
		switch r := &runs[i]; {
		case r.State == schema.StateSucceeded:
		case r.State.Terminal():
			p.Failed++
			fault(p, "run "+r.ID.String()+": "+string(r.State))
		default:
			open = append(open, r.ID)
			held = held || r.State == schema.StatePending && now.Sub(r.ID.Time()) > backfillYield
		}
	}
	if p.Unfinished = open; len(open) == 0 {
		p.Unfinished = nil
	}
	return held, nil
}

// batch is what was decided, once for every node, about the next nominal times of a backfill. It is
// stored as JSON.
type batch struct {
	Last int64 `json:"last"` // the last nominal time, ms
	Due  int64 `json:"due"`  // when their runs are due, ms
}

// askFor writes the rows of the next nominal times of a backfill, from `first` on and at most n,
// and notes them in p.
func (o *Operations) askFor(ctx context.Context, op *schema.Operation, p *schema.Progress, s *times, job *schema.Job, first time.Time, n int) error {
	f, now := op.Spec.Backfill, o.now()
	last := first
	for next := range s.From(first) {
		if n--; n == 0 || !next.Before(f.To) {
			break
		}
		last = next
	}
	text, err := json.Marshal(batch{Last: last.UnixMilli(), Due: bucketer.DueTime(time.Time{}, now).UnixMilli()})
	if err != nil {
		return err
	}
	key := "backfill/" + op.ID.String() + "/" + strconv.FormatInt(first.UnixMilli(), 10)
	decided, err := o.store.Decide(ctx, key, string(text), now.Add(schema.OperationRetention))
	if err != nil {
		return fmt.Errorf("decide on what is asked for: %w", err)
	}
	var d batch
	if err := json.Unmarshal([]byte(decided), &d); err != nil {
		return fmt.Errorf("decision %s: %w", key, err)
	}
	due, last := time.UnixMilli(d.Due).UTC(), time.UnixMilli(d.Last).UTC()
	var rows []schema.Entry
	for nominal := range s.From(first.Add(-time.Millisecond)) {
		if nominal.After(last) {
			break
		}
		row, err := o.backfilled(job, op, nominal, due, now)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if o.quota != nil {
		if err := o.quota.TakeRuns(ctx, op.Tenant, len(rows)); err != nil {
			return err
		}
	}
	if err := o.bucketer.WriteOnce(ctx, rows); err != nil {
		return fmt.Errorf("runs of a backfill: %w", err)
	}
	for i := range rows {
		if !slices.Contains(p.Unfinished, rows[i].ID) {
			p.Unfinished = append(p.Unfinished, rows[i].ID)
		}
	}
	p.At = beginningOfBackfill(f) + strconv.FormatInt(d.Last, 10)
	p.Matched += int64(len(rows))
	p.Changed += int64(len(rows))
	return nil
}

// backfilled makes the row of a run of a backfill. Its id is a function of tenant, job, operation,
// nominal time and due time, and not of the generation: the run does what the job says when its row
// is written. The write timestamp is the generation's number. So a row that is written again after
// a change is, as a whole, that of the later generation.
func (o *Operations) backfilled(job *schema.Job, op *schema.Operation, nominal, due, now time.Time) (schema.Entry, error) {
	spec := &job.Current.Spec
	hash := schema.HashOf("backfill", spec.Tenant, job.ID.String(), op.ID.String(), strconv.FormatInt(nominal.UnixMilli(), 10))
	id := schema.MakeEntryID(due, job.ID.Shard(), hash)
	days := o.bucketer.RetentionOf(spec.Tenant)
	says := schema.Spec{
		Tenant: spec.Tenant, Nominal: nominal, Accepted: o.bucketer.StampOf(job.Current.Number, days), Job: job.ID, JobName: spec.Name, Generation: job.Current.Number,
		Trigger: schema.TriggerBackfill, Priority: schema.Low, Task: spec.Task, Work: spec.Work, Labels: spec.Labels,
		Concurrency: spec.Concurrency, Workflow: spec.WorkflowRun(), Everywhere: spec.Durability == schema.DurableEverywhere,
		CreatedBy: spec.CreatedBy, Retention: days,
	}
	return schema.NewEntry(id, says, spec.Payload, o.bucketer.ExpiryOf(&says, due, now))
}

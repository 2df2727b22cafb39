package events

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
	// pageSubscribers bounds the subscribers that are planned together: about what a decision holds.
	pageSubscribers = 500
	// stepsAtOnce bounds the steps that are told of an event at once.
	stepsAtOnce = 16
)

// body is the body of an event, taken apart once.
type body struct {
	text  json.RawMessage // nil: null
	value workflow.Value
}

// page is what was decided, once for every owner, about a page of subscribers of an event. It is
// stored as JSON.
type page struct {
	At     time.Time `json:"at"`             // when, ms
	Last   []byte    `json:"last,omitempty"` // the id of its last subscriber; nil: there are no more
	Starts []start   `json:"starts,omitempty"`
}

// last returns the last subscriber of the page; zero: it is the last page.
func (p *page) last() (id schema.EntryID) {
	copy(id[:], p.Last)
	return id
}

// start is a run that a page starts.
type start struct {
	Job schema.JobID `json:"job"`
	Run schema.RunID `json:"run"`
}

func pageKey(event, after schema.EntryID) string {
	return "event/" + event.String() + "/" + after.String()
}

func parsePage(text string) (page, error) {
	p, err := schema.Decode[page]([]byte(text), "page of an event")
	return p, err
}

// PlanEvent plans everything that the event of e starts, or looks after the run that waits for other
// jobs, and records that it did. If we crash in between, the next call does the same, to the same rows.
func (v *Events) PlanEvent(ctx context.Context, e *schema.Entry) error {
	now := v.core.Now()
	if err := v.core.MayWrite(e.ID.Shard()); err != nil {
		return err
	}
	rec := schema.Record{Outcome: schema.Replaced}
	if e.Spec.Kind == schema.KindJoin || e.Spec.Event != nil && schema.IsEndOf(e.Spec.Event.Name) {
		if err := v.planJoin(ctx, e); err != nil {
			return err
		}
		return v.runs.Record(ctx, []schema.Attempt{v.runs.NotStarted(*e, rec, now)})
	}
	if e.Fault != nil || e.Spec.Event == nil {
		v.log.Error("an event cannot be understood: it starts nothing", "event", e.Run(), "err", e.Fault)
		return v.runs.Record(ctx, []schema.Attempt{v.runs.NotStarted(*e, rec, now)})
	}
	body, err := v.bodyOf(ctx, e)
	if err != nil {
		return err
	}
	for after := v.places.Of(e.ID); ; {
		next, err := v.planPage(ctx, e, body, after)
		if err != nil {
			return fmt.Errorf("event %s: %w", e.Run(), err)
		}
		if next.IsZero() {
			break
		}
		after = next
		v.places.Set(e.ID, after)
	}
	v.places.Forget(e.ID)
	v.metrics.planned.Inc()
	return v.runs.Record(ctx, []schema.Attempt{v.runs.NotStarted(*e, rec, now)})
}

// planJoin plans what follows from the end of a run, or looks after a run that waits for others.
func (v *Events) planJoin(ctx context.Context, e *schema.Entry) error {
	if e.Spec.Kind == schema.KindJoin {
		return v.joins.PlanJoin(ctx, e)
	}
	return v.joins.PlanEnd(ctx, e)
}

func (v *Events) bodyOf(ctx context.Context, e *schema.Entry) (*body, error) {
	text, err := v.runs.EntryPayload(ctx, e)
	if err != nil {
		return nil, err
	}
	value, err := workflow.ParseValue(text)
	if err != nil {
		return nil, fmt.Errorf("body of event %s: %w: %w", e.Run(), schema.ErrNotUnderstood, err)
	}
	if string(text) == "null" {
		text = nil
	}
	return &body{text: text, value: value}, nil
}

// jobsAndSteps tells the jobs among subscribers from the steps that wait.
func jobsAndSteps(subscribers []schema.EntryID) (jobs []schema.JobID, steps []schema.RunID) {
	for _, s := range subscribers {
		if s.IsStep() {
			steps = append(steps, s)
		} else {
			jobs = append(jobs, schema.JobID(s))
		}
	}
	return jobs, steps
}

// planPage plans the subscribers after `after`. It returns the last of them; zero: there are no
// more.
func (v *Events) planPage(ctx context.Context, e *schema.Entry, body *body, after schema.EntryID) (last schema.EntryID, err error) {
	subscribers, err := v.store.Subscribers(ctx, e.Spec.Tenant, e.Spec.Event.Name, after, pageSubscribers)
	if err != nil {
		return schema.EntryID{}, err
	}
	if len(subscribers) == pageSubscribers {
		last = subscribers[len(subscribers)-1]
	}
	ids, steps := jobsAndSteps(subscribers)
	if len(ids) > 0 {
		if last, err = v.planJobs(ctx, e, body, after, last, ids); err != nil {
			return schema.EntryID{}, err
		}
	}
	var g errgroup.Group
	g.SetLimit(stepsAtOnce)
	for _, s := range steps {
		g.Go(func() error { return v.steps.StepHeard(ctx, s, e, body.text, body.value) })
	}
	return last, g.Wait()
}

// planJobs decides which jobs of a page start a run, and writes the runs. It returns where the page
// ends: as was decided.
func (v *Events) planJobs(ctx context.Context, e *schema.Entry, body *body, after, last schema.EntryID, ids []schema.JobID) (schema.EntryID, error) {
	now := v.core.Now()
	jobs, err := v.jobs.Jobs(ctx, ids)
	if err != nil {
		return last, err
	}
	mine := page{At: bucketer.CeilMilli(now).UTC()}
	if !last.IsZero() {
		mine.Last = last[:]
	}
	for _, id := range ids {
		job := jobs[id]
		if job == nil || !v.wants(ctx, job, e, body) {
			continue
		}
		mine.Starts = append(mine.Starts, start{Job: id, Run: runID(job, e, mine.At)})
	}
	if len(mine.Starts) == 0 {
		// Nothing starts. If another owner decided otherwise before, its runs are written by it, or
		// by whoever reads its decision here.
		text, err := v.store.Decided(ctx, pageKey(e.Run(), after))
		if errors.Is(err, schema.ErrNotFound) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		return v.startDecided(ctx, e, body, text, jobs, false)
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return last, err
	}
	decided, err := v.store.Decide(ctx, pageKey(e.Run(), after), string(text), v.core.Expiry(now, now))
	if err != nil {
		return last, err
	}
	ours := decided == string(text)
	if ours {
		v.metrics.heard.WithLabelValues(started).Add(float64(len(mine.Starts)))
	}
	return v.startDecided(ctx, e, body, decided, jobs, ours)
}

// wants reports whether a job is to run by an event.
func (v *Events) wants(ctx context.Context, job *schema.Job, e *schema.Entry, body *body) bool {
	spec := &job.Current.Spec
	if job.Current.Fault != nil {
		v.metrics.heard.WithLabelValues(faulty).Inc()
		return false
	}
	// The job may have been made on a node whose clock is ahead of that of the event's.
	madeLater := spec.Created.After(e.Run().Time().Add(schema.MaxClockDifference))
	if !listens(job, e.Spec.Tenant, e.Spec.Event.Name) || madeLater {
		return false
	}
	if spec.On.Filter != "" {
		f := v.filters.Filter(spec.On.Filter)
		if f == nil {
			v.metrics.heard.WithLabelValues(faulty).Inc()
			return false
		}
		switch takes, err := f.Match(body.value, workflow.Value{}); {
		case err != nil:
			v.metrics.heard.WithLabelValues(faulty).Inc()
			v.log.Debug("a filter cannot be evaluated: the job does not start", "job", job.ID, "event", e.Run(), "err", err)
			return false
		case !takes:
			v.metrics.heard.WithLabelValues(filtered).Inc()
			return false
		}
	}
	if err := v.core.CheckTask(ctx, spec.Tenant, spec.Task, payloadFor(job, body)); err != nil && !errors.Is(err, bucketer.ErrNoTask) {
		v.metrics.heard.WithLabelValues(refused).Inc()
		v.log.Info("the body of an event does not fit the job's task: the job does not start", "job", job.ID, "event", e.Run(), "err", err)
		return false
	}
	return true
}

func payloadFor(job *schema.Job, body *body) json.RawMessage {
	if body.text != nil {
		return body.text
	}
	return job.Current.Spec.Payload
}

// runID returns the id of the run that an event starts: due after the delay, or when the page was
// decided.
func runID(job *schema.Job, e *schema.Entry, at time.Time) schema.RunID {
	due := e.Run().Time().Add(job.Current.Spec.On.Delay.Std())
	return schema.MakeEntryID(bucketer.Latest(bucketer.CeilMilli(due), at), job.ID.Shard(), schema.HashOf("event", e.Run().String(), job.ID.String()))
}

// startDecided writes the runs of a decided page that are not there yet. fresh says that we decided it
// just now: then none is there, and none is looked for. It returns where the page ends.
func (v *Events) startDecided(
	ctx context.Context, e *schema.Entry, body *body, decided string, jobs map[schema.JobID]*schema.Job, fresh bool,
) (schema.EntryID, error) {
	p, err := parsePage(decided)
	if err != nil {
		return schema.EntryID{}, err
	}
	now := v.core.Now()
	var missing []schema.JobID
	var ids []schema.RunID
	for _, s := range p.Starts {
		if !fresh {
			ids = append(ids, s.Run)
		}
		if jobs[s.Job] == nil {
			missing = append(missing, s.Job)
		}
	}
	there, err := v.core.Stored(ctx, ids)
	if err != nil {
		return schema.EntryID{}, err
	}
	more, err := v.jobs.Jobs(ctx, missing)
	if err != nil {
		return schema.EntryID{}, err
	}
	var rows, known []schema.Entry
	for _, s := range p.Starts {
		if row, ok := there[s.Run]; ok {
			known = append(known, row)
			continue
		}
		job := jobs[s.Job]
		if job == nil {
			job = more[s.Job]
		}
		if job == nil || job.Current.Fault != nil {
			continue // it has left meanwhile
		}
		row, err := v.rowOf(job, s.Run, e, body, p.At, now)
		if err != nil {
			return schema.EntryID{}, err
		}
		rows = append(rows, row)
	}
	if err := v.core.WriteAll(ctx, rows); err != nil {
		return schema.EntryID{}, fmt.Errorf("runs: %w", err)
	}
	// They may have been held too late for their sweep, by an owner that crashed.
	return p.last(), v.core.CheckLate(ctx, known)
}

// rowOf makes the row of a run. Owners may make it of different generations of the job: that of the
// later one stands, as a whole.
func (v *Events) rowOf(job *schema.Job, id schema.RunID, e *schema.Entry, body *body, at, now time.Time) (schema.Entry, error) {
	spec := &job.Current.Spec
	says := schema.Spec{
		Tenant: spec.Tenant, Nominal: id.Time(), Accepted: max(at.UnixMicro(), job.Current.Number), Job: job.ID, JobName: spec.Name, Generation: job.Current.Number,
		Trigger: schema.TriggerEvent, Priority: spec.Priority, Task: spec.Task, Work: spec.Work, Labels: spec.Labels, Concurrency: spec.Concurrency,
		Workflow: spec.WorkflowRun(), Event: &schema.Event{Name: e.Spec.Event.Name, ID: e.Run(), Depth: e.Spec.Event.Depth + 1}, Everywhere: spec.Durability == schema.DurableEverywhere,
		CreatedBy: spec.CreatedBy, Retention: e.Spec.Retention,
	}
	return schema.NewEntry(id, says, payloadFor(job, body), v.core.ExpiryOf(&says, id.Time(), now))
}

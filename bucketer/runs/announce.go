package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// announced is the body of an event of the system: what became of a run.
type announced struct {
	RunID      schema.RunID      `json:"run_id"`
	JobID      schema.JobID      `json:"job_id,omitzero"`
	JobName    string            `json:"job_name,omitempty"`
	Task       string            `json:"task,omitempty"`
	Labels     map[string]string `json:"labels"`
	Outcome    schema.Outcome    `json:"outcome"`
	Attempt    int               `json:"attempt"`
	Error      string            `json:"error,omitempty"`
	StatusCode int               `json:"status_code,omitempty"`
	Reason     string            `json:"reason,omitempty"` // of a run that was missed
	DueAt      time.Time         `json:"due_at"`
	StartedAt  time.Time         `json:"started_at,omitzero"`
	FinishedAt time.Time         `json:"finished_at"`
	LatenessMS int64             `json:"lateness_ms"` // of the first start

	Workflow      string       `json:"workflow,omitempty"`
	WorkflowRunID schema.RunID `json:"workflow_run_id,omitzero"` // of a step
	Step          string       `json:"step,omitempty"`
}

// announcesAtOnce bounds the records whose events are published at once.
const announcesAtOnce = 16

// announce publishes the events that follow from records: those of the system, where somebody may
// listen, the incidents of which a tenant may be notified, and the end of the run, where other jobs run
// after it. It returns what went wrong, by index.
// The events of a record have the same ids and bodies each time.
func (r *Recorder) announce(ctx context.Context, finished []bucketer.Finished) map[int]error {
	var which []int // records that somebody may be told of
	var unread error
	for i := range finished {
		f := &finished[i]
		if rec := f.Attempt.Record; rec == nil || !rec.Announce || rec.Unstarted {
			continue
		}
		if f.Entry.Spec.Trigger == schema.TriggerNotification { // nobody is told of it, or it would go on for ever
			if to := r.watch.incidents; to != nil {
				to.Delivered(&f.Entry.Spec, f.Attempt.Record)
			}
			continue
		}
		followed, err := r.core.IsFollowed(ctx, f.Entry.Spec.Tenant)
		if followed {
			which = append(which, i)
		}
		unread = cmp.Or(unread, err)
	}
	if len(which) == 0 {
		return nil
	}
	failed := r.noteIncidents(ctx, finished, which)
	var g errgroup.Group
	g.SetLimit(announcesAtOnce)
	var mu sync.Mutex
	for _, i := range slices.DeleteFunc(which, func(i int) bool { return failed[i] != nil }) {
		g.Go(func() error {
			f, err := &finished[i], unread
			if err == nil {
				err = r.announceOne(ctx, f)
			}
			if err == nil && ends(f) {
				err = r.AnnounceEnd(ctx, &f.Entry, f.Attempt.Record.Finished)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[i] = err
			}
			return nil
		})
	}
	_ = g.Wait() // each has its error
	for i, err := range failed {
		failed[i] = fmt.Errorf("announce run %s: %w", finished[i].Entry.Run(), err)
	}
	return failed
}

// ends reports whether a record may be the end of its run.
func ends(f *bucketer.Finished) bool {
	switch rec := f.Attempt.Record; rec.Outcome {
	case schema.Succeeded, schema.Cancelled, schema.Missed, schema.Skipped:
		return true
	default:
		return rec.Ruined()
	}
}

// AnnounceEnd publishes that the run of e may have ended, if jobs run after it: the event is planned
// at that instant, or now. Whoever plans it looks what became of the run (package joins).
func (r *Recorder) AnnounceEnd(ctx context.Context, e *schema.Entry, at time.Time) error {
	spec, run := &e.Spec, e.Run()
	if spec.Step != nil {
		return nil
	}
	if has, err := r.core.HasDependents(ctx, spec.Tenant); err != nil || !has {
		return err
	}
	job := spec.Job
	if job.IsZero() {
		job = schema.JobOf(run)
	}
	name := schema.EndOf(job)
	dependents, err := r.store.Subscribers(ctx, spec.Tenant, name, schema.EntryID{}, 1)
	if err != nil || len(dependents) == 0 {
		return err
	}
	body, err := json.Marshal(EndedRun{Run: run})
	if err != nil {
		return err
	}
	id := schema.MakeEntryID(bucketer.CeilMilli(at), run.Shard(), schema.HashOf("end of a run", run.String(), strconv.FormatInt(at.UnixMicro(), 10)))
	says := schema.Spec{
		Tenant: spec.Tenant, Kind: schema.KindEvent, Of: id, Nominal: id.Time(), Accepted: at.UnixMicro(), Event: &schema.Event{Name: name}, Retention: spec.Retention,
	}
	row, err := schema.NewEntry(id, says, body, r.core.ExpiryOf(&says, id.Time(), at))
	if err != nil {
		return err
	}
	return r.core.WriteAll(ctx, []schema.Entry{row})
}

// EndedRun is the body of the event that a run may have ended.
type EndedRun struct {
	Run schema.RunID `json:"run_id"`
}

func (r *Recorder) announceOne(ctx context.Context, f *bucketer.Finished) error {
	if listens, err := r.core.Listens(ctx, f.Entry.Spec.Tenant); err != nil || !listens {
		return err
	}
	names, late := eventsOf(f)
	if len(names) == 0 {
		return nil
	}
	spec, depth := &f.Entry.Spec, 0
	if spec.Event != nil {
		depth = spec.Event.Depth
	}
	if depth >= schema.MaxEventDepth {
		r.metrics.eventsDropped.Add(float64(len(names)))
		r.log.Warn("events lead to one another: the next one is dropped", "tenant", spec.Tenant, "run", f.Entry.Run(), "events", names, "depth", depth)
		var err error
		r.drops.Do(func() { err = r.auditDrop(ctx, f, names) })
		return err
	}
	body, err := json.Marshal(bodyOf(f, late))
	if err != nil {
		return err
	}
	rec := f.Attempt.Record
	rows := make([]schema.Entry, len(names))
	for i, name := range names {
		hash := schema.HashOf("event of the system", name, f.Entry.Run().String(), strconv.Itoa(f.Attempt.Number), strconv.FormatInt(int64(f.Attempt.Fence), 10))
		id := schema.MakeEntryID(bucketer.CeilMilli(rec.Finished), f.Entry.Run().Shard(), hash)
		says := schema.Spec{
			Tenant: spec.Tenant, Kind: schema.KindEvent, Of: id, Nominal: id.Time(), Accepted: rec.Finished.UnixMicro(),
			Event: &schema.Event{Name: name, Depth: depth}, Retention: spec.Retention,
		}
		rows[i], err = schema.NewEntry(id, says, body, r.core.ExpiryOf(&says, id.Time(), rec.Finished))
		if err != nil {
			return err
		}
	}
	if err := r.core.WriteAll(ctx, rows); err != nil {
		return err
	}
	r.metrics.eventsAnnounced.Add(float64(len(rows)))
	return nil
}

// auditDropsEvery is how far apart a node's audit entries of dropped events are at least: a cascade
// drops many.
const auditDropsEvery = time.Second

// auditDrop notes in the audit log of the tenant that the events of a run are dropped.
func (r *Recorder) auditDrop(ctx context.Context, f *bucketer.Finished, names []string) error {
	at, run := f.Attempt.Record.Finished, f.Entry.Run()
	hash := schema.HashOf("dropped event", run.String(), strconv.Itoa(f.Attempt.Number))
	id := schema.MakeAuditID(at, uint16(hash), hash) // #nosec G115 -- any number will do
	return r.store.PutAudit(ctx, []schema.AuditEntry{{
		ID: id, Tenant: f.Entry.Spec.Tenant, At: id.Time(), Actor: "carillon", Action: "drop", Object: "event/" + names[0],
		Note: fmt.Sprintf("events of run %s: %d events led to one another, and at most that many may", run, schema.MaxEventDepth),
	}})
}

// eventsOf returns which events of the system follow from a record, and how late the run started.
func eventsOf(f *bucketer.Finished) (names []string, late time.Duration) {
	rec := f.Attempt.Record
	if f.Attempt.Number == 1 && !rec.Started.IsZero() {
		late = max(rec.Started.Sub(f.Entry.LatenessFrom()), 0)
	}
	if late > schema.LateStart {
		names = append(names, schema.EventRunLate)
	}
	switch {
	case rec.Outcome == schema.Succeeded:
		names = append(names, schema.EventRunSucceeded)
	case rec.Outcome == schema.Missed:
		names = append(names, schema.EventRunMissed)
	case rec.Ruined():
		names = append(names, schema.EventRunFailed)
		if f.Entry.Spec.Step == nil {
			names = append(names, schema.EventDeadLetter)
		}
		if f.Entry.Spec.Workflow != nil {
			names = append(names, schema.EventWorkflowFailed)
		}
	}
	return names, late
}

func bodyOf(f *bucketer.Finished, late time.Duration) announced {
	spec, rec := &f.Entry.Spec, f.Attempt.Record
	b := announced{
		RunID: f.Entry.Run(), JobID: spec.Job, JobName: spec.JobName, Task: spec.Task, Labels: spec.Labels, Outcome: rec.Outcome, Attempt: f.Attempt.Number,
		Error: rec.Error, StatusCode: rec.Status, Reason: rec.Reason, DueAt: f.Entry.Run().Time().UTC(), StartedAt: rec.Started, FinishedAt: rec.Finished, LatenessMS: late.Milliseconds(),
	}
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	switch st := spec.Step; {
	case st != nil:
		b.WorkflowRunID, b.Step, b.DueAt = st.Workflow, st.Name, st.Due
	case spec.Workflow != nil:
		b.Workflow = spec.JobName
	case spec.Job.IsZero():
		b.JobID = schema.JobOf(f.Entry.Run())
	}
	return b
}

// AnnounceStuck publishes that the run of e is stuck, if somebody may listen.
func (r *Recorder) AnnounceStuck(ctx context.Context, e *schema.Entry) error {
	spec := &e.Spec
	if err := r.noteStuck(ctx, e); err != nil {
		return err
	}
	if listens, err := r.core.Listens(ctx, spec.Tenant); err != nil || !listens {
		return err
	}
	at := bucketer.CeilMilli(spec.Join.Until)
	body, err := json.Marshal(stuckRun{
		RunID: e.ID, JobID: spec.Job, JobName: spec.JobName, Task: spec.Task, Labels: spec.Labels, DueAt: e.Due().UTC(), Deadline: at.UTC(),
	})
	if err != nil {
		return err
	}
	id := schema.MakeEntryID(at, e.ID.Shard(), schema.HashOf("event of the system", schema.EventWorkflowStuck, e.ID.String()))
	says := schema.Spec{
		Tenant: spec.Tenant, Kind: schema.KindEvent, Of: id, Nominal: id.Time(), Accepted: at.UnixMicro(), Event: &schema.Event{Name: schema.EventWorkflowStuck}, Retention: spec.Retention,
	}
	row, err := schema.NewEntry(id, says, body, r.core.ExpiryOf(&says, at, r.now()))
	if err != nil {
		return err
	}
	return r.core.WriteAll(ctx, []schema.Entry{row})
}

// stuckRun is the body of schema.EventWorkflowStuck.
type stuckRun struct {
	RunID    schema.RunID      `json:"run_id"`
	JobID    schema.JobID      `json:"job_id,omitzero"`
	JobName  string            `json:"job_name,omitempty"`
	Task     string            `json:"task,omitempty"`
	Labels   map[string]string `json:"labels"`
	DueAt    time.Time         `json:"due_at"`
	Deadline time.Time         `json:"deadline"`
}

package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

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

// announce publishes the events of the system that follow from records, where somebody may listen. It
// returns what went wrong, by index. The events of a record have the same ids and bodies each time.
func (r *Recorder) announce(ctx context.Context, finished []bucketer.Finished) map[int]error {
	var failed map[int]error
	for i := range finished {
		f := &finished[i]
		if rec := f.Attempt.Record; rec == nil || !rec.Announce || rec.Unstarted {
			continue
		}
		if err := r.announceOne(ctx, f); err != nil {
			if failed == nil {
				failed = make(map[int]error)
			}
			failed[i] = fmt.Errorf("announce run %s: %w", f.Entry.Run(), err)
		}
	}
	return failed
}

func (r *Recorder) announceOne(ctx context.Context, f *bucketer.Finished) error {
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
		return nil
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
		rows[i], err = schema.NewEntry(id, schema.Spec{
			Tenant: spec.Tenant, Kind: schema.KindEvent, Of: id, Nominal: id.Time(), Accepted: rec.Finished.UnixMicro(),
			Event: &schema.Event{Name: name, Depth: depth},
		}, body, r.core.Expiry(id.Time(), rec.Finished))
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

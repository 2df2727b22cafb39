package runs

import (
	"context"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Incidents is told what happens to runs of tenants that have rules for notifications.
type Incidents interface {
	// Wants reports whether a rule of the tenant may take the incident.
	Wants(ctx context.Context, n *schema.Incident) bool
	// Delivered is told the record of a run that is a message, or of one of its attempts. It may be
	// told twice.
	Delivered(spec *schema.Spec, rec *schema.Record)
}

// TellIncidents says who is told of incidents. It must be called before a record is written.
func (r *Runs) TellIncidents(to Incidents) { r.Recorder.watch.incidents = to }

// TellFailures says who is told that a run of a job has failed for good that pauses when runs fail,
// once its line of history is held. It may be told twice. It must be called before a record is
// written.
func (r *Runs) TellFailures(to func(tenant string, job schema.JobID)) { r.Recorder.watch.failures = to }

// watch holds who is told of incidents, and of failures.
type watch struct {
	incidents Incidents
	failures  func(tenant string, job schema.JobID)
}

// failed tells of a run that has failed, whose line of history is held.
func (w *watch) failed(f *bucketer.Finished) {
	if spec := &f.Entry.Spec; w.failures != nil && spec.PauseAfter > 0 && !spec.Job.IsZero() && f.Attempt.Record.Ruined() {
		w.failures(spec.Tenant, spec.Job)
	}
}

const (
	// incidentError bounds what an incident says of an error, bytes.
	incidentError = 512
	// incidentLate is how long after its record an incident is written at the latest into the minute of
	// the record. It is shorter than notifications count a minute again. What is written later lies in
	// the minute in which it is written.
	incidentLate = 5 * time.Minute
)

// incidentKinds are the events of the system of which tenants can be notified.
var incidentKinds = map[string]schema.NotificationKind{
	schema.EventRunFailed: schema.NotifyFailed, schema.EventDeadLetter: schema.NotifyDead, schema.EventRunMissed: schema.NotifyMissed,
	schema.EventRunLate: schema.NotifyLate,
}

// noteIncident writes the incident that a record is, if its tenant may have a rule that takes it.
func (r *Recorder) noteIncident(ctx context.Context, f *bucketer.Finished) error {
	if notifies, err := r.core.Notifies(ctx, f.Entry.Spec.Tenant); err != nil || !notifies {
		return err
	}
	names, _ := eventsOf(f)
	var kinds []schema.NotificationKind
	for _, name := range names {
		if kind, ok := incidentKinds[name]; ok {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	rec := f.Attempt.Record
	n := incidentOf(&f.Entry, kinds)
	n.Error, n.Status = strings.ToValidUTF8(rec.Error[:min(len(rec.Error), incidentError)], ""), rec.Status
	if rec.Outcome == schema.Missed {
		n.Error = rec.Reason
	}
	if rec.Ruined() {
		n.Pattern = ErrorPattern(rec)
	}
	return r.putIncident(ctx, &n, rec.Finished, strconv.Itoa(f.Attempt.Number), strconv.FormatInt(int64(f.Attempt.Fence), 10))
}

// noteStuck writes the incident that the run of e is stuck.
func (r *Recorder) noteStuck(ctx context.Context, e *schema.Entry) error {
	if notifies, err := r.core.Notifies(ctx, e.Spec.Tenant); err != nil || !notifies {
		return err
	}
	n := incidentOf(e, []schema.NotificationKind{schema.NotifyStuck})
	return r.putIncident(ctx, &n, e.Spec.Join.Until, string(schema.NotifyStuck))
}

func incidentOf(e *schema.Entry, kinds []schema.NotificationKind) schema.Incident {
	spec := &e.Spec
	n := schema.Incident{Tenant: spec.Tenant, Kinds: kinds, Run: e.Run(), Job: spec.Job, JobName: spec.JobName, Task: spec.Task, Labels: spec.Labels}
	if spec.Step != nil {
		n.Step = spec.Step.Name
	}
	if spec.Workflow != nil {
		n.Workflow = spec.JobName
	}
	return n
}

// putIncident writes an incident of that instant; parts tell it from others of its run.
func (r *Recorder) putIncident(ctx context.Context, n *schema.Incident, at time.Time, parts ...string) error {
	now := r.now()
	if at = bucketer.CeilMilli(at); now.Sub(at) > incidentLate {
		at = now.Truncate(time.Minute)
	}
	hash := schema.HashOf(append([]string{"incident", n.Run.String()}, parts...)...)
	n.ID, n.Expires = schema.MakeEntryID(at, n.Run.Shard(), hash), at.Add(schema.IncidentRetention)
	if to := r.watch.incidents; to != nil && !to.Wants(ctx, n) {
		return nil
	}
	return r.store.PutIncident(ctx, *n)
}

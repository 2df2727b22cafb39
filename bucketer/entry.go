package bucketer

import (
	"sync/atomic"
	"time"

	"carillon.dev/carillon/bucketer/retention"
	"carillon.dev/carillon/schema"
)

// EntryOf makes, without writing it, the row of a job under id.
func (w *Writer) EntryOf(job *Job, id schema.EntryID, now time.Time) (schema.Entry, error) {
	nominal := job.At
	if nominal.IsZero() {
		nominal = id.Time()
	}
	spec := schema.Spec{
		Tenant: job.Tenant, Nominal: nominal.UTC().Truncate(time.Millisecond), Accepted: now.UnixMicro(),
		JobName: job.JobName, Trigger: job.Trigger, Origin: job.Origin, Priority: job.Priority, Task: job.Task, Work: job.Work,
		RequireRegion: job.RequireRegion,
		Misfire:       job.Misfire, Labels: job.Labels, Key: job.Key, BodyHash: job.BodyHash, Everywhere: job.Durability == schema.DurableEverywhere,
		CreatedBy: job.CreatedBy, Retention: w.RetentionOf(job.Tenant), Unique: job.Unique,
	}
	if !job.OriginJob.IsZero() {
		spec.OriginJob = new(job.OriginJob)
	}
	last := id.Time()
	if job.After != nil {
		last = last.Add(job.After.Deadline.Std())
		spec.Kind, spec.Of, spec.Trigger, spec.Join = schema.KindJoin, id, schema.TriggerDependency, &schema.Join{After: *job.After, Until: last.UTC()}
	}
	return schema.NewEntry(id, spec, job.Payload, w.ExpiryOf(&spec, last, now))
}

// LaterStart makes, without writing it, a later entry of e's run under id: same work and payload,
// another kind, attempt number and instant of acceptance. Equal arguments make equal bytes.
func (w *Writer) LaterStart(e *schema.Entry, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error) {
	spec := e.Spec
	switch kind {
	case schema.KindRetry:
		spec.Deferrals = 0
	case schema.KindDeferral:
		spec.Deferrals++
	}
	spec.ReservedRate = "" // a reservation holds only for its time
	return w.later(e, spec, kind, id, attempt, accepted)
}

// Defer makes, without writing it, the deferral of e's run to the first ms from at on. pace is the
// rate of its task under which the start at that time is reserved; "" means that the run will ask
// for a reservation then. The id is a function of e and the time.
func (w *Writer) Defer(e *schema.Entry, at time.Time, pace string, accepted time.Time) (schema.Entry, error) {
	spec := e.Spec
	spec.ReservedRate = pace
	id := schema.MakeEntryID(CeilMilli(at), e.ID.Shard(), schema.HashOf("defer", e.ID.String()))
	return w.later(e, spec, schema.KindDeferral, id, e.Spec.AttemptNumber(), accepted)
}

// later makes a later entry of e's run. spec is e's, with the fields changed in which later entries
// differ.
func (w *Writer) later(e *schema.Entry, spec schema.Spec, kind schema.Kind, id schema.EntryID, attempt int, accepted time.Time) (schema.Entry, error) {
	spec.Kind, spec.Of, spec.For, spec.Attempt, spec.Accepted = kind, e.Run(), schema.EntryID{}, attempt, accepted.UnixMicro()
	spec.MayHaveStarted = spec.MayHaveStarted && kind != schema.KindRetry // that is of another attempt
	from := spec.DeadlineFrom
	spec.DeadlineFrom = 0
	if first, ok := e.First(); ok && kind != schema.KindRetry {
		spec.For = first // it may start only while the entry that it replaces might
		switch {
		case spec.Misfire == nil, !spec.Job.IsZero():
		case kind == schema.KindLate: // of a run that is accepted only now
			spec.DeadlineFrom = from
		default:
			spec.DeadlineFrom = e.MisfireFrom().UnixMilli()
		}
	}
	payload := e.Payload
	if at, large := e.LargePayload(); large {
		spec.PayloadAt, payload = at, nil
	}
	return schema.NewEntry(id, spec, payload, w.ExpiryOf(&spec, id.Time(), accepted))
}

// lives says how long rows stay.
type lives struct {
	*retention.Known
	day      time.Duration // of a tenant's retention
	settings atomic.Pointer[schema.Settings]
}

// Expiry returns when a row expires that is due at due and written at now, and is of no run.
func (l *lives) Expiry(due, now time.Time) time.Time {
	return expiry(due, now, l.clusterRetention())
}

// ExpiryOf is Expiry of a row of a run, by what any entry of the run says.
func (l *lives) ExpiryOf(spec *schema.Spec, due, now time.Time) time.Time {
	return expiry(due, now, l.retention(spec.Retention))
}

func expiry(due, now time.Time, retention time.Duration) time.Time {
	if due.Before(now) {
		due = now
	}
	return due.Add(retention)
}

// StampOf returns the write timestamp of a row with that retention, in days, that several nodes may
// make, and whose timestamp would be at, µs. A tenant's retention may change meanwhile, and not
// every node knows it at once: the row with the shorter one stands, whichever is written last. So
// it never outlives the attempts of its run, whichever row that was started from.
func (l *lives) StampOf(at int64, days int) int64 {
	if days == 0 {
		return at
	}
	return at + 1 + max(int64(l.clusterRetention()/schema.RetentionDay)-int64(days), 0)
}

// retention returns how long after its due time a row stays whose run says so many days; 0: as the
// cluster says.
func (l *lives) retention(days int) time.Duration {
	r := l.clusterRetention()
	if own := time.Duration(days) * l.day; days > 0 && own < r {
		return own
	}
	return r
}

// LeastRetention returns how long after its due time a row of a run stays at least, whatever its
// tenant says.
func (l *lives) LeastRetention() time.Duration {
	if l.AnyRetention() {
		return l.retention(schema.MinRetention)
	}
	return l.clusterRetention()
}

func (l *lives) clusterRetention() time.Duration {
	if s := l.settings.Load(); s != nil && s.Retention > 0 {
		return s.Retention
	}
	return defaultRetention
}

// defaultRetention is in force until the settings have been read.
const defaultRetention = 7 * 24 * time.Hour

package recurring

import (
	"time"

	"carillon.dev/carillon/schema"
)

// latestOnlyAfter is how long a later occurrence must have been due before an overdue one is given
// up for it. A catch-up takes less than that from choosing the latest occurrence to starting it.
const latestOnlyAfter = 10 * time.Second

// misfired returns what is recorded, by its job's policy, of an occurrence that is too late to be
// started at now. That is one later than its limit, or an overdue one of which only the latest is
// wanted while a later one is due too.
func misfired(s *series, e *schema.Entry, now time.Time) (schema.Record, bool) {
	late := now.Sub(e.MisfireFrom())
	if limit, ok := e.Spec.Misfire.Limit(); ok && late > limit {
		return schema.Record{Outcome: schema.Missed, Reason: e.Spec.Misfire.Reason()}, true
	}
	if s == nil || !e.IsOccurrence() && !waited(e) || late <= schema.Overdue || policyOf(e.Spec.Misfire) != schema.RunLatest {
		return schema.Record{}, false
	}
	if next, ok := s.Next(e.Spec.Nominal); ok && !s.due(next).Add(latestOnlyAfter).After(now) {
		return schema.Record{Outcome: schema.Missed, Reason: reasonLatestOnly}, true
	}
	return schema.Record{}, false
}

// waited reports whether e is an occurrence whose first start a limit held back. Of several that
// waited for long, run_latest wants the last.
func waited(e *schema.Entry) bool {
	s := &e.Spec
	return s.Kind == schema.KindFromWaitList && s.AttemptNumber() == 1 && s.Trigger == schema.TriggerSchedule && s.Until.IsZero()
}

// reasonLatestOnly says why nominal times are missed of which only the latest is wanted.
const reasonLatestOnly = "run_latest: a later run was due"

// policyOf returns the misfire policy of a recurring job.
func policyOf(m *schema.Misfire) string {
	if m == nil || m.Policy == "" {
		return schema.RunLatest
	}
	return m.Policy
}

// Misfired returns what is recorded of an entry of one of the job's runs instead of a first start,
// if it is too late at now.
func (j *Reader) Misfired(job *schema.Job, e *schema.Entry, now time.Time) (schema.Record, bool) {
	g := job.DecideStart(e, now).Generation
	if g == nil {
		g = &job.Current
	}
	s, err := j.series.of(job.ID, g)
	if err != nil {
		j.reportFault(err)
	}
	return misfired(s, e, now)
}

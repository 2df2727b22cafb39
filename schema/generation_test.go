package schema_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

func TestRight(t *testing.T) {
	const before, current = 1000, 2000
	cut := begin
	job := func(state schema.JobState) schema.Job {
		return schema.Job{
			ID: schema.MakeJobID(begin, 1, 1), Cut: cut,
			Current: schema.Generation{Number: current, State: state},
			Before:  &schema.Generation{Number: before, State: schema.JobActive},
		}
	}
	changedTwice := job(schema.JobActive)
	changedTwice.Current.Spec.Past = []schema.PastGeneration{{Number: before - 100, Cut: cut.Add(-time.Second)}, {Number: before - 200, Cut: cut.Add(-4 * time.Second)}}
	damaged := schema.Job{ID: schema.MakeJobID(begin, 1, 1), Current: schema.Generation{State: schema.JobActive, Fault: schema.ErrNotUnderstood}}
	unclear := job(schema.JobActive)
	unclear.Current.Fault = schema.ErrNotUnderstood
	const early, late = -500 * time.Millisecond, 500 * time.Millisecond
	finished := job(schema.JobFinished)
	finished.Cut = begin.Add(100 * 365 * 24 * time.Hour)
	for _, c := range []struct {
		name    string
		job     schema.Job
		number  int64
		due, at time.Duration // from the cut
		trigger schema.Trigger
		outcome schema.Outcome
		unknown bool
		bounded bool
	}{
		{name: "the generation in force", job: job(schema.JobActive), number: current, due: late, at: late},
		{name: "before the cut, and it is", job: job(schema.JobActive), number: before, due: early, at: early, bounded: true},
		{name: "before the cut, and it is past", job: job(schema.JobActive), number: before, due: early, at: late, outcome: schema.Missed},
		{name: "before the cut, at the cut", job: job(schema.JobActive), number: before, due: early, outcome: schema.Missed},
		{name: "due at the cut", job: job(schema.JobActive), number: before, at: early, outcome: schema.Cancelled},
		{name: "before the cut of a pause", job: job(schema.JobPaused), number: before, due: early, at: early, bounded: true},
		{name: "after the cut of a pause", job: job(schema.JobPaused), number: before, due: late, at: late, outcome: schema.Cancelled},
		{name: "after a cancel", job: job(schema.JobCancelled), number: before, due: late, at: late, outcome: schema.Cancelled},
		{name: "the last of a finished job", job: finished, number: before, due: late, at: time.Hour, bounded: true},
		{name: "an older generation", job: job(schema.JobActive), number: before - 1, due: early, at: early, outcome: schema.Cancelled},
		{name: "an older one, before its cut", job: changedTwice, number: before - 100, due: -2 * time.Second, at: late, outcome: schema.Missed},
		{name: "an older one, at its cut", job: changedTwice, number: before - 100, due: -time.Second, at: late, outcome: schema.Cancelled},
		{name: "a still older one, before its cut", job: changedTwice, number: before - 200, due: -5 * time.Second, at: early, outcome: schema.Missed},
		{name: "of a race that was lost", job: job(schema.JobActive), number: before + 1, due: late, at: late, outcome: schema.Cancelled},
		{name: "of a change not committed", job: job(schema.JobActive), number: current + 1, due: late, at: early, unknown: true, outcome: schema.Cancelled},
		{name: "by hand, while paused", job: job(schema.JobPaused), number: current, due: late, at: late, trigger: schema.TriggerManual},
		{name: "by hand, of an older generation", job: job(schema.JobActive), number: before, due: late, at: late, trigger: schema.TriggerManual},
		{name: "by hand, after a cancel", job: job(schema.JobCancelled), number: current, due: late, at: late, trigger: schema.TriggerManual, outcome: schema.Cancelled},
		{name: "its text is not understood", job: unclear, number: current, due: late, at: late},
		{name: "nothing of the row can be read", job: damaged, number: current, due: late, at: late, outcome: schema.Missed},
		{name: "by hand, and nothing of the row can be read", job: damaged, number: current, due: late, at: late, trigger: schema.TriggerManual, outcome: schema.Missed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := schema.Entry{
				ID:   schema.MakeEntryID(cut.Add(c.due), 1, 1),
				Spec: schema.Spec{Job: c.job.ID, Generation: c.number, Trigger: c.trigger},
			}
			// What stands in for the run, however late, has the run's right.
			standIn := schema.Entry{ID: schema.MakeEntryID(cut.Add(time.Hour), 1, 2), Spec: e.Spec}
			standIn.Spec.Kind, standIn.Spec.Of, standIn.Spec.For = schema.KindLate, e.ID, e.ID
			for _, e := range []schema.Entry{e, standIn} {
				got := c.job.DecideStart(&e, cut.Add(c.at))
				if got.Outcome != c.outcome || got.Unknown != c.unknown || got.Before.IsZero() == c.bounded || (got.Reason == "") != (c.outcome == "") {
					t.Errorf("Right(%q) = %+v, want %q, unknown %v, bounded %v", e.Spec.Kind, got, c.outcome, c.unknown, c.bounded)
				}
			}
		})
	}
}

func TestMisfireLimit(t *testing.T) {
	for _, c := range []struct {
		name string
		m    *schema.Misfire
		want time.Duration
		ok   bool
	}{
		{"nothing stated", nil, 0, false},
		{"run all", &schema.Misfire{Policy: schema.RunAll}, 0, false},
		{"a deadline", &schema.Misfire{Policy: schema.RunLatest, Deadline: schema.Duration(time.Hour)}, time.Hour, true},
		{"skip", &schema.Misfire{Policy: schema.Skip}, schema.Overdue, true},
		{"skip with a long deadline", &schema.Misfire{Policy: schema.Skip, Deadline: schema.Duration(time.Hour)}, schema.Overdue, true},
		{"skip with a short deadline", &schema.Misfire{Policy: schema.Skip, Deadline: schema.Duration(time.Second)}, time.Second, true},
	} {
		if got, ok := c.m.Limit(); got != c.want || ok != c.ok {
			t.Errorf("%s: Limit = %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

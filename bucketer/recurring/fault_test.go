package recurring

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/schedule"
	"carillon.dev/carillon/schema"
)

// unclear is a store in which the text of a job is not understood.
type unclear struct {
	bucketer.Store
	job schema.JobID
}

var errUnclear = fmt.Errorf("unclear: %w", schema.ErrNotUnderstood)

func (u *unclear) blur(jobs []schema.Job) []schema.Job {
	for i := range jobs {
		if g := &jobs[i].Current; jobs[i].ID == u.job {
			g.Spec, g.Fault = schema.JobSpec{}, errUnclear
		}
	}
	return jobs
}

func (u *unclear) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := u.Store.Jobs(ctx, shard, ids)
	return u.blur(jobs), err
}

func (u *unclear) JobsOf(ctx context.Context, shard schema.Shard, after schema.JobID, limit int) ([]schema.Job, error) {
	jobs, err := u.Store.JobsOf(ctx, shard, after, limit)
	return u.blur(jobs), err
}

func (u *unclear) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	if job, err := u.Store.Job(ctx, id); id != u.job || err != nil {
		return job, err
	}
	return schema.Job{}, errUnclear
}

// TestAJobThatCannotBeUnderstoodHoldsUpNoOther: what was planned of it runs, the jobs beside it go
// on, it is shown to its tenant, and once it is understood again what was left out is caught up
// with.
func TestAJobThatCannotBeUnderstoodHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.Setting.Shards = 1
		if err := w.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		spec := every(10 * time.Second)
		spec.JitterStated, spec.Misfire = true, &schema.Misfire{Policy: schema.RunAll}
		bad := w.job(spec)
		time.Sleep(time.Millisecond)
		good := w.job(spec)
		blurred := &unclear{w.store, bad.ID}
		clear := w.store
		w.store, w.series.known = blurred, make(map[seriesKey]*schedule.Schedule)
		badRun, goodRun := w.occurrences(bad.ID, time.Minute)[0], w.occurrences(good.ID, time.Minute)[0]
		for i, v := range w.planOn(badRun, goodRun) {
			if v != bucketer.Publish {
				t.Errorf("PlanOn: verdict %d = %v, want Publish", i, v)
			}
		}
		if n, m := len(w.occurrences(bad.ID, time.Minute)), len(w.occurrences(good.ID, time.Minute)); n != 1 || m != 2 {
			t.Errorf("%d and %d runs are planned, want 1 of the job that is not understood and 2 of the other", n, m)
		}
		if _, err := w.Mend(t.Context(), 0, schema.JobID{}, 10, time.Now()); err != nil {
			t.Errorf("Mend = %v", err)
		}
		jobs, _, err := w.ListJobs(t.Context(), "t", JobFilter{}, schema.JobID{}, 10)
		if err != nil || len(jobs) != 2 || w.NotUnderstood(&jobs[0]) != nil || w.NotUnderstood(&jobs[1]) == nil {
			t.Errorf("ListJobs = %+v, %v, want both, the older one not understood", jobs, err)
		}
		if job, err := w.JobByID(t.Context(), "t", bad.ID); err != nil || !errors.Is(w.NotUnderstood(&job), errUnclear) {
			t.Errorf("JobByID = %+v, %v, want the job, not understood", job, err)
		}
		if _, err := w.JobByID(t.Context(), "another", bad.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("JobByID by another tenant = %v, want ErrNotFound", err)
		}
		if _, err := w.TriggerJob(t.Context(), "t", bad.ID, nil, "", ""); !errors.Is(err, errUnclear) {
			t.Errorf("TriggerJob = %v, want its fault", err)
		}
		time.Sleep(10 * time.Minute)
		w.store = clear
		w.Recorded(badRun, 1, schema.Record{Entry: badRun.ID, Outcome: schema.Succeeded, Finished: badRun.Due()})
		if _, err := w.Mend(t.Context(), 0, schema.JobID{}, 10, time.Now()); err != nil {
			t.Errorf("Mend = %v", err)
		}
		if n := bucketertest.Kinds(w.Entries(15 * time.Minute))[schema.KindCatchUp]; n == 0 {
			t.Error("nothing is caught up with once the job is understood")
		}
	})
}

// TestACatchUpWaitsUntilItsScheduleIsUnderstood: nothing is given up for it.
func TestACatchUpWaitsUntilItsScheduleIsUnderstood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(10 * time.Second)
		spec.JitterStated, spec.Misfire = true, &schema.Misfire{Policy: schema.RunAll}
		job := w.job(spec)
		first := w.occurrences(job.ID, time.Minute)[0]
		time.Sleep(5 * time.Minute)
		w.planOn(first)
		var entry schema.Entry
		for _, e := range w.Entries(15 * time.Minute) {
			if e.Spec.Kind == schema.KindCatchUp {
				entry = e
			}
		}
		if entry.ID.IsZero() {
			t.Fatal("no catch-up was written")
		}
		clear := w.store
		w.store, w.series.known = &unclear{w.store, job.ID}, make(map[seriesKey]*schedule.Schedule)
		for range 2 { // the second is what a crash leads to
			if n, err := w.CatchUp(t.Context(), []schema.Entry{entry}, 10, time.Now()); n != 1 || err != nil {
				t.Fatalf("CatchUp = %d, %v, want it handed on", n, err)
			}
		}
		time.Sleep(notUnderstoodFor)
		var later []schema.Entry
		for _, e := range w.Entries(30 * time.Minute) {
			if e.Spec.Kind == schema.KindCatchUp && e.ID != entry.ID {
				later = append(later, e)
			}
		}
		if len(later) != 1 || later[0].Spec.Nominal != entry.Spec.Nominal || later[0].Spec.Until != entry.Spec.Until {
			t.Fatalf("%d entries after it: %+v, want one that says the same", len(later), later)
		}
		w.store = clear
		runs := bucketertest.Kinds(w.Entries(30 * time.Minute))[schema.KindLate]
		if n, err := w.CatchUp(t.Context(), later, 10, time.Now()); n != 1 || err != nil {
			t.Fatalf("CatchUp = %d, %v", n, err)
		}
		if n := bucketertest.Kinds(w.Entries(30 * time.Minute))[schema.KindLate]; n != runs+catchUpRuns {
			t.Errorf("%d runs are started, want %d", n-runs, catchUpRuns)
		}
	})
}

// TestAJobThatCannotBeUnderstoodIsNotChanged: whatever is asked of it is answered so, and nothing
// is written. Who is not its tenant learns nothing.
func TestAJobThatCannotBeUnderstoodIsNotChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := named(every(10*time.Second), "n")
		job, _, err := w.CreateJob(t.Context(), spec, "key", "hash")
		if err != nil {
			t.Fatal(err)
		}
		w.store = &unclear{w.store, job.ID}
		same := func(*schema.JobSpec) error { return nil }
		of := func(_ any, err error) error { return err }
		before := w.Counts.Tallies()
		for _, tenant := range []string{"t", "another"} {
			want := schema.ErrNotUnderstood
			if tenant != "t" {
				want = schema.ErrNotFound
			}
			for _, c := range []struct {
				name string
				err  error
			}{
				{"PauseJob", of(w.PauseJob(t.Context(), tenant, job.ID, 0))},
				{"ResumeJob", of(w.ResumeJob(t.Context(), tenant, job.ID, 0))},
				{"CancelJob", of(w.CancelJob(t.Context(), tenant, job.ID, 0))},
				{"ChangeJob", of(w.ChangeJob(t.Context(), tenant, job.ID, 0, same))},
				{"TriggerJob", of(w.TriggerJob(t.Context(), tenant, job.ID, nil, "", ""))},
			} {
				if !errors.Is(c.err, want) {
					t.Errorf("%s of tenant %s = %v, want %v", c.name, tenant, c.err, want)
				}
			}
		}
		if _, _, err := w.PutJob(t.Context(), "t", "n", 0, spec); !errors.Is(err, schema.ErrNotUnderstood) {
			t.Errorf("PutJob = %v, want ErrNotUnderstood", err)
		}
		if _, _, err := w.CreateJob(t.Context(), spec, "key", "hash"); !errors.Is(err, schema.ErrNotUnderstood) {
			t.Errorf("CreateJob by the same key = %v, want ErrNotUnderstood", err)
		}
		for _, op := range []string{"SwapJob", "PutEntries", "PutOperation"} {
			if n := w.Counts.Tallies()[op].Calls - before[op].Calls; n != 0 {
				t.Errorf("%d calls of %s, want none", n, op)
			}
		}
		if _, _, err := w.CreateJob(t.Context(), spec, "", ""); !errors.Is(err, ErrNameTaken) {
			t.Errorf("CreateJob of its name = %v, want ErrNameTaken", err)
		}
	})
}

// TestAJobInAnUnknownZoneCanBeChanged: paused, cancelled, and given another zone; not resumed.
func TestAJobInAnUnknownZoneCanBeChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		lost := func() schema.JobID {
			spec := every(10 * time.Second)
			spec.Schedule = &schema.Schedule{Cron: "0 9 * * *", Timezone: "Mars/Olympus"}
			spec.Created = time.Now()
			id := schema.MakeJobID(time.Now(), 0, schema.RandomHash())
			job := schema.Job{ID: id, Current: schema.Generation{Number: time.Now().UnixMicro(), State: schema.JobActive, Spec: spec}}
			if err := w.Counts.CreateJob(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			return id
		}
		moved, err := w.ChangeJob(t.Context(), "t", lost(), 0, func(s *schema.JobSpec) error {
			s.Schedule = &schema.Schedule{Cron: s.Schedule.Cron, Timezone: "Europe/Berlin"}
			return nil
		})
		if err != nil || w.NotUnderstood(&moved) != nil || len(w.occurrences(moved.ID, 25*time.Hour)) == 0 {
			t.Errorf("ChangeJob to a zone that is known = %+v, %v, want the job, understood, and its first run", moved, err)
		}
		paused, err := w.PauseJob(t.Context(), "t", lost(), 0)
		if err != nil || paused.Current.State != schema.JobPaused {
			t.Errorf("PauseJob = %s, %v, want it paused", paused.Current.State, err)
		}
		time.Sleep(cutAhead)
		if _, err := w.ResumeJob(t.Context(), "t", paused.ID, 0); !errors.Is(err, schema.ErrNotUnderstood) {
			t.Errorf("ResumeJob = %v, want ErrNotUnderstood", err)
		}
		if job, err := w.CancelJob(t.Context(), "t", paused.ID, 0); err != nil || job.Current.State != schema.JobCancelled {
			t.Errorf("CancelJob = %s, %v, want it cancelled", job.Current.State, err)
		}
	})
}

// past is a store in which what a job said before its last change is not understood.
type past struct{ bucketer.Store }

func (p past) blur(j schema.Job) schema.Job {
	if j.Before != nil {
		j.Before = &schema.Generation{Number: j.Before.Number, State: j.Before.State, Fault: errUnclear}
	}
	return j
}

func (p past) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := p.Store.Jobs(ctx, shard, ids)
	for i := range jobs {
		jobs[i] = p.blur(jobs[i])
	}
	return jobs, err
}

func (p past) Job(ctx context.Context, id schema.JobID) (schema.Job, error) {
	job, err := p.Store.Job(ctx, id)
	return p.blur(job), err
}

// TestAJobWhosePastIsNotUnderstoodCanBeChanged: what it says now is understood, and that is what is
// changed, paused, resumed and cancelled.
func TestAJobWhosePastIsNotUnderstoodCanBeChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.store = past{w.store}
		job := w.job(every(time.Minute))
		for _, c := range []struct {
			name string
			do   func() (schema.Job, error)
			want schema.JobState
		}{
			{"ChangeJob", func() (schema.Job, error) { return w.ChangeJob(ctx, "t", job.ID, 0, to(2*time.Minute)) }, schema.JobActive},
			{"ChangeJob again", func() (schema.Job, error) { return w.ChangeJob(ctx, "t", job.ID, 0, to(time.Hour)) }, schema.JobActive},
			{"PauseJob", func() (schema.Job, error) { return w.PauseJob(ctx, "t", job.ID, 0) }, schema.JobPaused},
			{"ResumeJob", func() (schema.Job, error) { return w.ResumeJob(ctx, "t", job.ID, 0) }, schema.JobActive},
			{"CancelJob", func() (schema.Job, error) { return w.CancelJob(ctx, "t", job.ID, 0) }, schema.JobCancelled},
		} {
			got, err := c.do()
			if err != nil || got.Current.State != c.want {
				t.Fatalf("%s = %s, %v, want it %s", c.name, got.Current.State, err, c.want)
			}
			if next, ok := w.NextRun(got, got.Cut); ok {
				if _, held := w.Row(next.ID); !held {
					t.Errorf("%s: the next run, %s, has no row", c.name, next.Due)
				}
			}
			time.Sleep(time.Second)
		}
	})
}

package recurring

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, schema.Settings{})) })
}

// every returns the spec of a job that runs every d.
func every(d time.Duration) schema.JobSpec {
	return schema.JobSpec{
		Tenant: "t", Schedule: &schema.Schedule{Every: schema.Duration(d)},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}, Payload: []byte(`{"n":1}`), Labels: map[string]string{"b": "2", "a": "<1>"},
	}
}

// named returns the spec with a name.
func named(spec schema.JobSpec, name string) schema.JobSpec {
	spec.Name = name
	return spec
}

// job creates a job and fails the test where it is not made.
func (w *world) job(spec schema.JobSpec) schema.Job {
	w.T.Helper()
	job, existing, err := w.CreateJob(w.T.Context(), spec, "", "")
	if err != nil || existing {
		w.T.Fatalf("CreateJob = existing %v, %v, want a new job", existing, err)
	}
	return job
}

// stored returns the job as the store has it.
func (w *world) stored(id schema.JobID) schema.Job {
	w.T.Helper()
	job, err := w.Counts.Job(context.Background(), id)
	if err != nil {
		w.T.Fatalf("Job(%s) = %v", id, err)
	}
	return job
}

// occurrences returns the rows of the job that are runs, in the order of their due times.
func (w *world) occurrences(id schema.JobID, span time.Duration) []schema.Entry {
	w.T.Helper()
	return slices.DeleteFunc(w.Entries(span), func(e schema.Entry) bool { return e.Spec.Job != id || e.Spec.Kind != schema.KindRun })
}

// planOn calls PlanOn now and returns its verdicts.
func (w *world) planOn(entries ...schema.Entry) []bucketer.Verdict {
	w.T.Helper()
	verdicts, err := w.PlanOn(context.Background(), entries, time.Now())
	if err != nil {
		w.T.Fatalf("PlanOn = %v", err)
	}
	return verdicts
}

func TestCreateJobHoldsItsFirstRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		time.Sleep(1234567 * time.Nanosecond)
		now := time.Now()
		job := w.job(named(every(time.Minute), "nightly"))
		spec := &job.Current.Spec
		if !spec.Created.Equal(now.Truncate(time.Millisecond)) || spec.Schedule.Anchor != spec.Created || spec.Schedule.Jitter != schema.Duration(6*time.Second) {
			t.Errorf("CreateJob at %v = created %v, anchor %v, jitter %v, want now, creation, 6s", now, spec.Created, spec.Schedule.Anchor, spec.Schedule.Jitter)
		}
		rows := w.occurrences(job.ID, 3*time.Minute)
		if len(rows) != 1 {
			t.Fatalf("CreateJob left %d runs, want the first", len(rows))
		}
		e := &rows[0]
		nominal := spec.Created.Add(time.Minute)
		offset := e.Due().Sub(nominal)
		if e.Spec.Nominal != nominal || offset < 0 || offset >= 6*time.Second || e.Spec.Accepted != job.Current.Number || e.ID.Shard() != job.ID.Shard() {
			t.Errorf("first run %+v due %v, want nominal %v, due within 6 s, accepted %d, in the job's shard", e.Spec, e.Due(), nominal, job.Current.Number)
		}
		if got, ok := w.NextRun(job, now); !ok || got != (Occurrence{e.ID, nominal, e.Due()}) {
			t.Errorf("NextRun = %+v, %v, want %s", got, ok, e.ID)
		}
		for _, read := range []func() (schema.Job, error){
			func() (schema.Job, error) { return w.JobByID(t.Context(), "t", job.ID) },
			func() (schema.Job, error) { return w.JobByName(t.Context(), "t", "nightly") },
		} {
			if got, err := read(); err != nil || got.ID != job.ID || got.Current.Number != job.Current.Number {
				t.Errorf("read = %s, generation %d, %v, want %s, %d", got.ID, got.Current.Number, err, job.ID, job.Current.Number)
			}
		}
		if _, err := w.JobByID(t.Context(), "another", job.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("JobByID of another tenant = %v, want ErrNotFound", err)
		}
	})
}

// TestPlannedTwiceIsOneRow: from the job as it was made and as it was read, on two nodes, at two
// times.
func TestPlannedTwiceIsOneRow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		job := w.job(every(time.Minute))
		first := w.occurrences(job.ID, 3*time.Minute)[0]
		w.planOn(first)
		read := w.stored(job.ID)
		s, err := w.series.of(read.ID, &read.Current)
		if err != nil {
			t.Fatal(err)
		}
		other, err := bucketer.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w})
		if err != nil {
			t.Fatal(err)
		}
		nominal := first.Spec.Nominal.Add(time.Minute)
		again, err := New(Config{Bucketer: other, Runs: w.runParts, Store: w.Store()}).occurrence(s, nominal, time.Now().Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		rows := w.occurrences(job.ID, 3*time.Minute)
		if len(rows) != 2 {
			t.Fatalf("%d rows, want two", len(rows))
		}
		row := rows[1]
		if row.ID != again.ID || !bytes.Equal(row.Text(), again.Text()) || !bytes.Equal(row.Payload, again.Payload) {
			t.Errorf("planned on two nodes:\n%s %s\n%s %s", row.ID, row.Text(), again.ID, again.Text())
		}
	})
}

func TestCreateJobWithAKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		job, existing, err := w.CreateJob(ctx, named(every(time.Hour), "n"), "k", "body")
		if err != nil || existing {
			t.Fatalf("CreateJob = existing %v, %v", existing, err)
		}
		time.Sleep(time.Minute)
		again, existing, err := w.CreateJob(ctx, named(every(time.Hour), "n"), "k", "body")
		if err != nil || !existing || again.ID != job.ID || again.Current.Number != job.Current.Number {
			t.Errorf("CreateJob again = %s, existing %v, %v, want %s", again.ID, existing, err, job.ID)
		}
		if _, _, err := w.CreateJob(ctx, every(time.Hour), "k", "another body"); !errors.Is(err, bucketer.ErrKeyReused) {
			t.Errorf("CreateJob of another body = %v, want ErrKeyReused", err)
		}
		if _, err := w.Submit(ctx, bucketer.Job{Tenant: "t", Work: job.Current.Spec.Work, Key: "k", BodyHash: "a job now"}); !errors.Is(err, bucketer.ErrKeyReused) {
			t.Errorf("Submit under the key of a job = %v, want ErrKeyReused", err)
		}
	})
}

// TestKeyOfAJobThatWasNeverMade: a crash between key and row; sending it again makes the same
// job.
func TestKeyOfAJobThatWasNeverMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "CreateJob", schematest.Fault{Fail: true})
		if _, _, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "k", "body"); err == nil {
			t.Fatal("CreateJob = nil, want an error")
		}
		job, existing, err := w.CreateJob(t.Context(), named(every(time.Hour), "n"), "k", "body")
		if err != nil || !existing {
			t.Fatalf("CreateJob again = existing %v, %v, want the recorded one", existing, err)
		}
		if rows := w.occurrences(job.ID, 3*time.Hour); len(rows) == 0 {
			t.Error("no first run")
		}
	})
}

// TestAJobMadeLateGoesOn: what was asked for again half a minute after it had failed has its first
// run ahead of it, not behind the sweep, where no dispatcher would ever have met it; and its
// max_runs count from there.
func TestAJobMadeLateGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "CreateJob", schematest.Fault{Fail: true})
		spec := every(2 * time.Second)
		spec.MaxRuns, spec.Schedule.Jitter, spec.JitterStated = 5, 0, true
		if _, _, err := w.CreateJob(t.Context(), spec, "k", "body"); err == nil {
			t.Fatal("CreateJob = nil, want an error")
		}
		time.Sleep(31 * time.Second)
		again := time.Now()
		job, _, err := w.CreateJob(t.Context(), spec, "k", "body")
		if err != nil {
			t.Fatalf("CreateJob again = %v", err)
		}
		next := w.Upcoming(job, 10, again)
		if len(next) != 5 {
			t.Fatalf("%d runs to come, want 5", len(next))
		}
		if !slices.ContainsFunc(w.occurrences(job.ID, time.Minute), func(e schema.Entry) bool { return e.ID == next[0].ID }) {
			t.Errorf("the first run to come, %s due %v, has no row", next[0].ID, next[0].Due)
		}
	})
}

// TestAFirstRunHeldLateIsFollowed: the row of the first run was held only when its sweep may have
// been past, so the next one is held too.
func TestAFirstRunHeldLateIsFollowed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "PutEntries", schematest.Fault{Delay: 9 * time.Second})
		spec := every(2 * time.Second)
		spec.Schedule.Jitter, spec.JitterStated = 0, true
		job := w.job(spec)
		next, ok := w.NextRun(job, time.Now())
		if !ok || !slices.ContainsFunc(w.occurrences(job.ID, time.Minute), func(e schema.Entry) bool { return e.ID == next.ID }) {
			t.Errorf("the first run to come, %s due %v, has no row", next.ID, next.Due)
		}
	})
}

// TestAJobWhoseMakerWasLateAndDiedGoesOn: who asks again, under the key or by name, is answered
// that it is there, so its next run is.
func TestAJobWhoseMakerWasLateAndDiedGoesOn(t *testing.T) {
	for how, ask := range map[string]func(w *world, spec schema.JobSpec) (schema.Job, bool, error){
		"under its key": func(w *world, spec schema.JobSpec) (schema.Job, bool, error) {
			return w.CreateJob(w.T.Context(), spec, "key", "hash")
		},
		"by its name": func(w *world, spec schema.JobSpec) (schema.Job, bool, error) {
			job, made, err := w.PutJob(w.T.Context(), "t", "n", 0, spec)
			return job, !made, err
		},
	} {
		t.Run(how, func(t *testing.T) { testMakerWasLateAndDied(t, ask) })
	}
}

func testMakerWasLateAndDied(t *testing.T, ask func(w *world, spec schema.JobSpec) (schema.Job, bool, error)) {
	t.Helper()
	inWorld(t, func(t *testing.T, w *world) {
		puts := 0
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op != "PutEntries" {
				return schematest.Fault{}
			}
			if puts++; puts == 1 {
				return schematest.Fault{Delay: 9 * time.Second}
			}
			return schematest.Fault{Fail: puts == 2} // what sees to the runs to come
		})
		spec := every(2 * time.Second)
		spec.Schedule.Jitter, spec.JitterStated = 0, true
		if _, _, err := ask(w, spec); err == nil {
			t.Fatal("asked for the job: nil, want an error")
		}
		job, existing, err := ask(w, spec)
		if err != nil || !existing {
			t.Fatalf("asked again = %t, %v; want the same job", existing, err)
		}
		next, ok := w.NextRun(job, time.Now())
		if !ok || !slices.ContainsFunc(w.occurrences(job.ID, time.Minute), func(e schema.Entry) bool { return e.ID == next.ID }) {
			t.Errorf("the first run to come, %s due %v, has no row", next.ID, next.Due)
		}
	})
}

func TestCreateJobOfUnknownOutcome(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "CreateJob", schematest.Fault{Lose: true})
		job := w.job(named(every(time.Hour), "n"))
		w.stored(job.ID)
	})
}

func TestNamesAreUnique(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		var mu sync.Mutex
		var wg sync.WaitGroup
		var made []schema.Job
		taken := 0
		for range 8 {
			wg.Go(func() {
				job, _, err := w.CreateJob(ctx, named(every(time.Hour), "n"), "", "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made = append(made, job)
				case errors.Is(err, ErrNameTaken):
					taken++
				default:
					t.Errorf("CreateJob = %v, want nil or ErrNameTaken", err)
				}
			})
		}
		wg.Wait()
		if len(made) != 1 || taken != 7 {
			t.Fatalf("%d jobs of one name, %d refused, want 1 and 7", len(made), taken)
		}
		if _, err := w.CancelJob(ctx, "t", made[0].ID, 0); err != nil {
			t.Fatalf("CancelJob = %v", err)
		}
		w.job(named(every(time.Hour), "n")) // of an ended job the name is free
	})
}

// TestNameOfAJobThatWasNeverMade is taken over after a minute, and not before.
func TestNameOfAJobThatWasNeverMade(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		if _, _, _, err := w.Counts.RegisterName(ctx, "t", "n", schema.MakeJobID(time.Now(), 1, 1), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if _, _, err := w.CreateJob(ctx, named(every(time.Hour), "n"), "", ""); !errors.Is(err, ErrNameTaken) {
			t.Errorf("CreateJob after 59 s = %v, want ErrNameTaken", err)
		}
		time.Sleep(2 * time.Second)
		w.job(named(every(time.Hour), "n"))
	})
}

// TestNothingIsToComeOfAJobThatIsPausedAtOnce: the creation itself, from which an interval counts,
// is no time of it.
func TestNothingIsToComeOfAJobThatIsPausedAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 20 { // of different offsets
			job := w.job(every(5 * time.Minute))
			paused, err := w.PauseJob(t.Context(), "t", job.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, now := range []time.Time{job.Current.Spec.Created, paused.Cut.Add(-time.Millisecond), paused.Cut} {
				if next := w.Upcoming(paused, 10, now); len(next) != 0 {
					t.Errorf("%v before its pause: %+v to come, want none", paused.Cut.Sub(now), next)
				}
			}
		}
	})
}

func TestMaxRunsBecomesTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		spec := every(time.Minute)
		spec.MaxRuns, spec.JitterStated = 3, true
		job := w.job(spec)
		created := job.Current.Spec.Created
		if want := created.Add(3*time.Minute + time.Millisecond); !job.Current.Spec.Schedule.End.Equal(want) {
			t.Errorf("end = %v, want %v", job.Current.Spec.Schedule.End, want)
		}
		if next := w.Upcoming(job, 10, time.Now()); len(next) != 3 || next[2].Due != created.Add(3*time.Minute) {
			t.Errorf("Upcoming = %+v, want three", next)
		}
		time.Sleep(90 * time.Second)
		changed, err := w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error { s.Payload = []byte("2"); return nil })
		if err != nil || !changed.Current.Spec.Schedule.End.Equal(job.Current.Spec.Schedule.End) {
			t.Errorf("after a change of the payload the end = %v, %v, want as before", changed.Current.Spec.Schedule.End, err)
		}
		changed, err = w.ChangeJob(t.Context(), "t", job.ID, 0, func(s *schema.JobSpec) error { s.MaxRuns = 2; return nil })
		if next := w.Upcoming(changed, 10, time.Now()); err != nil || len(next) != 2 {
			t.Errorf("after a change of max_runs: %d runs to come, %v, want 2", len(next), err)
		}
	})
}

func TestListJobs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []schema.JobID
		for i := range 250 {
			spec := every(time.Hour)
			if i%10 == 0 {
				spec.Labels = map[string]string{"team": "x"}
			}
			all = append(all, w.job(spec).ID)
			time.Sleep(time.Millisecond)
		}
		slices.Reverse(all)
		var got []schema.JobID
		var before schema.JobID
		for {
			page, next, err := w.ListJobs(t.Context(), "t", JobFilter{}, before, 60)
			if err != nil {
				t.Fatalf("ListJobs = %v", err)
			}
			for _, job := range page {
				got = append(got, job.ID)
			}
			if next == nil {
				break
			}
			before = *next
		}
		if !slices.Equal(got, all) {
			t.Errorf("ListJobs walked %d jobs, want the %d, newest first", len(got), len(all))
		}
		if page, _, err := w.ListJobs(t.Context(), "t", JobFilter{Label: "team", Value: "x"}, schema.JobID{}, 100); err != nil || len(page) != 25 {
			t.Errorf("ListJobs of a label = %d, %v, want 25", len(page), err)
		}
	})
}

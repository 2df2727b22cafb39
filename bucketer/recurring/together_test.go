package recurring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// hourly returns the specs of n jobs that run at the same minute of each hour.
func hourly(n int) []schema.JobSpec {
	specs := make([]schema.JobSpec, n)
	for i := range specs {
		specs[i] = every(time.Hour)
		specs[i].Schedule, specs[i].JitterStated = &schema.Schedule{Cron: "30 * * * *"}, true
	}
	return specs
}

// created is what CreateJobs answered for one spec.
type created struct {
	job schema.Job
	err error
}

// createJobs makes jobs of specs and returns the answers, one for each.
func (w *world) createJobs(specs []schema.JobSpec) []created {
	w.T.Helper()
	got, times := make([]created, len(specs)), make([]int, len(specs))
	var mu sync.Mutex
	w.CreateJobs(context.Background(), specs, func(i int, job schema.Job, err error) {
		mu.Lock()
		defer mu.Unlock()
		got[i] = created{job, err}
		times[i]++
	})
	for i, n := range times {
		if n != 1 {
			w.T.Errorf("job %d was answered %d times, want once", i, n)
		}
	}
	return got
}

// standing returns the jobs that are stored, and checks that each has its next run.
func (w *world) standing() map[schema.JobID]schema.Job {
	w.T.Helper()
	all := make(map[schema.JobID]schema.Job)
	for shard := range schema.Shard(w.Setting.Shards) { // #nosec G115 -- few
		jobs, err := w.Counts.JobsOf(context.Background(), shard, schema.JobID{}, 10_000)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, job := range jobs {
			all[job.ID] = job
			next, ok := w.NextRun(job, time.Now())
			rows, err := w.Counts.EntriesByID(context.Background(), next.ID.Partition(), []schema.EntryID{next.ID})
			if !ok || err != nil || len(rows) != 1 {
				w.T.Errorf("job %s stands and its next run, due %s, is not held (%v)", job.ID, next.Due, err)
			}
		}
	}
	return all
}

// TestManyJobsShareBatches: a statement for each kind of row and hundred jobs, and each job is what
// it would be if it were made alone.
func TestManyJobsShareBatches(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 2*bucketer.BatchRows + 50
		w.Counts.Reset()
		got := w.createJobs(hourly(n))
		if n := len(w.jobs.Reader.series.known); n != 0 {
			t.Errorf("%d schedules are kept of jobs that do not run yet, want none", n)
		}
		calls := make(map[string]int)
		for op, tally := range w.Counts.Tallies() {
			calls[op] = tally.Calls
		}
		if want := map[string]int{"ListJobs": 3, "PutEntries": 3, "PutJobRuns": 3, "CreateJobs": 3}; !maps.Equal(calls, want) {
			t.Errorf("calls of the store: %v, want %v", calls, want)
		}
		for _, op := range []string{"ListJobs", "PutEntries", "CreateJobs"} {
			if rows := w.Counts.Tally(op).Rows; rows != n {
				t.Errorf("%s wrote %d rows, want %d", op, rows, n)
			}
		}
		stand := w.standing()
		listed, err := w.Counts.JobIDs(t.Context(), "t", schema.JobID{}, 2*n)
		if err != nil || len(listed) != n || len(stand) != n {
			t.Errorf("%d jobs are listed, %v, and %d stand, want %d", len(listed), err, len(stand), n)
		}
		for i := range got {
			job, ok := stand[got[i].job.ID]
			if got[i].err != nil || !ok || job.Current.Number != firstGeneration(job.ID) || job.Current.State != schema.JobActive {
				t.Fatalf("job %d = %s, %v; generation %d, %s stands: %t", i, got[i].job.ID, got[i].err, job.Current.Number, job.Current.State, ok)
			}
		}
		first := got[0].job.Current.Spec
		alone := w.job(hourly(1)[0]).Current.Spec
		if one, other := mustJSON(t, first), mustJSON(t, alone); one != other {
			t.Errorf("made with others: %s,\nalone: %s", one, other)
		}
		if rows := w.occurrences(got[0].job.ID, 2*time.Hour); len(rows) != 1 {
			t.Errorf("%d first runs, want 1", len(rows))
		}
	})
}

func mustJSON(t *testing.T, spec schema.JobSpec) string {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestJobsThatAreMadeTogetherGoOnOrAreNotThere: whichever write fails and however, a job that
// stands has its next run, one that was acknowledged stands, and one that may stand is not answered
// as if it were certain that it does not.
func TestJobsThatAreMadeTogetherGoOnOrAreNotThere(t *testing.T) {
	faults := map[string]schematest.Fault{
		"fails": {Fail: true}, "is torn": {Tear: true}, "loses its answer": {Lose: true}, "comes late": {Late: 10 * time.Second}, "takes long": {Delay: 20 * time.Second},
	}
	for _, op := range []string{"ListJobs", "PutEntries", "CreateJobs"} {
		for name, fault := range faults {
			for _, times := range []int{1, 1000} {
				if times > 1 && fault.Delay > 0 {
					continue // the jobs of a group are looked after one by one
				}
				t.Run(fmt.Sprintf("%s %s %d times", op, name, times), func(t *testing.T) {
					inWorld(t, func(t *testing.T, w *world) {
						w.BefallFirst(times, op, fault)
						got := w.createJobs(hourly(bucketer.BatchRows + 3))
						stand := w.standing()
						good := 0
						for i := range got {
							_, there := stand[got[i].job.ID]
							switch err := got[i].err; {
							case err == nil && !there:
								t.Errorf("job %d was acknowledged and does not stand", i)
							case err == nil:
								good++
							case op == "CreateJobs" && !errors.Is(err, schema.ErrUnknown):
								t.Errorf("job %d = %v, want ErrUnknown: it may stand", i, err)
							}
						}
						mayStand := op == "CreateJobs"
						if !mayStand && len(stand) != good {
							t.Errorf("%d jobs stand, and %d were acknowledged", len(stand), good)
						}
						if mayStand && times == 1 && good != len(got) {
							t.Errorf("%d of %d jobs were acknowledged, want all: writing the rows again finds out", good, len(got))
						}
						if times > 1 && good != 0 {
							t.Errorf("%d jobs were acknowledged, want none", good)
						}
						w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
						time.Sleep(time.Minute) // what comes late has come
						w.standing()
					})
				})
			}
		}
	}
}

// TestJobsThatTookLongAreLookedAfter: when a group is held, the first runs of its jobs are past. So
// the next ones are planned before it is answered.
func TestJobsThatTookLongAreLookedAfter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.BefallFirst(1, "CreateJobs", schematest.Fault{Delay: 2 * time.Minute})
		specs := []schema.JobSpec{every(time.Minute), every(time.Minute)}
		for i := range specs {
			specs[i].JitterStated = true
		}
		for i, c := range w.createJobs(specs) {
			if c.err != nil {
				t.Fatalf("job %d = %v", i, c.err)
			}
		}
		if n := len(w.standing()); n != len(specs) {
			t.Errorf("%d jobs stand, want %d", n, len(specs))
		}
	})
}

// TestAJobThatTookLongIsInDoubt: a job whose creation took long stands, and the store fails where
// it is looked after. The answer must not say that it was not made.
func TestAJobThatTookLongIsInDoubt(t *testing.T) {
	for name, create := range map[string]func(w *world) error{
		"alone": func(w *world) error {
			_, _, err := w.CreateJob(context.Background(), every(time.Minute), "", "")
			return err
		},
		"together": func(w *world) error { return w.createJobs([]schema.JobSpec{every(time.Minute)})[0].err },
	} {
		for _, failing := range []string{"Job", "PutEntries"} {
			t.Run(name+", "+failing, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					took := false
					w.Befall(func(_ context.Context, op string) schematest.Fault {
						switch {
						case op == "CreateJob" || op == "CreateJobs":
							took = true
							return schematest.Fault{Delay: 2 * time.Minute}
						case took:
							return schematest.Fault{Fail: op == failing}
						}
						return schematest.Fault{}
					})
					err := create(w)
					w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					n := 0
					for shard := range schema.Shard(w.Setting.Shards) { // #nosec G115 -- few
						jobs, err := w.Counts.JobsOf(context.Background(), shard, schema.JobID{}, 10)
						if err != nil {
							t.Fatal(err)
						}
						n += len(jobs)
					}
					if n != 1 || !errors.Is(err, schema.ErrUnknown) {
						t.Errorf("created = %v, and there are %d jobs; want one, and that nobody knows", err, n)
					}
				})
			})
		}
	}
}

// TestAJobThatFailsDoesNotStopThoseMadeWithIt.
func TestAJobThatFailsDoesNotStopThoseMadeWithIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		specs := hourly(5)
		specs[1].Task, specs[1].Work = "nobody", nil
		specs[2].EndStated = time.Now().Add(-time.Hour)
		specs[3].Payload = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
		got := w.createJobs(specs)
		for i, want := range map[int]error{1: bucketer.ErrNoTask, 3: schema.ErrTooLarge} {
			if !errors.Is(got[i].err, want) {
				t.Errorf("job %d = %v, want %v", i, got[i].err, want)
			}
		}
		if got[2].err == nil {
			t.Error("a job that ended before it began = no error")
		}
		if got[0].err != nil || got[4].err != nil || len(w.standing()) != 2 {
			t.Errorf("the others: %v, %v, and %d jobs stand, want 2", got[0].err, got[4].err, len(w.standing()))
		}
		w.Stopped.Store(true)
		for i, c := range w.createJobs(hourly(3)) {
			if !errors.Is(c.err, bucketer.ErrNotReady) {
				t.Errorf("job %d of a node that may not write = %v, want ErrNotReady", i, c.err)
			}
		}
	})
}

// TestAGroupIsOfOneTenantAndShard: jobs of two tenants in turn make one group of each, and groups
// spread over the shards.
func TestAGroupIsOfOneTenantAndShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 16})
		specs := hourly(40 * bucketer.BatchRows)
		for i := range specs {
			if i%2 == 1 {
				specs[i].Tenant = "u"
			}
		}
		w.Counts.Reset()
		shards := make(map[schema.Shard]int)
		for i, c := range w.createJobs(specs) {
			if c.err != nil || c.job.Current.Spec.Tenant != specs[i].Tenant {
				t.Fatalf("job %d of %s = job of %s, %v", i, specs[i].Tenant, c.job.Current.Spec.Tenant, c.err)
			}
			shards[c.job.ID.Shard()]++
		}
		if calls := w.Counts.Tally("CreateJobs").Calls; calls != 40 {
			t.Errorf("%d groups were written, want 40", calls)
		}
		if len(shards) < 5 { // 40 draws of 16: fewer come once in 10^17 times
			t.Errorf("the jobs lie in %d shards, want them spread: %v", len(shards), shards)
		}
		for _, tenant := range []string{"t", "u"} {
			ids, err := w.Counts.JobIDs(t.Context(), tenant, schema.JobID{}, 10_000)
			if err != nil || len(ids) != len(specs)/2 {
				t.Errorf("%d jobs of %s are listed, %v, want %d", len(ids), tenant, err, len(specs)/2)
			}
		}
	})
}

// TestMendCountsWhatItLooksThrough: also where it plans nothing, page by page.
func TestMendCountsWhatItLooksThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 1})
		w.createJobs(hourly(7))
		var after schema.JobID
		for page, want := range []float64{3, 6, 7} {
			var err error
			if after, err = w.Mend(t.Context(), 0, after, 3, time.Now()); err != nil || after.IsZero() != (page == 2) {
				t.Fatalf("Mend, page %d = %s, %v", page, after, err)
			}
			if got := testutil.ToFloat64(w.jobs.Reader.metrics.looked); got != want {
				t.Errorf("page %d: %g jobs were looked through, want %g", page, got, want)
			}
		}
	})
}

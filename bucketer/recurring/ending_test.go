package recurring

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// lastRuns makes n jobs of one run each, all due at one instant, and returns them and their runs.
func (w *world) lastRuns(n int) (jobs []schema.Job, last []schema.Entry) {
	w.T.Helper()
	for range n {
		spec := every(time.Minute)
		spec.MaxRuns, spec.JitterStated = 1, true
		jobs = append(jobs, w.job(spec))
	}
	for _, e := range w.Entries(2 * time.Minute) {
		if !e.Spec.Job.IsZero() {
			last = append(last, e)
		}
	}
	if len(last) != n {
		w.T.Fatalf("%d jobs have %d runs, want one each", n, len(last))
	}
	return jobs, last
}

// ended counts the jobs that have finished.
func (w *world) ended(jobs []schema.Job) (n int) {
	w.T.Helper()
	for i := range jobs {
		if w.stored(jobs[i].ID).Current.State == schema.JobFinished {
			n++
		}
	}
	return n
}

// The runs of a thousand jobs that end at one instant waited until each job was finished, one by
// one.
func TestRunsDoNotWaitForJobsToFinish(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const n = 300
		jobs, last := w.lastRuns(n)
		time.Sleep(time.Minute)
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "SwapJob" {
				return schematest.Fault{Delay: 100 * time.Millisecond}
			}
			return schematest.Fault{}
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = w.jobs.Watch(ctx) }()
		began := time.Now()
		for i, v := range w.planOn(last...) {
			if v != bucketer.Publish {
				t.Errorf("PlanOn of last run %d = %v, want Publish", i, v)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("PlanOn of %d last runs took %v: it waited for conditional writes", n, took)
		}
		time.Sleep(n*100*time.Millisecond/endsAtOnce + time.Second)
		if got := w.ended(jobs); got != n {
			t.Errorf("%d of %d jobs have finished", got, n)
		}
	})
}

// Who crashes before it has finished a job leaves that to whoever walks the jobs.
func TestJobsThatWereNotFinishedAreMended(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		jobs, last := w.lastRuns(3)
		time.Sleep(time.Minute)
		w.planOn(last...) // and nobody watches
		if got := w.ended(jobs); got != 0 {
			t.Errorf("%d jobs have finished, and nobody has finished them", got)
		}
		time.Sleep(2 * mendAfter)
		for i := range jobs {
			if _, err := w.Mend(t.Context(), jobs[i].ID.Shard(), schema.JobID{}, 100, time.Now()); err != nil {
				t.Fatalf("Mend = %v", err)
			}
		}
		if got := w.ended(jobs); got != len(jobs) {
			t.Errorf("after a walk %d of %d jobs have finished", got, len(jobs))
		}
	})
}

package operations

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an Engine on a store in memory.
type world struct {
	*bucketertest.World
	*engine.Engine
}

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{})}
		w.Engine = w.on(w.Store())
		f(t, w)
	})
}

// on returns an Engine on a store.
func (w *world) on(store bucketer.Store) *engine.Engine {
	w.T.Helper()
	b, err := engine.New(bucketer.Config{Store: store, Hints: w, Signals: w})
	if err != nil {
		w.T.Fatalf("New = %v", err)
	}
	if err := b.Refresh(w.T.Context()); err != nil {
		w.T.Fatalf("Refresh = %v", err)
	}
	return b
}

// unclear returns Jobs that do not understand the text of a job.
func (w *world) unclear(job schema.JobID) *recurring.Jobs {
	return jobsOf(w.on(&unclear{w.Store(), job}))
}

// unclear is a store in which the text of a job is not understood.
type unclear struct {
	bucketer.Store
	job schema.JobID
}

func (u *unclear) Jobs(ctx context.Context, shard schema.Shard, ids []schema.JobID) ([]schema.Job, error) {
	jobs, err := u.Store.Jobs(ctx, shard, ids)
	for i := range jobs {
		if g := &jobs[i].Current; jobs[i].ID == u.job {
			g.Spec, g.Fault = schema.JobSpec{}, fmt.Errorf("unclear: %w", schema.ErrNotUnderstood)
		}
	}
	return jobs, err
}

// every returns the spec of a job that runs every d.
func every(d time.Duration) schema.JobSpec {
	return schema.JobSpec{
		Tenant: "t", Schedule: &schema.Schedule{Every: schema.Duration(d)},
		Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}, Payload: []byte(`{"n":1}`), Labels: map[string]string{"b": "2", "a": "<1>"},
	}
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

// submit submits job and fails the test where it is not taken.
func (w *world) submit(job bucketer.Job) schema.RunID {
	w.T.Helper()
	r, err := w.Submit(context.Background(), job)
	if err != nil {
		w.T.Fatalf("Submit(%+v) = %v", job, err)
	}
	return r.Run
}

// callTo returns a job due at `at` (zero = now).
func callTo(at time.Time) bucketer.Job {
	return bucketer.Job{Tenant: "t", At: at, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}, Payload: []byte(`{"n":1}`), BodyHash: "b1"}
}

// letterOf returns the dead letter of a run of tenant t as the store has it, nil if there is none.
func (w *world) letterOf(run schema.RunID) *schema.DeadLetter {
	w.T.Helper()
	l, err := w.Counts.DeadLetter(context.Background(), "t", run)
	if errors.Is(err, schema.ErrNotFound) {
		return nil
	}
	if err != nil {
		w.T.Fatalf("dead letter of %s = %v", run, err)
	}
	return &l
}

// listed returns all letters of q, in pages of limit.
func (w *world) listed(q runs.DeadLetterQuery, limit int) (found []schema.RunID) {
	w.T.Helper()
	for pos := (*runs.DeadLetterPosition)(nil); ; {
		page, next, err := w.DeadLetters(context.Background(), q, pos, limit)
		if err != nil {
			w.T.Fatalf("DeadLetters = %v", err)
		}
		for i := range page {
			found = append(found, page[i].Run)
		}
		if len(page) > limit || len(found) > 1000 {
			w.T.Fatalf("a page of %d, want at most %d", len(page), limit)
		}
		if next == nil {
			return found
		}
		pos = next
	}
}

// dead submits a job, has its run fail for good with what follows, and returns its id.
func (w *world) dead(job bucketer.Job) schema.RunID {
	w.T.Helper()
	return w.deadBy(job, "answered 400")
}

// deadBy is dead by that error.
func (w *world) deadBy(job bucketer.Job, text string) schema.RunID {
	w.T.Helper()
	e, _ := w.Row(w.submit(job))
	ruin := schema.Record{Outcome: schema.Failed, Error: text, Status: 400, Final: true}
	err := schema.ErrUnavailable
	w.FollowUp(context.Background(), []bucketer.Finished{{Entry: e, Attempt: w.Recorded(e, 1, ruin)}}, func(_ int, e error) { err = e })
	if err != nil {
		w.T.Fatalf("FollowUp = %v", err)
	}
	return e.ID
}

// jobsOf returns the part of an engine that keeps jobs.
func jobsOf(e *engine.Engine) *recurring.Jobs { return e.Recurring() }

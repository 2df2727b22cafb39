package bucketer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Bucketer on a store in memory.
type world struct {
	*bucketertest.World
	*Bucketer
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, setting)}
	var err error
	w.Bucketer, err = New(Config{Store: w.Store(), Hints: w, Signals: w, Halted: w.Stopped.Load})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh = %v", err)
	}
	return w
}

// submit submits job and fails the test where it is not taken.
func (w *world) submit(job Job) schema.RunID {
	w.T.Helper()
	r, err := w.Submit(context.Background(), job)
	if err != nil {
		w.T.Fatalf("Submit(%+v) = %v", job, err)
	}
	return r.Run
}

// answer is what a job of a batch was answered with.
type answer struct {
	Receipt
	err error
}

// batch submits the jobs as one chunk. It fails the test where a job is answered twice or not at
// all.
func (w *world) batch(jobs ...Job) []answer {
	w.T.Helper()
	answers := make([]answer, len(jobs))
	times := make([]int, len(jobs))
	var mu sync.Mutex
	w.SubmitBatch(context.Background(), jobs, func(i int, r Receipt, err error) {
		mu.Lock()
		defer mu.Unlock()
		answers[i] = answer{r, err}
		times[i]++
	})
	for i, n := range times {
		if n != 1 {
			w.T.Errorf("SubmitBatch: job %d of %d was answered %d times, want once", i, len(jobs), n)
		}
	}
	return answers
}

// callTo returns a job due at `at` (zero = now).
func callTo(at time.Time) Job {
	return Job{Tenant: "t", At: at, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}, Payload: []byte(`{"n":1}`), BodyHash: "b1"}
}

// keyed returns a job with a key.
func keyed(key string, at time.Time) Job {
	job := callTo(at)
	job.Key = key
	return job
}

// cancel sets the mark of a cancelled run.
func (w *world) cancel(id schema.RunID) {
	w.T.Helper()
	if _, err := w.Counts.CancelRun(context.Background(), id, schema.EntryID{}, schema.Cancel{At: time.Now().UTC(), By: "me"}, time.Now().Add(time.Hour*24*7)); err != nil {
		w.T.Fatalf("CancelRun = %v", err)
	}
}

// move names another entry, due at `at`, as the one that starts a run.
func (w *world) move(id schema.RunID, at time.Time) {
	w.T.Helper()
	to := schema.MakeEntryID(at, id.Shard(), schema.RandomHash())
	if _, err := w.Counts.MoveRun(context.Background(), id, schema.EntryID{}, to, at.Add(time.Hour*24*7)); err != nil {
		w.T.Fatalf("MoveRun = %v", err)
	}
}

// putTask stores a task, and has it read again.
func (w *world) putTask(task schema.Task) {
	w.T.Helper()
	task.UpdatedAt = time.Now().UTC()
	if err := w.Counts.PutTask(context.Background(), task); err != nil {
		w.T.Fatalf("PutTask = %v", err)
	}
	w.TaskCache().Changed([]byte(task.Tenant + "\n" + task.Name))
}

// task stores a task that says nothing.
func (w *world) task(tenant, name string) { w.putTask(schema.Task{Tenant: tenant, Name: name}) }

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, schema.Settings{})) })
}

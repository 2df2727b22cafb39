package runs

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testNow = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// parts of a world under a name that does not hide their method Runs.
type runParts = Runs

// world is a Bucketer and Runs on a store in memory.
type world struct {
	*bucketertest.World
	*bucketer.Bucketer
	*runParts
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, setting)}
	w.open(bucketer.Config{Halted: w.Stopped.Load})
	return w
}

// open makes the Bucketer and the Runs of the world anew.
func (w *world) open(c bucketer.Config) {
	w.T.Helper()
	if c.Store == nil {
		c.Store = w.Store()
	}
	c.Hints, c.Signals = w, w
	var err error
	if w.Bucketer, err = bucketer.New(c); err != nil {
		w.T.Fatalf("New = %v", err)
	}
	if err := w.Refresh(w.T.Context()); err != nil {
		w.T.Fatalf("Refresh = %v", err)
	}
	w.runParts = New(Config{
		Bucketer: w.Bucketer, Store: c.Store, Signals: w, Now: c.Now, DeadLetterRetention: c.DeadLetterRetention,
	})
}

// use gives w a store.
func (w *world) use(store bucketer.Store) {
	w.open(bucketer.Config{Store: store, Halted: w.Stopped.Load})
}

// by gives w a clock.
func (w *world) by(c *bucketertest.SetClock) {
	w.open(bucketer.Config{Now: c.Now, Halted: c.Wrong.Load})
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
	return bucketer.Job{
		Tenant: "t", At: at, Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}},
		Payload: []byte(`{"n":1}`), BodyHash: "b1",
	}
}

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, schema.Settings{})) })
}

// mustRun returns the run.
func (w *world) mustRun(id schema.RunID) Run {
	w.T.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil {
		w.T.Fatalf("Run(%s) = %v", id, err)
	}
	return run
}

func (w *world) cancel(id schema.RunID) {
	w.T.Helper()
	if _, err := w.Cancel(context.Background(), "t", id, "me"); err != nil {
		w.T.Fatalf("Cancel = %v", err)
	}
}

func (w *world) move(id schema.RunID, at time.Time) Run {
	w.T.Helper()
	run, err := w.Reschedule(context.Background(), "t", id, Change{At: &at})
	if err != nil {
		w.T.Fatalf("Reschedule = %v", err)
	}
	return run
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

// fillUp has w believe that the partition is full.
func (w *world) fillUp(p schema.Partition) {
	id := schema.MakeEntryID(p.Bucket.Start(), p.Shard, 1)
	for size := 100 << 10; size > 0; size /= 10 {
		e := schema.LoadEntry(id, []byte(`{}`), make([]byte, size), schema.Marks{})
		for w.HasRoom(&e) {
			continue
		}
	}
}

// puts has f called within every PutEntries, with its number from 1.
func (w *world) puts(f func(n int)) {
	var n atomic.Int64
	w.Befall(func(_ context.Context, op string) schematest.Fault {
		if op == "PutEntries" {
			f(int(n.Add(1)))
		}
		return schematest.Fault{}
	})
}

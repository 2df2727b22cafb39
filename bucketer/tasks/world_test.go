package tasks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// taskParts is Tasks under a name that does not hide its method Tasks.
type taskParts = Tasks

// world is a Bucketer and Tasks on a store in memory.
type world struct {
	*bucketertest.World
	*bucketer.Bucketer
	*taskParts
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, setting)}
	w.Bucketer, w.taskParts = w.on(bucketer.Config{Store: w.Store(), Hints: w, Signals: w, Halted: w.Stopped.Load})
	return w
}

// on returns the parts that c wires.
func (w *world) on(c bucketer.Config) (*bucketer.Bucketer, *Tasks) {
	w.T.Helper()
	b, err := bucketer.New(c)
	if err != nil {
		w.T.Fatalf("New = %v", err)
	}
	if err := b.Refresh(w.T.Context()); err != nil {
		w.T.Fatalf("Refresh = %v", err)
	}
	return b, New(Config{Bucketer: b, Store: c.Store, Signals: c.Signals, Listeners: c.Listeners, Logger: c.Logger})
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

func (w *world) task(tenant, name string) schema.Task {
	w.T.Helper()
	task, _, err := w.PutTask(context.Background(), schema.Task{Tenant: tenant, Name: name})
	if err != nil {
		w.T.Fatalf("PutTask = %v", err)
	}
	return task
}

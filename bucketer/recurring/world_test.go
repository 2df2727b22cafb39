package recurring

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// jobs is Jobs under a name that does not hide its method Jobs.
type jobs = Jobs

// runParts is runs.Runs under a name that does not hide its method Runs.
type runParts = runs.Runs

// world is a Bucketer and Jobs on a store in memory.
type world struct {
	*bucketertest.World
	*bucketer.Bucketer
	*runParts
	*jobs
	registry *prometheus.Registry // of the Bucketer
	missed   atomic.Int64         // runs that it was told were missed
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, setting)}
	w.open(time.Now, w.Stopped.Load)
	return w
}

// open makes the Bucketer and the Jobs of the world anew, with a clock and a reason to be halted.
func (w *world) open(now func() time.Time, halted func() bool) {
	w.T.Helper()
	w.registry = prometheus.NewRegistry()
	c := bucketer.Config{Store: w.Store(), Hints: w, Signals: w, Now: now, Halted: halted, Registerer: w.registry, Missed: func(_ *schema.Spec, _ string, runs int64) { w.missed.Add(runs) }}
	var err error
	if w.Bucketer, err = bucketer.New(c); err != nil {
		w.T.Fatalf("New = %v", err)
	}
	if err := w.Refresh(w.T.Context()); err != nil {
		w.T.Fatalf("Refresh = %v", err)
	}
	w.runParts = runs.New(runs.Config{Bucketer: w.Bucketer, Store: w.Store(), Signals: w})
	w.jobs = New(Config{Bucketer: w.Bucketer, Runs: w.runParts, Store: w.Store()})
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

// mustRun returns the run.
func (w *world) mustRun(id schema.RunID) runs.Run {
	w.T.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil {
		w.T.Fatalf("Run(%s) = %v", id, err)
	}
	return run
}

// asks has the task of that name ask for payloads with a number n.
func (w *world) asks(name, text string) {
	w.T.Helper()
	time.Sleep(time.Millisecond) // of two that are put in one, either stays
	task := schema.Task{Tenant: "t", Name: name, Work: schema.Work{NATS: &schema.NATSTarget{Subject: "x"}}, PayloadSchema: []byte(text)}
	task.UpdatedAt = time.Now().UTC()
	if err := w.Counts.PutTask(w.T.Context(), task); err != nil {
		w.T.Fatalf("PutTask = %v", err)
	}
	w.TaskCache().Changed([]byte("t\n" + name))
}

// unfit checks that an error is the one fault of a payload.
func unfit(t *testing.T, what string, err error, want string) {
	t.Helper()
	var faults bucketer.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Location+" "+faults[0].Message != want {
		t.Errorf("%s = %v, want the fault %q", what, err, want)
	}
}

const wantsN = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

const (
	badN  = "body.payload/n must be integer, is string"
	nullN = "body.payload must be object, is null"
	wordy = `{"n":"x"}`
)

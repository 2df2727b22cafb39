package concurrency

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// jobs is recurring.Jobs under a name that does not hide its method Jobs.
type jobs = recurring.Jobs

// runParts is runs.Runs under a name that does not hide its method Runs.
type runParts = runs.Runs

// world is a Bucketer, Jobs and WaitLists on a store in memory.
type world struct {
	*bucketertest.World
	*bucketer.Bucketer
	*runParts
	*jobs
	*WaitLists
	told toldWaits
}

// toldWaits is what was told of runs that wait, last.
type toldWaits struct {
	limit  schema.LimitKey
	tenant string
	runs   int
	more   bool
	oldest time.Time
}

func (*toldWaits) Deferred([]schema.Entry, schema.Cause) {}

func (w *toldWaits) Held(limit schema.LimitKey, first *schema.Spec, runs int, more bool, oldest time.Time) {
	*w = toldWaits{limit, "", runs, more, oldest}
	if first != nil {
		w.tenant = first.Tenant
	}
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	return newWorldIn(t, setting, nil)
}

// newWorldIn is newWorld in one of several regions.
func newWorldIn(t testing.TB, setting schema.Settings, regions *bucketer.Regions) *world {
	t.Helper()
	w := &world{World: bucketertest.NewWorld(t, setting)}
	var err error
	w.Bucketer, err = bucketer.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w, Halted: w.Stopped.Load, Waits: &w.told, Regions: regions})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh = %v", err)
	}
	w.runParts = runs.New(runs.Config{Bucketer: w.Bucketer, Store: w.Store(), Signals: w})
	w.jobs = recurring.New(recurring.Config{Bucketer: w.Bucketer, Runs: w.runParts, Store: w.Store()})
	w.WaitLists = New(Config{Bucketer: w.Bucketer, Runs: w.runParts, Jobs: w.jobs, Store: w.Store()})
	return w
}

// inWorld runs f in a bubble with a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, schema.Settings{})) })
}

// bubble runs f in a synctest bubble, on a store whose rows stay for the retention.
func bubble(t *testing.T, retention time.Duration, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newWorld(t, schema.Settings{Shards: 1, Retention: retention}))
	})
}

// retained runs f where rows stay for a retention, which is the cluster's, and then that of the
// tenant t in a cluster that keeps rows for much longer.
func retained(t *testing.T, retention time.Duration, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("the cluster's", func(t *testing.T) { bubble(t, retention, f) })
	t.Run("the tenant's", func(t *testing.T) {
		bubble(t, 10*retention, func(t *testing.T, w *world) {
			w.Retain("t", int(retention/(24*time.Hour)), w)
			f(t, w)
		})
	})
}

// work is a call.
func work() *schema.Work { return &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/"}} }

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

// limited makes a job of which one run may be under way at once.
func (w *world) limited(name string) schema.Job {
	w.T.Helper()
	return w.job(schema.JobSpec{
		Tenant: "t", Name: name, Concurrency: &schema.Concurrency{Limit: 1},
		Work: work(),
	})
}

// places returns how many runs wait for a limit, by its list.
func (w *world) places(key schema.LimitKey) int {
	w.T.Helper()
	rows, err := w.Counts.Waiters(context.Background(), key, schema.IDRange{}, 10)
	if err != nil {
		w.T.Fatal(err)
	}
	return len(rows)
}

// ask asks for a run of the job by hand, and returns its row.
func (w *world) ask(job schema.Job) schema.Entry {
	w.T.Helper()
	r, err := w.TriggerJob(context.Background(), "t", job.ID, nil, "", "")
	if err != nil {
		w.T.Fatalf("TriggerJob = %v", err)
	}
	row, _ := w.Row(r.Run)
	return row
}

// occupy takes the slot of a limit for a run that is under way.
func (w *world) occupy(key schema.LimitKey, run schema.RunID) {
	w.T.Helper()
	w.swapSlots(key, schema.Slots{Taken: []schema.Slot{{Run: run, Executor: "x", Session: "s1"}}})
}

// wantRun checks that the run is there, in that state, and returns it.
func (w *world) wantRun(id schema.RunID, want schema.State, when string) runs.Run {
	w.T.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil || run.State != want {
		w.T.Fatalf("%s: Run = %q, %v; want %q", when, run.State, err, want)
	}
	return run
}

// recordFor stores attempt 1 of e with that record, to leave as an executor's would.
func (w *world) recordFor(e schema.Entry, rec schema.Record, retention time.Duration) {
	w.T.Helper()
	now := time.Now()
	rec.Entry, rec.Started, rec.Finished = e.ID, now.UTC(), now.UTC()
	a := schema.Attempt{Run: e.Run(), Number: 1, Fence: schema.MakeFence(now), Record: &rec, Written: now.UnixMicro(), Expires: now.Add(retention)}
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("record = %v", err)
	}
}

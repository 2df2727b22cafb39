package bucketer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a Bucketer on a store in memory. What it tells others is written down, and its store has the faults that
// befall says.
type world struct {
	*Bucketer
	t       testing.TB
	counts  *schematest.CountingStore // the store itself, without the faults
	faulty  *schematest.FaultyStore   // the store as the Bucketer has it
	plan    atomic.Pointer[schematest.Plan]
	stopped atomic.Bool
	setting schema.Settings

	mu      sync.Mutex
	near    []schema.Entry
	signals []string
	held    map[schema.EntryID]time.Time // since when the store holds an entry
	written map[schema.Partition]bool    // partitions with entries
}

// noted is a store that notes where entries were written.
type noted struct {
	schema.Store
	w *world
}

func (s noted) PutEntries(ctx context.Context, entries []schema.Entry) error {
	s.w.mu.Lock()
	for i := range entries {
		s.w.written[entries[i].ID.Partition()] = true
	}
	s.w.mu.Unlock()
	return s.Store.PutEntries(ctx, entries)
}

// watched is a store that notes when it came to hold an entry.
type watched struct {
	*schematest.CountingStore
	w *world
}

func (s watched) PutEntries(ctx context.Context, entries []schema.Entry) error {
	err := s.CountingStore.PutEntries(ctx, entries)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i := range entries {
		if _, ok := s.w.held[entries[i].ID]; !ok && err == nil {
			s.w.held[entries[i].ID] = time.Now()
		}
	}
	return err
}

// Settings answers the settings of the world.
func (w *world) Settings(context.Context) (schema.Settings, error) { return w.setting, nil }

// settled is the store of a world with its settings.
type settled struct {
	*schematest.FaultyStore
	w *world
}

func (s settled) Settings(ctx context.Context) (schema.Settings, error) { return s.w.Settings(ctx) }

// counting returns an empty store in memory that counts its calls.
func counting(t *testing.T) *schematest.CountingStore {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	counts := schematest.Counting(store)
	t.Cleanup(func() { _ = counts.Close() })
	return counts
}

func newWorld(t testing.TB, setting schema.Settings) *world {
	t.Helper()
	if setting.Shards == 0 {
		setting.Shards = 64
	}
	if setting.Retention == 0 {
		setting.Retention = 7 * 24 * time.Hour
	}
	store, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		t.Fatalf("open = %v", err)
	}
	w := &world{t: t, setting: setting, held: make(map[schema.EntryID]time.Time), written: make(map[schema.Partition]bool)}
	w.counts = schematest.Counting(noted{store, w})
	w.befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
	w.faulty = schematest.Faulty(watched{w.counts, w}, func(ctx context.Context, op string) schematest.Fault { return (*w.plan.Load())(ctx, op) })
	t.Cleanup(func() {
		if err := w.faulty.Close(); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	w.Bucketer, err = New(Config{Store: settled{w.faulty, w}, Hints: w, Signals: w, Halted: w.stopped.Load})
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if err := w.Refresh(t.Context()); err != nil {
		t.Fatalf("Refresh = %v", err)
	}
	return w
}

// befall sets the faults from now on.
func (w *world) befall(plan schematest.Plan) { w.plan.Store(&plan) }

// first befalls the first n calls of op with f.
func (w *world) first(n int, op string, f schematest.Fault) {
	var left atomic.Int64
	left.Store(int64(n))
	w.befall(func(_ context.Context, called string) schematest.Fault {
		if called == op && left.Add(-1) >= 0 {
			return f
		}
		return schematest.Fault{}
	})
}

func (w *world) Near(_ schema.Shard, entries []schema.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.near = append(w.near, entries...)
}

func (w *world) Signal(topic string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.signals = append(w.signals, topic+":"+string(body))
}

// hinted returns the entries that were hinted since it was asked last.
func (w *world) hinted() []schema.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	near := w.near
	w.near = nil
	return near
}

// entries returns every entry that lies in a bucket within span of now, in id order.
func (w *world) entries(span time.Duration) []schema.Entry {
	w.t.Helper()
	now := time.Now()
	first, last := schema.BucketOf(now.Add(-span)), schema.BucketOf(now.Add(span))
	w.mu.Lock()
	written := slices.Collect(maps.Keys(w.written)) // most partitions are empty: to ask them all takes minutes
	w.mu.Unlock()
	var all []schema.Entry
	for _, p := range written {
		if p.Bucket < first || p.Bucket > last {
			continue
		}
		got, err := w.counts.Entries(context.Background(), p, schema.IDRange{}, 100_000)
		if err != nil {
			w.t.Fatalf("entries of %s = %v", p, err)
		}
		all = append(all, got...)
	}
	slices.SortFunc(all, func(a, b schema.Entry) int { return a.ID.Compare(b.ID) })
	return all
}

// kinds counts entries by kind.
func kinds(entries []schema.Entry) map[schema.Kind]int {
	m := make(map[schema.Kind]int)
	for i := range entries {
		m[entries[i].Spec.Kind]++
	}
	return m
}

// row reads one entry from the store itself.
func (w *world) row(id schema.EntryID) (schema.Entry, bool) {
	w.t.Helper()
	got, err := w.counts.EntriesByID(context.Background(), id.Partition(), []schema.EntryID{id})
	if err != nil {
		w.t.Fatalf("row %s = %v", id, err)
	}
	if len(got) == 0 {
		return schema.Entry{}, false
	}
	return got[0], true
}

// record stores an attempt of e with that outcome, made now, and returns it.
func (w *world) record(e schema.Entry, number int, rec schema.Record) schema.Attempt {
	w.t.Helper()
	now := time.Now()
	rec.Entry, rec.Finished = e.ID, now.UTC()
	a := schema.Attempt{
		Run: e.Run(), Number: number, Fence: schema.MakeFence(now), Record: &rec,
		Written: now.UnixMicro(), Expires: now.Add(24 * 365 * time.Hour),
	}
	if err := w.counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.t.Fatalf("record = %v", err)
	}
	return a
}

// running stores an attempt of e under a session, which stands, and returns it.
func (w *world) running(e schema.Entry, number int) schema.Attempt {
	w.t.Helper()
	now := time.Now()
	s := schema.Session{Executor: "x", ID: "s1", Expires: now.Add(10 * time.Second).UTC().Truncate(time.Millisecond)}
	if err := w.counts.SwapSession(context.Background(), schema.Session{Executor: "x"}, s); err != nil && !errors.Is(err, schema.ErrConflict) {
		w.t.Fatalf("session = %v", err)
	}
	a := schema.Attempt{
		Run: e.Run(), Number: number, Fence: schema.MakeFence(now), Written: now.UnixMicro(), Expires: now.Add(24 * 365 * time.Hour),
		Session: &schema.SessionRef{Executor: "x", ID: "s1", Started: now.UTC(), Entry: e.ID},
	}
	if err := w.counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.t.Fatalf("attempt = %v", err)
	}
	return a
}

// giveUp closes the row of an attempt that noted its session and did not start.
func (w *world) giveUp(a schema.Attempt) {
	w.t.Helper()
	now := time.Now()
	a.Record = &schema.Record{Entry: a.Session.Entry, Finished: now.UTC(), Outcome: schema.Lost, Unstarted: true}
	a.Session, a.Written = nil, now.UnixMicro()
	if err := w.counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.t.Fatalf("attempt = %v", err)
	}
}

// submit submits job and fails the test where it is not taken.
func (w *world) submit(job Job) schema.RunID {
	w.t.Helper()
	r, err := w.Submit(context.Background(), job)
	if err != nil {
		w.t.Fatalf("Submit(%+v) = %v", job, err)
	}
	return r.Run
}

// answer is what a job of a batch was answered with.
type answer struct {
	Receipt
	err error
}

// batch submits the jobs as one chunk. It fails the test where a job is answered twice or not at all.
func (w *world) batch(jobs ...Job) []answer {
	w.t.Helper()
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
			w.t.Errorf("SubmitBatch: job %d of %d was answered %d times, want once", i, len(jobs), n)
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

// mustRun returns the run.
func (w *world) mustRun(id schema.RunID) Run {
	w.t.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil {
		w.t.Fatalf("Run(%s) = %v", id, err)
	}
	return run
}

func pointer[T any](v T) *T { return &v }

func describe(entries []schema.Entry) string {
	var s string
	for i := range entries {
		s += fmt.Sprintf("%s %q of %s due %s\n", entries[i].ID, entries[i].Spec.Kind, entries[i].Run(), entries[i].Due().Format(time.StampMilli))
	}
	return s
}

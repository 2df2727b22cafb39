package bucketertest

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

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// World is a store in memory. It counts its calls, has the faults that Befall sets, and remembers
// hints and signals.
type World struct {
	T       testing.TB
	Counts  *schematest.CountingStore // the store itself, without the faults
	Faulty  *schematest.FaultyStore   // the store with the faults
	plan    atomic.Pointer[schematest.Plan]
	Stopped atomic.Bool
	changes atomic.Int64 // of tenants
	Setting schema.Settings

	Mu      sync.Mutex
	near    []schema.Entry
	Sent    []string
	Held    map[schema.EntryID]time.Time // since when the store holds an entry
	written map[schema.Partition]bool    // partitions with entries
}

// NewWorld returns an empty world. Zero settings are 64 shards and a retention of 7 days.
func NewWorld(t testing.TB, setting schema.Settings) *World {
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
	w := &World{T: t, Setting: setting, Held: make(map[schema.EntryID]time.Time), written: make(map[schema.Partition]bool)}
	w.Counts = schematest.Counting(noted{store, w})
	w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
	w.Faulty = schematest.Faulty(watched{w.Counts, w}, func(ctx context.Context, op string) schematest.Fault { return (*w.plan.Load())(ctx, op) })
	t.Cleanup(func() {
		if err := w.Faulty.Close(); err != nil {
			t.Errorf("close = %v", err)
		}
	})
	return w
}

// Store returns the store with the faults and the settings of the world.
func (w *World) Store() schema.Store { return settled{w.Faulty, w} }

// noted is a store that notes where entries were written.
type noted struct {
	schema.Store
	w *World
}

func (s noted) PutEntries(ctx context.Context, entries []schema.Entry) error {
	s.w.Mu.Lock()
	for i := range entries {
		s.w.written[entries[i].ID.Partition()] = true
	}
	s.w.Mu.Unlock()
	return s.Store.PutEntries(ctx, entries)
}

// watched is a store that notes when it came to hold an entry.
type watched struct {
	*schematest.CountingStore
	w *World
}

func (s watched) PutEntries(ctx context.Context, entries []schema.Entry) error {
	err := s.CountingStore.PutEntries(ctx, entries)
	s.w.Mu.Lock()
	defer s.w.Mu.Unlock()
	for i := range entries {
		if _, ok := s.w.Held[entries[i].ID]; !ok && err == nil {
			s.w.Held[entries[i].ID] = time.Now()
		}
	}
	return err
}

// Settings answers the settings of the world.
func (w *World) Settings(context.Context) (schema.Settings, error) { return w.Setting, nil }

// settled is the store of a world with its settings.
type settled struct {
	*schematest.FaultyStore
	w *World
}

func (s settled) Settings(ctx context.Context) (schema.Settings, error) { return s.w.Settings(ctx) }

// OpenStore returns an empty store in memory that counts its calls.
func OpenStore(t *testing.T) *schematest.CountingStore {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	counts := schematest.Counting(store)
	t.Cleanup(func() { _ = counts.Close() })
	return counts
}

// Retain gives a tenant a retention of so many days (0: the cluster's), as its change by the API
// does, and has a node know of it.
func (w *World) Retain(tenant string, days int, node interface {
	NoteRetentions(names []string)
	ReadRetentions(ctx context.Context) error
},
) {
	w.T.Helper()
	ctx := context.Background()
	at := time.Now().Add(time.Duration(w.changes.Add(1)) * time.Microsecond) // in a bubble all may be one instant
	err := w.Counts.PutTenant(ctx, schema.Tenant{Name: tenant, Retention: days, UpdatedAt: at})
	if err == nil {
		node.NoteRetentions([]string{tenant})
		err = node.ReadRetentions(ctx)
	}
	if err != nil {
		w.T.Fatalf("retention of %s = %v", tenant, err)
	}
}

// Befall sets the faults from now on.
func (w *World) Befall(plan schematest.Plan) { w.plan.Store(&plan) }

// BefallFirst sets f as the fault of the first n calls of op.
func (w *World) BefallFirst(n int, op string, f schematest.Fault) {
	var left atomic.Int64
	left.Store(int64(n))
	w.Befall(func(_ context.Context, called string) schematest.Fault {
		if called == op && left.Add(-1) >= 0 {
			return f
		}
		return schematest.Fault{}
	})
}

// Near remembers a hint.
func (w *World) Near(_ schema.Shard, entries []schema.Entry) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.near = append(w.near, entries...)
}

// Signal remembers a signal.
func (w *World) Signal(topic string, body []byte) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Sent = append(w.Sent, topic+":"+string(body))
}

// Hinted returns the entries that were hinted since the last call.
func (w *World) Hinted() []schema.Entry {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	near := w.near
	w.near = nil
	return near
}

// Entries returns every entry in a bucket within span of now, in id order.
func (w *World) Entries(span time.Duration) []schema.Entry {
	w.T.Helper()
	now := time.Now()
	first, last := schema.BucketOf(now.Add(-span)), schema.BucketOf(now.Add(span))
	w.Mu.Lock()
	// most partitions are empty: to ask them all takes minutes
	written := slices.Collect(maps.Keys(w.written))
	w.Mu.Unlock()
	var all []schema.Entry
	for _, p := range written {
		if p.Bucket < first || p.Bucket > last {
			continue
		}
		got, err := w.Counts.Entries(context.Background(), p, schema.IDRange{}, 100_000)
		if err != nil {
			w.T.Fatalf("entries of %s = %v", p, err)
		}
		all = append(all, got...)
	}
	slices.SortFunc(all, func(a, b schema.Entry) int { return a.ID.Compare(b.ID) })
	return all
}

// Row reads one entry from the store itself.
func (w *World) Row(id schema.EntryID) (schema.Entry, bool) {
	w.T.Helper()
	got, err := w.Counts.EntriesByID(context.Background(), id.Partition(), []schema.EntryID{id})
	if err != nil {
		w.T.Fatalf("row %s = %v", id, err)
	}
	if len(got) == 0 {
		return schema.Entry{}, false
	}
	return got[0], true
}

// Recorded stores an attempt of e with that outcome, made now, and returns it.
func (w *World) Recorded(e schema.Entry, number int, rec schema.Record) schema.Attempt {
	w.T.Helper()
	now := time.Now()
	rec.Entry, rec.Finished = e.ID, now.UTC()
	a := schema.Attempt{
		Run: e.Run(), Number: number, Fence: schema.MakeFence(now), Record: &rec,
		Written: now.UnixMicro(), Expires: now.Add(24 * 365 * time.Hour),
	}
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("record = %v", err)
	}
	return a
}

// Running stores an attempt of e under a standing session, and returns it.
func (w *World) Running(e schema.Entry, number int) schema.Attempt {
	w.T.Helper()
	now := time.Now()
	s := schema.Session{Executor: "x", ID: "s1", Expires: now.Add(10 * time.Second).UTC().Truncate(time.Millisecond)}
	if err := w.Counts.SwapSession(context.Background(), schema.Session{Executor: "x"}, s); err != nil && !errors.Is(err, schema.ErrConflict) {
		w.T.Fatalf("session = %v", err)
	}
	a := schema.Attempt{
		Run: e.Run(), Number: number, Fence: schema.MakeFence(now), Written: now.UnixMicro(), Expires: now.Add(24 * 365 * time.Hour),
		Session: &schema.SessionRef{Executor: "x", ID: "s1", Started: now.UTC(), Entry: e.ID},
	}
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("attempt = %v", err)
	}
	return a
}

// LeaveUnstarted closes the row of an attempt that noted its session and did not start.
func (w *World) LeaveUnstarted(a schema.Attempt) {
	w.T.Helper()
	now := time.Now()
	a.Record = &schema.Record{Entry: a.Session.Entry, Finished: now.UTC(), Outcome: schema.Lost, Unstarted: true}
	a.Session, a.Written = nil, now.UnixMicro()
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("attempt = %v", err)
	}
}

// Kinds counts entries by kind.
func Kinds(entries []schema.Entry) map[schema.Kind]int {
	m := make(map[schema.Kind]int)
	for i := range entries {
		m[entries[i].Spec.Kind]++
	}
	return m
}

// Signals tells others of a signal at once.
type Signals []func(topic string, body []byte)

// Signal tells all of s.
func (s Signals) Signal(topic string, body []byte) {
	for _, hear := range s {
		hear(topic, body)
	}
}

// Value returns the value of a counter or a gauge.
func Value(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// Pointer returns a pointer to v.
func Pointer[T any](v T) *T { return &v }

// Describe lists entries, a line each.
func Describe(entries []schema.Entry) string {
	var s string
	for i := range entries {
		s += fmt.Sprintf("%s %q of %s due %s\n", entries[i].ID, entries[i].Spec.Kind, entries[i].Run(), entries[i].Due().Format(time.StampMilli))
	}
	return s
}

// Gathered returns what the only metric of that name says.
func Gathered(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

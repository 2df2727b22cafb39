package executor_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/queue/inproc"
	"carillon.dev/carillon/executor"
	"carillon.dev/carillon/executor/target"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

const (
	millShards = 16
	// millRuns is one full batch of records in each shard.
	millRuns = millShards * 100
)

// mill is an executor that runs, calls nobody, and gets its messages a lot at a time.
type mill struct {
	t      testing.TB
	counts *schematest.CountingStore
	conn   *inproc.Conn
	sluice chan struct{} // cap 1: who has the token, who gathers messages or who fetches them
	seq    uint64

	mu   sync.Mutex
	left int           // runs of the lot that are not finished
	done chan struct{} // closed when left comes to 0
}

// grind runs f with a mill.
func grind(t testing.TB, f func(m *mill)) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Shards: millShards})
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	broker := inproc.New(inproc.Config{})
	m := &mill{t: t, counts: schematest.Counting(store), conn: broker.Connect("mill"), sluice: make(chan struct{}, 1)}
	defer func() {
		_ = m.conn.Close() // always nil
		broker.Close()
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	}()
	halt := bucketer.NewHalt(time.Now)
	b, err := engine.New(bucketer.Config{Store: m.counts, Hints: m.conn, Signals: m.conn})
	if err == nil {
		err = b.Refresh(t.Context())
	}
	if err != nil {
		t.Fatalf("bucketer: %v", err)
	}
	x, err := executor.New(executor.Config{
		Name: "mill", Store: m.counts, Writer: b, Tasks: b.TaskCache(), Queue: m, Notices: m,
		Targets: target.Set{HTTP: target.Noop{}}, Halt: halt, Tally: tally.New(),
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = x.Run(ctx) })    // always nil
	running.Go(func() { _ = halt.Run(ctx) }) // always nil
	defer running.Wait()
	defer cancel()
	f(m)
}

// Fetch implements queue.Consumer: nothing comes while messages gather, and everything in one
// priority.
func (m *mill) Fetch(ctx context.Context, lane queue.Lane, p schema.Priority, n int, wait time.Duration) ([]queue.Delivery, error) {
	if p != schema.Normal {
		<-ctx.Done()
		return nil, nil
	}
	select {
	case <-ctx.Done():
		return nil, nil
	case m.sluice <- struct{}{}:
	}
	defer func() { <-m.sluice }()
	return m.conn.Fetch(ctx, lane, p, n, min(wait, 20*time.Millisecond))
}

// Done counts what is finished.
func (m *mill) Done(_ schema.Shard, notices []schema.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left > 0 && m.left <= len(notices) {
		close(m.done)
	}
	m.left -= len(notices) // below 0 where a message came twice
}

// gather publishes n runs over the shards and lets none of them pass.
func (m *mill) gather(n int) {
	m.sluice <- struct{}{}
	m.left, m.done = n, make(chan struct{})
	now := time.Now()
	var stored sync.WaitGroup
	for i := range n {
		m.seq++
		id := schema.MakeEntryID(now, schema.Shard(i%millShards), m.seq)
		e, err := schema.NewEntry(id, schema.Spec{
			Tenant: "t", Nominal: now, Accepted: now.UnixMicro(), Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink"}},
		}, []byte(`{"n":1}`), now.Add(time.Hour))
		if err != nil {
			m.t.Fatalf("NewEntry: %v", err)
		}
		// Checked in an hour, so that nothing is looked at because the machine is slow.
		stored.Add(1)
		err = m.conn.Publish(context.Background(), 0, &queue.Envelope{Entry: e, CheckedAt: now.Add(time.Hour)}, func(_ queue.Receipt, err error) {
			defer stored.Done()
			if err != nil {
				m.t.Errorf("publish: %v", err)
			}
		})
		if err != nil {
			m.t.Fatalf("Publish: %v", err)
		}
	}
	stored.Wait()
}

// pass lets what was gathered pass, and waits until it is finished.
func (m *mill) pass() {
	<-m.sluice
	<-m.done
}

// BenchmarkRuns is what 8,000 runs cost that call nobody, from the queue to their records in a
// store in memory.
func BenchmarkRuns(b *testing.B) {
	const n = 5 * millRuns
	grind(b, func(m *mill) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			m.gather(n)
			b.StartTimer()
			m.pass()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/run")
	})
}

// TestStatementsOfRuns tells, as attributes, which calls of the store runs cost an executor; `make
// bench-gate` compares them with what was committed.
func TestStatementsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grind(t, func(m *mill) {
			time.Sleep(time.Second + 7*time.Millisecond) // it has its session, and its recorder does not tick now
			m.counts.Reset()
			m.gather(millRuns)
			m.pass()
			if got := m.counts.Tally("PutAttempts").Rows; got != millRuns {
				t.Errorf("rows of attempts written: %d, want one a run: %d", got, millRuns)
			}
			for op, tally := range m.counts.Tallies() {
				t.Attr(op, strconv.Itoa(tally.Calls))
			}
		})
	})
}

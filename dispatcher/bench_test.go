package dispatcher

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// benchQueue answers every publication at once.
type benchQueue struct {
	Queue
	mu  sync.Mutex
	seq uint64
}

func (q *benchQueue) Publish(_ context.Context, _ queue.Lane, _ *queue.Envelope, done func(queue.Receipt, error)) error {
	q.mu.Lock()
	q.seq++
	seq := q.seq
	q.mu.Unlock()
	done(queue.Receipt{Stream: "1", Sequence: seq}, nil)
	return nil
}

// pass takes rows through the actor of a shard, from the scan to the notice.
func pass(ctx context.Context, s *shard, entries []schema.Entry, notices []schema.Notice, now time.Time) {
	for len(entries) > 0 {
		n := min(len(entries), scanPage)
		s.scan.found(ctx, entries[:n], nil, time.Time{}, now, now)
		for range n/flushChunk + 1 {
			s.publish.flush(ctx, now)
		}
		s.readMail(ctx, now)
		s.mail.addNotices(notices[:n])
		s.readMail(ctx, now)
		entries, notices = entries[n:], notices[n:]
	}
	s.state.Swept(now.Add(time.Hour))
}

func passable(t testing.TB, r *rig, n int) (*shard, []schema.Entry, []schema.Notice, time.Time) {
	d := r.idle()
	d.queue = &benchQueue{Queue: r.conn}
	d.tally = tally.New()
	s := r.shardOf(d, 0)
	now := time.Now()
	entries, notices := make([]schema.Entry, n), make([]schema.Notice, n)
	for i := range entries {
		entries[i] = r.entry(now, 0, schema.Spec{})
		notices[i] = schema.Notice{Entry: entries[i].ID, Run: entries[i].ID, Attempt: 1}
	}
	return s, entries, notices, now
}

func refilled(d *Dispatcher) {
	d.depth.SetBudget(depth.Subject{Lane: 0, Priority: schema.Normal}, 1<<30)
}

// TestWhatIsPublishedIsCountedByName: once, whatever the lots, and not what was published before.
func TestWhatIsPublishedIsCountedByName(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	const n = 1000
	s, entries, notices, now := passable(t, r, n)
	refilled(s.d)
	for i := range entries {
		e := r.entry(now, 0, schema.Spec{Tenant: "a", Task: "one"})
		if i%10 == 0 {
			e = r.entry(now, 0, schema.Spec{Tenant: "b", Task: strconv.Itoa(i % 200)})
		}
		entries[i], notices[i] = e, schema.Notice{Entry: e.ID, Run: e.ID, Attempt: 1}
	}
	pass(t.Context(), s, entries, notices, now)
	again := r.entry(now, 0, schema.Spec{Tenant: "c"})
	s.publish.redispatch(again, now, now)
	s.publish.flush(t.Context(), now)
	if got := counted(t, s.d.metrics.due); got != n {
		t.Errorf("due were %v, want %d", got, n)
	}
	due := make(map[string]int64)
	for _, kind := range []schema.StatsKind{schema.ByTenant, schema.ByTask} {
		for _, c := range s.d.tally.Names(kind).Names {
			due[string(kind)+" "+c.Tenant] += c.Due
		}
	}
	if want := map[string]int64{"tenant a": 900, "tenant b": 100, "task a": 900, "task b": 100}; !maps.Equal(due, want) {
		t.Errorf("counted were %v, want %v", due, want)
	}
	if published := counted(t, s.d.metrics.published.WithLabelValues(string(schema.Normal))); published != n+1 {
		t.Errorf("published were %v, want %d", published, n+1)
	}
}

// refusingQueue confirms only every third publication.
type refusingQueue struct {
	benchQueue
	calls int
}

func (q *refusingQueue) Publish(ctx context.Context, n queue.Lane, env *queue.Envelope, done func(queue.Receipt, error)) error {
	if q.calls++; q.calls%3 != 0 {
		done(queue.Receipt{}, queue.ErrOffline)
		return nil
	}
	return q.benchQueue.Publish(ctx, n, env, done)
}

// TestWhatIsPublishedAgainIsCountedOnce: a queue that does not confirm is handed the same again and
// again.
func TestWhatIsPublishedAgainIsCountedOnce(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	s, entries, _, now := passable(t, r, 1)
	q := &refusingQueue{benchQueue: benchQueue{Queue: r.conn}}
	s.d.queue = q
	refilled(s.d)
	s.scan.found(t.Context(), entries, nil, time.Time{}, now, now)
	for range 3 {
		s.publish.flush(t.Context(), now)
		s.readMail(t.Context(), now)
		now = now.Add(retryPublish)
	}
	p, ok := s.state.Pending(entries[0].ID)
	if !ok || p.Phase != shardstate.Published || q.calls != 3 {
		t.Fatalf("after %d publications it is %+v, want it confirmed by the third", q.calls, p)
	}
	if got := s.d.tally.Names(schema.ByTenant).Names; len(got) != 1 || got[0].Due != 1 {
		t.Errorf("counted were %+v, want one that was due", got)
	}
	published, failed := counted(t, s.d.metrics.published.WithLabelValues(string(schema.Normal))), counted(t, s.d.metrics.publishFailures)
	if published != 1 || failed != 2 {
		t.Errorf("%v were published and %v failed, want 1 and 2", published, failed)
	}
}

// TestAllocationsOfARun: from the scan to the notice a run costs its envelope, what is remembered
// of it, and its receipt.
func TestAllocationsOfARun(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	const n = 10_000
	s, entries, notices, now := passable(t, r, n)
	refilled(s.d)
	allocs := testing.AllocsPerRun(3, func() { pass(t.Context(), s, entries, notices, now) })
	if per := allocs / n; per > 6 {
		t.Errorf("%.1f allocations a run, want at most 6", per)
	} else {
		t.Logf("%.2f allocations a run", per)
	}
	if size := s.state.Size(); size.Known+size.Open+size.Buckets+size.OnTime+size.Overdue != 0 {
		t.Errorf("the state remembers what is done: %+v", size)
	}
}

// BenchmarkScanToPublish is the dispatcher's own work for 10,000 rows, without store and queue.
func BenchmarkScanToPublish(b *testing.B) {
	r := newRig(b, 1)
	defer r.close()
	const n = 10_000
	s, entries, notices, now := passable(b, r, n)
	refilled(s.d)
	b.ReportAllocs()
	for b.Loop() {
		pass(b.Context(), s, entries, notices, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/run")
}

// TestAnAttemptIsDueOnce: DUE of stats counted each deferral again, and each turn of a wait list,
// so a broken target looked as if twice as much was due.
func TestAnAttemptIsDueOnce(t *testing.T) {
	r := newRig(t, 1)
	defer r.close()
	specs := []struct {
		spec schema.Spec
		due  bool
	}{
		{schema.Spec{Tenant: "run"}, true},
		{schema.Spec{Tenant: "retry", Kind: schema.KindRetry, Attempt: 2}, true},
		{schema.Spec{Tenant: "moved", Kind: schema.KindReschedule}, true},
		{schema.Spec{Tenant: "deferred by a dispatcher", Kind: schema.KindDeferral}, true},
		{schema.Spec{Tenant: "deferred by an executor", Kind: schema.KindDeferral, Deferrals: 1}, false},
		{schema.Spec{Tenant: "deferred by both", Kind: schema.KindDeferral, Deferrals: 3}, false},
		{schema.Spec{Tenant: "from a wait list", Kind: schema.KindFromWaitList}, false},
	}
	s, entries, notices, now := passable(t, r, len(specs))
	refilled(s.d)
	want := 0
	for i, of := range specs {
		if of.spec.Kind != schema.KindRun {
			of.spec.Of = entries[i].ID
		}
		e := r.entry(now, 0, of.spec)
		entries[i], notices[i] = e, schema.Notice{Entry: e.ID, Run: e.Run(), Attempt: e.Spec.AttemptNumber()}
		if of.due {
			want++
		}
	}
	pass(t.Context(), s, entries, notices, now)
	got := make(map[string]bool)
	for _, c := range s.d.tally.Names(schema.ByTenant).Names {
		got[c.Tenant] = c.Due == 1
	}
	for _, of := range specs {
		if got[of.spec.Tenant] != of.due {
			t.Errorf("%s: counted as due %t, want %t", of.spec.Tenant, got[of.spec.Tenant], of.due)
		}
	}
	if n := counted(t, s.d.metrics.due); n != float64(want) {
		t.Errorf("due were %v, want %d", n, want)
	}
	if n := counted(t, s.d.metrics.published.WithLabelValues(string(schema.Normal))); n != float64(len(specs)) {
		t.Errorf("published were %v, want all %d", n, len(specs))
	}
}

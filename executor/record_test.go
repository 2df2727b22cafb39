package executor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
)

// ledger is a Writer and Notices that keeps what it is given; fail, if set, decides.
type ledger struct {
	Writer
	fail func(rows []schema.Attempt) error

	mu      sync.Mutex
	batches [][]schema.Attempt
	at      []time.Time
	notices int
}

func (l *ledger) Record(_ context.Context, rows []schema.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches, l.at = append(l.batches, rows), append(l.at, time.Now())
	if l.fail != nil {
		return l.fail(rows)
	}
	return nil
}

func (l *ledger) FollowUp(_ context.Context, finished []bucketer.Finished, done func(int, error)) {
	for i := range finished {
		done(i, nil)
	}
}

func (l *ledger) Done(_ schema.Shard, notices []schema.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notices += len(notices)
}

func (l *ledger) recorder() *recorder {
	return newRecorder(l, l, slog.New(slog.DiscardHandler), newMetrics(prometheus.NewRegistry()), tally.New(), spans{}, time.Second)
}

// wordOf makes the n-th word of a shard.
func wordOf(shard schema.Shard, n int, then func()) pendingWrite {
	id := schema.MakeEntryID(time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC), shard, uint64(n)) // #nosec G115 -- small
	return pendingWrite{
		entry: &schema.Entry{ID: id, Spec: schema.Spec{Tenant: "t"}}, notify: true, then: then,
		attempt: schema.Attempt{Run: id, Number: 1, Record: &schema.Record{Entry: id, Started: id.Time(), Outcome: schema.Succeeded}},
		counts:  toCount{start: true, end: true}, http: &schema.HTTPTarget{URL: "http://sink"},
	}
}

// inRecorder runs f beside a recorder that runs.
func inRecorder(t *testing.T, l *ledger, f func(t *testing.T, r *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		r := l.recorder()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.run(ctx) })
		defer running.Wait()
		defer cancel()
		f(t, r)
	})
}

func TestRecordsGoInBatchesOfOnePartition(t *testing.T) {
	l := new(ledger)
	inRecorder(t, l, func(t *testing.T, r *recorder) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		draw := rand.New(rand.NewPCG(seed, 0))
		const words = 5000
		put := make(map[schema.RunID]time.Time)
		held := make(map[schema.RunID]int)
		var mu sync.Mutex
		for n := range words {
			w := wordOf(schema.Shard(draw.IntN(5)), n, nil)
			id := w.attempt.Run
			w.then = func() { mu.Lock(); held[id]++; mu.Unlock() }
			put[id] = time.Now()
			r.put(w)
			if n%50 == 0 {
				time.Sleep(time.Duration(draw.IntN(20)) * time.Millisecond)
			}
		}
		time.Sleep(2 * recordWithin)
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, batch := range l.batches {
			if len(batch) > recordRows {
				t.Errorf("batch %d: got %d rows, want at most %d", i, len(batch), recordRows)
			}
			for _, row := range batch {
				if row.Run.Partition() != batch[0].Run.Partition() {
					t.Fatalf("batch %d: got rows of %s and %s, want one partition", i, row.Run.Partition(), batch[0].Run.Partition())
				}
				if waited := l.at[i].Sub(put[row.Run]); waited > recordWithin {
					t.Errorf("%s waited %v, want at most %v", row.Run, waited, recordWithin)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for id, n := range held {
			if n != 1 {
				t.Errorf("then of %s: called %d times, want once", id, n)
			}
		}
		if len(held) != words || l.notices != words || r.unwritten.Load() != 0 {
			t.Errorf("held %d, notices %d, kept %d, want %d, %d, 0", len(held), l.notices, r.unwritten.Load(), words, words)
		}
	})
}

// TestFlushCutsBatches: more rows than one batch may hold wait after an outage.
func TestFlushCutsBatches(t *testing.T) {
	l := new(ledger)
	r := l.recorder()
	for n := range 2*recordRows + 50 {
		r.put(wordOf(0, n, func() {}))
	}
	r.flush(t.Context(), 1)
	r.writers.Wait()
	rows := 0
	for i, batch := range l.batches {
		if rows += len(batch); len(batch) > recordRows {
			t.Errorf("batch %d: got %d rows, want at most %d", i, len(batch), recordRows)
		}
	}
	if len(l.batches) != 3 || rows != 2*recordRows+50 {
		t.Errorf("got %d batches with %d rows, want 3 with %d", len(l.batches), rows, 2*recordRows+50)
	}
}

func TestFullBatchDoesNotWait(t *testing.T) {
	l := new(ledger)
	inRecorder(t, l, func(t *testing.T, r *recorder) {
		time.Sleep(time.Millisecond)
		for n := range recordRows {
			r.put(wordOf(0, n, func() {}))
		}
		synctest.Wait()
		if got := r.unwritten.Load(); got != 0 {
			t.Errorf("kept at once: got %d, want none", got)
		}
	})
}

// TestRecordsAreTriedUntilTheyAreHeld: nothing is told of what failed, whatever the order in which
// partitions recover.
func TestRecordsAreTriedUntilTheyAreHeld(t *testing.T) {
	down := true
	l := &ledger{fail: func(rows []schema.Attempt) error {
		if down && rows[0].Run.Shard() == 1 {
			return schema.ErrUnavailable
		}
		return nil
	}}
	inRecorder(t, l, func(t *testing.T, r *recorder) {
		for n := range 300 {
			r.put(wordOf(schema.Shard(n%2), n, func() {}))
		}
		time.Sleep(time.Second + recordWithin/2)
		if got := r.unwritten.Load(); got != 150 || l.notices != 150 {
			t.Errorf("while shard 1 is down: got %d kept and %d notices, want 150 of each", got, l.notices)
		}
		l.mu.Lock()
		down = false
		l.mu.Unlock()
		time.Sleep(2 * recordWithin)
		synctest.Wait()
		if got := r.unwritten.Load(); got != 0 || l.notices != 300 || r.overfull() {
			t.Errorf("afterwards: got %d kept, %d notices, overfull %v, want 0, 300, false", got, l.notices, r.overfull())
		}
	})
}

// TestStopOfTheRecorderIsBounded: a store that stays down does not keep the executor.
func TestStopOfTheRecorderIsBounded(t *testing.T) {
	l := &ledger{fail: func([]schema.Attempt) error { return schema.ErrUnavailable }}
	synctest.Test(t, func(t *testing.T) {
		r := l.recorder()
		ctx, cancel := context.WithCancel(t.Context())
		r.put(wordOf(0, 1, func() { t.Error("then was called, want not") }))
		cancel()
		began := time.Now()
		r.run(ctx)
		if took := time.Since(began); took < r.drainFor || took > r.drainFor+2*recordWithin {
			t.Errorf("the stop took %v, want %v", took, r.drainFor)
		}
	})
}

// TestPutAllocates: to hand a record over costs no more than the growth of a list.
func TestPutAllocates(t *testing.T) {
	r := new(ledger).recorder()
	w := wordOf(0, 1, func() {})
	n := 0
	allocs := testing.AllocsPerRun(10*recordRows, func() {
		r.put(w)
		if n++; n%recordRows == 0 {
			r.flush(t.Context(), recordRows)
		}
	})
	r.writers.Wait()
	if allocs > 1 {
		t.Errorf("put and flush: got %v allocations a word, want at most 1", allocs)
	}
}

func BenchmarkRecord(b *testing.B) {
	for _, shards := range []int{1, 64} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			l := new(ledger)
			r := l.recorder()
			words := make([]pendingWrite, 64*recordRows)
			for i := range words {
				words[i] = wordOf(schema.Shard(i%shards), i, func() {}) // #nosec G115 -- small
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.put(words[i%len(words)])
				if (i+1)%len(words) == 0 {
					r.flush(b.Context(), 1)
					r.writers.Wait()
					l.batches, l.at = l.batches[:0], l.at[:0]
				}
			}
			r.flush(b.Context(), 1)
			r.writers.Wait()
		})
	}
}

package bucketer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// fillUp makes a partition full, as far as this node knows.
func (w *world) fillUp(p schema.Partition) {
	w.fill.mu.Lock()
	defer w.fill.mu.Unlock()
	w.fill.noticed[p] = filled{stored: MaxPartitionBytes}
}

func TestFillBoundsAPartition(t *testing.T) {
	f := newFill()
	p, q := schema.Partition{Bucket: 5, Shard: 1}, schema.Partition{Bucket: 5, Shard: 2}
	for step, row := range []struct {
		p    schema.Partition
		n    int
		want bool
	}{
		{p, MaxPartitionBytes - 10, true},
		{p, 11, false},
		{p, 10, true},
		{p, 1, false},
		{q, 1, true},
	} {
		if got := f.take(row.p, row.n); got != row.want {
			t.Errorf("step %d: take(%s, %d) = %v, want %v", step, row.p, row.n, got, row.want)
		}
	}
	f.give(p, 4)
	if f.take(p, 5) || !f.take(p, 4) {
		t.Error("after 4 bytes were given back, want room for exactly 4")
	}
	f.forget(5)
	if f.take(p, 1) {
		t.Error("forget(5) forgot bucket 5, want only those before")
	}
	f.forget(6)
	if len(f.noticed) != 0 || !f.take(p, 1) {
		t.Errorf("forget(6) left %v, want nothing", f.noticed)
	}
}

// How full a partition was, nobody knew after a restart, nor of what other nodes had put into it.
func TestAPartitionIsFullForOtherNodesAndAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, schema.Settings{Shards: 1})
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		begins := func() *Bucketer {
			b, err := New(Config{Store: w.Store(), Hints: w, Signals: w})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = b.Watch(ctx) }() // always nil
			return b
		}
		p := schema.Partition{Bucket: schema.BucketOf(time.Now().Add(time.Hour))}
		const each = noticeEach // of each of these something is drawn
		stored := 0
		// put has the nodes put rows in by turns, until all refuse.
		put := func(nodes ...*Bucketer) {
			t.Helper()
			for refused := 0; refused < len(nodes) && stored < 1000; {
				refused = 0
				for _, b := range nodes {
					if !b.fill.take(p, each) {
						refused++
						continue
					}
					text := fmt.Sprintf(`{"tenant":"t","accepted":%d,"payload_size":%d}`, time.Now().UnixMicro(), each)
					id := schema.MakeEntryID(p.Bucket.Start(), p.Shard, uint64(stored)) // #nosec G115 -- small
					row := schema.LoadEntry(id, []byte(text), nil, schema.Marks{})
					row.Expires = time.Now().Add(24 * time.Hour)
					if err := w.Faulty.PutEntries(ctx, []schema.Entry{row}); err != nil {
						t.Fatal(err)
					}
					stored++
					synctest.Wait() // what it asks is answered
				}
			}
		}
		full := MaxPartitionBytes / each
		put(begins(), begins(), begins())
		if stored < full-1 || stored > full+3 {
			t.Errorf("three nodes put %d MiB in, want %d, and one more each at most", stored, full)
		}
		before := stored
		put(begins())
		if stored > before+1 {
			t.Errorf("a node that began later put %d MiB into a full partition, want 1 at most", stored-before)
		}
	})
}

// A question that is not answered stops nobody, and is asked again when more was put in.
func TestAPartitionOfWhichNothingIsKnown(t *testing.T) {
	f, p := newFill(), schema.Partition{Bucket: 5}
	if !f.take(p, noticeEach) || len(f.ask) != 1 {
		t.Fatalf("after %d bytes: %d questions, want one", noticeEach, len(f.ask))
	}
	if err := f.size(<-f.ask, func() (int, error) { return 0, schema.ErrUnavailable }); err == nil {
		t.Error("size = nil, want the error")
	}
	if !f.take(p, 10) || len(f.ask) != 0 {
		t.Error("after 10 bytes more: another question, want none yet")
	}
	if !f.take(p, noticeEach) || len(f.ask) != 1 {
		t.Error("after another MiB: no question, want one")
	}
	if err := f.size(<-f.ask, func() (int, error) { return MaxPartitionBytes, nil }); err != nil || f.take(p, 1) {
		t.Errorf("after the answer %v: there is room, want none", err)
	}
}

// scatteredEnv says how many jobs TestScatteredJobs scatters: 10000000 shows what a node needed 0.4
// GB for.
const scatteredEnv = "CARILLON_SCATTERED"

// A node remembered each partition into which it had ever put a job, until its minute.
func TestScatteredJobsTakeNoMemory(t *testing.T) {
	n := 300_000
	if text := os.Getenv(scatteredEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", scatteredEnv, err)
		}
	}
	const size = 300
	f := newFill()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		f.take(scattered(), size)
		select {
		case p := <-f.ask:
			_ = f.size(p, func() (int, error) { return size, nil }) // always nil
		default:
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	status, _ := os.ReadFile("/proc/self/status") // there is none elsewhere than on Linux
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	rss, _, _ = strings.Cut(rss, "\n")
	heap := int64(after.HeapAlloc) - int64(before.HeapAlloc) // #nosec G115 -- small
	t.Logf("%d jobs over ten years: %d partitions noticed, %d KiB of heap, RSS %s", n, len(f.noticed), heap>>10, strings.TrimSpace(rss))
	if most := 3*n*size/noticeEach + 50; len(f.noticed) > most {
		t.Errorf("%d partitions are noticed, want one a MiB, %d at most", len(f.noticed), most)
	}
	if heap > 8<<20 {
		t.Errorf("%d bytes of heap, want 8 MiB at most", heap)
	}
	runtime.KeepAlive(f)
}

// scattered returns a partition of the next ten years.
func scattered() schema.Partition {
	return schema.Partition{Bucket: schema.Bucket(30_000_000 + rand.IntN(10*365*24*60)), Shard: schema.Shard(rand.IntN(64))} // #nosec G115,G404 -- small; a sample
}

func BenchmarkTake(b *testing.B) {
	for name, minutes := range map[string]int{"ten hours": 600, "ten years": 10 * 365 * 24 * 60} {
		b.Run(name, func(b *testing.B) {
			f := newFill()
			b.ReportAllocs()
			for b.Loop() {
				f.take(schema.Partition{Bucket: schema.Bucket(30_000_000 + rand.IntN(minutes)), Shard: schema.Shard(rand.IntN(64))}, 300) // #nosec G115,G404 -- small; a sample
			}
		})
	}
}

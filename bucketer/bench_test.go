package bucketer

import (
	"context"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// null is a store that keeps nothing and answers at once.
type null struct{ Store }

func (null) PutEntries(context.Context, []schema.Entry) error { return nil }

func (null) EntriesByID(context.Context, schema.Partition, []schema.EntryID) ([]schema.Entry, error) {
	return nil, nil
}

// chunkOf returns a full chunk of jobs that are due over ten minutes, an hour ahead.
func chunkOf(key string) []Job {
	begin := time.Now().Add(time.Hour).Truncate(time.Minute)
	jobs := make([]Job, MaxChunk)
	for i := range jobs {
		jobs[i] = callTo(begin.Add(time.Duration(i) * 10 * time.Minute / MaxChunk))
		if key != "" {
			jobs[i].Key = key + jobs[i].At.String()
		}
	}
	return jobs
}

// maxAllocs bounds the allocations of an unkeyed line: half again what it took when this was
// written (9.2; 12.4 where the race detector looks on).
const maxAllocs = 14

func TestSubmitBatchAllocates(t *testing.T) {
	w := newWorld(t, schema.Settings{})
	w.store = null{}
	jobs := chunkOf("")
	got := testing.AllocsPerRun(5, func() {
		w.fill.forget(1 << 40)
		w.SubmitBatch(t.Context(), jobs, func(_ int, _ Receipt, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}) / MaxChunk
	if got > maxAllocs {
		t.Errorf("an unkeyed line allocates %.1f times, want at most %d", got, maxAllocs)
	}
	t.Logf("%.1f allocations a line", got)
}

func BenchmarkSubmitBatch(b *testing.B) {
	for name, key := range map[string]string{"unkeyed": "", "keyed": "k"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, schema.Settings{})
			w.store = null{}
			jobs := chunkOf(key)
			b.ReportAllocs()
			for b.Loop() {
				w.fill.forget(1 << 40)
				w.SubmitBatch(b.Context(), jobs, func(_ int, _ Receipt, err error) {
					if err != nil {
						b.Error(err)
					}
				})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/MaxChunk, "ns/line")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkImport imports lines without keys that are due in one minute into a store in memory.
// A store on other machines pays for batches above all.
func BenchmarkImport(b *testing.B) {
	for _, lines := range []int{1_000, 10_000, 100_000} {
		b.Run(strconv.Itoa(lines), func(b *testing.B) {
			w := newWorld(b, schema.Settings{})
			minute := time.Now().Add(time.Hour).Truncate(time.Minute)
			jobs := make([]Job, lines)
			for i := range jobs {
				jobs[i] = callTo(minute)
			}
			before := userCPU(b)
			for b.Loop() {
				minute = minute.Add(time.Minute)
				for i := range jobs {
					jobs[i].At = minute.Add(time.Duration(i) * time.Minute / time.Duration(lines))
				}
				for part := range slices.Chunk(jobs, MaxChunk) {
					w.SubmitBatch(b.Context(), part, func(_ int, _ Receipt, err error) {
						if err != nil {
							b.Error(err)
						}
					})
				}
			}
			n := float64(b.N * lines)
			b.ReportMetric(float64(userCPU(b)-before)/n, "user-ns/line")
			b.ReportMetric(n/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric(float64(w.Counts.Tally("PutEntries").Calls)/float64(b.N), "batches")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// userCPU returns the CPU time in user mode that the process has had.
func userCPU(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano())
}

func BenchmarkPlan(b *testing.B) {
	w := newWorld(b, schema.Settings{})
	var entries []schema.Entry
	for _, job := range chunkOf("k") {
		e, err := w.EntryOf(&job, keyedID("t", job.Key, job.At, among{n: 64}), testNow)
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, e)
	}
	b.ReportAllocs()
	for b.Loop() {
		Batches(entries)
	}
}

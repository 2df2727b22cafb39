package bucketer

import (
	"context"
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

package recurring

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Each op of these benchmarks is one job, or one run of a job, on a store in memory.

// BenchmarkJobsAlone makes jobs one after the other.
func BenchmarkJobsAlone(b *testing.B) {
	w := newWorld(b, schema.Settings{})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := w.CreateJob(context.Background(), hourly(1)[0], "", ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJobsTogether makes them as a chunk of an import does.
func BenchmarkJobsTogether(b *testing.B) {
	w := newWorld(b, schema.Settings{})
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= bucketer.MaxChunk {
		w.CreateJobs(context.Background(), hourly(min(left, bucketer.MaxChunk)), func(_ int, _ schema.Job, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkPlanOn plans jobs on whose runs are due: a page of a scan at a time, of one shard.
func BenchmarkPlanOn(b *testing.B) {
	const page = 500
	w := newWorld(b, schema.Settings{Shards: 1})
	specs := hourly(page)
	first := make([]schema.Entry, page)
	w.CreateJobs(context.Background(), specs, func(i int, job schema.Job, err error) {
		s, nominal, ok, ferr := w.first(&job)
		if err != nil || ferr != nil || !ok {
			b.Error(err, ferr)
			return
		}
		if first[i], err = w.occurrence(s, nominal, time.Now()); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= page {
		if _, err := w.PlanOn(context.Background(), first[:min(left, page)], time.Now()); err != nil {
			b.Fatal(err)
		}
	}
}

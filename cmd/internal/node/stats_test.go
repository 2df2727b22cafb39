package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// ledger has the metrics that counts are made of.
type ledger struct {
	reg                          *prometheus.Registry
	published, outcomes, entries *prometheus.CounterVec
	redispatched                 prometheus.Counter
	lateness                     prometheus.Histogram
}

func newLedger() *ledger {
	vec := func(name, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "x"}, []string{label})
	}
	l := &ledger{
		reg: prometheus.NewRegistry(), published: vec("carillon_dispatcher_published_total", "priority"),
		outcomes: vec("carillon_executor_attempts_total", "outcome"), entries: vec("carillon_entries_written_total", "kind"),
		redispatched: prometheus.NewCounter(prometheus.CounterOpts{Name: "carillon_dispatcher_redispatched_total", Help: "x"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_executor_lateness_seconds", Help: "x", NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 1e-4,
		}),
	}
	l.reg.MustRegister(l.published, l.outcomes, l.entries, l.redispatched, l.lateness)
	return l
}

// The counts of every minute are written, and those of the last one when the node stops.
func TestMinutesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		l := newLedger()
		l.published.WithLabelValues("high").Add(1000) // before anybody counted
		time.Sleep(90 * time.Second)                  // half a minute into one
		begin := time.Now().Truncate(time.Minute)
		c := &statsWriter{store: store, gather: l.reg, node: "n", now: time.Now, log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx) }()
		synctest.Wait()

		l.published.WithLabelValues("high").Add(5)
		l.published.WithLabelValues("low").Add(7)
		l.redispatched.Add(2)
		for outcome, n := range map[schema.Outcome]float64{schema.Succeeded: 3, schema.Failed: 1, schema.TimedOut: 2, schema.Lost: 4, schema.Missed: 6, schema.Cancelled: 9} {
			l.outcomes.WithLabelValues(string(outcome)).Add(n)
		}
		l.entries.WithLabelValues("retry").Add(8)
		l.entries.WithLabelValues("run").Add(99)
		for range 99 {
			l.lateness.Observe(.002)
		}
		l.lateness.Observe(1)
		l.lateness.Observe(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		time.Sleep(2 * time.Minute) // in which nothing happens
		l.outcomes.WithLabelValues(string(schema.Succeeded)).Inc()
		time.Sleep(time.Second)
		stop()
		<-done

		got, err := store.Stats(t.Context(), schema.StatsHour(begin))
		if err != nil || len(got) != 2 {
			t.Fatalf("Stats = %+v, %v; want two minutes", got, err)
		}
		first, last := got[0], got[1]
		if !first.Minute.Equal(begin) || first.Due != 10 || first.Started != 101 || first.Succeeded != 3 || first.Failed != 7 || first.Missed != 6 || first.Retried != 8 {
			t.Errorf("the first minute = %+v", first)
		}
		if !last.Minute.Equal(begin.Add(3*time.Minute)) || last.Succeeded != 1 || last.Due != 0 || len(last.Lateness) != 0 {
			t.Errorf("the last minute = %+v, want one success at %v", last, begin.Add(3*time.Minute))
		}
		want := []struct {
			upTo  float64
			count int64
		}{{1e-4, 1}, {.002, 99}, {1, 1}}
		if len(first.Lateness) != len(want) {
			t.Fatalf("lateness = %v, want %v", first.Lateness, want)
		}
		for i, w := range want {
			c := first.Lateness[i]
			if s := c.UpTo.Std().Seconds(); c.Count != w.count || s < w.upTo*.9999 || s > w.upTo*1.1 {
				t.Errorf("lateness class %d = %+v, want %d up to %v s, to a tenth", i, c, w.count, w.upTo)
			}
		}
		if first.Node == "n" || len(first.Node) < 3 {
			t.Errorf("the node is %q, want that it tells its lives apart", first.Node)
		}
	})
}

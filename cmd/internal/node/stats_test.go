package node

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon.dev/carillon/bucketer/httpapi"
	"carillon.dev/carillon/bucketer/tally"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// ledger has the metrics that counts are made of.
type ledger struct {
	reg                 *prometheus.Registry
	due                 prometheus.Counter
	outcomes, entries   *prometheus.CounterVec
	missed, missedThere *prometheus.CounterVec
	lateness            prometheus.Histogram
}

func newLedger() *ledger {
	vec := func(name, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "x"}, []string{label})
	}
	l := &ledger{
		reg: prometheus.NewRegistry(), due: prometheus.NewCounter(prometheus.CounterOpts{Name: "carillon_dispatcher_due_total", Help: "x"}),
		outcomes: vec("carillon_executor_attempts_total", "outcome"), entries: vec("carillon_entries_written_total", "kind"),
		missed:      vec("carillon_occurrences_missed_total", "cause"),
		missedThere: vec("carillon_executor_missed_total", "cause"),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "carillon_executor_lateness_seconds", Help: "x", NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 1e-4,
		}),
	}
	l.reg.MustRegister(l.due, l.outcomes, l.entries, l.missed, l.missedThere, l.lateness)
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
		l.due.Add(1000)              // before anybody counted
		time.Sleep(90 * time.Second) // half a minute into one
		begin := time.Now().Truncate(time.Minute)
		c := &statsWriter{store: store, gather: l.reg, node: "n", now: time.Now, log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx) }()
		synctest.Wait()

		l.due.Add(10)
		for outcome, n := range map[schema.Outcome]float64{schema.Succeeded: 3, schema.Failed: 1, schema.TimedOut: 2, schema.Lost: 4, schema.Missed: 6, schema.Cancelled: 9} {
			l.outcomes.WithLabelValues(string(outcome)).Add(n)
		}
		l.missed.WithLabelValues("skip").Add(20)
		l.missed.WithLabelValues("deadline").Inc()
		l.missedThere.WithLabelValues("skipped").Add(5) // of the six that executors recorded
		l.missedThere.WithLabelValues("unreadable").Inc()
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
		if !first.Minute.Equal(begin) || first.Due != 10 || first.Started != 101 || first.Succeeded != 3 || first.Failed != 7 || first.Missed != 27 || first.Retried != 8 {
			t.Errorf("the first minute = %+v", first)
		}
		if want := (schema.MissedFor{Late: 21, UnderWay: 5, Fault: 1}); first.MissedFor != want {
			t.Errorf("why runs were missed = %+v, want %+v", first.MissedFor, want)
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

// countsBubble runs f in a bubble beside a writer of counts, on a whole minute.
func countsBubble(t *testing.T, f func(t *testing.T, store *schematest.CountingStore, l *ledger, c *statsWriter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inner, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = inner.Close() }()
		store, l := schematest.Counting(inner), newLedger()
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		c := &statsWriter{store: store, gather: l.reg, tally: tally.New(), node: "n", now: time.Now, log: slog.New(slog.DiscardHandler)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx) }()
		synctest.Wait()
		f(t, store, l, c)
		stop()
		<-done
	})
}

// What was counted by name is written at the end of the minute, a row a kind, and told until everybody
// can read it.
func TestCountsByNameAreWrittenAndTold(t *testing.T) {
	countsBubble(t, func(t *testing.T, store *schematest.CountingStore, l *ledger, c *statsWriter) {
		begin := time.Now()
		c.tally.Due([]tally.Lot{{Key: tally.Key{Tenant: "t", Task: "k"}, Due: 7}})
		l.due.Add(7)
		l.lateness.Observe(.002)
		time.Sleep(30 * time.Second)
		if n := len(store.Tallies()); n != 0 {
			t.Errorf("the store was asked for %v within a minute, want nothing", store.Tallies())
		}
		told := func(all, names int) {
			t.Helper()
			minutes, none := c.told("")
			if len(minutes) != all || len(none) != 0 {
				t.Errorf("after %v told was of %+v and %+v, want %d minutes", time.Since(begin), minutes, none, all)
			}
			none2, tasks := c.told(schema.ByTask)
			if len(tasks) != names || len(none2) != 0 {
				t.Errorf("after %v told was of %+v by task and %+v, want %d", time.Since(begin), tasks, none2, names)
			}
			for _, m := range minutes {
				if m.Due != 7 || m.Started != 1 || !m.Minute.Equal(begin) || m.Node != c.life {
					t.Errorf("told was of %+v", m)
				}
			}
			for _, n := range tasks {
				if n.Names[0].Due != 7 || !n.Minute.Equal(begin) || n.Node != c.life {
					t.Errorf("told was of %+v", n)
				}
			}
		}
		told(1, 1)
		time.Sleep(30*time.Second + time.Millisecond)
		told(1, 1)
		if got := store.Tallies(); got["PutStats"].Calls != 1 || got["PutNameStats"].Calls != 2 || len(got) != 2 {
			t.Errorf("at the end of the minute the store was asked for %v, want one row of all and two by name", got)
		}
		time.Sleep(tellFor)
		told(0, 0)
		names, err := store.NameStats(t.Context(), schema.ByTask, schema.StatsHour(begin), begin)
		if err != nil || len(names) != 1 || names[0].Names[0].Name != "k" || names[0].Names[0].Due != 7 {
			t.Errorf("NameStats = %+v, %v", names, err)
		}
	})
}

// A node that does nothing writes nothing, whoever asks.
func TestAnIdleNodeWritesNothing(t *testing.T) {
	countsBubble(t, func(t *testing.T, store *schematest.CountingStore, _ *ledger, c *statsWriter) {
		for range 300 {
			time.Sleep(time.Second)
			if minutes, _ := c.told(""); len(minutes) != 0 {
				t.Fatalf("told was of %+v, want nothing", minutes)
			}
		}
		if got := store.Tallies(); len(got) != 0 {
			t.Errorf("the store was asked for %v, want nothing", got)
		}
	})
}

// What a slow store has not taken yet is told for as long as that lasts.
func TestMinutesThatAreNotWrittenYetAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := embedded.Open(embedded.Config{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = inner.Close() }()
		store := schematest.Faulty(inner, func(_ context.Context, op string) schematest.Fault {
			if op == "PutNameStats" {
				return schematest.Fault{Delay: 8 * time.Second}
			}
			return schematest.Fault{}
		})
		c := &statsWriter{store: store, gather: prometheus.NewRegistry(), tally: tally.New(), node: "n", now: time.Now, log: slog.New(slog.DiscardHandler)}
		c.begin()
		c.tally.Due([]tally.Lot{{Key: tally.Key{Tenant: "t"}, Due: 1}})
		e, _ := c.turn()
		go c.write(t.Context(), e)
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{7 * time.Second, 1}, {10 * time.Second, 1}, {2 * time.Second, 0}} {
			time.Sleep(step.wait)
			if _, names := c.told(schema.ByTenant); len(names) != step.want {
				t.Errorf("after another %v told was of %+v, want %d", step.wait, names, step.want)
			}
		}
	})
}

// The fixed classes are those of the executor's metric.
func TestFixedClassesAreRead(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x", Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}})
	var want schema.LatenessCounts
	for _, late := range []time.Duration{0, time.Millisecond, 1001 * time.Microsecond, time.Second, 1100 * time.Millisecond, 5 * time.Minute, time.Hour, time.Hour} {
		h.Observe(late.Seconds())
		want.Observe(late)
	}
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	var got schema.LatenessCounts
	addFixed(&got, m.GetHistogram())
	if got != want || got.Late() != 4 || got.Count() != 8 {
		t.Errorf("the fixed classes are %v, want %v", got, want)
	}
}

// Two nodes: each tells of the minute under way on both, and by name.
func TestNodesTellEachOtherOfTheMinuteUnderWay(t *testing.T) {
	w := newWorld(t, "a", "b")
	a, b := start(t, "a", w.opener("a"), nil).up(), start(t, "b", w.opener("b"), nil).up()
	url := sink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	for range 10 {
		a.awaitState(a.create(url, time.Time{}).ID, schema.StateSucceeded)
	}
	for _, n := range []*running{a, b} {
		c := n.client()
		await(t, "both nodes' counts of the minute are told", func() bool {
			got, err := c.Stats(t.Context(), httpapi.StatsQuery{From: time.Now().Add(-5 * time.Minute)})
			if err != nil || got.Scope != "all" {
				t.Fatalf("Stats = %+v, %v", got, err)
			}
			var sum httpapi.MinuteStats
			for _, m := range got.Items {
				sum.Due, sum.Started, sum.Succeeded = sum.Due+m.Due, sum.Started+m.Started, sum.Succeeded+m.Succeeded
			}
			last := got.Items[len(got.Items)-1]
			return sum.Due == 10 && sum.Started == 10 && sum.Succeeded == 10 && last.Running && len(got.MissingNodes) == 0
		})
		for by, name := range map[schema.StatsKind]string{schema.ByTenant: "default", schema.ByHost: strings.TrimPrefix(url, "http://")} {
			await(t, "the counts by "+string(by)+" are told", func() bool {
				top, err := c.TopStats(t.Context(), httpapi.TopQuery{By: by})
				if err != nil || !top.Complete {
					t.Fatalf("TopStats by %s = %+v, %v", by, top, err)
				}
				return len(top.Items) == 1 && top.Items[0].Name == name && top.Items[0].Started == 10 && top.Items[0].Succeeded == 10
			})
		}
		own, err := c.Stats(t.Context(), httpapi.StatsQuery{Scope: "tenant"})
		if err != nil || own.Tenant != "default" || len(own.Items) == 0 || own.Items[len(own.Items)-1].Minute.Before(time.Now().Add(-time.Minute-time.Second)) {
			t.Errorf("Stats of the tenant = %+v, %v", own, err)
		}
	}
	coming := a.create(url, time.Now().Add(10*time.Minute))
	forecast, err := a.client().UpcomingRuns(t.Context(), time.Time{}, 0)
	if err != nil || len(forecast.Items) != 60 || forecast.Shards != 8 {
		t.Errorf("UpcomingRuns with %s = %+v, %v; want 60 minutes of 8 shards", coming.ID, forecast, err)
	}
	b.stop()
	await(t, "a node that is gone is missing", func() bool {
		got, err := a.client().Stats(t.Context(), httpapi.StatsQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return len(got.MissingNodes) == 1 && got.MissingNodes[0] == "b"
	})
	for try := range 2 { // the first may be the one that finds it missing
		asked := time.Now()
		told, err := a.node.administration.minutes.ask(t.Context(), schema.ByTask)
		if took := time.Since(asked); err != nil || len(told.Missing) != 1 || try > 0 && took > answersWithin/2 {
			t.Errorf("asking took %v, told was %+v, %v; want that a node that was silent is waited for less", took, told, err)
		}
	}
}

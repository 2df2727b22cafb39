package dispatcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

// steps are the names under which failures are counted and logged.
var steps = []string{
	"scan", "sweep", "inspect", "replace", "follow up", "sessions", "advance cursor", "read cursor", "take over", "condemn",
	"depth", "front", "workflow", "event", "plan on", "catch up", "mend", "resume", "weigh", "wake", "rates", "reserve", "defer", "late",
}

type metrics struct {
	published       *prometheus.CounterVec
	due             prometheus.Counter
	publishFailures prometheus.Counter
	redispatched    prometheus.Counter
	hinted          prometheus.Counter
	inspected       prometheus.Counter
	replaced        prometheus.Counter
	scans, sweeps   prometheus.Counter
	rereads         prometheus.Counter
	deferred        prometheus.Counter
	reservations    prometheus.Counter
	rateLeases      prometheus.Counter
	spilled         prometheus.Counter
	unreadRanges    prometheus.Counter
	failures        *prometheus.CounterVec
	takeovers       prometheus.Counter
	halts           prometheus.Counter
	owned, healthy  prometheus.Gauge
	ahead, late     prometheus.Counter
	depth           *prometheus.GaugeVec
	settledLag      *prometheus.GaugeVec
	scanTime        prometheus.Histogram
	backlog         backlogMetrics
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "carillon", Subsystem: "dispatcher", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		backlog: newBacklogMetrics(r),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "published_total", Help: "Envelopes handed to the queue, by priority; one that it does not confirm counts once.",
		}, []string{"priority"}),
		due: counter("due_total", "Entries handed to the queue for the first time that their attempt was: not those that are published again, or that an executor deferred or put on a wait list before. "+
			"The column DUE of `carillon stats`."),
		publishFailures: counter("publish_failures_total", "Publications that the queue refused or did not confirm."),
		redispatched:    counter("redispatched_total", "Entries queued to be published although they may have been before."),
		hinted:          counter("hinted_total", "Entries taken from near hints."),
		inspected:       counter("inspected_total", "Entries whose rows were read for want of a notice."),
		replaced:        counter("replaced_total", "Entries replaced by a watch entry."),
		scans:           counter("scans_total", "Reads ahead of due entries."),
		spilled:         counter("spilled_rows_total", "Rows that were read and left for a later read, since enough of their tenant and priority waited in memory."),
		unreadRanges:    counter("unread_ranges_total", "Times a scan left rows out that it would have spilled, to be on time with those after them."),
		rereads:         counter("rereads_total", "Times what a shard held was read again, since it had waited too long for budget."),
		deferred:        counter("deferred_total", "Entries deferred by the rate of their task."),
		reservations:    counter("rate_reservations_total", "Starts reserved under the rates of tasks, used or not."),
		rateLeases:      counter("rate_leases_total", "Conditional writes by which starts were reserved."),
		sweeps:          counter("sweeps_total", "Slices, or pages of them, that were swept."),
		ahead:           counter("cursors_ahead_total", "Cursors that lay in the future, and were replaced by one an hour ago."),
		late:            counter("late_rows_total", "Rows that came to lie behind the sweep, minutes after they were due, and were found."),
		takeovers:       counter("takeovers_total", "Shards taken over."),
		halts:           counter("halts_total", "Times the process was found to have been stopped."),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "step_failures_total", Help: "Steps that failed and are tried again, by step.",
		}, []string{"step"}),
		owned: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "shards_owned", Help: "Shards dispatched here.",
		}),
		healthy: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "healthy", Help: "1 if scans, publications and probes succeed; 0 if some have failed for 10 s: others take its shards, unless all fail.",
		}),
		depth: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "stream_depth", Help: "Messages that wait or are held by executors, by lane and priority; the same from every dispatcher.",
		}, []string{"lane", "priority"}),
		settledLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "settled_lag_seconds", Help: "Time since the end of the last settled bucket, by shard.",
		}, []string{"shard"}),
		scanTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "carillon", Subsystem: "dispatcher",
			Name: "scan_seconds", Help: "Time that a read ahead of due entries took, whether it failed or not.",
			// From 125 µs, which an embedded store takes, to 16 s, more than storeTimeout.
			Buckets: prometheus.ExponentialBuckets(0.000125, 2, 18),
		}),
	}
	for _, p := range schema.Priorities {
		m.published.WithLabelValues(string(p))
	}
	for _, step := range steps {
		m.failures.WithLabelValues(step)
	}
	r.MustRegister(m.published, m.failures, m.owned, m.healthy, m.depth, m.settledLag, m.scanTime)
	return m
}

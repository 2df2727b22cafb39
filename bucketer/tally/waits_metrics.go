package tally

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

// heldReasons are the reasons by which runs that may not start are told of as metrics.
var heldReasons = []string{
	string(schema.CauseRate), string(schema.CauseLimit), string(schema.CauseQuota), string(schema.CauseBreaker),
	string(schema.CauseTargetShare), string(schema.CauseTenantShare), string(schema.CauseRegion), string(schema.CausePool), Held,
}

// Metrics returns the metrics of what waits, made of what is known whenever they are read. A Waits
// has one such collector.
func (w *Waits) Metrics() prometheus.Collector {
	return &waitsCollector{
		waits: w,
		runs: prometheus.NewDesc("carillon_runs_held",
			"Runs that are due and may not start, by reason: a rate, a limit of starts at once, the quota of their tenant, a broken target (breaker), a share of the slots, the limit of their job (concurrency), a region that alone may run them, or labels that no executor has that they reached (pool). "+
				"Each is told by the node that deferred it, or looks after its job.", []string{"reason"}, nil),
		oldest: prometheus.NewDesc("carillon_runs_held_oldest_seconds", "For how long the oldest of them has been due, by reason; 0 = there is none.", []string{"reason"}, nil),
	}
}

type waitsCollector struct {
	waits        *Waits
	runs, oldest *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *waitsCollector) Describe(to chan<- *prometheus.Desc) { to <- c.runs; to <- c.oldest }

// Collect implements prometheus.Collector.
func (c *waitsCollector) Collect(to chan<- prometheus.Metric) {
	runs := make(map[string]int64)
	oldest := make(map[string]time.Time)
	for _, wait := range c.waits.All() {
		runs[wait.Reason] += wait.Runs
		if was := oldest[wait.Reason]; wait.Runs > 0 && (was.IsZero() || wait.Oldest.Before(was)) {
			oldest[wait.Reason] = wait.Oldest
		}
	}
	for _, reason := range heldReasons {
		var age time.Duration
		if since := oldest[reason]; !since.IsZero() {
			age = max(c.waits.now().Sub(since), 0)
		}
		to <- prometheus.MustNewConstMetric(c.runs, prometheus.GaugeValue, float64(runs[reason]), reason)
		to <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age.Seconds(), reason)
	}
}

package executor

import (
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

type metrics struct {
	lateness       prometheus.Histogram
	outcomes       *prometheus.CounterVec
	missed         *prometheus.CounterVec // by cause
	running        prometheus.Gauge
	held           prometheus.Gauge
	looks          prometheus.Counter
	passed         *prometheus.CounterVec
	recordFailures prometheus.Counter
	early          prometheus.Counter
	slots          prometheus.Gauge
	busy           prometheus.Gauge
	waiting        *prometheus.GaugeVec
	outputsCut     prometheus.Counter
	logLines       *prometheus.CounterVec
	scriptsLeft    prometheus.Counter
}

// latenessBuckets returns the fixed classes of lateness, which the counts of minutes have as well.
func latenessBuckets() []float64 {
	buckets := make([]float64, len(schema.LatenessBounds))
	for i, bound := range schema.LatenessBounds {
		buckets[i] = bound.Seconds()
	}
	return buckets
}

func newMetrics(r prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "carillon", Subsystem: "executor", Name: name, Help: help}
	}
	m := &metrics{
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "carillon", Subsystem: "executor",
			Name: "lateness_seconds", Help: "Start of the first attempt after the due time or the acceptance, whichever is later.",
			Buckets: latenessBuckets(),
			// Classes of a tenth, from 0.1 ms on: what the ranks of a minute are made of.
			NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: 1e-4, NativeHistogramMaxBucketNumber: 400,
		}),
		outcomes:       prometheus.NewCounterVec(prometheus.CounterOpts(opts("attempts_total", "Attempts ended, by outcome.")), []string{"outcome"}),
		missed:         prometheus.NewCounterVec(prometheus.CounterOpts(opts("missed_total", "Runs that were recorded as missed when their message came, by cause. They are among the attempts ended.")), []string{"cause"}),
		running:        prometheus.NewGauge(prometheus.GaugeOpts(opts("attempts_running", "Attempts under way."))),
		held:           prometheus.NewGauge(prometheus.GaugeOpts(opts("messages_held", "Messages that are not acknowledged yet."))),
		looks:          prometheus.NewCounter(prometheus.CounterOpts(opts("looks_total", "Entries whose rows were read before the start."))),
		passed:         prometheus.NewCounterVec(prometheus.CounterOpts(opts("passed_total", "Messages from which nothing was started, by reason.")), []string{"reason"}),
		recordFailures: prometheus.NewCounter(prometheus.CounterOpts(opts("record_failures_total", "Batches of outcomes that could not be recorded at the first try."))),
		slots:          prometheus.NewGauge(prometheus.GaugeOpts(opts("slots", "Attempts that may be under way at once."))),
		busy:           prometheus.NewGauge(prometheus.GaugeOpts(opts("slots_busy", "Slots that are taken."))),
		waiting:        prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("slot_waiting", "Runs in hand that are due and wait for a slot, by priority.")), []string{"priority"}),
		early:          prometheus.NewCounter(prometheus.CounterOpts(opts("early_total", "Attempts started before their due time: always 0."))),
		outputsCut:     prometheus.NewCounter(prometheus.CounterOpts(opts("outputs_cut_total", "Outputs of which not everything could be kept."))),
		logLines:       prometheus.NewCounterVec(prometheus.CounterOpts(opts("log_lines_total", "Lines that workers logged, by what became of them.")), []string{"fate"}),
		scriptsLeft:    prometheus.NewCounter(prometheus.CounterOpts(opts("scripts_left_total", "Attempts that ended while their script could not be ended: it may still run."))),
	}
	for _, fate := range []string{"kept", "dropped"} {
		m.logLines.WithLabelValues(fate)
	}
	for _, o := range []schema.Outcome{schema.Succeeded, schema.Failed, schema.TimedOut, schema.Lost, schema.Superseded, schema.Cancelled, schema.Missed} {
		m.outcomes.WithLabelValues(string(o))
	}
	for _, cause := range []string{"changed", "deadline", "skip", "skipped", "fault", "unreadable"} {
		m.missed.WithLabelValues(cause)
	}
	for _, reason := range []string{"over", "live", "unnamed", "returned", "limit", "rival"} {
		m.passed.WithLabelValues(reason)
	}
	r.MustRegister(m.lateness, m.outcomes, m.missed, m.running, m.held, m.looks, m.passed, m.recordFailures, m.early, m.slots, m.busy, m.waiting, m.outputsCut, m.logLines, m.scriptsLeft)
	return m
}

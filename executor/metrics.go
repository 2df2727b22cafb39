package executor

import (
	"slices"
	"time"

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
	preempted      prometheus.Counter
	poolSlots      *prometheus.GaugeVec // by labels; of an executor without there is none
	poolBusy       *prometheus.GaugeVec
	waiting        *prometheus.GaugeVec
	outputsCut     prometheus.Counter
	logLines       *prometheus.CounterVec
	scriptsLeft    prometheus.Counter

	// What a run touches is looked up here by index: a vector would hash the labels each time.
	byPriority [4]prometheus.Observer // lateness again, in the order of schema.Priorities
	seconds    [len(kinds)][len(ends)]prometheus.Observer
}

// kinds are what an attempt can call; the last is that it called nothing, since its work had a fault.
var kinds = [...]string{"http", "nats", "script", "lambda", "email", "jetstream", "sqs", "sns", "eventbridge", "step_functions", "kafka", "none"}

// ends are the outcomes that an attempt can have that has begun.
var ends = [...]schema.Outcome{schema.Succeeded, schema.Failed, schema.TimedOut, schema.Cancelled, schema.Lost}

// kindOf returns the index in kinds of what is called for work.
func kindOf(work *schema.Work) int {
	switch {
	case work.HTTP != nil:
		return 0
	case work.NATS != nil:
		return 1
	case work.Script != nil:
		return 2
	case work.Lambda != nil:
		return 3
	case work.Email != nil:
		return 4
	}
	if kind, _ := work.Message(); kind != "" {
		return slices.Index(kinds[:], kind)
	}
	return len(kinds) - 1
}

// observeStart counts how late the first attempt of a run started. exemplar names its trace; nil: it
// has none.
func (m *metrics) observeStart(p schema.Priority, late time.Duration, exemplar prometheus.Labels) {
	observe(m.lateness, late, exemplar)
	observe(m.byPriority[p.Rank()], late, exemplar)
}

// observe observes a time, with its exemplar if there is one.
func observe(o prometheus.Observer, d time.Duration, exemplar prometheus.Labels) {
	if exemplar != nil {
		o.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), exemplar) // as every histogram can
		return
	}
	o.Observe(d.Seconds())
}

// observeEnd counts how long an attempt took that has begun. An outcome that is none of ends is not
// counted. About exemplar see observeStart.
func (m *metrics) observeEnd(work *schema.Work, outcome schema.Outcome, took time.Duration, exemplar prometheus.Labels) {
	of := &m.seconds[kindOf(work)]
	for i := range ends {
		if ends[i] == outcome {
			observe(of[i], max(took, 0), exemplar)
			return
		}
	}
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
		preempted:      prometheus.NewCounter(prometheus.CounterOpts(opts("preempted_total", "Attempts that were stopped to let a critical run start. They use no attempt, and start again."))),
		poolSlots:      prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("pool_slots", "Attempts that may be under way at once on an executor with labels, by these.")), []string{"pool"}),
		poolBusy:       prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("pool_slots_busy", "Slots of an executor with labels that are taken, by these.")), []string{"pool"}),
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
	for _, reason := range []string{"over", "live", "unnamed", "returned", "limit", "rival", "former_epoch"} {
		m.passed.WithLabelValues(reason)
	}
	byPriority := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "carillon", Subsystem: "executor",
		Name: "priority_lateness_seconds", Help: "What lateness_seconds counts, by priority and in fewer classes.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2, 5, 10, 60, 300},
	}, []string{"priority"})
	for i, p := range schema.Priorities {
		m.byPriority[i] = byPriority.WithLabelValues(string(p))
		m.waiting.WithLabelValues(string(p))
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "carillon", Subsystem: "executor",
		Name: "attempt_seconds", Help: "Time from the start of an attempt to its end, by what it called and its outcome. What never started is not counted.",
		Buckets: []float64{.005, .025, .1, .5, 1, 5, 30, 120, 600, 3600},
	}, []string{"kind", "outcome"})
	for k, kind := range kinds {
		for o, outcome := range ends {
			m.seconds[k][o] = seconds.WithLabelValues(kind, string(outcome))
		}
	}
	r.MustRegister(byPriority, seconds, m.lateness, m.outcomes, m.missed, m.running, m.held, m.looks, m.passed, m.recordFailures, m.early, m.slots, m.busy, m.preempted, m.poolSlots, m.poolBusy, m.waiting, m.outputsCut, m.logLines, m.scriptsLeft)
	return m
}

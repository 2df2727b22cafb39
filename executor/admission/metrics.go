package admission

import "github.com/prometheus/client_golang/prometheus"

// controllerMetrics tell what the controller does. Targets are not told apart: there are as many as
// tenants like.
type controllerMetrics struct {
	deferrals *prometheus.CounterVec
	open      prometheus.Gauge
}

func newControllerMetrics(r prometheus.Registerer) *controllerMetrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "carillon", Subsystem: "executor", Name: name, Help: help}
	}
	m := &controllerMetrics{
		deferrals: prometheus.NewCounterVec(prometheus.CounterOpts(opts("deferred_total", "Starts that were deferred, by reason: the circuit of the target is open (breaker), the target is slow and has its share of the slots (crowded), the reservation under the rate of the task has expired (rate), as many runs of the task, or of the tenant, are under way as may (limit), another region alone may make it (region), or the executor lacks labels that it requires (pool).")), []string{"reason"}),
		open:      prometheus.NewGauge(prometheus.GaugeOpts(opts("targets_broken", "Targets whose circuit is open: their runs are deferred, but for a few probes."))),
	}
	for _, reason := range []string{ReasonBreaker, ReasonShare, ReasonRate, ReasonLimit, ReasonRegion, ReasonPool} {
		m.deferrals.WithLabelValues(reason)
	}
	r.MustRegister(m.deferrals, m.open)
	return m
}

// quotaMetrics tell of the slots of tasks and tenants with limits. These are not told apart.
type quotaMetrics struct {
	held, busy prometheus.Gauge
	swaps      prometheus.Counter
}

func newQuotaMetrics(r prometheus.Registerer) *quotaMetrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "carillon", Subsystem: "executor", Name: name, Help: help}
	}
	m := &quotaMetrics{
		held:  prometheus.NewGauge(prometheus.GaugeOpts(opts("task_slots_held", "Slots of tasks with max_concurrent, and of tenants with a quota, that this executor has, to hand out itself."))),
		busy:  prometheus.NewGauge(prometheus.GaugeOpts(opts("task_slots_busy", "Of those, the slots that are in use."))),
		swaps: prometheus.NewCounter(prometheus.CounterOpts(opts("task_slot_swaps_total", "Conditional writes that took such slots or gave some back."))),
	}
	r.MustRegister(m.held, m.busy, m.swaps)
	return m
}

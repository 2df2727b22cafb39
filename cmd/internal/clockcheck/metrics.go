package clockcheck

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	unchecked prometheus.Gauge
	offset    prometheus.Gauge
	hosts     *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		unchecked: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "clock", Name: "unchecked",
			Help: "1 if no other host has a clock to compare that of this node with.",
		}),
		offset: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "clock", Name: "offset_seconds",
			Help: "By how much the clock of this node is ahead of the median of the other hosts that answered.",
		}),
		hosts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "clock", Name: "hosts",
			Help: "Hosts by their vote on the clock of this node: agree, differ, or silent.",
		}, []string{"vote"}),
	}
	for _, v := range votes {
		m.hosts.WithLabelValues(string(v))
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.unchecked, m.offset, m.hosts} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) observe(j judgement) {
	m.unchecked.Set(0)
	if j.verdict == unchecked {
		m.unchecked.Set(1)
	}
	m.offset.Set(j.offset.Seconds())
	for _, v := range votes {
		m.hosts.WithLabelValues(string(v)).Set(float64(j.count[v]))
	}
}

package ring

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	members        *prometheus.GaugeVec
	shards, owned  prometheus.Gauge
	rebuilds       prometheus.Counter
	rejoins        prometheus.Counter
	rejoinFailures prometheus.Counter
	refused        prometheus.Counter
	left, dead     prometheus.Counter
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "carillon", Subsystem: "ring", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "carillon", Subsystem: "ring", Name: name, Help: help}
	}
	departures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "ring", Name: "departures_total",
		Help: "Members that went, by whether they had said so (left) or were given up (dead).",
	}, []string{"status"})
	m := &metrics{
		members:        prometheus.NewGaugeVec(gauge("members", "Live members in this node's view, by role."), []string{"role"}),
		shards:         prometheus.NewGauge(gauge("shards", "Shards in this node's view.")),
		owned:          prometheus.NewGauge(gauge("shards_owned", "Shards this node owns in its own view.")),
		rebuilds:       counter("rebuilds_total", "Snapshots published."),
		rejoins:        counter("rejoins_total", "Attempts to join the seeds."),
		rejoinFailures: counter("rejoin_failures_total", "Attempts to join the seeds that reached none."),
		refused:        counter("members_refused_total", "Messages about members whose metadata could not be read."),
		left:           departures.WithLabelValues(Left.String()),
		dead:           departures.WithLabelValues(Dead.String()),
	}
	for _, role := range roles {
		m.members.WithLabelValues(role)
	}
	if to == nil {
		return m, nil
	}
	var faults []error
	for _, c := range []prometheus.Collector{
		m.members, m.shards, m.owned, m.rebuilds, m.rejoins, m.rejoinFailures, m.refused, departures,
	} {
		faults = append(faults, to.Register(c))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) departed(f Status) {
	if f == Left {
		m.left.Inc()
	} else {
		m.dead.Inc()
	}
}

// published counts a snapshot in which self is our name.
func (m *metrics) published(s *Snapshot, self string) {
	m.rebuilds.Inc()
	m.shards.Set(float64(s.Shards()))
	m.owned.Set(float64(len(s.Owned(self))))
	for _, role := range roles {
		n := 0
		for _, member := range s.members {
			if member.Has(role) {
				n++
			}
		}
		m.members.WithLabelValues(role).Set(float64(n))
	}
}

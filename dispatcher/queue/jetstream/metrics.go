package jetstream

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counts of one Queue.
type metrics struct {
	published   map[string]prometheus.Counter // by outcome
	fetched     prometheus.Counter
	redelivered prometheus.Counter
	malformed   prometheus.Counter
	unsent      prometheus.Counter
	made        prometheus.Counter
	mended      prometheus.Counter
	reconnected prometheus.Counter
	underWay    prometheus.Gauge
	ready       prometheus.GaugeFunc
}

// Outcomes of a publication.
const (
	outcomeStored  = "stored"
	outcomeKnown   = "known"
	outcomeFull    = "full"
	outcomeUnknown = "unknown"
)

// newMetrics returns the metrics of a Queue. ready is asked whenever they are read.
func newMetrics(ready func() error) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "carillon", Subsystem: "queue", Name: name, Help: help})
	}
	m := &metrics{
		published:   make(map[string]prometheus.Counter),
		fetched:     counter("deliveries_total", "Messages handed to this node."),
		redelivered: counter("redeliveries_total", "Messages handed to this node that had been handed out before."),
		malformed:   counter("malformed_total", "Messages that could not be read."),
		unsent:      counter("unsent_total", "Acknowledgements, hints, notices and signals that could not be sent."),
		made:        counter("streams_made_total", "Streams that this node made."),
		mended:      counter("consumers_mended_total", "Times that this node mended a consumer that had passed messages of its stream without delivering them, as after a loss of power of all NATS servers."),
		reconnected: counter("reconnects_total", "Times that the connection to NATS was lost and came back."),
		underWay: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "queue", Name: "publications_under_way", Help: "Publications without receipt yet.",
		}),
		ready: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "queue", Name: "ready",
			Help: "1 if NATS answers this node and has its streams, as the line queue of /readyz says; 0 if not: then the node starts nothing and refuses jobs.",
		}, func() float64 {
			if ready() != nil {
				return 0
			}
			return 1
		}),
	}
	for _, outcome := range []string{outcomeStored, outcomeKnown, outcomeFull, outcomeUnknown} {
		m.published[outcome] = prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "carillon", Subsystem: "queue", Name: "publications_total",
			Help: "Publications by how they ended.", ConstLabels: prometheus.Labels{"outcome": outcome},
		})
	}
	return m
}

// collectors returns everything to register.
func (m *metrics) collectors() []prometheus.Collector {
	all := []prometheus.Collector{m.fetched, m.redelivered, m.malformed, m.unsent, m.made, m.mended, m.reconnected, m.underWay, m.ready}
	for _, c := range m.published {
		all = append(all, c)
	}
	return all
}

package notifications

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

// What became of messages.
const (
	sent      = "sent"      // its run was written
	delivered = "delivered" // the sink took it
	failed    = "failed"    // the sink did not take it, after all attempts
)

type metrics struct {
	messages *prometheus.CounterVec // by sink and result
	failures prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_notifications_total",
			Help: "Messages to tenants, by sink and result: sent (its run was written), delivered, or failed after all attempts.",
		}, []string{"sink", "result"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_notification_failures_total",
			Help: "Steps of notifying a tenant that failed, such as a read of the store: they are taken again.",
		}),
	}
	for _, sink := range schema.NotificationSinks {
		for _, result := range []string{sent, delivered, failed} {
			m.messages.WithLabelValues(sink, result)
		}
	}
	if reg != nil {
		reg.MustRegister(m.messages, m.failures)
	}
	return m
}

// count counts a message. A label that a tenant made up is no sink.
func (m *metrics) count(sink, result string) {
	if slices.Contains(schema.NotificationSinks, sink) {
		m.messages.WithLabelValues(sink, result).Inc()
	}
}

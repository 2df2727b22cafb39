package runs

import (
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

type metrics struct {
	letters        *prometheus.CounterVec
	retriesGivenUp prometheus.Counter

	eventsAnnounced, eventsDropped prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		letters: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_dead_letters_total", Help: "Dead letters by what was done: written (again, where what follows from a record is repeated), " +
				"replayed, discarded, superseded by a success or a cancel, or given up because they are too large.",
		}, []string{"event"}),
		retriesGivenUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_retries_given_up_total",
			Help: "Runs that failed because their retry was too large to be written, each as often as that was found.",
		}),
	}
	m.eventsAnnounced = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_system_events_total", Help: "Events of the system that were published, each as often as what follows from its record was done.",
	})
	m.eventsDropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "carillon_system_events_dropped_total", Help: "Events of the system that were not published since too many events led to them.",
	})
	for _, event := range []string{"written", string(schema.ResolvedReplayed), string(schema.ResolvedDiscarded), string(schema.ResolvedSuperseded), "too_large"} {
		m.letters.WithLabelValues(event)
	}
	r.MustRegister(m.letters, m.retriesGivenUp, m.eventsAnnounced, m.eventsDropped)
	return m
}

package runs

import (
	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

type metrics struct {
	letters        *prometheus.CounterVec
	retriesGivenUp prometheus.Counter
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
	for _, event := range []string{"written", string(schema.ResolvedReplayed), string(schema.ResolvedDiscarded), string(schema.ResolvedSuperseded), "too_large"} {
		m.letters.WithLabelValues(event)
	}
	r.MustRegister(m.letters, m.retriesGivenUp)
	return m
}

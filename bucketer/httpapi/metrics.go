package httpapi

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// lineStatuses are the statuses that a line of an import can have.
var lineStatuses = []int{200, 201, 400, 409, 413, 422, 429, 500, 503}

type metrics struct {
	requests *prometheus.CounterVec   // route, method, status
	seconds  *prometheus.HistogramVec // route, method
	inFlight prometheus.Gauge
	imports  prometheus.Gauge
	lines    map[int]prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "carillon_http_request_duration_seconds", Help: "Time from the head of a request to the end of its answer, imports left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_http_requests_in_flight", Help: "Requests being answered.",
		}),
		imports: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "carillon_imports_in_flight", Help: "Imports being read.",
		}),
		lines: make(map[int]prometheus.Counter, len(lineStatuses)),
	}
	lines := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_import_lines_total", Help: "Lines of imports answered, by status.",
	}, []string{"status"})
	for _, status := range lineStatuses {
		m.lines[status] = lines.WithLabelValues(strconv.Itoa(status))
	}
	r.MustRegister(m.requests, m.seconds, m.inFlight, m.imports, lines)
	return m
}

// line counts n lines answered with status.
func (m *metrics) line(status int, n int64) {
	c, ok := m.lines[status]
	if !ok {
		c = m.lines[500]
	}
	c.Add(float64(n))
}

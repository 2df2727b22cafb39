package cassandra

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema/congestion"
)

// metrics counts what is asked of Cassandra. A batch is one statement, and so is a page.
type metrics struct {
	statements *prometheus.CounterVec   // statement, result
	seconds    *prometheus.HistogramVec // statement
	retries    *prometheus.CounterVec   // statement
	rows       *prometheus.CounterVec   // statement
}

// RegisterMetrics registers the metrics that a Store has, without a store, for who lists them.
func RegisterMetrics(r prometheus.Registerer) error {
	if _, err := newMetrics(r); err != nil {
		return err
	}
	return watch(r, congestion.New(minInFlight, maxInFlight, time.Second), nil)
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "carillon", Subsystem: "cassandra", Name: name, Help: help}
	}
	m := &metrics{
		statements: prometheus.NewCounterVec(opts("statements_total",
			"Statements, by name and result. A batch counts once, and so does a page; retries do not."), []string{"statement", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "carillon", Subsystem: "cassandra", Name: "statement_seconds",
			Help:    "Seconds from a statement's first sending to its result, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}, []string{"statement"}),
		retries: prometheus.NewCounterVec(opts("retries_total", "Statements sent again, by name."), []string{"statement"}),
		rows:    prometheus.NewCounterVec(opts("rows_written_total", "Rows written, by statement."), []string{"statement"}),
	}
	for _, name := range names {
		for _, r := range results {
			m.statements.WithLabelValues(name, r)
		}
		m.seconds.WithLabelValues(name)
		m.retries.WithLabelValues(name)
	}
	for _, st := range []statement{insertEntry, insertPayload, insertAttempt} {
		m.rows.WithLabelValues(names[st])
	}
	if r == nil {
		return m, nil
	}
	var faults [4]error
	m.statements, faults[0] = register(r, m.statements)
	m.seconds, faults[1] = register(r, m.seconds)
	m.retries, faults[2] = register(r, m.retries)
	m.rows, faults[3] = register(r, m.rows)
	if err := errors.Join(faults[:]...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// register returns c, or what a store of the same process has registered in its place before.
func register[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if before, ok := already.ExistingCollector.(C); ok {
			return before, nil
		}
	}
	return c, err
}

// watch registers how many statements may be under way, and how many rows are to be brought to the
// other data centres: of the first store of a registerer.
func watch(r prometheus.Registerer, w *congestion.Window, u *unanswered) error {
	if r == nil {
		return nil
	}
	_, allowed := register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "cassandra", Name: "statements_allowed",
		Help: "Plain statements that may be under way. Fewer than most (256) means that Cassandra answers slowly, and is asked less.",
	}, func() float64 { return float64(w.Size()) }))
	_, rows := register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "cassandra", Name: "unanswered_rows",
		Help: "Rows whose conditional write was not answered, and that other regions may lack until all data centres have been read. " +
			"A node keeps 65536 at most, until it stops; what it could not bring there needs a repair.",
	}, func() float64 { return float64(u.size()) }))
	return errors.Join(allowed, rows)
}

// observe records a finished statement.
func (m *metrics) observe(st statement, took time.Duration, err error) {
	name := names[st]
	m.statements.WithLabelValues(name, result(err)).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}

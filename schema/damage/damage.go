// Package damage counts and logs stored rows that cannot be understood: another version wrote them,
// or they are broken.
//
// # What a bad row means
//
// One bad row harms what it belongs to, and nothing else: no page, sweep or node fails for it.
//
//	runs           the run is missed, with the reason "unreadable"; a bad cancel mark cancels
//	attempts       the run has failed, and its fault is shown; a later attempt that is there counts
//	sessions       claims of earlier lives stand until the session is renewed or falls
//	leases         a claim: the run has failed, its attempt never started;
//	               a limit's slots: its runs wait until an operator mends it
//	jobs           the job's fault is shown, and it starts nothing
//	job_runs       the line is made of the run's own rows
//	tasks          its runs fail, so its rate does not matter; it may be put again, or deleted
//	tenants        it has the defaults until it is put again
//	api_keys       the key is refused; it may be revoked
//	dead_letters   it is listed with its fault and cannot be replayed; a bad resolution is one
//	audit          the entry is listed, and says that its detail cannot be read
//	stats          its counts are left out
//	operations     it does not go on; others do
//	signing_keys   calls of the tenant are not signed, and so not made
//	secrets        it is listed with its fault, and calls that need it are not made
//	settings, cursors   nothing is guessed: a node that starts waits, one that runs keeps its own
package damage

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Tables are the tables in which rows may be found that cannot be understood.
var Tables = []string{
	"api_keys", "attempts", "audit", "dead_letters", "job_runs", "jobs", "leases", "operations", "runs", "secrets", "sessions", "settings", "signing_keys",
	"stats", "tasks", "tenants",
}

// maxLogged bounds the rows that are remembered as logged. Beyond it all are forgotten, and logged
// again.
const maxLogged = 1000

// Log counts and logs bad rows. Its methods may be called concurrently.
type Log struct {
	log  *slog.Logger
	rows *prometheus.CounterVec // table

	mu     sync.Mutex
	logged map[string]bool
}

// New returns a Log; reg may be nil. A second store of the same process counts with the first.
func New(log *slog.Logger, reg prometheus.Registerer) (*Log, error) {
	l := &Log{log: log, logged: make(map[string]bool), rows: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "carillon", Subsystem: "store", Name: "unreadable_rows_total",
		Help: "Reads of stored rows that could not be understood, by table. Each row is logged once. More than 0 needs an eye.",
	}, []string{"table"})}
	for _, table := range Tables {
		l.rows.WithLabelValues(table)
	}
	if reg == nil {
		return l, nil
	}
	err := reg.Register(l.rows)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if before, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			l.rows, err = before, nil
		}
	}
	return l, err
}

// Found notes a row of the table that cannot be understood, named for people; a nil err is no
// fault. It returns err.
func (l *Log) Found(table, row string, err error) error {
	if err == nil {
		return nil
	}
	l.rows.WithLabelValues(table).Inc()
	l.mu.Lock()
	key := table + "/" + row
	first := !l.logged[key]
	if len(l.logged) >= maxLogged {
		clear(l.logged)
	}
	l.logged[key] = true
	l.mu.Unlock()
	if first {
		l.log.Error("a stored row cannot be understood", "table", table, "row", row, "err", err)
	}
	return err
}

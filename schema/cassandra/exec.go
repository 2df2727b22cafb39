package cassandra

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/congestion"
	"github.com/gocql/gocql"
	"github.com/prometheus/client_golang/prometheus"
)

// query returns st with its values, idempotent and speculative.
func (s *core) query(ctx context.Context, st statement, args ...any) *gocql.Query {
	return s.session.Query(string(st), args...).WithContext(ctx).Idempotent(true).SetSpeculativeExecutionPolicy(s.speculation)
}

// serial returns st, a read such that every conditional write begun before is decided.
func (s *core) serial(ctx context.Context, st statement, args ...any) *gocql.Query {
	return s.query(ctx, st, args...).Consistency(gocql.Consistency(serialOf[st]))
}

// urgent are the reads that decide who is alive and whether a key or a lease was taken.
var urgent = map[statement]bool{selectSession: true, selectKey: true, selectLease: true, selectTime: true}

// unrepeated are the reads whose failure the caller handles by another read.
var unrepeated = map[statement]bool{selectWaiters: true}

// repeat calls once until it succeeds, fails for good, or was retried maxRetries times. It returns
// the translated error. If one try was of unknown outcome, so is the whole.
func (s *core) repeat(ctx context.Context, st statement, m mode, once func() error) error {
	start := time.Now()
	// heartbeats and claims of keys do not wait behind bulk work
	if m != conditional && !urgent[st] {
		if !s.window.Acquire(ctx) {
			return fmt.Errorf("%w: %d statements under way: %w", schema.ErrUnavailable, s.window.Size(), ctx.Err())
		}
		defer s.window.Release()
	}
	retries := maxRetries
	if unrepeated[st] {
		retries = 0
	}
	err := repeat(ctx, m, retries, func() { s.metrics.retries.WithLabelValues(names[st]).Inc() }, func() error {
		sent := time.Now()
		err := once()
		now := time.Now()
		s.speculation.crowd.observe(now.Sub(sent), now)
		s.window.Observe(now.Sub(sent), now)
		return err
	})
	s.metrics.observe(st, time.Since(start), err)
	return err
}

func repeat(ctx context.Context, m mode, retries int, retried func(), once func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrUnavailable, err) // nothing was sent
	}
	var unknown bool
	for n := 0; ; n++ {
		began := time.Now()
		err := translate(once(), m)
		if err == nil {
			return nil
		}
		if m == writing && errors.Is(err, schema.ErrUnavailable) && time.Since(began) >= speculativeDelay {
			unknown = true // a copy may have gone to another node, which may have done it
		}
		unknown = unknown || errors.Is(err, schema.ErrUnknown)
		if n < retries && repeatable(err, m) && wait(ctx, retryWait(n)) {
			retried()
			continue
		}
		if unknown && !errors.Is(err, schema.ErrUnknown) {
			return fmt.Errorf("%w: last: %v", schema.ErrUnknown, err) //nolint:errorlint // must not be found as what it is
		}
		return err
	}
}

// wait waits for d. False means that ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// write executes an idempotent write.
func (s *core) write(ctx context.Context, st statement, args ...any) error {
	return s.repeat(ctx, st, writing, func() error { return s.query(ctx, st, args...).Exec() })
}

// one reads one row, or ErrNotFound.
func (s *core) one(ctx context.Context, st statement, args []any, dest ...any) error {
	return s.repeat(ctx, st, reading, func() error { return s.query(ctx, st, args...).Scan(dest...) })
}

// oneSerial reads one row at the serial level of its table, or ErrNotFound.
func (s *core) oneSerial(ctx context.Context, st statement, args []any, dest ...any) error {
	return s.repeat(ctx, st, reading, func() error { return s.serial(ctx, st, args...).Scan(dest...) })
}

// swap executes a conditional write once (again only if nothing was sent). row receives the current
// cells if the condition did not hold. After ErrUnknown the caller reads, by oneSerial,
// what stands, and the row of key is brought to the other data centres (unknownWrites).
func (s *core) swap(ctx context.Context, st statement, key rowKey, row map[string]any, args ...any) (applied bool, err error) {
	err = s.repeat(ctx, st, conditional, func() error {
		clear(row)
		q := s.session.Query(string(st), args...).WithContext(ctx).Idempotent(false).RetryPolicy(nil).
			SerialConsistency(serialOf[st])
		var err error
		applied, err = q.MapScanCAS(row)
		return err
	})
	if errors.Is(err, schema.ErrUnknown) {
		s.unknown.add(st.table(), key)
	}
	return applied, err
}

// line is one statement's values within a batch.
type line struct {
	args  []any
	bytes int
}

// writeBatches executes st for every line, in unlogged batches within the bounds, one after the
// other. A single line goes as a plain statement, for which the server has no limit.
func (s *core) writeBatches(ctx context.Context, st statement, lines []line) error {
	for len(lines) > 0 {
		n := fit(lines, maxBatchRows, int(s.batchBytes.Load()))
		chunk := lines[:n]
		lines = lines[n:]
		err := s.repeat(ctx, st, writing, func() error {
			if n == 1 {
				return s.query(ctx, st, chunk[0].args...).Exec()
			}
			b := s.session.NewBatch(gocql.UnloggedBatch).WithContext(ctx).DefaultTimestamp(false).
				SpeculativeExecutionPolicy(s.speculation)
			b.Entries = make([]gocql.BatchEntry, n)
			for i := range chunk {
				b.Entries[i] = gocql.BatchEntry{Stmt: string(st), Args: chunk[i].args, Idempotent: true}
			}
			return s.session.ExecuteBatch(b)
		})
		if err != nil {
			return err
		}
		s.metrics.rows.WithLabelValues(names[st]).Add(float64(n))
	}
	return nil
}

// fit returns how many of the first lines make a batch: at least one.
func fit(lines []line, rows, bytes int) int {
	total := 0
	for i := range min(len(lines), rows) {
		total += lines[i].bytes
		if total > bytes && i > 0 {
			return i
		}
	}
	return min(len(lines), rows)
}

// pageSizer chooses how many rows to ask for, so that a page stays within so many bytes: the
// protocol counts rows. It assumes the largest row that it has seen, and forgets an eighth of that
// a page.
type pageSizer struct{ largest atomic.Int64 }

// firstRowGuess is the assumed size of a row before one was seen, in bytes.
const firstRowGuess = 2 << 10

// rows returns how many rows to ask for, at most limit.
func (p *pageSizer) rows(bytes, limit int) int {
	row := int(p.largest.Load())
	if row == 0 {
		row = firstRowGuess
	}
	return max(1, min(bytes/row, maxPageRows, limit))
}

// saw records the largest row of a page.
func (p *pageSizer) saw(largest int) {
	if largest > 0 {
		p.largest.Store(max(int64(largest), p.largest.Load()*7/8))
	}
}

// readPages reads the rows of st page by page, until there are none or limit are kept. scan takes
// the next row from the iterator. It returns the row's size in bytes and whether it counts; more is
// false after the last row.
func readPages[T any](ctx context.Context, s *core, st statement, sizer *pageSizer, limit int, args []any,
	scan func(*gocql.Iter) (v T, bytes int, keep, more bool),
) ([]T, error) {
	var out []T
	var state []byte
	for len(out) < limit {
		var page []T
		var next []byte
		var largest int
		rows := sizer.rows(s.cfg.PageBytes, limit-len(out))
		err := s.repeat(ctx, st, reading, func() error {
			page, largest = page[:0], 0
			iter := s.query(ctx, st, args...).PageSize(rows).PageState(state).Iter()
			for {
				v, bytes, keep, more := scan(iter)
				if !more {
					break
				}
				largest = max(largest, bytes)
				if keep {
					page = append(page, v)
				}
			}
			next = append([]byte(nil), iter.PageState()...)
			return iter.Close() // an iterator ends in silence when the read fails: only this tells
		})
		if err != nil {
			return nil, err
		}
		sizer.saw(largest)
		if out == nil {
			out = page
		} else {
			out = append(out, page...)
		}
		if len(next) == 0 {
			break
		}
		state = next
	}
	return out[:min(len(out), limit)], nil
}

// metrics counts what is asked of Cassandra. A batch is one statement, and so is a page.
type metrics struct {
	statements *prometheus.CounterVec   // statement, result
	seconds    *prometheus.HistogramVec // statement
	retries    *prometheus.CounterVec   // statement
	rows       *prometheus.CounterVec   // statement
	unknown    prometheus.Gauge
}

// RegisterMetrics registers the metrics that a Store has, without a store, for who lists them.
func RegisterMetrics(r prometheus.Registerer) error {
	if _, err := newMetrics(r); err != nil {
		return err
	}
	return watch(r, congestion.New(minInFlight, maxInFlight, time.Second))
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
		unknown: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "carillon", Subsystem: "cassandra", Name: "unknown_rows",
			Help: "Rows that other regions may lack: the outcome of their conditional writes was unknown, and they are still to be read in all data centres. 65536 at most.",
		}),
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
	var faults [5]error
	m.statements, faults[0] = register(r, m.statements)
	m.seconds, faults[1] = register(r, m.seconds)
	m.retries, faults[2] = register(r, m.retries)
	m.rows, faults[3] = register(r, m.rows)
	m.unknown, faults[4] = register(r, m.unknown)
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

// watch registers how many statements may be under way: of the first store of a registerer.
func watch(r prometheus.Registerer, w *congestion.Window) error {
	if r == nil {
		return nil
	}
	_, err := register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "carillon", Subsystem: "cassandra", Name: "statements_allowed",
		Help: "Plain statements that may be under way. Fewer than most (256) means that Cassandra answers slowly, and is asked less.",
	}, func() float64 { return float64(w.Size()) }))
	return err
}

// observe records a finished statement.
func (m *metrics) observe(st statement, took time.Duration, err error) {
	name := names[st]
	m.statements.WithLabelValues(name, result(err)).Inc()
	m.seconds.WithLabelValues(name).Observe(took.Seconds())
}

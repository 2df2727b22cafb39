package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/schema"
)

// rowKey is the primary key of a row: the values of wholeRow of its table. Nil: the row is not
// looked after when the outcome of its conditional write is unknown.
type rowKey []any

// wholeRow holds the statements that read a row with every column, by table: of the tables that are
// written at LOCAL_SERIAL. The session of an executor is left out: it is written anew every few
// seconds, with all columns.
var wholeRow = map[string]statement{
	"runs": confirmEntries, "jobs": confirmJob, "leases": confirmLease, "keys": confirmKey, "job_names": confirmName,
	"api_key_names": selectKeyName, "signing_keys": selectSigningKeys, "secrets": selectSecret, "notification_groups": confirmGroup,
}

const (
	maxUnknown    = 1 << 16 // rows kept, some 200 B each
	unknownAtOnce = 16      // rows read at a time
	// unknownSettles is when a row is read: later than any node still works on the write.
	unknownSettles    = 5 * time.Second
	unknownRetryAfter = 5 * time.Second
	unknownCloses     = 3 * time.Second // how long Close waits for the rows that are left
)

// unknownWrites brings conditional writes of unknown outcome to the other data centres.
//
// Such a write may have been accepted and not committed. Then the next operation on its row commits
// it: in the data centre of that operation alone, and without hints for the others (Cassandra 5.0,
// PaxosCommitAndPrepare). So each such row is read twice. The first read is at its serial level,
// and commits the write if it was accepted. The second is at EACH_QUORUM: read repair writes to
// each data centre what it lacks.
//
// A row whose reads fail is tried again until they succeed. The rows are lost with the process, and
// beyond maxUnknown they are not kept: then the others have the write after a repair.
type unknownWrites struct {
	read  func(ctx context.Context, st statement, key rowKey) error
	gauge prometheus.Gauge
	log   *slog.Logger
	wake  chan struct{}

	mu    sync.Mutex
	added int64
	rows  map[string]unknownRow // by statement and key
	full  bool                  // and it was logged
}

// unknownRow is a row to read, from next on. added tells one that was added again meanwhile.
type unknownRow struct {
	st    statement
	key   rowKey
	added int64
	next  time.Time
	fails bool // and it was logged
}

func newUnknownWrites(read func(context.Context, statement, rowKey) error, gauge prometheus.Gauge, log *slog.Logger) *unknownWrites {
	return &unknownWrites{read: read, gauge: gauge, log: log, wake: make(chan struct{}, 1), rows: make(map[string]unknownRow)}
}

// add has the row of table with that key read. It does not wait. u may be nil: then there are no
// other data centres.
func (u *unknownWrites) add(table string, key rowKey) {
	st := wholeRow[table]
	if u == nil || key == nil || st == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	name := fmt.Sprintf("%s %#v", st, key)
	if _, again := u.rows[name]; !again {
		if len(u.rows) >= maxUnknown {
			if !u.full {
				u.log.Error("too many conditional writes of unknown outcome: other regions lack some until Cassandra is repaired", "kept", maxUnknown)
			}
			u.full = true
			return
		}
		u.gauge.Inc()
	}
	u.added++
	u.rows[name] = unknownRow{st: st, key: key, added: u.added, next: time.Now().Add(unknownSettles)}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// size returns how many rows are to be read.
func (u *unknownWrites) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows)
}

// run reads what is added until ctx ends.
func (u *unknownWrites) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		}
		for u.size() > 0 {
			some, after := u.ready(time.Now())
			if len(some) == 0 && !wait(ctx, after) {
				return
			}
			if u.readAll(ctx, some); ctx.Err() != nil {
				return
			}
		}
	}
}

// close reads what is left once more, within unknownCloses. run must have ended.
func (u *unknownWrites) close() {
	ctx, cancel := context.WithTimeout(context.Background(), unknownCloses)
	defer cancel()
	u.mu.Lock()
	left := slices.Collect(maps.Keys(u.rows))
	u.mu.Unlock()
	for names := range slices.Chunk(left, unknownAtOnce) {
		some := make(map[string]unknownRow)
		u.mu.Lock()
		for _, name := range names {
			some[name] = u.rows[name]
		}
		u.mu.Unlock()
		if u.readAll(ctx, some); ctx.Err() != nil {
			break
		}
	}
	if n := u.size(); n > 0 {
		u.log.Warn("conditional writes of unknown outcome are left: other regions may lack them until Cassandra is repaired", "rows", n)
	}
}

// ready returns rows that are to be read at now, in no order; if there are none, after how long
// there is one.
func (u *unknownWrites) ready(now time.Time) (some map[string]unknownRow, after time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	some, after = make(map[string]unknownRow), unknownRetryAfter
	for name, row := range u.rows {
		if until := row.next.Sub(now); until > 0 {
			after = min(after, until)
			continue
		}
		if some[name] = row; len(some) == unknownAtOnce {
			break
		}
	}
	return some, after
}

// readAll reads rows, all at once.
func (u *unknownWrites) readAll(ctx context.Context, rows map[string]unknownRow) {
	var wg sync.WaitGroup
	for name, row := range rows {
		wg.Go(func() { u.settle(name, row, u.read(ctx, row.st, row.key)) })
	}
	wg.Wait()
}

// settle notes how the reads of a row ended. One that can never be read is given up.
func (u *unknownWrites) settle(name string, row unknownRow, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rows[name].added != row.added {
		return // it was added again
	}
	again := errors.Is(err, schema.ErrUnavailable) || errors.Is(err, schema.ErrUnknown)
	if err != nil && (!row.fails || !again) {
		u.log.Warn("a conditional write of unknown outcome cannot be brought to other regions", "table", row.st.table(), "key", row.key, "tried_again", again, "err", err)
	}
	if again {
		row.fails, row.next = true, time.Now().Add(unknownRetryAfter)
		u.rows[name] = row
		return
	}
	delete(u.rows, name)
	u.gauge.Dec()
	u.full = u.full && len(u.rows) > 0
}

// readUnknown reads one row for unknownWrites.
func (s *core) readUnknown(ctx context.Context, st statement, key rowKey) error {
	err := s.repeat(ctx, st, reading, func() error { return s.serial(ctx, st, key...).Iter().Close() })
	if err != nil {
		return err
	}
	return s.confirm(ctx, st, key...)
}

// bringUnknown has conditional writes of unknown outcome brought to the other data centres, until
// the store is closed.
func (s *core) bringUnknown() {
	s.unknown = newUnknownWrites(s.readUnknown, s.metrics.unknown, s.cfg.Logger)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.unknown.run(ctx) })
	s.stop = func() {
		cancel()
		wg.Wait()
		s.unknown.close()
	}
}

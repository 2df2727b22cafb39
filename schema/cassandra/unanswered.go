package cassandra

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// rowKey is the primary key of a row: the values of wholeRow of its table. Nil: the row is not to
// be looked after when its conditional write is not answered.
type rowKey []any

// wholeRow holds the statements that read a row with every column, by table: of the tables that
// are written at LOCAL_SERIAL, and read in other data centres too. An executor's session is of no
// use to those.
var wholeRow = map[string]statement{
	"runs": confirmEntries, "jobs": confirmJob, "leases": confirmLease, "keys": confirmKey, "job_names": confirmName,
	"api_key_names": selectKeyName, "signing_keys": selectSigningKeys, "secrets": selectSecret, "notification_groups": confirmGroup,
}

const (
	maxUnanswered        = 1 << 16 // rows kept, some 200 B each
	unansweredAtOnce     = 16      // rows asked for at a time
	unansweredRetryAfter = 5 * time.Second
)

// unanswered brings conditional writes that were not answered to the other data centres.
//
// Such a write may have been accepted and not committed. Then the next operation on its row commits
// it: in the data centre of that operation alone, and without hints for the others (Cassandra 5.0,
// PaxosCommitAndPrepare). So each such row is read twice. The first read is at its serial level:
// after it the write is committed here, or never will be. The second is at EACH_QUORUM: read repair
// writes to each data centre what it lacks.
//
// A row whose reads fail is tried again until they succeed. The rows are lost with the process, and
// beyond maxUnanswered they are not kept: then the others have the write after a repair.
type unanswered struct {
	read func(ctx context.Context, st statement, key rowKey) error
	wake chan struct{}

	mu   sync.Mutex
	next int64
	rows map[string]unansweredRow // by statement and key
}

// unansweredRow is a row that is to be read. number tells one that has come again meanwhile.
type unansweredRow struct {
	st     statement
	key    rowKey
	number int64
}

func newUnanswered(read func(context.Context, statement, rowKey) error) *unanswered {
	return &unanswered{read: read, wake: make(chan struct{}, 1), rows: make(map[string]unansweredRow)}
}

// add has the row of table with that key read. It does not wait. u may be nil: then there are no
// other data centres.
func (u *unanswered) add(table string, key rowKey) {
	st := wholeRow[table]
	if u == nil || key == nil || st == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	name := fmt.Sprint(st, key)
	if _, again := u.rows[name]; !again && len(u.rows) >= maxUnanswered {
		return // as the metric says
	}
	u.next++
	u.rows[name] = unansweredRow{st, key, u.next}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// size returns how many rows are to be read. u may be nil.
func (u *unanswered) size() int {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.rows)
}

// run reads what is added until ctx ends.
func (u *unanswered) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		}
		for u.size() > 0 {
			if u.readSome(ctx) {
				continue
			}
			if !wait(ctx, unansweredRetryAfter) {
				return
			}
		}
	}
}

// readSome reads some of the rows, in no order. It reports whether all reads succeeded.
func (u *unanswered) readSome(ctx context.Context) bool {
	var g errgroup.Group
	for name, row := range u.some() {
		g.Go(func() error {
			err := u.read(ctx, row.st, row.key)
			if err == nil {
				u.remove(name, row.number)
			}
			return err
		})
	}
	return g.Wait() == nil
}

func (u *unanswered) some() map[string]unansweredRow {
	u.mu.Lock()
	defer u.mu.Unlock()
	some := make(map[string]unansweredRow)
	for name, row := range u.rows {
		if some[name] = row; len(some) == unansweredAtOnce {
			break
		}
	}
	return some
}

func (u *unanswered) remove(name string, number int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rows[name].number == number {
		delete(u.rows, name)
	}
}

// readUnanswered reads one row for unanswered.
func (s *core) readUnanswered(ctx context.Context, st statement, key rowKey) error {
	err := s.repeat(ctx, st, reading, func() error { return s.serial(ctx, st, key...).Iter().Close() })
	if err != nil {
		return err
	}
	return s.confirm(ctx, st, key...)
}

// bringUnanswered has conditional writes that are not answered brought to the other data centres,
// until the store is closed.
func (s *core) bringUnanswered() {
	s.unanswered = newUnanswered(s.readUnanswered)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.unanswered.run(ctx) })
	s.stop = func() { cancel(); wg.Wait() }
}

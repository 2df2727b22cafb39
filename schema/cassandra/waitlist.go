package cassandra

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// The statements about wait lists; the words are those of statements.go. Every list lies in one
// slice, 0: it is bounded by what a job is asked for in one retention.
const (
	// One row of waiting. Idempotent.
	insertWaiter statement = `INSERT INTO waiting (holder, slice, due, run_id, entry_id) VALUES (?, 0, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of waiting. Idempotent.
	deleteWaiter statement = `DELETE FROM waiting USING TIMESTAMP ? WHERE holder = ? AND slice = 0 AND due = ? AND run_id = ?`
	// A slice of one partition of waiting, in the order of runs. Idempotent.
	selectWaiters statement = `SELECT run_id, entry_id, TTL(entry_id) FROM waiting WHERE holder = ? AND slice = 0 AND (due, run_id) > (?, ?) AND (due, run_id) < (?, ?)`
	// One row of waited_for. Idempotent.
	insertLimitMark statement = `INSERT INTO waited_for (shard, holder, noted) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One row of waited_for. Idempotent.
	deleteLimitMark statement = `DELETE FROM waited_for USING TIMESTAMP ? WHERE shard = ? AND holder = ?`
	// A slice of one partition of waited_for, in the order of holders. Idempotent.
	selectLimitMarks statement = `SELECT holder, noted FROM waited_for WHERE shard = ? AND holder > ?`
)

// PutWaiter implements schema.WaitListStore.
func (s waitListStore) PutWaiter(ctx context.Context, w schema.Waiter) error {
	noted, ttl := w.Noted.UnixMicro(), s.ttl(w.Expires)
	err := s.write(ctx, insertLimitMark, int(w.Shard), string(w.Limit), noted, noted, ttl)
	if err == nil {
		err = s.write(ctx, insertWaiter, string(w.Limit), w.Run.Time(), uuid(w.Run), uuid(w.Entry), w.Written(), ttl)
	}
	if err != nil {
		return fmt.Errorf("have %s wait: %w", w.Run, err)
	}
	return nil
}

// Waiters implements schema.WaitListStore. The runs of one ms that wait for a job's limit have one
// shard and differ in their hash alone, so the order of the columns is that of ids.
func (s waitListStore) Waiters(ctx context.Context, key schema.LimitKey, r schema.IDRange, limit int) ([]schema.Waiter, error) {
	first, after, last, before := time.UnixMilli(0), lowestID, endOfTime, highestID
	if !r.After.IsZero() {
		first, after = r.After.Time(), uuid(r.After)
	}
	if !r.Before.IsZero() {
		last, before = r.Before.Time(), uuid(r.Before)
	}
	rows, err := readPages(ctx, s.core, selectWaiters, &s.smallRows, limit, []any{string(key), first, after, last, before},
		func(iter *gocql.Iter) (w schema.Waiter, size int, keep, more bool) {
			var run, entry gocql.UUID
			var ttl int
			if !iter.Scan(&run, &entry, &ttl) {
				return w, 0, false, false
			}
			w = schema.Waiter{Limit: key, Run: schema.RunID(run), Entry: schema.EntryID(entry)}
			if w.Shard = w.Run.Shard(); ttl > 0 {
				w.Expires = s.cfg.Now().Add(time.Duration(ttl) * time.Second).UTC().Truncate(time.Millisecond)
			}
			return w, 128, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read what waits for %s: %w", key, err)
	}
	return rows, nil
}

// endOfTime is the time of the highest id.
var endOfTime = schema.EntryID(highestID).Time()

// DeleteWaiter implements schema.WaitListStore: of one timestamp the deletion wins.
func (s waitListStore) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	if err := s.write(ctx, deleteWaiter, w.Written(), string(w.Limit), w.Run.Time(), uuid(w.Run)); err != nil {
		return fmt.Errorf("end the wait of %s: %w", w.Run, err)
	}
	return nil
}

// LimitsWithWaiters implements schema.WaitListStore.
func (s waitListStore) LimitsWithWaiters(ctx context.Context, shard schema.Shard, after schema.LimitKey, limit int) ([]schema.LimitMark, error) {
	marks, err := readPages(ctx, s.core, selectLimitMarks, &s.smallRows, limit, []any{int(shard), string(after)},
		func(iter *gocql.Iter) (m schema.LimitMark, size int, keep, more bool) {
			var holder string
			var noted int64
			if !iter.Scan(&holder, &noted) {
				return m, 0, false, false
			}
			return schema.LimitMark{Shard: shard, Limit: schema.LimitKey(holder), Noted: time.UnixMicro(noted).UTC()}, len(holder) + 64, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read what is waited for in shard %d: %w", shard, err)
	}
	return marks, nil
}

// DeleteLimitMark implements schema.WaitListStore.
func (s waitListStore) DeleteLimitMark(ctx context.Context, m schema.LimitMark) error {
	if err := s.write(ctx, deleteLimitMark, m.Noted.UnixMicro(), int(m.Shard), string(m.Limit)); err != nil {
		return fmt.Errorf("unmark %s: %w", m.Limit, err)
	}
	return nil
}

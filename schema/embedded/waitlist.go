package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// The tables of wait lists. They are stored: never rename them.
const (
	tableWaiting    table = 'w' // limit run; value: the entry
	tableLimitMarks table = 'm' // shard limit
)

// deletionKept is how long a deletion is remembered that came before its row: longer than any write
// is under way.
const deletionKept = 4 * time.Hour

func waitingPrefix(key schema.LimitKey) []byte { return appendName(nil, tableWaiting, string(key), "") }

func waitingKey(w *schema.Waiter) []byte { return append(waitingPrefix(w.Limit), w.Run[:]...) }

func markPrefix(shard schema.Shard) []byte {
	return binary.BigEndian.AppendUint16([]byte{byte(tableLimitMarks)}, uint16(shard))
}

func markKey(shard schema.Shard, limit schema.LimitKey) []byte {
	return append(markPrefix(shard), limit...)
}

// PutWaiter implements schema.WaitListStore: one batch.
func (s waitListStore) PutWaiter(ctx context.Context, w schema.Waiter) error {
	expires := expiryOf(w.Expires)
	err := s.putRows(ctx,
		rowWrite{markKey(w.Shard, w.Limit), []cell{{column: colValue, timestamp: w.Noted.UnixMicro(), expires: expires}}},
		rowWrite{waitingKey(&w), []cell{{column: colValue, timestamp: w.Written(), expires: expires, data: w.Entry[:]}}})
	if err != nil {
		return fmt.Errorf("have %s wait: %w", w.Run, err)
	}
	return nil
}

// Waiters implements schema.WaitListStore.
func (s waitListStore) Waiters(ctx context.Context, key schema.LimitKey, r schema.IDRange, limit int) ([]schema.Waiter, error) {
	var rows []schema.Waiter
	prefix := waitingPrefix(key)
	lower, upper := prefix, prefixEnd(prefix)
	if !r.After.IsZero() {
		lower = append(waitingKey(&schema.Waiter{Limit: key, Run: r.After}), 0)
	}
	if !r.Before.IsZero() {
		upper = waitingKey(&schema.Waiter{Limit: key, Run: r.Before})
	}
	err := s.listWithin(ctx, len(prefix), lower, upper, limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.undeleted(nowMS)
		switch {
		case c == nil:
			return false, nil
		case len(rest) != 16 || len(c.data) != 16:
			return false, errCorrupt
		}
		w := schema.Waiter{Limit: key, Run: schema.RunID(rest), Entry: schema.EntryID(c.data)}
		if w.Shard = w.Run.Shard(); c.expires != never {
			w.Expires = time.UnixMilli(c.expires).UTC()
		}
		rows = append(rows, w)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what waits for %s: %w", key, err)
	}
	return rows, nil
}

// DeleteWaiter implements schema.WaitListStore.
func (s waitListStore) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	if err := s.putRows(ctx, rowWrite{waitingKey(&w), []cell{s.deletion(w.Written())}}); err != nil {
		return fmt.Errorf("end the wait of %s: %w", w.Run, err)
	}
	return nil
}

// LimitsWithWaiters implements schema.WaitListStore.
func (s waitListStore) LimitsWithWaiters(ctx context.Context, shard schema.Shard, after schema.LimitKey, limit int) ([]schema.LimitMark, error) {
	var marks []schema.LimitMark
	err := s.list(ctx, markPrefix(shard), afterName(string(after)), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.undeleted(nowMS)
		if c != nil {
			marks = append(marks, schema.LimitMark{Shard: shard, Limit: schema.LimitKey(rest), Noted: time.UnixMicro(c.timestamp).UTC()})
		}
		return c != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what is waited for in shard %d: %w", shard, err)
	}
	return marks, nil
}

// DeleteLimitMark implements schema.WaitListStore.
func (s waitListStore) DeleteLimitMark(ctx context.Context, m schema.LimitMark) error {
	if err := s.putRows(ctx, rowWrite{markKey(m.Shard, m.Limit), []cell{s.deletion(m.Noted.UnixMicro())}}); err != nil {
		return fmt.Errorf("unmark %s: %w", m.Limit, err)
	}
	return nil
}

// deletion is the cell that hides what was written by then.
func (s waitListStore) deletion(written int64) cell {
	return cell{column: colDeleted, timestamp: written, expires: expiryOf(s.now().Add(deletionKept))}
}

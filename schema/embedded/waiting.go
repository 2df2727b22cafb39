package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// The tables of what limits hold back. They are stored: never rename them.
const (
	tableWaiting   table = 'w' // limit run; the entry
	tableWaitedFor table = 'm' // shard limit
)

// goneFor is how long it is remembered that a row was taken out of these tables before it was there: longer than any write is under way.
const goneFor = 4 * time.Hour

func waitingPrefix(key schema.LimitKey) []byte { return appendName(nil, tableWaiting, string(key), "") }

func waitingKey(w *schema.Waiter) []byte { return append(waitingPrefix(w.Limit), w.Run[:]...) }

func markPrefix(shard schema.Shard) []byte {
	return binary.BigEndian.AppendUint16([]byte{byte(tableWaitedFor)}, uint16(shard))
}

func markKey(shard schema.Shard, limit schema.LimitKey) []byte {
	return append(markPrefix(shard), limit...)
}

// PutWaiter implements schema.WaitingStore: one batch.
func (s *Store) PutWaiter(ctx context.Context, w schema.Waiter) error {
	expires := expiryOf(w.Expires)
	err := s.putRows(ctx,
		leavingRow{markKey(w.Shard, w.Limit), []cell{{column: colValue, timestamp: w.Noted.UnixMicro(), expires: expires}}},
		leavingRow{waitingKey(&w), []cell{{column: colValue, timestamp: w.Written(), expires: expires, data: w.Entry[:]}}})
	if err != nil {
		return fmt.Errorf("have %s wait: %w", w.Run, err)
	}
	return nil
}

// Waiter implements schema.WaitingStore.
func (s *Store) Waiters(ctx context.Context, key schema.LimitKey, r schema.IDRange, limit int) ([]schema.Waiter, error) {
	var rows []schema.Waiter
	prefix := waitingPrefix(key)
	lower, upper := prefix, prefixEnd(prefix)
	if !r.After.IsZero() {
		lower = append(waitingKey(&schema.Waiter{Limit: key, Run: r.After}), 0)
	}
	if !r.Before.IsZero() {
		upper = waitingKey(&schema.Waiter{Limit: key, Run: r.Before})
	}
	err := s.standing(ctx, len(prefix), lower, upper, limit, func(rest []byte, c *cell) error {
		if len(rest) != 16 || len(c.data) != 16 {
			return errCorrupt
		}
		w := schema.Waiter{Limit: key, Run: schema.RunID(rest), Entry: schema.EntryID(c.data)}
		if w.Shard = w.Run.Shard(); c.expires != never {
			w.Expires = time.UnixMilli(c.expires).UTC()
		}
		rows = append(rows, w)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what waits for %s: %w", key, err)
	}
	return rows, nil
}

// DeleteWaiter implements schema.WaitingStore.
func (s *Store) DeleteWaiter(ctx context.Context, w schema.Waiter) error {
	if err := s.putRows(ctx, leavingRow{waitingKey(&w), []cell{s.gone(w.Written())}}); err != nil {
		return fmt.Errorf("end the wait of %s: %w", w.Run, err)
	}
	return nil
}

// LimitsWithWaiters implements schema.WaitingStore.
func (s *Store) LimitsWithWaiters(ctx context.Context, shard schema.Shard, after schema.LimitKey, limit int) ([]schema.LimitMark, error) {
	var marks []schema.LimitMark
	prefix := markPrefix(shard)
	lower := prefix
	if after != "" {
		lower = append(markKey(shard, after), 0)
	}
	err := s.standing(ctx, len(prefix), lower, prefixEnd(prefix), limit, func(rest []byte, c *cell) error {
		marks = append(marks, schema.LimitMark{Shard: shard, Limit: schema.LimitKey(rest), Noted: time.UnixMicro(c.timestamp).UTC()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what is waited for in shard %d: %w", shard, err)
	}
	return marks, nil
}

// DeleteLimitMark implements schema.WaitingStore.
func (s *Store) DeleteLimitMark(ctx context.Context, m schema.LimitMark) error {
	if err := s.putRows(ctx, leavingRow{markKey(m.Shard, m.Limit), []cell{s.gone(m.Noted.UnixMicro())}}); err != nil {
		return fmt.Errorf("unmark %s: %w", m.Limit, err)
	}
	return nil
}

// gone is the cell that hides what was written by then.
func (s *Store) gone(written int64) cell {
	return cell{column: colDeleted, timestamp: written, expires: expiryOf(s.now().Add(goneFor))}
}

// standing calls visit with what follows the prefix in the keys from lower up to upper, and with the value of
// each row that was not taken out, at most limit times.
func (s *Store) standing(ctx context.Context, prefix int, lower, upper []byte, limit int, visit func(rest []byte, c *cell) error) error {
	if limit <= 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	nowMS := s.nowMS()
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	return s.scan(lower, upper, func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		c, gone := row.at(colValue, nowMS), row.at(colDeleted, 0) // what was taken out stays out for as long as the row is there
		if c == nil || gone != nil && gone.timestamp >= c.timestamp {
			return true, nil
		}
		if err := visit(bytes.Clone(key[prefix:]), c); err != nil {
			return false, err
		}
		limit--
		return limit > 0, nil
	})
}

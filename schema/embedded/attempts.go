package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// PutAttempts implements schema.AttemptStore: one batch, all of it or nothing.
func (s attemptStore) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	if err := s.putAttempts(ctx, attempts); err != nil {
		return fmt.Errorf("put %d attempts: %w", len(attempts), err)
	}
	return nil
}

func (s attemptStore) putAttempts(ctx context.Context, attempts []schema.Attempt) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	lives := lifetimes{}
	for i := range attempts {
		a := &attempts[i]
		var row [2]cell
		written, err := attemptCells(row[:0], a)
		if err != nil {
			return err
		}
		if len(written) == 0 {
			continue
		}
		if err := mergeCells(b, attemptSize, func(dst []byte) []byte { return appendAttempt(dst, a) }, written...); err != nil {
			return err
		}
		lives.add(a.Run.Bucket(), a.Expires)
	}
	if err := lives.merge(b); err != nil {
		return err
	}
	return s.commit(b)
}

// attemptCells appends the cells that a writes: those that are not nil.
func attemptCells(dst []cell, a *schema.Attempt) ([]cell, error) {
	size := 0
	add := func(col column, data []byte, err error) error {
		size += len(data)
		dst = append(dst, cell{column: col, timestamp: a.Written, expires: expiryOf(a.Expires), data: data})
		return err
	}
	if a.Record != nil {
		data, err := schema.EncodeRecord(a.Record)
		if err := add(colRecord, data, err); err != nil {
			return nil, err
		}
	}
	if a.Session != nil {
		data, err := schema.EncodeSessionRef(a.Session)
		if err := add(colSession, data, err); err != nil {
			return nil, err
		}
	}
	if size > maxRow {
		return nil, fmt.Errorf("%w: attempt %d of %s has %d bytes", schema.ErrTooLarge, a.Number, a.Run, size)
	}
	return dst, nil
}

// Attempts implements schema.AttemptStore.
func (s attemptStore) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) ([]schema.Attempt, error) {
	var attempts []schema.Attempt
	err := s.seekEach(ctx, tableAttempts, p, runs, func(it *pebble.Iterator, run schema.RunID, nowMS int64) error {
		for ok := true; ok && bytes.Equal(it.Key()[partitionSize:entrySize], run[:]); ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			a, err := loadAttempt(it.Key(), value, nowMS)
			if err != nil {
				return err
			}
			if a.Fault != nil {
				_ = s.damage.Found("attempts", a.Run.String(), a.Fault)
			}
			if !a.Empty() {
				attempts = append(attempts, a)
			}
		}
		return it.Error()
	})
	if err != nil {
		return nil, fmt.Errorf("read attempts of %d runs of %s: %w", len(runs), p, err)
	}
	return attempts, nil
}

// loadAttempt makes an attempt of a row of attempts. One whose cells have all expired has neither
// record nor session.
func loadAttempt(key, value []byte, nowMS int64) (a schema.Attempt, err error) {
	row, err := parseRow(value)
	if err != nil {
		return a, err
	}
	var record, session []byte
	if c := row.at(colRecord, nowMS); c != nil {
		a.Written, record = c.timestamp, c.data
	}
	if c := row.at(colSession, nowMS); c != nil {
		a.Written, session = max(a.Written, c.timestamp), c.data
	}
	fence := schema.Fence(readInt(key[entrySize+4:]))
	return schema.LoadAttempt(schema.RunID(key[partitionSize:entrySize]), int(binary.BigEndian.Uint32(key[entrySize:])), fence, record, session, a.Written), nil
}

// KeepAttempts implements schema.AttemptStore.
func (s attemptStore) KeepAttempts(ctx context.Context, run schema.RunID, expires time.Time, which func(*schema.Attempt) bool) error {
	if err := s.keepAttempts(ctx, run, expires, which); err != nil {
		return fmt.Errorf("keep attempts of %s: %w", run, err)
	}
	return nil
}

func (s attemptStore) keepAttempts(ctx context.Context, run schema.RunID, expires time.Time, which func(*schema.Attempt) bool) error {
	var rows []rowWrite
	err := s.seekEach(ctx, tableAttempts, run.Partition(), []schema.RunID{run}, func(it *pebble.Iterator, run schema.RunID, nowMS int64) error {
		for ok := true; ok && bytes.Equal(it.Key()[partitionSize:entrySize], run[:]); ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if a, err := loadAttempt(it.Key(), value, nowMS); err != nil {
				return err
			} else if a.Fault == nil && !which(&a) {
				continue
			}
			row, err := parseRow(bytes.Clone(value))
			if err != nil {
				return err
			}
			kept := rowWrite{key: bytes.Clone(it.Key())}
			for _, col := range []column{colRecord, colSession} {
				if c := row.at(col, nowMS); c != nil && c.expires != never {
					c.expires = max(c.expires, expiryOf(expires))
					kept.cells = append(kept.cells, *c)
				}
			}
			if len(kept.cells) > 0 {
				rows = append(rows, kept)
			}
		}
		return it.Error()
	})
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for _, r := range rows {
		if err := mergeCells(b, len(r.key), func(dst []byte) []byte { return append(dst, r.key...) }, r.cells...); err != nil {
			return err
		}
	}
	lives := lifetimes{}
	lives.add(run.Bucket(), expires)
	if err := lives.merge(b); err != nil {
		return err
	}
	return s.commit(b)
}

// PutPart implements schema.OutputStore.
func (s outputStore) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	if err := s.putPart(ctx, run, kind, p, written, expires); err != nil {
		return fmt.Errorf("put part %d of attempt %d of %s: %w", p.Number, p.Attempt, run, err)
	}
	return nil
}

func (s outputStore) putPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	if len(p.Data) > maxRow {
		return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(p.Data))
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	c := cell{column: colValue, timestamp: written, expires: expiryOf(expires), data: p.Data}
	key := func(dst []byte) []byte { return appendPart(dst, run, kind, p.PartKey) }
	if err := mergeCells(b, outputSize, key, c); err != nil {
		return err
	}
	lives := lifetimes{}
	lives.add(run.Bucket(), expires)
	if err := lives.merge(b); err != nil {
		return err
	}
	return s.commit(b)
}

// Parts implements schema.OutputStore.
func (s outputStore) Parts(ctx context.Context, run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int) ([]schema.Part, error) {
	var parts []schema.Part
	prefix := appendParts(nil, run, kind)
	var from []byte
	if after != (schema.PartKey{}) {
		from = appendPart(nil, run, kind, after)[len(prefix):]
	}
	err := s.list(ctx, prefix, from, limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colValue, nowMS)
		if c != nil {
			parts = append(parts, schema.Part{PartKey: readPartKey(rest), Data: bytes.Clone(c.data)})
		}
		return c != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read parts of %s: %w", run, err)
	}
	return parts, nil
}

// LastPart implements schema.OutputStore.
func (s outputStore) LastPart(ctx context.Context, run schema.RunID, kind schema.PartKind, of schema.PartKey) (schema.Part, error) {
	last, err := s.lastPart(ctx, run, kind, of)
	if err != nil {
		return schema.Part{}, fmt.Errorf("read the last part of %s: %w", run, err)
	}
	return last, nil
}

func (s outputStore) lastPart(ctx context.Context, run schema.RunID, kind schema.PartKind, of schema.PartKey) (schema.Part, error) {
	if err := s.enter(ctx); err != nil {
		return schema.Part{}, err
	}
	defer s.leave()
	lower := appendExecution(nil, run, kind, of)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: prefixEnd(lower)})
	if err != nil {
		return schema.Part{}, unavailable(err)
	}
	nowMS := s.nowMS()
	last, found := schema.Part{}, false
	for ok := it.Last(); ok && !found && err == nil; ok = it.Prev() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var row cells
		if row, err = parseRow(value); err != nil {
			break
		}
		if c := row.at(colValue, nowMS); c != nil {
			last, found = schema.Part{PartKey: readPartKey(it.Key()[entrySize+1:]), Data: bytes.Clone(c.data)}, true
		}
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return schema.Part{}, unavailable(err)
	}
	if !found {
		return schema.Part{}, schema.ErrNotFound
	}
	return last, nil
}

package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// commit writes b. Its error is ErrUnknown: what reached the log may be there after a restart.
func (s *core) commit(b *pebble.Batch) error {
	write := func() error { return b.Commit(s.write) }
	if s.replicate != nil {
		write = func() error { return s.replicated(b) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("%w: %w", schema.ErrUnknown, err)
	}
	return nil
}

// mergeCells adds a write of the cells, given in column order, to b. key appends the row's key to
// the buffer that it is given.
func mergeCells(b *pebble.Batch, keySize int, key func([]byte) []byte, row ...cell) error {
	size := 0
	for i := range row {
		size += row[i].size()
	}
	op := b.MergeDeferred(keySize, size)
	key(op.Key[:0])
	value := op.Value[:0]
	for i := range row {
		value = appendCell(value, row[i])
	}
	return op.Finish()
}

// row reads the row at key and takes it apart. Its cells belong to the caller; an absent row has
// none.
func (s *core) row(key []byte) (cells, error) {
	value, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return cells{}, nil
	case err != nil:
		return cells{}, unavailable(err)
	}
	cs, err := parseRow(append([]byte(nil), value...))
	return cs, unavailable(errors.Join(err, closer.Close()))
}

// scan calls visit with the rows whose keys lie in [lower, upper), in order, until visit returns
// false. What visit is given is valid until it returns. A nil error means that the scan ended as
// asked.
func (s *core) scan(lower, upper []byte, visit func(key, row []byte) (bool, error)) error {
	return s.walk(lower, upper, false, visit)
}

// walk is scan, or with backwards the same from the last key to the first.
func (s *core) walk(lower, upper []byte, backwards bool, visit func(key, row []byte) (bool, error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return unavailable(err)
	}
	more := true
	for ok := first(it, backwards); ok && more && err == nil; ok = more && next(it, backwards) {
		var row []byte
		if row, err = it.ValueAndErr(); err == nil {
			more, err = visit(it.Key(), row)
		}
	}
	return unavailable(errors.Join(err, it.Close()))
}

// first places it at the first key, or with backwards at the last.
func first(it *pebble.Iterator, backwards bool) bool {
	if backwards {
		return it.Last()
	}
	return it.First()
}

// next moves it to the key after, or with backwards to the one before.
func next(it *pebble.Iterator, backwards bool) bool {
	if backwards {
		return it.Prev()
	}
	return it.Next()
}

// unavailable turns an error of a read into ErrUnavailable.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", schema.ErrUnavailable, err)
}

// closeQuietly gives b back. Closing a batch that was committed or given up cannot fail.
func closeQuietly(b *pebble.Batch) { _ = b.Close() }

// value returns the value cell of the row at key, or ErrNotFound.
func (s *core) value(ctx context.Context, key []byte) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	row, err := s.row(key)
	if err != nil {
		return nil, err
	}
	c := row.at(colValue, s.nowMS())
	if c == nil {
		return nil, schema.ErrNotFound
	}
	return c.data, nil
}

// rowWrite is what is to be written of a row: cells, which all have one expiry.
type rowWrite struct {
	key   []byte
	cells []cell
}

// putRows writes the rows as one batch. Each leaves by itself when it has expired.
func (s *core) putRows(ctx context.Context, rows ...rowWrite) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	keys := make([][]byte, len(rows))
	for i := range rows {
		keys[i] = rows[i].key
	}
	defer s.share(keys...)() // Expire must not remove what it did not see
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for _, row := range rows {
		var value []byte
		for _, c := range row.cells {
			value = appendCell(value, c)
		}
		if err := b.Merge(row.key, value, nil); err != nil {
			return err
		}
		if expiry := row.cells[0].expires; expiry != never {
			if err := b.Set(rowExpiryKey(expiry, row.key), nil, nil); err != nil {
				return err
			}
		}
	}
	return s.commit(b)
}

// appendRows writes rows of the audit log or of counts, each of one cell, as one batch. They leave
// with their day or hour (expireByTime), so nothing notes their expiry.
func (s *core) appendRows(ctx context.Context, rows ...rowWrite) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for i := range rows {
		c := rows[i].cells[0]
		if len(c.data) > maxRow {
			return fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, len(c.data))
		}
		if err := b.Merge(rows[i].key, appendCell(nil, c), nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// setRow replaces the row at key by one value that leaves at expires. The caller holds the row's
// lock.
func (s *core) setRow(key, data []byte, expires time.Time) error {
	b := s.db.NewBatch()
	defer closeQuietly(b)
	expiry := expiryOf(expires)
	if err := b.Set(key, appendCell(nil, cell{column: colValue, expires: expiry, data: data}), nil); err != nil {
		return err
	}
	if expiry != never {
		if err := b.Set(rowExpiryKey(expiry, key), nil, nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

// rowExpiryKey is the key under which Expire finds the row at key once it has expired.
func rowExpiryKey(expiry int64, key []byte) []byte {
	return append(appendInt([]byte{byte(tableRowExpiry)}, expiry), key...)
}

// list calls visit with the rows whose keys are prefix and a rest that comes after `after` (nil:
// all), in order, until visit has kept limit of them. visit is given the rest and the row, which
// are valid until it returns.
func (s *core) list(ctx context.Context, prefix, after []byte, limit int, visit func(rest []byte, row *cells, nowMS int64) (keep bool, err error)) error {
	lower := prefix
	if after != nil {
		lower = slices.Concat(prefix, after, []byte{0}) // the first key after it
	}
	return s.listWithin(ctx, len(prefix), lower, prefixEnd(prefix), limit, visit)
}

// listWithin is list for the keys in [lower, upper), which all begin with a prefix of that size.
// There are none if lower is not below upper.
func (s *core) listWithin(
	ctx context.Context, prefix int, lower, upper []byte, limit int, visit func(rest []byte, row *cells, nowMS int64) (keep bool, err error),
) error {
	return s.listEitherWay(ctx, prefix, lower, upper, false, limit, visit)
}

// listBack is list from the last key to the first: of the rests that come before `before` (nil:
// all).
func (s *core) listBack(ctx context.Context, prefix, before []byte, limit int, visit func(rest []byte, row *cells, nowMS int64) (keep bool, err error)) error {
	upper := prefixEnd(prefix)
	if before != nil {
		upper = slices.Concat(prefix, before)
	}
	return s.listEitherWay(ctx, len(prefix), prefix, upper, true, limit, visit)
}

// listEitherWay is listWithin, or with backwards the same from the last key to the first.
func (s *core) listEitherWay(
	ctx context.Context, prefix int, lower, upper []byte, backwards bool, limit int, visit func(rest []byte, row *cells, nowMS int64) (keep bool, err error),
) error {
	if limit <= 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if upper != nil && bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	nowMS := s.nowMS()
	return s.walk(lower, upper, backwards, func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		keep, err := visit(key[prefix:], &row, nowMS)
		if keep {
			limit--
		}
		return limit > 0, err
	})
}

// seekEach places an iterator over p's rows of t at the first key at or after each of the ids, in
// id order, each id once. It calls found where there is such a key.
func (s *core) seekEach(
	ctx context.Context, t table, p schema.Partition, ids []schema.EntryID,
	found func(it *pebble.Iterator, id schema.EntryID, nowMS int64) error,
) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	sorted := slices.Compact(slices.SortedFunc(slices.Values(ids), schema.EntryID.Compare))
	lower, upper := idBounds(t, p, schema.IDRange{})
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return unavailable(err)
	}
	nowMS := s.nowMS()
	key := slices.Clone(lower)
	for _, id := range sorted {
		key = append(key[:len(lower)], id[:]...)
		if !it.SeekGE(key) {
			break // past the last row, or an error, which Close tells
		}
		if err = found(it, id, nowMS); err != nil {
			break
		}
	}
	return unavailable(errors.Join(err, it.Close()))
}

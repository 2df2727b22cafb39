package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// CancelRun implements schema.MarkStore.
func (s markStore) CancelRun(
	ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time,
) (schema.Marks, error) {
	marks, err := s.mark(ctx, id, asRead, expires, func(marks *schema.Marks) (cell, error) {
		data, err := json.Marshal(mark)
		marks.Cancelled = &mark
		return cell{column: colCancelled, data: data}, err
	})
	if err != nil {
		return marks, fmt.Errorf("cancel %s: %w", id, err)
	}
	return marks, nil
}

// MoveRun implements schema.MarkStore.
func (s markStore) MoveRun(
	ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time,
) (schema.Marks, error) {
	marks, err := s.mark(ctx, id, asRead, expires, func(marks *schema.Marks) (cell, error) {
		marks.MovedTo = to
		return cell{column: colMovedTo, data: to[:]}, nil
	})
	if err != nil {
		return marks, fmt.Errorf("move %s to %s: %w", id, to, err)
	}
	return marks, nil
}

// mark writes the cell that set returns, if the row of id exists, is not cancelled, and is moved to
// asRead. It returns the marks as they are then.
func (s markStore) mark(
	ctx context.Context, id schema.RunID, asRead schema.EntryID, expires time.Time,
	set func(*schema.Marks) (cell, error),
) (schema.Marks, error) {
	if err := s.enter(ctx); err != nil {
		return schema.Marks{}, err
	}
	defer s.leave()
	key := appendEntry(make([]byte, 0, entrySize), tableRuns, id)
	defer s.lock(key)()
	now := s.now()
	row, marks, err := s.marks(key, now.UnixMilli())
	switch {
	case err != nil:
		return marks, err
	case marks.Cancelled != nil || marks.MovedTo != asRead:
		return marks, schema.ErrConflict
	}
	c, err := set(&marks)
	if err != nil {
		return schema.Marks{}, err
	}
	c.expires = expiryOf(expires)
	// later than the one that stands, whatever the clock says
	c.timestamp = max(now.UnixMicro(), row[c.column-1].timestamp+1)
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := mergeCells(b, len(key), func(dst []byte) []byte { return append(dst, key...) }, c); err != nil {
		return schema.Marks{}, err
	}
	lives := lifetimes{}
	lives.add(id.Bucket(), expires)
	if err := lives.merge(b); err != nil {
		return schema.Marks{}, err
	}
	return marks, s.commit(b)
}

// Marks implements schema.MarkStore.
func (s markStore) Marks(ctx context.Context, id schema.RunID) (schema.Marks, error) {
	if err := s.enter(ctx); err != nil {
		return schema.Marks{}, fmt.Errorf("read marks of %s: %w", id, err)
	}
	defer s.leave()
	key := appendEntry(make([]byte, 0, entrySize), tableRuns, id)
	_, marks, err := s.marks(key, s.nowMS())
	if err != nil {
		return schema.Marks{}, fmt.Errorf("read marks of %s: %w", id, err)
	}
	return marks, nil
}

// marks reads the row of a run, or ErrNotFound where it has no text.
func (s markStore) marks(key []byte, nowMS int64) (cells, schema.Marks, error) {
	row, err := s.row(key)
	if err != nil {
		return row, schema.Marks{}, err
	}
	if row.at(colText, nowMS) == nil {
		return row, schema.Marks{}, schema.ErrNotFound
	}
	marks, err := marksOf(&row, nowMS)
	return row, marks, err
}

// marksOf returns the marks that a row of runs holds.
func marksOf(row *cells, nowMS int64) (marks schema.Marks, err error) {
	if c := row.at(colCancelled, nowMS); c != nil {
		// a mark that cannot be understood cancels too
		mark, _ := schema.Decode[schema.Cancel](c.data, "cancel mark")
		marks.Cancelled = &mark
	}
	if c := row.at(colMovedTo, nowMS); c != nil {
		if copy(marks.MovedTo[:], c.data) != len(marks.MovedTo) {
			return schema.Marks{}, unavailable(fmt.Errorf("%w: moved to %d bytes", errCorrupt, len(c.data)))
		}
	}
	return marks, nil
}

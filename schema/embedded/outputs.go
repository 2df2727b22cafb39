package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

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

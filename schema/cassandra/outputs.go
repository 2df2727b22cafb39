package cassandra

import (
	"context"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// PutPart implements schema.OutputStore.
func (s outputStore) PutPart(ctx context.Context, run schema.RunID, kind schema.PartKind, p schema.Part, written int64, expires time.Time) error {
	var err error
	if len(p.Data) > maxRowBytes {
		err = fmt.Errorf("%d bytes: %w", len(p.Data), schema.ErrTooLarge)
	} else {
		at := run.Partition()
		err = s.write(ctx, insertPart, int64(at.Bucket), int(at.Shard), uuid(run), int8(kind), p.Attempt, int64(p.Fence), p.Number, p.Data, written, s.ttl(expires))
	}
	if err != nil {
		return fmt.Errorf("put part %d of attempt %d of %s: %w", p.Number, p.Attempt, run, err)
	}
	return nil
}

// Parts implements schema.OutputStore.
func (s outputStore) Parts(ctx context.Context, run schema.RunID, kind schema.PartKind, after schema.PartKey, limit int) ([]schema.Part, error) {
	if limit <= 0 {
		return nil, nil
	}
	p := run.Partition()
	bound := []any{int64(p.Bucket), int(p.Shard), uuid(run), int8(kind), after.Attempt, int64(after.Fence), after.Number}
	parts, err := readPages(ctx, s.core, selectParts, &s.outputRows, limit, bound, scanPart)
	if err != nil {
		return nil, fmt.Errorf("read parts of %s: %w", run, err)
	}
	return parts, nil
}

// LastPart implements schema.OutputStore.
func (s outputStore) LastPart(ctx context.Context, run schema.RunID, kind schema.PartKind, of schema.PartKey) (schema.Part, error) {
	p := run.Partition()
	bound := []any{int64(p.Bucket), int(p.Shard), uuid(run), int8(kind), of.Attempt, int64(of.Fence)}
	parts, err := readPages(ctx, s.core, selectLastPart, &s.outputRows, 1, bound, scanPart)
	if err == nil && len(parts) == 0 {
		err = schema.ErrNotFound
	}
	if err != nil {
		return schema.Part{}, fmt.Errorf("read the last part of %s: %w", run, err)
	}
	return parts[0], nil
}

func scanPart(iter *gocql.Iter) (v schema.Part, size int, keep, more bool) {
	var fence int64
	more = iter.Scan(&v.Attempt, &fence, &v.Number, &v.Data)
	v.Fence = schema.Fence(fence)
	return v, len(v.Data) + 64, true, more
}

package cassandra

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// PutAttempts implements schema.AttemptStore. Batches over the bounds are split.
func (s attemptStore) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
	lines := make([]line, 0, len(attempts))
	for i := range attempts {
		l, err := s.attemptLine(&attempts[i])
		if err != nil {
			return fmt.Errorf("put attempt %d of %s: %w", attempts[i].Number, attempts[i].Run, err)
		}
		if l.args != nil {
			lines = append(lines, l)
		}
	}
	if err := s.writeBatches(ctx, insertAttempt, lines); err != nil {
		return fmt.Errorf("put %d attempts: %w", len(attempts), err)
	}
	return nil
}

// attemptLine returns what is to be written of a: nothing if both cells are to be left as they are.
func (s attemptStore) attemptLine(a *schema.Attempt) (line, error) {
	if a.Record == nil && a.Session == nil {
		return line{}, nil
	}
	var record, session []byte
	var err error
	if a.Record != nil {
		if record, err = schema.EncodeRecord(a.Record); err != nil {
			return line{}, err
		}
	}
	if a.Session != nil {
		if session, err = schema.EncodeSessionRef(a.Session); err != nil {
			return line{}, err
		}
	}
	size := len(record) + len(session) + 64
	if size > maxRowBytes {
		return line{}, fmt.Errorf("%d bytes: %w", size, schema.ErrTooLarge)
	}
	p := a.Run.Partition()
	return line{
		args: []any{
			int64(p.Bucket), int(p.Shard), uuid(a.Run), a.Number, int64(a.Fence),
			cell(record), cell(session), a.Written, s.ttl(a.Expires),
		},
		bytes: size,
	}, nil
}

// Attempts implements schema.AttemptStore. Written is the later one of an attempt's two cells.
func (s attemptStore) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) ([]schema.Attempt, error) {
	if err := within(p, runs); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	if len(runs) == 0 {
		return nil, nil
	}
	args := []any{int64(p.Bucket), int(p.Shard), uuids(runs)}
	attempts, err := readPages(ctx, s.core, selectAttempts, &s.attemptRows, math.MaxInt, args, s.scanAttempt)
	if err != nil {
		return nil, fmt.Errorf("read attempts of %d runs of %s: %w", len(runs), p, err)
	}
	return attempts, nil
}

// attemptCells is a row of attempts as it is stored. A cell is nil if it is not there.
type attemptCells struct {
	run                           gocql.UUID
	number                        int
	fence                         int64
	record, session               []byte
	recordWritten, sessionWritten int64 // 0 where there is no cell
}

// scan reads the next row, and reports whether there was one.
func (c *attemptCells) scan(iter *gocql.Iter) bool {
	if !iter.Scan(&c.run, &c.number, &c.fence, &c.record, &c.session, &c.recordWritten, &c.sessionWritten) {
		return false
	}
	// The driver does not tell an empty cell from none. An attempt that had a record has not gone.
	c.record, c.session = held(c.record, c.recordWritten), held(c.session, c.sessionWritten)
	return true
}

func (c *attemptCells) size() int { return len(c.record) + len(c.session) + 64 }

func (c *attemptCells) attempt() schema.Attempt {
	return schema.LoadAttempt(schema.RunID(c.run), c.number, schema.Fence(c.fence), c.record, c.session, max(c.recordWritten, c.sessionWritten))
}

// scanAttempt takes a row of selectAttempts. A row of which all cells have left does not count.
func (s attemptStore) scanAttempt(iter *gocql.Iter) (a schema.Attempt, size int, keep, more bool) {
	var c attemptCells
	if !c.scan(iter) {
		return a, 0, false, false
	}
	a = c.attempt()
	if a.Fault != nil {
		_ = s.damage.Found("attempts", a.Run.String(), a.Fault)
	}
	return a, c.size(), !a.Empty(), true
}

// held returns the cell that was written at that time, in µs: never nil, unless nothing was.
func held(cell []byte, written int64) []byte {
	if cell == nil && written != 0 {
		return []byte{}
	}
	return cell
}

// KeepAttempts implements schema.AttemptStore.
func (s attemptStore) KeepAttempts(ctx context.Context, run schema.RunID, expires time.Time, which func(*schema.Attempt) bool) error {
	p, ttl := run.Partition(), s.ttl(expires)
	args := []any{int64(p.Bucket), int(p.Shard), []gocql.UUID{uuid(run)}}
	rows, err := readPages(ctx, s.core, selectAttempts, &s.attemptRows, math.MaxInt, args,
		func(iter *gocql.Iter) (cells attemptCells, size int, keep, more bool) {
			if !cells.scan(iter) {
				return cells, 0, false, false
			}
			size = cells.size()
			a := cells.attempt()
			return cells, size, !a.Empty() && (a.Fault != nil || which(&a)), true
		})
	if err != nil {
		return fmt.Errorf("keep attempts of %s: %w", run, err)
	}
	var lines []line
	for i := range rows {
		c := &rows[i]
		put := func(record, session any, written int64) {
			lines = append(lines, line{
				args:  []any{int64(p.Bucket), int(p.Shard), uuid(run), c.number, c.fence, record, session, written, ttl},
				bytes: c.size(),
			})
		}
		if c.record != nil {
			put(c.record, gocql.UnsetValue, c.recordWritten)
		}
		if c.session != nil {
			put(gocql.UnsetValue, c.session, c.sessionWritten)
		}
	}
	if err := s.writeBatches(ctx, insertAttempt, lines); err != nil {
		return fmt.Errorf("keep %d attempts of %s: %w", len(rows), run, err)
	}
	return nil
}

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

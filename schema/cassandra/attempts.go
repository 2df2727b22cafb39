package cassandra

import (
	"context"
	"fmt"
	"math"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// PutAttempts implements schema.AttemptStore. Batches over the bounds are split.
func (s *Store) PutAttempts(ctx context.Context, attempts []schema.Attempt) error {
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
func (s *Store) attemptLine(a *schema.Attempt) (line, error) {
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
func (s *Store) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) ([]schema.Attempt, error) {
	if err := within(p, runs); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	if len(runs) == 0 {
		return nil, nil
	}
	args := []any{int64(p.Bucket), int(p.Shard), uuids(runs)}
	attempts, err := readPages(ctx, s, selectAttempts, &s.attemptRows, math.MaxInt, args, s.scanAttempt)
	if err != nil {
		return nil, fmt.Errorf("read attempts of %d runs of %s: %w", len(runs), p, err)
	}
	return attempts, nil
}

// scanAttempt takes a row of selectAttempts. A row of which all cells have left does not count.
func (s *Store) scanAttempt(iter *gocql.Iter) (a schema.Attempt, size int, keep, more bool) {
	var run gocql.UUID
	var number int
	var fence int64
	var record, session []byte
	var recordWritten, sessionWritten int64 // 0 where there is no cell
	if !iter.Scan(&run, &number, &fence, &record, &session, &recordWritten, &sessionWritten) {
		return a, 0, false, false
	}
	// The driver does not tell an empty cell from none. An attempt that had a record has not gone.
	record, session = held(record, recordWritten), held(session, sessionWritten)
	a = schema.LoadAttempt(schema.RunID(run), number, schema.Fence(fence), record, session, max(recordWritten, sessionWritten))
	if a.Fault != nil {
		_ = s.damage.Found("attempts", a.Run.String(), a.Fault)
	}
	return a, len(record) + len(session) + 64, !a.Empty(), true
}

// held returns the cell that was written at that time, in µs: never nil, unless nothing was.
func held(cell []byte, written int64) []byte {
	if cell == nil && written != 0 {
		return []byte{}
	}
	return cell
}

package cassandra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// CancelRun implements schema.MarkStore.
func (s markStore) CancelRun(ctx context.Context, id schema.RunID, asRead schema.EntryID, mark schema.Cancel, expires time.Time) (schema.Marks, error) {
	text, err := json.Marshal(mark)
	if err != nil {
		return schema.Marks{}, fmt.Errorf("encode cancel mark: %w", err)
	}
	wanted := schema.Marks{Cancelled: &mark, MovedTo: asRead}
	m, err := s.mark(ctx, cancelRun, id, text, asRead, expires, wanted, func(m schema.Marks) bool {
		now, err := json.Marshal(m.Cancelled)
		return err == nil && m.MovedTo == asRead && bytes.Equal(now, text)
	})
	if err != nil {
		return m, fmt.Errorf("cancel %s: %w", id, err)
	}
	return m, nil
}

// MoveRun implements schema.MarkStore.
func (s markStore) MoveRun(ctx context.Context, id schema.RunID, asRead, to schema.EntryID, expires time.Time) (schema.Marks, error) {
	if to.IsZero() {
		return schema.Marks{}, fmt.Errorf("move %s: to no entry", id)
	}
	wanted := schema.Marks{MovedTo: to}
	m, err := s.mark(ctx, moveRun, id, uuid(to), asRead, expires, wanted, func(m schema.Marks) bool {
		// Cancelled later, a run keeps the entry it had moved to: that too says that this was
		// written.
		return m.MovedTo == to && to != asRead
	})
	if err != nil {
		return m, fmt.Errorf("move %s to %s: %w", id, to, err)
	}
	return m, nil
}

// mark writes one mark. written says, of marks read later, whether this very write was done.
func (s markStore) mark(ctx context.Context, st statement, id schema.RunID, value any, asRead schema.EntryID, expires time.Time,
	wanted schema.Marks, written func(schema.Marks) bool,
) (schema.Marks, error) {
	p := id.Partition()
	row := make(map[string]any)
	applied, err := s.swap(ctx, st, row, s.ttl(expires), value, int64(p.Bucket), int(p.Shard), uuid(id), uuidOrNil(asRead))
	switch {
	case errors.Is(err, schema.ErrUnknown):
		return s.settleMark(ctx, id, asRead, written, err)
	case err != nil:
		return schema.Marks{}, err
	case applied:
		return wanted, nil
	}
	if text, ok := row["spec"].(string); !ok || text == "" {
		return schema.Marks{}, schema.ErrNotFound
	}
	cancelled, _ := row["cancelled"].(string)
	moved, _ := row["moved_to"].(gocql.UUID)
	return s.loadMarks(id, []byte(cancelled), moved), schema.ErrConflict
}

// settleMark decides a mark of unknown outcome by reading the marks.
func (s markStore) settleMark(ctx context.Context, id schema.RunID, asRead schema.EntryID, written func(schema.Marks) bool, unknown error) (schema.Marks, error) {
	now, err := s.Marks(ctx, id)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return schema.Marks{}, schema.ErrNotFound // without a row its condition does not hold
	case err != nil:
		return schema.Marks{}, readAgain(unknown, err)
	case written(now):
		return now, nil
	case now.Cancelled == nil && now.MovedTo == asRead:
		return schema.Marks{}, unknown // its condition still holds: it may yet be done
	}
	return now, schema.ErrConflict
}

// Marks implements schema.MarkStore.
func (s markStore) Marks(ctx context.Context, id schema.RunID) (schema.Marks, error) {
	p := id.Partition()
	var written *int64
	var cancelled []byte
	var moved gocql.UUID
	err := s.oneSerial(ctx, selectMarks, []any{int64(p.Bucket), int(p.Shard), uuid(id)}, &written, &cancelled, &moved)
	if err == nil && written == nil {
		err = schema.ErrNotFound // marks alone: the entry has left
	}
	if err != nil {
		return schema.Marks{}, fmt.Errorf("read marks of %s: %w", id, err)
	}
	return s.loadMarks(id, cancelled, moved), nil
}

// loadMarks makes the marks of a run of their cells. A cancel mark that cannot be understood
// cancels too.
func (s *core) loadMarks(id schema.RunID, cancelled []byte, moved gocql.UUID) schema.Marks {
	m := schema.Marks{MovedTo: schema.EntryID(moved)}
	if len(cancelled) == 0 {
		return m
	}
	mark, err := schema.Decode[schema.Cancel](cancelled, "cancel mark")
	_ = s.damage.Found("runs", id.String(), err)
	m.Cancelled = &mark
	return m
}

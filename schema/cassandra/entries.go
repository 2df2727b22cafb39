package cassandra

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// lowestID and highestID lie before and after every id: the version nibble, which Cassandra
// compares first, is 0 and 15.
var (
	lowestID  = gocql.UUID{}
	highestID = gocql.UUID{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	}
)

// PutEntries implements schema.EntryWriter. Batches over the bounds are split.
func (s entryStore) PutEntries(ctx context.Context, entries []schema.Entry) error {
	rows, payloads, err := s.entryLines(entries)
	if err != nil {
		return err
	}
	if err := s.writeBatches(ctx, insertPayload, payloads); err != nil {
		return fmt.Errorf("put %d payloads: %w", len(payloads), err)
	}
	if err := s.writeBatches(ctx, insertEntry, rows); err != nil {
		return fmt.Errorf("put %d entries: %w", len(rows), err)
	}
	return nil
}

// entryLines returns what is to be written to runs and to payloads.
func (s entryStore) entryLines(entries []schema.Entry) (rows, payloads []line, err error) {
	rows = make([]line, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		if size := e.Size(); size > maxRowBytes {
			return nil, nil, fmt.Errorf("put entry %s of %d bytes: %w", e.ID, size, schema.ErrTooLarge)
		}
		if len(e.Text()) == 0 {
			return nil, nil, fmt.Errorf("put entry %s: %w", e.ID, errNoText)
		}
		ttl := s.ttl(e.Expires)
		inline := e.Payload
		if schema.ClearSize(inline) > schema.InlinePayload {
			at, ok := e.LargePayload()
			if !ok {
				return nil, nil, fmt.Errorf("put entry %s: %w", e.ID, errStrayPayload)
			}
			p := at.Partition()
			payloads = append(payloads, line{
				args:  []any{int64(p.Bucket), int(p.Shard), uuid(at), inline, e.Spec.Accepted, ttl},
				bytes: len(inline) + 64,
			})
			inline = nil
		}
		p := e.ID.Partition()
		rows = append(rows, line{
			args:  []any{int64(p.Bucket), int(p.Shard), uuid(e.ID), e.Text(), cell(inline), e.Spec.Accepted, ttl},
			bytes: len(e.Text()) + len(inline) + 64,
		})
	}
	return rows, payloads, nil
}

// Entries implements schema.EntryReader.
func (s entryStore) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	args := slice(p, r)
	entries, err := readPages(ctx, s.core, selectEntries, &s.entryRows, limit, args, s.scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read entries of %s: %w", p, err)
	}
	return entries, nil
}

// EntryIDs implements schema.EntryReader.
func (s entryStore) EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error) {
	ids, err := readPages(ctx, s.core, selectEntryIDs, &s.idRows, limit, slice(p, r),
		func(iter *gocql.Iter) (schema.EntryID, int, bool, bool) {
			var id gocql.UUID
			var written *int64
			more := iter.Scan(&id, &written)
			return schema.EntryID(id), 48, written != nil, more
		})
	if err != nil {
		return nil, fmt.Errorf("read entry ids of %s: %w", p, err)
	}
	return ids, nil
}

// EntriesByID implements schema.EntryReader.
func (s entryStore) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	if err := within(p, ids); err != nil {
		return nil, fmt.Errorf("read entries by id: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	args := []any{int64(p.Bucket), int(p.Shard), uuids(ids)}
	entries, err := readPages(ctx, s.core, selectEntriesByID, &s.entryRows, len(ids), args, s.scanEntry)
	if err != nil {
		return nil, fmt.Errorf("read %d entries of %s by id: %w", len(ids), p, err)
	}
	return entries, nil
}

// Payload implements schema.EntryReader.
func (s entryStore) Payload(ctx context.Context, id schema.EntryID) ([]byte, error) {
	p := id.Partition()
	var payload []byte
	if err := s.one(ctx, selectPayload, []any{int64(p.Bucket), int(p.Shard), uuid(id)}, &payload); err != nil {
		return nil, fmt.Errorf("read payload %s: %w", id, err)
	}
	return payload, nil
}

// scanEntry takes a row of selectEntries or selectEntriesByID. Rows without a spec do not count.
func (s entryStore) scanEntry(iter *gocql.Iter) (e schema.Entry, bytes int, keep, more bool) {
	var id, moved gocql.UUID
	var spec, payload, cancelled []byte
	if !iter.Scan(&id, &spec, &payload, &cancelled, &moved) {
		return schema.Entry{}, 0, false, false
	}
	bytes = len(spec) + len(payload) + len(cancelled) + 64
	if spec == nil {
		return schema.Entry{}, bytes, false, true
	}
	e = schema.LoadEntry(schema.EntryID(id), spec, payload, s.loadMarks(schema.EntryID(id), cancelled, moved))
	if e.Fault != nil {
		_ = s.damage.Found("runs", e.ID.String(), e.Fault)
	}
	return e, bytes, true, true
}

// slice returns the values of a read of r in p.
func slice(p schema.Partition, r schema.IDRange) []any {
	after, before := lowestID, highestID
	if !r.After.IsZero() {
		after = uuid(r.After)
	}
	if !r.Before.IsZero() {
		before = uuid(r.Before)
	}
	return []any{int64(p.Bucket), int(p.Shard), after, before}
}

// Faults of the caller.
var (
	errManyIDs      = fmt.Errorf("more than %d ids", maxIDsPerRead)
	errElsewhere    = errors.New("not in the partition")
	errNoText       = errors.New("entry without text")
	errStrayPayload = errors.New("payload over the inline bound, of which the spec does not know")
)

// within tells whether all ids lie in p and are not too many.
func within(p schema.Partition, ids []schema.EntryID) error {
	if len(ids) > maxIDsPerRead {
		return fmt.Errorf("%d: %w", len(ids), errManyIDs)
	}
	for _, id := range ids {
		if id.Partition() != p {
			return fmt.Errorf("%s, partition %s: %w", id, p, errElsewhere)
		}
	}
	return nil
}

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
	row, key := make(map[string]any), rowKey{int64(p.Bucket), int(p.Shard), []gocql.UUID{uuid(id)}}
	applied, err := s.swap(ctx, st, key, row, s.ttl(expires), value, int64(p.Bucket), int(p.Shard), uuid(id), uuidOrNil(asRead))
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

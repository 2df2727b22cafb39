package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

// errNoText refuses an entry that was not made with schema.NewEntry or schema.LoadEntry.
var errNoText = errors.New("entry without text")

// PutEntries implements schema.EntryWriter: one batch, all of it or nothing.
func (s entryStore) PutEntries(ctx context.Context, entries []schema.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := s.putEntries(ctx, entries); err != nil {
		return fmt.Errorf("put %d entries: %w", len(entries), err)
	}
	return nil
}

func (s entryStore) putEntries(ctx context.Context, entries []schema.Entry) error {
	size := 0
	for i := range entries {
		e := &entries[i]
		switch {
		case len(e.Text()) == 0:
			return fmt.Errorf("%w: %s", errNoText, e.ID)
		case len(e.Text())+len(e.Payload) > maxRow:
			return fmt.Errorf("%w: %s has %d bytes", schema.ErrTooLarge, e.ID, len(e.Text())+len(e.Payload))
		}
		size += e.Size()
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatchWithSize(size + 128*len(entries))
	defer closeQuietly(b)
	lives := lifetimes{}
	for i := range entries {
		e := &entries[i]
		if err := mergeEntry(b, e); err != nil {
			return err
		}
		lives.add(e.ID.Bucket(), e.Expires)
		if schema.ClearSize(e.Payload) > schema.InlinePayload {
			lives.add(payloadAt(e).Bucket(), e.Expires)
		}
	}
	if err := lives.merge(b); err != nil {
		return err
	}
	return s.commit(b)
}

// mergeEntry adds the cells of e to b.
func mergeEntry(b *pebble.Batch, e *schema.Entry) error {
	text := cell{column: colText, timestamp: e.Spec.Accepted, expires: expiryOf(e.Expires), data: e.Text()}
	payload := text
	payload.column, payload.data = colPayload, e.Payload
	key := func(dst []byte) []byte { return appendEntry(dst, tableRuns, e.ID) }
	switch {
	case len(e.Payload) == 0:
		return mergeCells(b, entrySize, key, text)
	case schema.ClearSize(e.Payload) <= schema.InlinePayload:
		return mergeCells(b, entrySize, key, text, payload)
	}
	if err := mergeCells(b, entrySize, key, text); err != nil {
		return err
	}
	payload.column = colValue
	key = func(dst []byte) []byte { return appendEntry(dst, tablePayloads, payloadAt(e)) }
	return mergeCells(b, entrySize, key, payload)
}

// payloadAt is the id under which payloads keeps a large payload of e.
func payloadAt(e *schema.Entry) schema.EntryID {
	if e.Spec.PayloadAt.IsZero() {
		return e.ID
	}
	return e.Spec.PayloadAt
}

// Entries implements schema.EntryReader.
func (s entryStore) Entries(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.Entry, error) {
	var entries []schema.Entry
	err := s.scanEntries(ctx, p, r, limit, func(id schema.EntryID, row *cells, nowMS int64) error {
		e, err := s.loadEntry(id, row, nowMS)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read entries of %s: %w", p, err)
	}
	return entries, nil
}

// EntryIDs implements schema.EntryReader.
func (s entryStore) EntryIDs(ctx context.Context, p schema.Partition, r schema.IDRange, limit int) ([]schema.EntryID, error) {
	var ids []schema.EntryID
	err := s.scanEntries(ctx, p, r, limit, func(id schema.EntryID, _ *cells, _ int64) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ids of %s: %w", p, err)
	}
	return ids, nil
}

// scanEntries calls found with the first limit rows of p in r that have a text.
func (s entryStore) scanEntries(
	ctx context.Context, p schema.Partition, r schema.IDRange, limit int,
	found func(id schema.EntryID, row *cells, nowMS int64) error,
) error {
	if limit <= 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	lower, upper := idBounds(tableRuns, p, r)
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	nowMS := s.nowMS()
	return s.scan(lower, upper, func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil || row.at(colText, nowMS) == nil {
			return true, err
		}
		limit--
		return limit > 0, found(schema.EntryID(key[partitionSize:]), &row, nowMS)
	})
}

// loadEntry makes an entry of a row that has a text. It copies what it keeps.
func (s entryStore) loadEntry(id schema.EntryID, row *cells, nowMS int64) (schema.Entry, error) {
	text, payload := row.at(colText, nowMS).data, []byte(nil)
	if c := row.at(colPayload, nowMS); c != nil {
		payload = c.data
	}
	marks, err := marksOf(row, nowMS)
	if err != nil {
		return schema.Entry{}, err
	}
	kept := append(append(make([]byte, 0, len(text)+len(payload)), text...), payload...)
	text = kept[:len(text):len(text)]
	if payload != nil {
		payload = kept[len(text):]
	}
	e := schema.LoadEntry(id, text, payload, marks)
	if e.Fault != nil {
		_ = s.damage.Found("runs", id.String(), e.Fault)
	}
	return e, nil
}

// EntriesByID implements schema.EntryReader.
func (s entryStore) EntriesByID(ctx context.Context, p schema.Partition, ids []schema.EntryID) ([]schema.Entry, error) {
	var entries []schema.Entry
	err := s.seekEach(ctx, tableRuns, p, ids, func(it *pebble.Iterator, id schema.EntryID, nowMS int64) error {
		key := it.Key()
		if schema.EntryID(key[partitionSize:]) != id {
			return nil
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		row, err := parseRow(value)
		if err != nil || row.at(colText, nowMS) == nil {
			return err
		}
		e, err := s.loadEntry(id, &row, nowMS)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %d entries of %s: %w", len(ids), p, err)
	}
	return entries, nil
}

// Payload implements schema.EntryReader.
func (s entryStore) Payload(ctx context.Context, id schema.EntryID) ([]byte, error) {
	value, err := s.value(ctx, appendEntry(make([]byte, 0, entrySize), tablePayloads, id))
	if err != nil {
		return nil, fmt.Errorf("read payload of %s: %w", id, err)
	}
	return value, nil
}

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

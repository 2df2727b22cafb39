package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// tableDead holds the dead letters. It is stored: never rename it.
const tableDead table = 'D' // day tenant, run from the newest

// The columns of a dead letter besides colText and colPayload. They are stored: never renumber them.
const (
	colLast column = 3
	colFate column = 4
)

// deadPrefix is how the keys of a tenant's day begin.
func deadPrefix(tenant string, day int) []byte {
	key := appendInt([]byte{byte(tableDead)}, int64(day))
	return append(binary.BigEndian.AppendUint32(key, uint32(len(tenant))), tenant...) // #nosec G115 -- a name
}

func deadKey(tenant string, run schema.RunID) []byte {
	return appendListed(deadPrefix(tenant, schema.DeadLetterDay(run)), run)
}

// PutDeadLetters implements schema.DeadLetterStore: one batch, all of it or nothing.
func (s *Store) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	rows := make([]leavingRow, len(letters))
	for i := range letters {
		var err error
		if rows[i], err = deadRowOf(&letters[i]); err != nil {
			return fmt.Errorf("put dead letter of %s: %w", letters[i].Run, err)
		}
	}
	if err := s.putRows(ctx, rows...); err != nil {
		return fmt.Errorf("put %d dead letters: %w", len(letters), err)
	}
	return nil
}

// leavingRow is what is to be written of a row that has an expiry of its own: cells of one expiry.
type leavingRow struct {
	key   []byte
	cells []cell
}

func deadRowOf(l *schema.DeadLetter) (leavingRow, error) {
	last, err := l.EncodeLast()
	if err != nil {
		return leavingRow{}, err
	}
	text, payload := l.Entry.Text(), l.Entry.Payload
	switch size := len(text) + len(payload) + len(last); {
	case len(text) == 0:
		return leavingRow{}, errNoText
	case size > maxRow:
		return leavingRow{}, fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, size)
	}
	c := cell{column: colText, timestamp: l.Written, expires: expiryOf(l.Expires), data: text}
	row := leavingRow{key: deadKey(l.Tenant, l.Run), cells: []cell{c}}
	if c.column, c.data = colPayload, payload; len(payload) > 0 {
		row.cells = append(row.cells, c)
	}
	c.column, c.data = colLast, last
	row.cells = append(row.cells, c)
	return row, nil
}

// PutResolution implements schema.DeadLetterStore.
func (s *Store) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	text, err := schema.EncodeResolution(&f)
	if err == nil {
		c := cell{column: colFate, timestamp: f.At.UnixMicro(), expires: expiryOf(expires), data: text}
		err = s.putRows(ctx, leavingRow{key: deadKey(tenant, run), cells: []cell{c}})
	}
	if err != nil {
		return fmt.Errorf("put fate of dead letter %s: %w", run, err)
	}
	return nil
}

// putRows writes the rows as one batch.
func (s *Store) putRows(ctx context.Context, rows ...leavingRow) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	keys := make([][]byte, len(rows))
	for i := range rows {
		keys[i] = rows[i].key
	}
	defer s.lockAll(keys...)() // Expire must not remove what it did not see
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

// DeadLetter implements schema.DeadLetterStore.
func (s *Store) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	l, err := s.deadLetter(ctx, tenant, run)
	if err != nil {
		return schema.DeadLetter{}, fmt.Errorf("read dead letter %s: %w", run, err)
	}
	return l, nil
}

func (s *Store) deadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	if err := s.enter(ctx); err != nil {
		return schema.DeadLetter{}, err
	}
	defer s.leave()
	row, err := s.row(deadKey(tenant, run))
	if err != nil {
		return schema.DeadLetter{}, err
	}
	l, ok := s.loadDeadLetter(tenant, run, &row, s.nowMS())
	if !ok {
		return l, schema.ErrNotFound
	}
	return l, nil
}

// loadDeadLetter makes a letter of its row; false means that the row holds none (any more).
func (s *Store) loadDeadLetter(tenant string, run schema.RunID, row *cells, nowMS int64) (schema.DeadLetter, bool) {
	text, last := row.at(colText, nowMS), row.at(colLast, nowMS)
	if text == nil || last == nil {
		return schema.DeadLetter{}, false
	}
	var payload, fate []byte
	if c := row.at(colPayload, nowMS); c != nil {
		payload = c.data
	}
	if c := row.at(colFate, nowMS); c != nil {
		fate = c.data
	}
	l := schema.LoadDeadLetter(tenant, run, text.data, payload, last.data, fate, last.timestamp)
	_ = s.damage.Found("dead_letters", run.String(), l.Fault)
	return l, true
}

// DeadLetters implements schema.DeadLetterStore.
func (s *Store) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	letters, err := s.deadLetters(ctx, tenant, day, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read dead letters of day %d: %w", day, err)
	}
	return letters, nil
}

func (s *Store) deadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) (letters []schema.DeadLetter, err error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	prefix := deadPrefix(tenant, day)
	lower := prefix
	if !before.IsZero() {
		lower = append(appendListed(bytes.Clone(prefix), before), 0)
	}
	nowMS := s.nowMS()
	err = s.scan(lower, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		if len(key) != len(prefix)+16 {
			return false, errCorrupt
		}
		row, err := parseRow(bytes.Clone(value)) // its text is kept
		if err != nil {
			return false, err
		}
		l, ok := s.loadDeadLetter(tenant, readListed(key[len(prefix):]), &row, nowMS)
		if ok {
			l.Entry.Payload = nil
			letters = append(letters, l)
		}
		return len(letters) < limit, nil
	})
	return letters, err
}

// Resolutions implements schema.DeadLetterStore.
func (s *Store) Resolutions(ctx context.Context, tenant string, day int, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read fates: %w", err)
	}
	defer s.leave()
	fates := make(map[schema.RunID]*schema.Resolution)
	prefix, nowMS := deadPrefix(tenant, day), s.nowMS()
	for _, run := range runs {
		row, err := s.row(appendListed(bytes.Clone(prefix), run))
		if err != nil {
			return nil, fmt.Errorf("read fates: %w", err)
		}
		if row.at(colText, nowMS) == nil {
			continue
		}
		var text []byte
		if c := row.at(colFate, nowMS); c != nil {
			text = c.data
		}
		fates[run], err = schema.DecodeResolution(text)
		_ = s.damage.Found("dead_letters", run.String(), err)
	}
	return fates, nil
}

package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// tableDeadLetters holds the dead letters. It is stored: never rename it.
const tableDeadLetters table = 'D' // day tenant, run from the newest

// The columns of a dead letter besides colText and colPayload. They are stored: never renumber
// them.
const (
	colLast       column = 3
	colResolution column = 4
)

// deadPrefix is how the keys of a tenant's day begin.
func deadPrefix(tenant string, day int) []byte {
	key := appendInt([]byte{byte(tableDeadLetters)}, int64(day))
	return append(binary.BigEndian.AppendUint32(key, uint32(len(tenant))), tenant...) // #nosec G115 -- a name
}

func deadKey(tenant string, run schema.RunID) []byte {
	return appendNewestFirst(deadPrefix(tenant, schema.DeadLetterDay(run)), run)
}

// PutDeadLetters implements schema.DeadLetterStore: one batch, all of it or nothing.
func (s deadLetterStore) PutDeadLetters(ctx context.Context, letters []schema.DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	rows := make([]rowWrite, len(letters))
	for i := range letters {
		var err error
		if rows[i], err = deadLetterRow(&letters[i]); err != nil {
			return fmt.Errorf("put dead letter of %s: %w", letters[i].Run, err)
		}
	}
	if err := s.putRows(ctx, rows...); err != nil {
		return fmt.Errorf("put %d dead letters: %w", len(letters), err)
	}
	return nil
}

func deadLetterRow(l *schema.DeadLetter) (rowWrite, error) {
	last, err := l.EncodeLast()
	if err != nil {
		return rowWrite{}, err
	}
	text, payload := l.Entry.Text(), l.Entry.Payload
	switch size := len(text) + len(payload) + len(last); {
	case len(text) == 0:
		return rowWrite{}, errNoText
	case size > maxRow:
		return rowWrite{}, fmt.Errorf("%w: %d bytes", schema.ErrTooLarge, size)
	}
	c := cell{column: colText, timestamp: l.Written, expires: expiryOf(l.Expires), data: text}
	row := rowWrite{key: deadKey(l.Tenant, l.Run), cells: []cell{c}}
	if c.column, c.data = colPayload, payload; len(payload) > 0 {
		row.cells = append(row.cells, c)
	}
	c.column, c.data = colLast, last
	row.cells = append(row.cells, c)
	return row, nil
}

// PutResolution implements schema.DeadLetterStore.
func (s deadLetterStore) PutResolution(ctx context.Context, tenant string, run schema.RunID, f schema.Resolution, expires time.Time) error {
	text, err := schema.EncodeResolution(&f)
	if err == nil {
		c := cell{column: colResolution, timestamp: f.At.UnixMicro(), expires: expiryOf(expires), data: text}
		err = s.putRows(ctx, rowWrite{key: deadKey(tenant, run), cells: []cell{c}})
	}
	if err != nil {
		return fmt.Errorf("put resolution of dead letter %s: %w", run, err)
	}
	return nil
}

// DeadLetter implements schema.DeadLetterStore.
func (s deadLetterStore) DeadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
	l, err := s.deadLetter(ctx, tenant, run)
	if err != nil {
		return schema.DeadLetter{}, fmt.Errorf("read dead letter %s: %w", run, err)
	}
	return l, nil
}

func (s deadLetterStore) deadLetter(ctx context.Context, tenant string, run schema.RunID) (schema.DeadLetter, error) {
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

// loadDeadLetter makes a letter of its row. False means that the row holds none (any more).
func (s deadLetterStore) loadDeadLetter(tenant string, run schema.RunID, row *cells, nowMS int64) (schema.DeadLetter, bool) {
	text, last := row.at(colText, nowMS), row.at(colLast, nowMS)
	if text == nil || last == nil {
		return schema.DeadLetter{}, false
	}
	var payload, resolution []byte
	if c := row.at(colPayload, nowMS); c != nil {
		payload = c.data
	}
	if c := row.at(colResolution, nowMS); c != nil {
		resolution = c.data
	}
	l := schema.LoadDeadLetter(tenant, run, text.data, payload, last.data, resolution, last.timestamp)
	_ = s.damage.Found("dead_letters", run.String(), l.Fault)
	return l, true
}

// DeadLetters implements schema.DeadLetterStore.
func (s deadLetterStore) DeadLetters(ctx context.Context, tenant string, day int, before schema.RunID, limit int) ([]schema.DeadLetter, error) {
	var letters []schema.DeadLetter
	err := s.list(ctx, deadPrefix(tenant, day), beforeID(before), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		if len(rest) != 16 {
			return false, errCorrupt
		}
		for i := range row {
			row[i].data = bytes.Clone(row[i].data) // the letter keeps its text
		}
		l, ok := s.loadDeadLetter(tenant, readNewestFirst(rest), row, nowMS)
		if ok {
			l.Entry.Payload = nil
			letters = append(letters, l)
		}
		return ok, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read dead letters of day %d: %w", day, err)
	}
	return letters, nil
}

// Resolutions implements schema.DeadLetterStore.
func (s deadLetterStore) Resolutions(ctx context.Context, tenant string, day int, runs []schema.RunID) (map[schema.RunID]*schema.Resolution, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read resolutions: %w", err)
	}
	defer s.leave()
	all := make(map[schema.RunID]*schema.Resolution)
	prefix, nowMS := deadPrefix(tenant, day), s.nowMS()
	for _, run := range runs {
		row, err := s.row(appendNewestFirst(bytes.Clone(prefix), run))
		if err != nil {
			return nil, fmt.Errorf("read resolutions: %w", err)
		}
		if row.at(colText, nowMS) == nil {
			continue
		}
		var text []byte
		if c := row.at(colResolution, nowMS); c != nil {
			text = c.data
		}
		all[run], err = schema.DecodeResolution(text)
		_ = s.damage.Found("dead_letters", run.String(), err)
	}
	return all, nil
}

// CountDeadLetters implements schema.DeadLetterIndex.
func (s deadLetterStore) CountDeadLetters(ctx context.Context, at schema.TenantDay, limit int) (n schema.DeadLetterCount, err error) {
	err = s.list(ctx, deadPrefix(at.Tenant, at.Day), nil, limit, func(_ []byte, row *cells, nowMS int64) (bool, error) {
		if row.at(colText, nowMS) == nil || row.at(colLast, nowMS) == nil {
			return false, nil // a resolution without a letter
		}
		n.Looked++
		if row.at(colResolution, nowMS) == nil {
			n.Waiting++
		}
		return true, nil
	})
	if err != nil {
		return schema.DeadLetterCount{}, fmt.Errorf("count dead letters of day %d: %w", at.Day, err)
	}
	return n, nil
}

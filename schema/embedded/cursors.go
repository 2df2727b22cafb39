package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
)

const cursorSize = 1 + 2 + 8

// mergeCursor adds a raise of c's two watermarks to b. Their timestamps are their values, so the
// highest ever written wins.
func mergeCursor(b *pebble.Batch, c schema.Cursor) error {
	register := func(col column, bucket schema.Bucket) cell {
		return cell{column: col, timestamp: bucket.End().UnixMicro(), data: appendInt(nil, int64(bucket))}
	}
	return mergeCells(b, cursorSize,
		func(dst []byte) []byte { return appendCursor(dst, c.Shard, c.Epoch) },
		register(colDispatched, c.Dispatched), register(colSettled, c.Settled))
}

// AdvanceCursor implements schema.CursorStore.
func (s cursorStore) AdvanceCursor(ctx context.Context, c schema.Cursor) error {
	if err := s.advanceCursor(ctx, c); err != nil {
		return fmt.Errorf("advance cursor of shard %d: %w", c.Shard, err)
	}
	return nil
}

func (s cursorStore) advanceCursor(ctx context.Context, c schema.Cursor) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := mergeCursor(b, c); err != nil {
		return err
	}
	return s.commit(b)
}

// Cursors implements schema.CursorStore.
func (s cursorStore) Cursors(ctx context.Context) ([]schema.Cursor, error) {
	cursors, err := s.cursors(ctx, []byte{byte(tableCursors)})
	if err != nil {
		return nil, fmt.Errorf("read cursors: %w", err)
	}
	return cursors, nil
}

// Cursor implements schema.CursorStore.
func (s cursorStore) Cursor(ctx context.Context, shard schema.Shard) (schema.Cursor, error) {
	cursors, err := s.cursors(ctx, appendCursor(nil, shard, 0)[:3])
	if err == nil && len(cursors) == 0 {
		err = schema.ErrNotFound
	}
	if err != nil {
		return schema.Cursor{}, fmt.Errorf("read cursor of shard %d: %w", shard, err)
	}
	return cursors[0], nil
}

// cursors returns the newest epoch's cursor of every shard whose keys begin with prefix.
func (s cursorStore) cursors(ctx context.Context, prefix []byte) ([]schema.Cursor, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var cursors []schema.Cursor
	err := s.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		dispatched, settled := row.at(colDispatched, 0), row.at(colSettled, 0)
		if dispatched == nil || settled == nil || len(dispatched.data) != 8 || len(settled.data) != 8 {
			return false, errCorrupt
		}
		c := schema.Cursor{
			Shard:      schema.Shard(binary.BigEndian.Uint16(key[1:])),
			Epoch:      readInt(key[3:]),
			Dispatched: schema.Bucket(readInt(dispatched.data)),
			Settled:    schema.Bucket(readInt(settled.data)),
		}
		if last := len(cursors) - 1; last >= 0 && cursors[last].Shard == c.Shard {
			cursors[last] = c // epochs ascend
		} else {
			cursors = append(cursors, c)
		}
		return true, nil
	})
	return cursors, err
}

// setSettings adds the settings to b.
func setSettings(b *pebble.Batch, settings schema.Settings, at time.Time) error {
	data, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("encode settings: %w", err)
	}
	row := appendCell(nil, cell{column: colValue, timestamp: at.UnixMicro(), data: data})
	return b.Set([]byte{byte(tableSettings)}, row, nil)
}

// Settings implements schema.SettingsStore.
func (s cursorStore) Settings(ctx context.Context) (settings schema.Settings, err error) {
	data, err := s.value(ctx, []byte{byte(tableSettings)})
	if err == nil {
		err = unavailable(json.Unmarshal(data, &settings))
	}
	if err != nil {
		return schema.Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return settings, nil
}

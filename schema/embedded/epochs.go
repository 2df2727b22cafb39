package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// The rows of EpochStore. An epoch is never replaced, so its row needs no timestamp.
const (
	tableEpochs table = 'Z'
	tableBeats  table = 'B'
)

// epochRow is what the row of an epoch holds besides its key.
type epochRow struct {
	Region string    `json:"region"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// appendHome appends what the keys of all epochs of a home begin with. The newest comes first.
func appendHome(home string) []byte { return appendName(nil, tableEpochs, home, "") }

func epochKey(home string, number int64) []byte { return appendInt(appendHome(home), -number) }

// Epochs implements schema.EpochStore.
func (s epochStore) Epochs(ctx context.Context, homes []string) ([]schema.Epoch, error) {
	newest := make([]schema.Epoch, len(homes))
	for i, home := range homes {
		newest[i].Home = home
		log, err := s.EpochLog(ctx, home, 1)
		if err != nil {
			return nil, err
		}
		if len(log) > 0 {
			newest[i] = log[0]
		}
	}
	return newest, nil
}

// EpochLog implements schema.EpochStore.
func (s epochStore) EpochLog(ctx context.Context, home string, limit int) ([]schema.Epoch, error) {
	var log []schema.Epoch
	err := s.list(ctx, appendHome(home), nil, limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colValue, nowMS)
		if c == nil || len(rest) != 8 {
			return false, errCorrupt
		}
		e, err := loadEpoch(home, -readInt(rest), c.data)
		log = append(log, e)
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("read epochs of home %s: %w", home, err)
	}
	return log, nil
}

func loadEpoch(home string, number int64, data []byte) (schema.Epoch, error) {
	r, err := schema.Decode[epochRow](data, "epoch")
	return schema.Epoch{Home: home, Number: number, Region: r.Region, By: r.By, Reason: r.Reason, At: r.At.UTC()}, err
}

// InsertEpoch implements schema.EpochStore.
func (s epochStore) InsertEpoch(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	stands, err := s.insertEpoch(ctx, e)
	if err != nil {
		return stands, fmt.Errorf("insert epoch %d of home %s: %w", e.Number, e.Home, err)
	}
	return stands, nil
}

func (s epochStore) insertEpoch(ctx context.Context, e schema.Epoch) (schema.Epoch, error) {
	if err := e.Validate(); err != nil {
		return schema.Epoch{}, err
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(epochRow{e.Region, e.By, e.Reason, e.At})
	if err != nil {
		return schema.Epoch{}, err
	}
	if len(data) > maxRow {
		return schema.Epoch{}, schema.ErrTooLarge
	}
	if err := s.enter(ctx); err != nil {
		return schema.Epoch{}, err
	}
	defer s.leave()
	key := epochKey(e.Home, e.Number)
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return schema.Epoch{}, err
	}
	if c := row.at(colValue, s.nowMS()); c != nil {
		stands, err := loadEpoch(e.Home, e.Number, c.data)
		if err == nil && !stands.Same(e) {
			err = schema.ErrConflict
		}
		return stands, err
	}
	return e, s.setRow(key, data, time.Time{})
}

// PutBeat implements schema.EpochStore.
func (s epochStore) PutBeat(ctx context.Context, b schema.Beat) error {
	b.At = b.At.UTC().Truncate(time.Millisecond)
	data, err := json.Marshal(b)
	if err == nil {
		err = s.putBeat(ctx, append([]byte{byte(tableBeats)}, b.Region...), cell{column: colValue, timestamp: b.Stamp().UnixMicro(), data: data})
	}
	if err != nil {
		return fmt.Errorf("write beat of region %s: %w", b.Region, err)
	}
	return nil
}

// putBeat replaces the row of a beat, unless it is newer. A merge would leave every beat there for
// each read to go through: they come every few seconds.
func (s epochStore) putBeat(ctx context.Context, key []byte, c cell) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	defer s.lock(key)()
	row, err := s.row(key)
	if err != nil {
		return err
	}
	if was := &row[colValue-1]; was.column != 0 && was.wins(&c) > 0 {
		return nil
	}
	b := s.db.NewBatch()
	defer closeQuietly(b)
	if err := b.Set(key, appendCell(nil, c), nil); err != nil {
		return err
	}
	return s.commit(b)
}

// Beats implements schema.EpochStore.
func (s epochStore) Beats(ctx context.Context) ([]schema.Beat, error) {
	var beats []schema.Beat
	var err error
	// Each by a look of its own: an iterator would go through all that were written of one before
	// it comes to the next.
	for after, more := []byte(nil), true; more && err == nil; {
		more = false
		err = s.list(ctx, []byte{byte(tableBeats)}, after, 1, func(rest []byte, row *cells, nowMS int64) (bool, error) {
			more, after = true, bytes.Clone(rest)
			c := row.at(colValue, nowMS)
			if c == nil {
				return false, errCorrupt
			}
			b, err := schema.Decode[schema.Beat](c.data, "beat")
			beats = append(beats, b)
			return err == nil, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read beats: %w", err)
	}
	return beats, nil
}

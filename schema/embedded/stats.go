package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// tableStats holds the counts of minutes. It is stored: never rename it.
const tableStats table = 'S' // hour minute node

// PutStats implements schema.StatsStore.
func (s statsStore) PutStats(ctx context.Context, m schema.MinuteStats) error {
	data, err := json.Marshal(m)
	if err == nil {
		key := appendInt(appendInt([]byte{byte(tableStats)}, int64(schema.StatsHour(m.Minute))), m.Minute.UnixMilli())
		c := cell{column: colValue, timestamp: m.Written, expires: expiryOf(m.Minute.Add(schema.StatsRetention)), data: data}
		err = s.appendRows(ctx, rowWrite{append(key, m.Node...), []cell{c}})
	}
	if err != nil {
		return fmt.Errorf("put stats of %s: %w", m.Node, err)
	}
	return nil
}

// Stats implements schema.StatsStore.
func (s statsStore) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	all, err := s.stats(ctx, hour)
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return all, nil
}

func (s statsStore) stats(ctx context.Context, hour int) (all []schema.MinuteStats, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	prefix := appendInt([]byte{byte(tableStats)}, int64(hour))
	err = s.scan(prefix, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil || len(key) < len(prefix)+8 {
			return false, errCorrupt
		}
		c := row.at(colValue, s.nowMS())
		if c == nil {
			return true, nil
		}
		m, err := schema.Decode[schema.MinuteStats](c.data, "counts")
		m.Minute = time.UnixMilli(readInt(key[len(prefix):])).UTC()
		m.Node = string(key[len(prefix)+8:])
		if s.damage.Found("stats", m.Node, err) != nil {
			return true, nil
		}
		all = append(all, m)
		return true, nil
	})
	return all, err
}

// expireByTime removes the days of the audit log and the hours of counts that are past their
// retention.
func (s *Store) expireByTime(ctx context.Context, now time.Time) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewBatch()
	defer closeQuietly(b)
	for _, old := range []struct {
		table table
		first int // that stays
	}{
		{tableAudit, schema.AuditDay(now.Add(-schema.AuditRetention))},
		{tableStats, schema.StatsHour(now.Add(-schema.StatsRetention))},
	} {
		if err := b.DeleteRange([]byte{byte(old.table)}, appendInt([]byte{byte(old.table)}, int64(old.first)), nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

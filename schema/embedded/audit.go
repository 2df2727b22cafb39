package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// tableAudit holds the audit log. It is stored: never rename it.
const tableAudit table = 'A' // day tenant, id from the newest

// auditRow is what the row of an audit entry holds besides its address.
type auditRow struct {
	Actor  string          `json:"actor"`
	Action string          `json:"action"`
	Object string          `json:"object"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Note   string          `json:"note,omitempty"`
}

// auditPrefix is how the keys of a tenant's day begin. The day comes first, so that whole days can
// be removed.
func auditPrefix(tenant string, day int) []byte {
	key := appendInt([]byte{byte(tableAudit)}, int64(day))
	return append(binary.BigEndian.AppendUint32(key, uint32(len(tenant))), tenant...) // #nosec G115 -- a name
}

// PutAudit implements schema.AuditStore.
func (s auditStore) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	if err := s.putAudit(ctx, entries); err != nil {
		return fmt.Errorf("put %d audit entries: %w", len(entries), err)
	}
	return nil
}

func (s auditStore) putAudit(ctx context.Context, entries []schema.AuditEntry) error {
	rows := make([]rowWrite, len(entries))
	for i := range entries {
		e := &entries[i]
		data, err := json.Marshal(auditRow{e.Actor, e.Action, e.Object, e.Before, e.After, e.Note})
		if err != nil {
			return err
		}
		at := e.ID.Time()
		rows[i] = rowWrite{
			appendNewestFirst(auditPrefix(e.Tenant, schema.AuditDay(at)), e.ID),
			[]cell{{column: colValue, timestamp: at.UnixMicro(), expires: expiryOf(at.Add(schema.AuditRetention)), data: data}},
		}
	}
	return s.appendRows(ctx, rows...)
}

// Audit implements schema.AuditStore.
func (s auditStore) Audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) ([]schema.AuditEntry, error) {
	var entries []schema.AuditEntry
	err := s.list(ctx, auditPrefix(tenant, day), beforeID(before), limit, func(rest []byte, row *cells, nowMS int64) (bool, error) {
		c := row.at(colValue, nowMS)
		switch {
		case c == nil:
			return false, nil
		case len(rest) != 16:
			return false, errCorrupt
		}
		held, err := schema.Decode[auditRow](c.data, "audit entry")
		if err != nil {
			held.Note = schema.NoteUnreadable
		}
		e := schema.AuditEntry{
			ID: readNewestFirst(rest), Tenant: tenant, Actor: held.Actor, Action: held.Action, Object: held.Object,
			Before: held.Before, After: held.After, Note: held.Note,
		}
		e.At = e.ID.Time()
		_ = s.damage.Found("audit", e.ID.String(), err)
		entries = append(entries, e)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read audit of %s: %w", tenant, err)
	}
	return entries, nil
}

// tableStats holds the counts of minutes. It is stored: never rename it.
const tableStats table = 'S' // hour minute node

// tableNameStats holds the counts of minutes by name. It is stored: never rename it.
const tableNameStats table = 'M' // hour, place of the kind in schema.StatsKinds, minute, node

// statsHour is how the keys of the counts of an hour begin, of all runs.
func statsHour(hour int) []byte { return appendInt([]byte{byte(tableStats)}, int64(hour)) }

// nameStatsHour is the same of a kind. The hour comes first, so that whole hours can be removed.
func nameStatsHour(kind schema.StatsKind, hour int) []byte {
	return appendInt(appendInt([]byte{byte(tableNameStats)}, int64(hour)), int64(slices.Index(schema.StatsKinds, kind)))
}

func (s statsStore) putCounts(ctx context.Context, prefix []byte, minute time.Time, node string, data []byte, written int64) error {
	key := append(appendInt(prefix, minute.UnixMilli()), node...)
	c := cell{column: colValue, timestamp: written, expires: expiryOf(minute.Add(schema.StatsRetention)), data: data}
	return s.appendRows(ctx, rowWrite{key, []cell{c}})
}

// PutStats implements schema.StatsStore.
func (s statsStore) PutStats(ctx context.Context, m schema.MinuteStats) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = s.putCounts(ctx, statsHour(schema.StatsHour(m.Minute)), m.Minute, m.Node, data, m.Written)
	}
	if err != nil {
		return fmt.Errorf("put stats of %s: %w", m.Node, err)
	}
	return nil
}

// Stats implements schema.StatsStore.
func (s statsStore) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	prefix := statsHour(hour)
	all, err := readCounts(ctx, s, prefix, prefix, func(m *schema.MinuteStats, minute time.Time, node string) {
		m.Minute, m.Node = minute, node
	})
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return all, nil
}

// PutNameStats implements schema.StatsStore.
func (s statsStore) PutNameStats(ctx context.Context, n schema.NameStats) error {
	data, err := json.Marshal(n)
	if err == nil && len(data) > schema.MaxNameStats {
		err = schema.ErrTooLarge
	}
	if err == nil {
		err = s.putCounts(ctx, nameStatsHour(n.Kind, schema.StatsHour(n.Minute)), n.Minute, n.Node, data, n.Written)
	}
	if err != nil {
		return fmt.Errorf("put stats of %s by %s: %w", n.Node, n.Kind, err)
	}
	return nil
}

// NameStats implements schema.StatsStore.
func (s statsStore) NameStats(ctx context.Context, kind schema.StatsKind, hour int, from time.Time) ([]schema.NameStats, error) {
	prefix := nameStatsHour(kind, hour)
	first := appendInt(slices.Clone(prefix), from.UnixMilli())
	all, err := readCounts(ctx, s, prefix, first, func(n *schema.NameStats, minute time.Time, node string) {
		n.Kind, n.Minute, n.Node = kind, minute, node
	})
	if err != nil {
		return nil, fmt.Errorf("read stats by %s: %w", kind, err)
	}
	return all, nil
}

// readCounts reads the rows whose keys begin with prefix, from the key first on. named tells a row its
// address.
func readCounts[T any](ctx context.Context, s statsStore, prefix, first []byte, named func(row *T, minute time.Time, node string)) (all []T, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	err = s.scan(first, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		cells, err := parseRow(value)
		if err != nil || len(key) < len(prefix)+8 {
			return false, errCorrupt
		}
		c := cells.at(colValue, s.nowMS())
		if c == nil {
			return true, nil
		}
		row, err := schema.Decode[T](c.data, "counts")
		node := string(key[len(prefix)+8:])
		if s.damage.Found("stats", node, err) != nil {
			return true, nil
		}
		named(&row, time.UnixMilli(readInt(key[len(prefix):])).UTC(), node)
		all = append(all, row)
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
		{tableNameStats, schema.StatsHour(now.Add(-schema.StatsRetention))},
	} {
		if err := b.DeleteRange([]byte{byte(old.table)}, appendInt([]byte{byte(old.table)}, int64(old.first)), nil); err != nil {
			return err
		}
	}
	return s.commit(b)
}

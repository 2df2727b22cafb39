package cassandra

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
)

// The statements about the audit log; the words are those of statements.go.
const (
	// audit; in batches over few partitions. Idempotent.
	insertAudit statement = `INSERT INTO audit (tenant, day, at, id, actor, object, action, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of audit, newest first. Idempotent.
	selectAudit statement = `SELECT id, actor, object, action, detail FROM audit WHERE tenant = ? AND day = ? AND (at, id) < (?, ?)`
)

// auditDetail is the cell detail of an audit entry.
type auditDetail struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Note   string          `json:"note,omitempty"`
}

// lastAuditID is above every id of an entry.
var lastAuditID = gocql.UUID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// dayOf returns the value of a column of type date.
func dayOf(day int) time.Time { return time.Unix(int64(day)*24*3600, 0).UTC() }

// PutAudit implements schema.AuditStore.
func (s auditStore) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	if err := s.putAudit(ctx, entries); err != nil {
		return fmt.Errorf("put %d audit entries: %w", len(entries), err)
	}
	return nil
}

func (s auditStore) putAudit(ctx context.Context, entries []schema.AuditEntry) error {
	lines := make([]line, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		detail, err := json.Marshal(auditDetail{e.Before, e.After, e.Note})
		if err != nil {
			return err
		}
		if len(detail) > maxRowBytes {
			return schema.ErrTooLarge
		}
		at := e.ID.Time()
		lines = append(lines, line{
			args: []any{
				e.Tenant, dayOf(schema.AuditDay(at)), at, gocql.UUID(e.ID), e.Actor, e.Object, e.Action, detail,
				at.UnixMicro(), s.ttl(at.Add(schema.AuditRetention)),
			},
			bytes: len(detail) + len(e.Actor) + len(e.Object) + 128,
		})
	}
	return s.writeBatches(ctx, insertAudit, lines)
}

// Audit implements schema.AuditStore.
func (s auditStore) Audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) ([]schema.AuditEntry, error) {
	at, id := dayOf(day+1), lastAuditID
	if !before.IsZero() {
		at, id = before.Time(), gocql.UUID(before)
	}
	entries, err := readPages(ctx, s.core, selectAudit, &s.smallRows, limit, []any{tenant, dayOf(day), at, id},
		func(iter *gocql.Iter) (e schema.AuditEntry, size int, keep, more bool) {
			var id gocql.UUID
			var text []byte
			if !iter.Scan(&id, &e.Actor, &e.Object, &e.Action, &text) {
				return e, 0, false, false
			}
			d, err := schema.Decode[auditDetail](text, "audit entry")
			if s.damage.Found("audit", schema.AuditID(id).String(), err) != nil {
				d.Note = schema.NoteUnreadable
			}
			e.ID, e.Tenant, e.Before, e.After, e.Note = schema.AuditID(id), tenant, d.Before, d.After, d.Note
			e.At = e.ID.Time()
			return e, len(text) + 256, true, true
		})
	if err != nil {
		return nil, fmt.Errorf("read audit of %s: %w", tenant, err)
	}
	return entries, nil
}

// The statements about counts of minutes; the words are those of statements.go.
const (
	// One row of stats. Idempotent.
	insertStats statement = `INSERT INTO stats (hour, minute, node, counts) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// One partition of stats: at most 60 rows a node. Idempotent.
	selectStats statement = `SELECT minute, node, counts FROM stats WHERE hour = ?`
	// A slice of one partition of stats, from a minute on. Idempotent.
	selectNameStats statement = `SELECT minute, node, counts FROM stats WHERE hour = ? AND minute >= ?`
)

// maxStatsRows bounds the rows read of one hour: 60 of each of about 1,600 nodes.
const maxStatsRows = 100_000

// PutStats implements schema.StatsStore.
func (s statsStore) PutStats(ctx context.Context, m schema.MinuteStats) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = s.putCounts(ctx, schema.StatsHour(m.Minute), m.Minute, m.Node, text, m.Written)
	}
	if err != nil {
		return fmt.Errorf("put stats of %s: %w", m.Node, err)
	}
	return nil
}

func (s statsStore) putCounts(ctx context.Context, partition int, minute time.Time, node string, text []byte, written int64) error {
	return s.write(ctx, insertStats, partition, minute, node, text, written, s.ttl(minute.Add(schema.StatsRetention)))
}

// Stats implements schema.StatsStore.
func (s statsStore) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	all, err := readCounts(ctx, s.core, selectStats, []any{hour}, func(m *schema.MinuteStats, minute time.Time, node string) {
		m.Minute, m.Node = minute, node
	})
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return all, nil
}

// readCounts reads rows of one partition of stats. named tells a row its address.
func readCounts[T any](ctx context.Context, c *core, st statement, args []any, named func(row *T, minute time.Time, node string)) ([]T, error) {
	return readPages(ctx, c, st, &c.smallRows, maxStatsRows, args, func(iter *gocql.Iter) (row T, size int, keep, more bool) {
		var minute time.Time
		var node string
		var text []byte
		if !iter.Scan(&minute, &node, &text) {
			return row, 0, false, false
		}
		row, err := schema.Decode[T](text, "counts")
		_ = c.damage.Found("stats", node, err)
		named(&row, minute.UTC(), node)
		return row, len(node) + len(text) + 64, err == nil, true
	})
}

// PutNameStats implements schema.StatsStore.
func (s statsStore) PutNameStats(ctx context.Context, n schema.NameStats) error {
	text, err := json.Marshal(n)
	if err == nil && len(text) > schema.MaxNameStats {
		err = schema.ErrTooLarge
	}
	if err == nil {
		err = s.putCounts(ctx, schema.StatsPartition(n.Kind, schema.StatsHour(n.Minute)), n.Minute, n.Node, text, n.Written)
	}
	if err != nil {
		return fmt.Errorf("put stats of %s by %s: %w", n.Node, n.Kind, err)
	}
	return nil
}

// NameStats implements schema.StatsStore.
func (s statsStore) NameStats(ctx context.Context, kind schema.StatsKind, hour int, from time.Time) ([]schema.NameStats, error) {
	if begin := time.Unix(int64(hour)*3600, 0); from.Before(begin) {
		from = begin // the driver has no form for the zero time
	}
	args := []any{schema.StatsPartition(kind, hour), from}
	all, err := readCounts(ctx, s.core, selectNameStats, args, func(n *schema.NameStats, minute time.Time, node string) {
		n.Kind, n.Minute, n.Node = kind, minute, node
	})
	if err != nil {
		return nil, fmt.Errorf("read stats by %s: %w", kind, err)
	}
	return all, nil
}

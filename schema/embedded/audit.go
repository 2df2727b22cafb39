package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

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

// auditPrefix is how the keys of a tenant's day begin. The day comes first, so that whole days can be dropped.
func auditPrefix(tenant string, day int) []byte {
	key := appendInt([]byte{byte(tableAudit)}, int64(day))
	return append(binary.BigEndian.AppendUint32(key, uint32(len(tenant))), tenant...) // #nosec G115 -- a name
}

// appendNewestFirst appends id so that the order of bytes is the reverse of that of ids.
func appendNewestFirst(dst []byte, id schema.AuditID) []byte {
	for _, b := range id {
		dst = append(dst, ^b)
	}
	return dst
}

// PutAudit implements schema.AuditStore.
func (s *Store) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	if err := s.putAudit(ctx, entries); err != nil {
		return fmt.Errorf("put %d audit entries: %w", len(entries), err)
	}
	return nil
}

func (s *Store) putAudit(ctx context.Context, entries []schema.AuditEntry) error {
	rows := make([]leavingRow, len(entries))
	for i := range entries {
		e := &entries[i]
		data, err := json.Marshal(auditRow{e.Actor, e.Action, e.Object, e.Before, e.After, e.Note})
		if err != nil {
			return err
		}
		at := e.ID.Time()
		rows[i] = leavingRow{
			appendNewestFirst(auditPrefix(e.Tenant, schema.AuditDay(at)), e.ID),
			[]cell{{column: colValue, timestamp: at.UnixMicro(), expires: expiryOf(at.Add(schema.AuditRetention)), data: data}},
		}
	}
	return s.appendRows(ctx, rows...)
}

// Audit implements schema.AuditStore.
func (s *Store) Audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) ([]schema.AuditEntry, error) {
	entries, err := s.audit(ctx, tenant, day, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read audit of %s: %w", tenant, err)
	}
	return entries, nil
}

func (s *Store) audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) (entries []schema.AuditEntry, err error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	prefix := auditPrefix(tenant, day)
	lower := prefix
	if !before.IsZero() {
		lower = append(appendNewestFirst(bytes.Clone(prefix), before), 0)
	}
	err = s.scan(lower, prefixEnd(prefix), func(key, value []byte) (bool, error) {
		row, err := parseRow(value)
		if err != nil {
			return false, err
		}
		c := row.at(colValue, s.nowMS())
		if c == nil {
			return true, nil
		}
		if len(key) != len(prefix)+16 {
			return false, errCorrupt
		}
		held, err := schema.Decode[auditRow](c.data, "audit entry")
		if err != nil {
			held.Note = schema.NoteUnreadable
		}
		e := schema.AuditEntry{
			Tenant: tenant, Actor: held.Actor, Action: held.Action, Object: held.Object,
			Before: held.Before, After: held.After, Note: held.Note,
		}
		appendNewestFirst(e.ID[:0], schema.AuditID(key[len(prefix):]))
		e.At = e.ID.Time()
		_ = s.damage.Found("audit", e.ID.String(), err)
		entries = append(entries, e)
		return len(entries) < limit, nil
	})
	return entries, err
}

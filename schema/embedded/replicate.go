package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
)

// Mutation is a write of one row, as another copy of the store takes it in ([Store.Apply]).
type Mutation struct {
	key, cells []byte
	// Conditional: it was written on a condition.
	Conditional bool
}

// replicated commits b as a data centre of Cassandra does that has a copy of each row elsewhere,
// and hands on what it wrote (Config.Replicate).
//
// A row that is replaced or removed, because it is written conditionally, says without copies only
// what it holds now. With them its cells get a write timestamp, later than that of the cells that
// it replaces, and a removal is a cell that has expired, which hides what is older. So whatever
// arrives at either side, in any order, leaves the same. What Expire removes is gone at both sides
// anyway.
func (s *core) replicated(b *pebble.Batch) error {
	stamped := s.db.NewIndexedBatch()
	defer closeQuietly(stamped)
	s.applying.Lock()
	all, err := s.addStamped(stamped, b)
	if err == nil {
		err = stamped.Commit(s.write)
	}
	s.applying.Unlock()
	if err == nil {
		s.replicate(all)
	}
	return err
}

// addStamped adds the writes of b to stamped, and returns them.
func (s *core) addStamped(stamped, b *pebble.Batch) (all []Mutation, err error) {
	for r := b.Reader(); ; {
		kind, key, value, more, err := r.Next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		m := Mutation{key: bytes.Clone(key)}
		switch {
		case kind == pebble.InternalKeyKindMerge:
			m.cells = bytes.Clone(value)
		case kind == pebble.InternalKeyKindSet && key[0] == byte(tableRowExpiry):
		case kind == pebble.InternalKeyKindSet, kind == pebble.InternalKeyKindDelete && key[0] != byte(tableRowExpiry):
			if m.cells, err = s.stamp(key, value); err != nil {
				return nil, err
			}
			m.Conditional = true
			if len(m.cells) == 0 {
				continue // nothing was there, and nothing is
			}
		case kind == pebble.InternalKeyKindDelete:
			if err := stamped.Delete(key, nil); err != nil {
				return nil, err
			}
			continue
		case kind == pebble.InternalKeyKindRangeDelete:
			if err := stamped.DeleteRange(key, value, nil); err != nil {
				return nil, err
			}
			continue
		default:
			return nil, errCorrupt
		}
		if err := m.add(stamped); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// stamp returns the cells that replace the row at key by value (empty: by nothing), each later than
// the one before. The caller holds the row's lock.
func (s *core) stamp(key, value []byte) (stamped []byte, err error) {
	is, err := parseRow(value)
	if err != nil {
		return nil, err
	}
	was, err := s.row(key)
	if err != nil {
		return nil, err
	}
	for i := range was {
		c := is[i]
		switch {
		case c.column == 0 && was[i].column == 0:
			continue
		case c.column == 0:
			c = cell{column: was[i].column, expires: never + 1}
		}
		if c.timestamp == 0 {
			c.timestamp = max(s.now().UnixMicro(), was[i].timestamp+1)
		}
		stamped = appendCell(stamped, c)
	}
	return stamped, nil
}

// add adds m to b, which is indexed. The row is written as it is then, and not what is added to it:
// who reads a row that is written again and again need not add all that up. The caller holds
// applying until b is committed.
func (m *Mutation) add(b *pebble.Batch) error {
	if len(m.cells) == 0 { // the expiry of a row
		return b.Set(m.key, nil, nil)
	}
	was, closer, err := b.Get(m.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return b.Set(m.key, m.cells, nil)
	}
	if err != nil {
		return err
	}
	row, err := mergeRows(nil, was, m.cells)
	if err := errors.Join(err, closer.Close()); err != nil {
		return err
	}
	return b.Set(m.key, row, nil)
}

// Apply takes in writes of another copy. Their order does not matter, nor does it that one comes
// twice. They are not handed on.
func (s *Store) Apply(ctx context.Context, writes ...Mutation) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	b := s.db.NewIndexedBatch()
	defer closeQuietly(b)
	s.applying.Lock()
	defer s.applying.Unlock()
	for i := range writes {
		if err := writes[i].add(b); err != nil {
			return fmt.Errorf("apply a write of another copy: %w", err)
		}
	}
	if err := b.Commit(s.write); err != nil {
		return fmt.Errorf("apply writes of another copy: %w: %w", schema.ErrUnknown, err)
	}
	return nil
}

// Rows returns every row by its key, with the cells that count, those that hide others too. Two
// copies that took in the same writes have the same rows.
func (s *Store) Rows(ctx context.Context) (map[string]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	rows := make(map[string]string)
	err := s.scan(nil, nil, func(key, row []byte) (bool, error) {
		rows[string(key)] = string(row)
		return true, nil
	})
	return rows, err
}

// Of reports whether m is a write of one of the rows, as those who ask for copies of them name them
// (schema.CopyStore).
func (m *Mutation) Of(rows *schema.Copies) bool {
	is := func(key []byte) bool { return bytes.Equal(m.key, key) }
	for _, id := range rows.Entries {
		if is(appendEntry(nil, tableRuns, id)) || is(appendEntry(nil, tablePayloads, id)) {
			return true
		}
	}
	for _, k := range rows.Keys {
		if is(appendName(nil, tableKeys, k.Tenant, k.Name)) {
			return true
		}
	}
	for _, id := range rows.Jobs {
		if is(jobKey(id)) {
			return true
		}
	}
	for _, id := range rows.Listed {
		if is(appendNewestFirst(appendName(nil, tableJobIndex, rows.Tenant, ""), id)) {
			return true
		}
	}
	for _, n := range rows.Names {
		if is(appendName(nil, tableJobNames, n.Tenant, n.Name)) {
			return true
		}
	}
	for _, key := range rows.Leases {
		if is(leaseKey(key)) {
			return true
		}
	}
	return len(rows.Subscriptions) > 0 && m.key[0] == byte(documentTables[document.Subscription].table) // of any: there are few
}

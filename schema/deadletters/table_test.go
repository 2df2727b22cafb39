package deadletters

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// cells is a stored row: those of a letter share a write time, and so an expiry.
type cells struct {
	Row
	until, resolvedUntil time.Time
}

// memory is a Table in memory. fault is asked before each call; it may be nil.
type memory struct {
	now   func() time.Time
	fault func(op string, p Partition) error

	mu   sync.Mutex
	rows map[Partition]map[schema.RunID]*cells
	puts int // calls of Put
}

func newMemory(now func() time.Time) *memory {
	return &memory{now: now, rows: make(map[Partition]map[schema.RunID]*cells)}
}

// call locks until the func that it returns is called.
func (m *memory) call(op string, p Partition) (unlock func(), err error) {
	m.mu.Lock()
	if m.fault != nil {
		err = m.fault(op, p)
	}
	return m.mu.Unlock, err
}

func (m *memory) row(p Partition, run schema.RunID) *cells {
	if m.rows[p] == nil {
		m.rows[p] = make(map[schema.RunID]*cells)
	}
	c, ok := m.rows[p][run]
	if !ok {
		c = &cells{Row: Row{Run: run}}
		m.rows[p][run] = c
	}
	return c
}

func (m *memory) Put(_ context.Context, p Partition, rows []Row) error {
	unlock, err := m.call("Put", p)
	defer unlock()
	if err != nil {
		return err
	}
	m.puts++
	for i := range rows {
		if r, c := &rows[i], m.row(p, rows[i].Run); r.Written >= c.Written {
			c.Text, c.Payload, c.Last, c.Written, c.until = bytes.Clone(r.Text), bytes.Clone(r.Payload), bytes.Clone(r.Last), r.Written, r.Expires
		}
	}
	return nil
}

func (m *memory) Resolve(_ context.Context, p Partition, r Row) error {
	unlock, err := m.call("Resolve", p)
	defer unlock()
	if err != nil {
		return err
	}
	if c := m.row(p, r.Run); r.Resolved >= c.Resolved {
		c.Resolution, c.Resolved, c.resolvedUntil = bytes.Clone(r.Resolution), r.Resolved, r.Expires
	}
	return nil
}

// seen returns what of c has not expired; false: nothing.
func (m *memory) seen(c *cells, payload, whole, resolution bool) (Row, bool) {
	r, now := c.Row, m.now()
	if !c.until.IsZero() && !now.Before(c.until) {
		r.Text, r.Payload, r.Last, r.Written = nil, nil, nil, 0
	}
	if !c.resolvedUntil.IsZero() && !now.Before(c.resolvedUntil) {
		r.Resolution, r.Resolved = nil, 0
	}
	if !payload {
		r.Payload = nil
	}
	if !whole {
		r.Text, r.Last = nil, nil
	}
	if !resolution {
		r.Resolution = nil
	}
	return r, r.Written != 0 || r.Resolved != 0
}

func (m *memory) Rows(_ context.Context, p Partition, runs []schema.RunID, whole bool) (rows []Row, err error) {
	unlock, err := m.call("Rows", p)
	defer unlock()
	for _, run := range runs {
		if c, ok := m.rows[p][run]; ok && err == nil {
			if r, ok := m.seen(c, whole, whole, true); ok {
				rows = append(rows, r)
			}
		}
	}
	return rows, err
}

func (m *memory) Newest(_ context.Context, p Partition, before schema.RunID, limit int, whole bool) (rows []Row, err error) {
	unlock, err := m.call("Newest", p)
	defer unlock()
	if err != nil {
		return nil, err
	}
	for run, c := range m.rows[p] {
		if r, ok := m.seen(c, false, whole, whole); ok && (before.IsZero() || run.Compare(before) < 0) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return b.Run.Compare(a.Run) })
	return rows[:min(limit, len(rows))], nil
}

// letters returns how many letters lie in each partition of a tenant's day.
func (m *memory) letters(at schema.TenantDay) map[Partition]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := make(map[Partition]int)
	for p, rows := range m.rows {
		if p.Day != at.Day || p != firstOf(at) && !bytes.HasPrefix([]byte(p.Key), []byte(at.Tenant+"#")) {
			continue
		}
		for _, c := range rows {
			if c.Written != 0 {
				n[p]++
			}
		}
	}
	return n
}

// others is a store of everything but dead letters.
type others struct{ schema.Store }

// around is a whole store whose dead letters lie in a Table.
type around struct {
	others
	*Store
	table *memory
}

// Damage implements schematest.Damager.
func (a around) Damage(t *testing.T, c schematest.Cell, text []byte) {
	t.Helper()
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	for p, rows := range a.table.rows {
		row, ok := rows[c.Run]
		if !ok || p.Key != c.Tenant && !bytes.HasPrefix([]byte(p.Key), []byte(c.Tenant+"#")) {
			continue
		}
		if c.Column == "last" && row.Written != 0 {
			row.Last = text
		} else if c.Column == "fate" && row.Resolved != 0 {
			row.Resolution = text
		}
	}
}

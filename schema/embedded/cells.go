package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// column names a cell within its row.
type column byte

// The columns, by table. They are stored: never renumber them.
const (
	colText      column = 1 // r
	colPayload   column = 2 // r
	colCancelled column = 3 // r
	colMovedTo   column = 4 // r

	colRecord  column = 1 // a
	colSession column = 2 // a

	colDispatched column = 1 // c
	colSettled    column = 2 // c

	colValue   column = 1 // every other table
	colDeleted column = 2 // t, R, w, m: hides a value that is not younger
	colMark    column = 2 // O: who cancelled the operation, and when; V: when the secret was used
)

// cell is one value, with what decides between two writes of it.
type cell struct {
	column    column
	timestamp int64 // µs
	expires   int64 // ms since the Unix epoch; never is stored as 0
	data      []byte
}

// never is the expiry of a cell that stays.
const never = 0

// headerSize is the stored size of a cell without its data: column, timestamp, expiry, length.
const headerSize = 1 + 8 + 8 + 4

// errCorrupt means that a stored row is not a row.
var errCorrupt = errors.New("corrupt row")

// expiryOf returns t as a cell's expiry; the zero time is never.
func expiryOf(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return max(t.UnixMilli(), never+1)
}

// live reports whether c is to be seen at nowMS.
func (c *cell) live(nowMS int64) bool { return c.expires == never || c.expires > nowMS }

// size returns the stored size of c.
func (c *cell) size() int { return headerSize + len(c.data) }

// wins compares two writes of one cell: the greater is the one that counts.
func (c *cell) wins(other *cell) int {
	return cmp.Or(
		cmp.Compare(c.timestamp, other.timestamp),
		cmp.Compare(c.expires, other.expires),
		bytes.Compare(c.data, other.data))
}

// appendCell appends the stored form of c.
func appendCell(dst []byte, c cell) []byte {
	dst = append(dst, byte(c.column))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.timestamp)) // #nosec G115 -- bits
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.expires))   // #nosec G115 -- bits
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(c.data))) // #nosec G115 -- at most maxRow
	return append(dst, c.data...)
}

// nextCell splits the first cell off row. The cell's data is part of row.
func nextCell(row []byte) (c cell, rest []byte, err error) {
	if len(row) < headerSize {
		return cell{}, nil, errCorrupt
	}
	n := binary.LittleEndian.Uint32(row[17:])
	if n > math.MaxInt32 || int(n) > len(row)-headerSize {
		return cell{}, nil, errCorrupt
	}
	end := headerSize + int(n)
	return cell{
		column:    column(row[0]),
		timestamp: int64(binary.LittleEndian.Uint64(row[1:])), // #nosec G115 -- bits
		expires:   int64(binary.LittleEndian.Uint64(row[9:])), // #nosec G115 -- bits
		data:      row[headerSize:end:end],
	}, row[end:], nil
}

// maxColumns is how many cells a row can have.
const maxColumns = 4

// cells is a row taken apart: cells[col-1], absent where its column is 0.
type cells [maxColumns]cell

// parseRow takes row apart. Cells keep pointing into it.
func parseRow(row []byte) (cs cells, err error) {
	for len(row) > 0 {
		var c cell
		if c, row, err = nextCell(row); err != nil {
			return cells{}, err
		}
		if c.column < 1 || c.column > maxColumns {
			return cells{}, errCorrupt
		}
		cs[c.column-1] = c
	}
	return cs, nil
}

// at returns the cell of a column if it is there and live at nowMS, else nil.
func (cs *cells) at(col column, nowMS int64) *cell {
	if c := &cs[col-1]; c.column != 0 && c.live(nowMS) {
		return c
	}
	return nil
}

// undeleted returns the value cell if it is live at nowMS and younger than the row's deletion. A
// deletion counts for as long as the row is there.
func (cs *cells) undeleted(nowMS int64) *cell {
	c, deleted := cs.at(colValue, nowMS), cs.at(colDeleted, 0)
	if c == nil || deleted != nil && deleted.timestamp >= c.timestamp {
		return nil
	}
	return c
}

// mergeRows appends to dst the row that holds the winning cell of each column of a and b.
func mergeRows(dst, a, b []byte) ([]byte, error) {
	as, err := parseRow(a)
	if err != nil {
		return nil, err
	}
	bs, err := parseRow(b)
	if err != nil {
		return nil, err
	}
	for i := range as {
		switch winner := &as[i]; {
		case winner.column == 0 && bs[i].column == 0:
		case winner.column == 0 || bs[i].column != 0 && bs[i].wins(winner) > 0:
			dst = appendCell(dst, bs[i])
		default:
			dst = appendCell(dst, *winner)
		}
	}
	return dst, nil
}

// merger resolves rows. Its name is stored: a store can only be opened with the merger it was
// made with.
var merger = &pebble.Merger{Name: "carillon.cells.1", Merge: startMerge}

// merging is a merge under way. It is commutative: newer and older operands are treated alike.
type merging struct{ row, spare []byte }

// maxPooled is the largest buffer that goes back to the pool of merges.
const maxPooled = 64 << 10

var mergings = sync.Pool{New: func() any { return new(merging) }}

func startMerge(_, value []byte) (pebble.ValueMerger, error) {
	m := mergings.Get().(*merging)
	m.row = append(m.row[:0], value...)
	return m, nil
}

func (m *merging) MergeNewer(value []byte) error {
	merged, err := mergeRows(m.spare[:0], m.row, value)
	if err != nil {
		return err
	}
	m.row, m.spare = merged, m.row
	return nil
}

func (m *merging) MergeOlder(value []byte) error { return m.MergeNewer(value) }

func (m *merging) Finish(bool) ([]byte, io.Closer, error) { return m.row, m, nil }

// Close gives the buffers back, when the reader is done with the row.
func (m *merging) Close() error {
	if cap(m.row)+cap(m.spare) <= maxPooled {
		mergings.Put(m)
	}
	return nil
}

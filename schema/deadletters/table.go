package deadletters

import (
	"context"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// Table is where letters lie: partitions of rows by run. A row consists of cells, each with a write
// timestamp: of two writes of a cell the later stands. Errors are those of schema's stores.
type Table interface {
	// Put writes letters into one partition. Those that fit share a batch.
	Put(ctx context.Context, p Partition, rows []Row) error
	// Resolve writes the cell Resolution of a row, to leave at its Expires.
	Resolve(ctx context.Context, p Partition, row Row) error
	// Rows returns those of the rows that are there, in any order; at most MaxRows are asked for.
	// Without whole they have no Text, Payload and Last.
	Rows(ctx context.Context, p Partition, runs []schema.RunID, whole bool) ([]Row, error)
	// Newest returns the rows before `before` (zero: from the newest) from the newest on, at most
	// limit of them. They have no Payload, and without whole no Text, Last and Resolution either.
	// Fewer than limit means that the partition was read to its end.
	Newest(ctx context.Context, p Partition, before schema.RunID, limit int, whole bool) ([]Row, error)
}

// MaxRows is how many runs Resolutions takes, and one more is what Table.Rows is asked for: the
// mark.
const MaxRows = 100

// Partition names one of a table.
type Partition struct {
	Key string // tenant, and "#" and the part where the letters of the day are spread
	Day int
}

// Row is what a table holds of a run. A row may have a resolution and no letter.
type Row struct {
	Run                 schema.RunID
	Text, Payload, Last []byte // of the letter
	Written             int64  // their write timestamp, µs; 0: there is no letter
	Resolution          []byte
	Resolved            int64     // its write timestamp, µs; 0: there is none
	Expires             time.Time // when what is written leaves; unknown of a row that was read
}

// add merges another row of the same run.
func (r *Row) add(other *Row) {
	if other.Written > r.Written {
		r.Text, r.Payload, r.Last, r.Written = other.Text, other.Payload, other.Last, other.Written
	}
	if other.Resolved > r.Resolved {
		r.Resolution, r.Resolved = other.Resolution, other.Resolved
	}
}

// size is about what a row takes, in bytes.
func (r *Row) size() int { return len(r.Text) + len(r.Payload) + len(r.Last) + len(r.Resolution) + 64 }

// Parts is over how many partitions a bad day is spread. It is stored in effect: letters that were
// written under another number would not be found.
const Parts = 32

// firstOf returns the first partition of a tenant's day.
func firstOf(at schema.TenantDay) Partition { return Partition{at.Tenant, at.Day} }

// partOf returns the part of a run on a day that is spread. The name of a tenant has no "#".
func partOf(at schema.TenantDay, run schema.RunID) Partition {
	p := run.Partition()
	return part(at, int((int64(p.Bucket)+int64(p.Shard))%Parts))
}

func part(at schema.TenantDay, i int) Partition {
	return Partition{at.Tenant + "#" + strconv.Itoa(1+i), at.Day}
}

// The mark of a day that is spread is a resolution without a letter, of a run that does not exist,
// in the first partition. An older build passes over it.
var (
	markRun  schema.RunID
	markText = []byte(`{"ending":"spread"}`)
)

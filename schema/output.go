package schema

import (
	"context"
	"time"
)

// PartSize is how many bytes of an output lie in one part; only the last has fewer.
const PartSize = 64 << 10

// PartKind says what a part holds.
type PartKind int8

// The kinds. They are stored: never change their values.
const (
	OutputPart PartKind = 1 // PartSize bytes of the output, the last one fewer
	ReportPart PartKind = 2 // what a worker reported while it ran: see Report
)

// PartKey names a part among those of a run and kind. An attempt that was executed twice has two
// fences, so each execution has parts of its own.
type PartKey struct {
	Attempt int
	Fence   Fence
	Number  int // from 1
}

// Part is a piece of what an attempt put out.
type Part struct {
	PartKey
	Data []byte
	// Tenant is whose it is, where it is written: see Attempt. It is not stored.
	Tenant string
}

// OutputStore holds what does not fit a record: long outputs, and the reports of workers.
type OutputStore interface {
	// PutPart writes one part of at most PartSize bytes. Repeating it with the same timestamp
	// (written, µs) is harmless. Errors as PutEntries.
	PutPart(ctx context.Context, run RunID, kind PartKind, p Part, written int64, expires time.Time) error
	// Parts returns the parts of a run after `after` (zero: from the first), ordered by attempt,
	// fence and number, at most limit. Fewer than limit means that there are no more.
	Parts(ctx context.Context, run RunID, kind PartKind, after PartKey, limit int) ([]Part, error)
	// LastPart returns the part of one execution with the highest number, or ErrNotFound. of.Number
	// does not matter.
	LastPart(ctx context.Context, run RunID, kind PartKind, of PartKey) (Part, error)
}

// Line is a line that a worker logged.
type Line struct {
	At   time.Time `json:"at"` // when its executor received it, by its clock
	Text string    `json:"text"`
}

// RunProgress is how far a worker says it has come. Total 0 means that it did not say of how much.
type RunProgress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total,omitempty"`
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at"` // when its executor received it
}

// Report is what a worker reported within some time: the content of a ReportPart. The last report
// of an execution holds its progress.
type Report struct {
	Lines []Line `json:"lines,omitempty"`
	// Dropped: lines after these that were not kept: too many, too fast.
	Dropped  int          `json:"dropped,omitempty"`
	Progress *RunProgress `json:"progress,omitempty"` // the latest one
}

// EncodeReport returns the stored form of r.
func EncodeReport(r *Report) ([]byte, error) { return encodeCell(r, "report") }

// DecodeReport is the inverse of EncodeReport.
func DecodeReport(text []byte) (*Report, error) { return decodeCell[Report](text, "report") }

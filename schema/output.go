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
	ReportPart PartKind = 2 // what a worker told while it ran: see Report
)

// PartKey names a part among those of a run and kind. An attempt that was executed twice has two fences, so each execution has
// parts of its own.
type PartKey struct {
	Attempt int
	Fence   Fence
	Number  int // from 1
}

// Part is a piece of what an attempt put out.
type Part struct {
	PartKey
	Data []byte
}

// OutputStore holds what does not fit a record: long outputs, and what workers tell while they run.
type OutputStore interface {
	// PutPart writes one part of at most PartSize bytes. It may be written again: the same write has the same timestamp (written, µs).
	// Errors as PutEntries.
	PutPart(ctx context.Context, run RunID, kind PartKind, p Part, written int64, expires time.Time) error
	// Parts returns the parts of a run after `after` (zero: from the first one), ordered by attempt, fence and number, at most limit of
	// them. Fewer than limit means that there are no more.
	Parts(ctx context.Context, run RunID, kind PartKind, after PartKey, limit int) ([]Part, error)
	// LastPart returns the part with the highest number of one execution, whatever of is numbered, or ErrNotFound.
	LastPart(ctx context.Context, run RunID, kind PartKind, of PartKey) (Part, error)
}

// Line is a line that a worker logged.
type Line struct {
	At   time.Time `json:"at"` // when its executor heard it, by that one's clock
	Text string    `json:"text"`
}

// RunProgress is how far a worker says that it has come. Total 0 means that it does not say of how much.
type RunProgress struct {
	Done  int64     `json:"done"`
	Total int64     `json:"total,omitempty"`
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at"` // when its executor heard it
}

// Report is what a worker told within some time: the content of a ReportPart. The last one of an execution tells its progress.
type Report struct {
	Lines    []Line       `json:"lines,omitempty"`
	Dropped  int          `json:"dropped,omitempty"`  // lines that came after these and were not kept: too many, too fast
	Progress *RunProgress `json:"progress,omitempty"` // the latest, whenever it was told
}

// EncodeReport returns the stored form of r.
func EncodeReport(r *Report) ([]byte, error) { return encodeCell(r, "report") }

// DecodeReport is the inverse of EncodeReport.
func DecodeReport(text []byte) (*Report, error) { return decodeCell[Report](text, "report") }

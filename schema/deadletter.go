package schema

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// DeadLetterRetention is how long a dead letter is kept by default.
const DeadLetterRetention = 30 * 24 * time.Hour

// DeadLetter is a run that failed for good. It holds what is needed to look at the run and to run
// it again, also after the run's own rows have left. All but Earlier and Resolution follows from
// the record that ended the run and from the entry that started that attempt.
type DeadLetter struct {
	Tenant string
	Run    RunID
	// Entry is the one that started the last attempt: a replay runs its spec. Its payload, whatever
	// its size, is with it where the letter is written and where it is read alone.
	Entry Entry
	// Attempts is the number of the last attempt, so how many were counted.
	Attempts int
	// Began is when the first attempt started, as far as that is known: if attempts were lost, it
	// may be that of a later one.
	Began time.Time
	// Last is the record of the last attempt.
	Last Record
	// Earlier are the attempts before the last, as they stood when the letter was written. They are
	// ordered by number and fence, with short errors and without outputs. They may differ if the
	// letter is written again.
	Earlier []Attempt
	// Resolution is what became of the letter; nil: it waits to be replayed or discarded.
	Resolution *Resolution

	// Fault is set where a stored letter cannot be understood (ErrNotUnderstood). Then only its
	// tenant and run are known, and it cannot be replayed.
	Fault error

	Written int64     // write timestamp, µs: of two final records of one run the later one stands
	Expires time.Time // when it leaves
}

// AllAttempts returns what the letter says of all attempts, the last one at the end.
func (l *DeadLetter) AllAttempts() []Attempt {
	return append(slices.Clone(l.Earlier), Attempt{Run: l.Run, Number: l.Attempts, Record: &l.Last})
}

// Day returns the day in which the letter lies.
func (l *DeadLetter) Day() int { return DeadLetterDay(l.Run) }

// DeadLetterDay returns the day in which the dead letter of a run lies: that of the due time in the
// run's id, as days since the Unix epoch. So the id alone finds the letter, whenever the run
// failed.
func DeadLetterDay(run RunID) int { return PeriodOf(run.Time()) }

// ResolutionKind is what became of a dead letter.
type ResolutionKind string

// The resolutions. They are stored: never change their values.
const (
	ResolvedReplayed   ResolutionKind = "replayed"  // a new run repeats the run
	ResolvedDiscarded  ResolutionKind = "discarded" // somebody decided to leave it
	ResolvedSuperseded ResolutionKind = "overtaken" // the run succeeded after all, or was cancelled
)

// Resolution says what became of a dead letter. It is a cell of its own, so a letter that is
// written again keeps its resolution.
type Resolution struct {
	Kind ResolutionKind `json:"ending"`
	At   time.Time      `json:"at"` // UTC; in µs it is the write timestamp
	By   string         `json:"by,omitempty"`
	Run  RunID          `json:"run,omitzero"` // the new run, of ResolvedReplayed
}

// lastCell is the cell of a dead letter that says how its run ended.
type lastCell struct {
	Attempts int           `json:"attempts"`
	Began    time.Time     `json:"began,omitzero"`
	Expires  time.Time     `json:"expires"`
	Record   *Record       `json:"record"`
	Earlier  []earlierCell `json:"earlier,omitempty"`
}

// earlierCell is one earlier attempt in it.
type earlierCell struct {
	Number int     `json:"n"`
	Fence  Fence   `json:"f"`
	Record *Record `json:"r"`
}

// EncodeLast returns the stored form of what l says besides its address, entry and resolution.
func (l *DeadLetter) EncodeLast() ([]byte, error) {
	cell := lastCell{l.Attempts, l.Began, l.Expires, &l.Last, nil}
	for i := range l.Earlier {
		a := &l.Earlier[i]
		cell.Earlier = append(cell.Earlier, earlierCell{a.Number, a.Fence, a.Record})
	}
	return encodeCell(cell, "dead letter")
}

// LoadDeadLetter makes a dead letter of what a store holds of it. It keeps text and payload;
// payload is what was read of it, resolution may be empty. A letter that cannot be understood has a
// Fault. A resolution that cannot be understood is one all the same: the letter does not wait.
func LoadDeadLetter(tenant string, run RunID, text, payload, last, resolution []byte, written int64) DeadLetter {
	cell, err := Decode[lastCell](last, "dead letter")
	l := DeadLetter{Tenant: tenant, Run: run, Attempts: cell.Attempts, Began: cell.Began, Expires: cell.Expires, Written: written}
	if cell.Record != nil {
		l.Last = *cell.Record
	}
	for _, w := range cell.Earlier {
		l.Earlier = append(l.Earlier, Attempt{Run: run, Number: w.Number, Fence: w.Fence, Record: w.Record})
	}
	var odd error
	l.Resolution, odd = DecodeResolution(resolution)
	l.Entry = LoadEntry(l.Last.Entry, text, payload, Marks{})
	l.Fault = cmp.Or(err, odd, l.Entry.Fault)
	return l
}

// EncodeResolution returns the stored form of f.
func EncodeResolution(f *Resolution) ([]byte, error) { return encodeCell(f, "resolution") }

// DecodeResolution is the inverse of EncodeResolution; an empty text is no resolution. A text that
// cannot be understood is an empty resolution, with ErrNotUnderstood.
func DecodeResolution(text []byte) (*Resolution, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // most letters have none
	}
	f, err := Decode[Resolution](text, "resolution")
	return &f, err
}

// DeadLetterStore holds the runs that failed for good.
type DeadLetterStore interface {
	// PutDeadLetters writes letters of any tenants; the caller bounds them. Writing one again is
	// harmless and leaves its resolution. Errors as PutEntries.
	PutDeadLetters(ctx context.Context, letters []DeadLetter) error
	// DeadLetter returns the letter of a run with its payload, resolved or not, or ErrNotFound. One
	// that cannot be understood comes with its Fault.
	DeadLetter(ctx context.Context, tenant string, run RunID) (DeadLetter, error)
	// DeadLetters returns the tenant's letters of a day, resolved or not and without payloads. They
	// come by the due time in their run's id, newest first, those before `before` (zero: from the
	// newest), at most limit. Fewer than limit means that the day was read to its end.
	DeadLetters(ctx context.Context, tenant string, day int, before RunID, limit int) ([]DeadLetter, error)
	// Resolutions returns, for each of the runs that has a letter, what became of it; nil: it
	// waits. All runs are of that day, at most 100.
	Resolutions(ctx context.Context, tenant string, day int, runs []RunID) (map[RunID]*Resolution, error)
	// PutResolution writes what became of the letter of a run, to leave at expires. Of two
	// resolutions the later stands. It may be written before its letter is. Errors as PutEntries.
	PutResolution(ctx context.Context, tenant string, run RunID, f Resolution, expires time.Time) error
}

// TenantDay names the dead letters of a tenant that lie in one day (DeadLetter.Day).
type TenantDay struct {
	Tenant string
	Day    int
}

// DeadLetterCount is what was counted of a tenant's day.
type DeadLetterCount struct {
	Waiting int // letters without a resolution
	Looked  int // letters that were looked at, resolved or not
}

// DeadLetterIndex finds and counts the dead letters of all tenants. Whoever writes a letter notes
// its day first, so a letter that is not noted does not exist, or is one of an older version.
type DeadLetterIndex interface {
	// NoteDeadLetters notes, until expires, that letters lie there whose runs ended on the day
	// `ended`. Noting it again is harmless. Errors as PutEntries.
	NoteDeadLetters(ctx context.Context, ended int, at TenantDay, expires time.Time) error
	// NotedDeadLetters returns what was noted of the day `ended`, by tenant and day, after `after`
	// (zero: from the first), at most limit. Fewer than limit means that there is no more.
	NotedDeadLetters(ctx context.Context, ended int, after TenantDay, limit int) ([]TenantDay, error)
	// CountDeadLetters counts the letters of a tenant's day, the newest first, and looks at no more
	// than limit of them. Letters that cannot be understood count.
	CountDeadLetters(ctx context.Context, at TenantDay, limit int) (DeadLetterCount, error)
}

package schema

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// DeadLetterRetention is how long a dead letter is kept where nothing else is configured.
const DeadLetterRetention = 30 * 24 * time.Hour

// DeadLetter is a run that has failed for good: what it takes to look at it and to run it again, also once its own rows have
// left. All of it but Earlier and Resolution follows from the record that ended the run and from the entry which that attempt was started from.
type DeadLetter struct {
	Tenant string
	Run    RunID
	// Entry is the one that the last attempt was started from: its spec is what a replay runs. Its payload, however large, is with it
	// where the letter is written and where it is read alone.
	Entry Entry
	// Attempts is the number of the last attempt, so how many were counted.
	Attempts int
	// Began is when the first of them started, as far as that is known: after attempts that were lost it may be a later one.
	Began time.Time
	// Last is the record of the last attempt.
	Last Record
	// Earlier are the attempts before it, as they stood when the letter was written: ordered by number and fence, what they came to and when, errors in short, without
	// outputs. It need not be the same if the letter is written again.
	Earlier []Attempt
	// Resolution is what became of the letter; nil = it waits to be replayed or discarded.
	Resolution *Resolution

	// Fault is set where a stored letter cannot be understood (ErrNotUnderstood): then it tells whose it is, and no more. It cannot be replayed.
	Fault error

	Written int64     // write timestamp, µs: of two final records of one run the later one stands
	Expires time.Time // when it leaves
}

// AllAttempts returns what the letter tells of all attempts, the last one at the end.
func (l *DeadLetter) AllAttempts() []Attempt {
	return append(slices.Clone(l.Earlier), Attempt{Run: l.Run, Number: l.Attempts, Record: &l.Last})
}

// Day returns the day in which the letter lies.
func (l *DeadLetter) Day() int { return DeadLetterDay(l.Run) }

// DeadLetterDay returns the day in which the dead letter of a run lies: that of the due time in its id, as days since the Unix epoch. So a
// letter is found by the run's id alone, whenever the run failed.
func DeadLetterDay(run RunID) int { return PeriodOf(run.Time()) }

// ResolutionKind is what became of a dead letter.
type ResolutionKind string

// The endings.
const (
	ResolvedReplayed  ResolutionKind = "replayed"  // a new run repeats the run
	ResolvedDiscarded ResolutionKind = "discarded" // somebody let it go
	ResolvedSuperseded ResolutionKind = "overtaken" // the run has not failed after all: an attempt under way came to succeed, or it was cancelled
)

// Resolution says what became of a dead letter. It is a cell of its own: a letter that is written again, by whoever repeats what follows
// from a record, keeps its fate.
type Resolution struct {
	Kind ResolutionKind    `json:"ending"`
	At     time.Time `json:"at"` // UTC; in µs it is the write timestamp
	By     string    `json:"by,omitempty"`
	Run    RunID     `json:"run,omitzero"` // the new run, of ResolvedReplayed
}

// lastWords is the cell of a dead letter that says how it ended.
type lastWords struct {
	Attempts int            `json:"attempts"`
	Began    time.Time      `json:"began,omitzero"`
	Expires  time.Time      `json:"expires"`
	Record   *Record        `json:"record"`
	Earlier  []earlierWords `json:"earlier,omitempty"`
}

// earlierWords is an attempt among them.
type earlierWords struct {
	Number int     `json:"n"`
	Fence  Fence   `json:"f"`
	Record *Record `json:"r"`
}

// EncodeLast returns the stored form of what l says besides its address, its entry and its fate.
func (l *DeadLetter) EncodeLast() ([]byte, error) {
	words := lastWords{l.Attempts, l.Began, l.Expires, &l.Last, nil}
	for i := range l.Earlier {
		a := &l.Earlier[i]
		words.Earlier = append(words.Earlier, earlierWords{a.Number, a.Fence, a.Record})
	}
	return encodeCell(words, "dead letter")
}

// LoadDeadLetter makes a dead letter of what a store holds of it. fate may be empty; payload is what was read of it. It keeps text and payload.
//
// A letter that it does not understand has a Fault. A fate that it does not understand is one all the same: the letter does not wait.
func LoadDeadLetter(tenant string, run RunID, text, payload, last, fate []byte, written int64) DeadLetter {
	words, err := Decode[lastWords](last, "dead letter")
	l := DeadLetter{Tenant: tenant, Run: run, Attempts: words.Attempts, Began: words.Began, Expires: words.Expires, Written: written}
	if words.Record != nil {
		l.Last = *words.Record
	}
	for _, w := range words.Earlier {
		l.Earlier = append(l.Earlier, Attempt{Run: run, Number: w.Number, Fence: w.Fence, Record: w.Record})
	}
	var odd error
	l.Resolution, odd = DecodeResolution(fate)
	l.Entry = LoadEntry(l.Last.Entry, text, payload, Marks{})
	l.Fault = cmp.Or(err, odd, l.Entry.Fault)
	return l
}

// EncodeResolution returns the stored form of f.
func EncodeResolution(f *Resolution) ([]byte, error) { return encodeCell(f, "fate") }

// DecodeResolution is the inverse of EncodeResolution; nothing is no fate. With ErrNotUnderstood comes a fate that says nothing: there is one.
func DecodeResolution(text []byte) (*Resolution, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // a letter without a fate is the usual one
	}
	f, err := Decode[Resolution](text, "fate")
	return &f, err
}

// DeadLetterStore holds the runs that have failed for good.
type DeadLetterStore interface {
	// PutDeadLetters writes letters, of any tenants; the caller bounds them. Writing one again is harmless, and leaves its fate as it is.
	// Errors as PutEntries.
	PutDeadLetters(ctx context.Context, letters []DeadLetter) error
	// DeadLetter returns the letter of a run, with its payload, whatever its fate, or ErrNotFound. One that cannot be understood comes with its Fault, as in lists.
	DeadLetter(ctx context.Context, tenant string, run RunID) (DeadLetter, error)
	// DeadLetters returns the tenant's letters of a day that lie before `before` (zero: from the newest), whatever their fate and without payloads, in the
	// order of the due times in the runs' ids, newest first, at most limit of them. Fewer means that the day was read to its end.
	DeadLetters(ctx context.Context, tenant string, day int, before RunID, limit int) ([]DeadLetter, error)
	// Resolutions returns, of those of the runs that have a letter, what became of it: nil = it waits. All runs are of that day, at most 100.
	Resolutions(ctx context.Context, tenant string, day int, runs []RunID) (map[RunID]*Resolution, error)
	// PutResolution writes what became of the letter of a run, to leave at expires; of two fates the later one stands. One that is written before
	// its letter is met by it. Errors as PutEntries.
	PutResolution(ctx context.Context, tenant string, run RunID, f Resolution, expires time.Time) error
}

package bucketer

import (
	"encoding/hex"
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// Job is a validated request for a one-off job: what to run, and when.
type Job struct {
	Tenant string
	// At is the instant asked for. Zero means now; an instant in the past runs at once.
	At time.Time

	Task     string       // the task to run …
	Work     *schema.Work // … or the work itself: exactly one of the two
	Priority schema.Priority
	Misfire  *schema.Misfire
	Labels   map[string]string
	Payload  []byte // JSON, or nil

	Trigger schema.Trigger
	Origin  schema.RunID // the run that this one repeats

	// Key is the idempotency key, if any, and BodyHash the hash of the body it came with.
	Key, BodyHash string
	// KeyUntil is until when the key is kept, if that is later than a day from now.
	KeyUntil time.Time
}

// Receipt says what became of a Job: the entry that will run, and how it came to be.
type Receipt struct {
	Run schema.RunID
	// Existing: the key was known with the same body; nothing new was made.
	Existing bool
}

// Errors of intake, besides those of the store. schema.ErrUnknown and schema.ErrUnavailable mean that the
// request cannot be promised now (503); it may be sent again with the same key.
var (
	// ErrKeyReused: the idempotency key came before with another body.
	ErrKeyReused = errors.New("the idempotency key was used with another body")
	// ErrPartitionFull: the minute is full; nothing was written. Another minute, or later, will do (429).
	ErrPartitionFull = errors.New("too many bytes are due in this minute")
	// ErrOverloaded: more is under way than may be; nothing was written (429).
	ErrOverloaded = errors.New("too many writes are under way")
	// ErrNoTask: the job names a task that does not exist.
	ErrNoTask = errors.New("no such task")
	// ErrManyRates: as many tasks of the cluster have a rate as may (409).
	ErrManyRates = errors.New("as many tasks have a rate as may")
	// ErrFinished: the run has ended, or has started, and cannot be changed any more (409).
	ErrFinished = errors.New("the run cannot be changed any more")
	// ErrNotReady: this node may not write now: its clock is off, it was stopped, or it has not read the settings yet (503).
	ErrNotReady = errors.New("not ready to write")
	// ErrSealed: a secret cannot be opened: the key that sealed it is not configured here, or the secret
	// was tampered with.
	ErrSealed = errors.New("the secret cannot be opened")
)

// Change is a validated change of a pending one-off job. Nil fields stay as they are.
type Change struct {
	// Of is the entry to which the change was made up (Run.Current): if another one starts the run by now, the answer is
	// ErrConflict. Zero = whichever starts it.
	Of schema.EntryID

	At       *time.Time // a new instant; zero time = now
	Payload  *[]byte    // a new payload; nil slice = none
	Priority *schema.Priority
	Labels   *map[string]string
	Work     *schema.Work // replaces the inline work …
	Task     *string      // … or the task
}

// Run is a run as its rows tell it.
type Run struct {
	ID       schema.RunID
	Entry    schema.Entry     // the row that the run was born with
	Current  schema.Entry     // the entry that starts it: another one after a reschedule
	Attempts []schema.Attempt // ordered by number and fence, attempt 0 first
	State    schema.State
	// Progress is what the attempt under way has told last, if it has. Only Bucketer.Run reads it.
	Progress *schema.RunProgress
}

// Window selects runs by due time, From ≤ due < To, at most an hour.
type Window struct {
	Tenant   string
	From, To time.Time
	State    schema.State // "" = any
	Task     string       // "" = any
}

// Position is where a listing goes on. The zero Position is the start of the window.
type Position struct {
	After schema.EntryID // the last entry walked over, in the order of ids over all shards
}

// MarshalText returns 32 hexadecimal digits. The form of an id would not do: After may lie between the ids of two
// buckets and be no entry's, and the parser of ids refuses it then.
func (p Position) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, p.After[:]), nil }

// UnmarshalText is the inverse of MarshalText.
func (p *Position) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(p.After)) {
		return errors.New("not a position")
	}
	_, err := hex.Decode(p.After[:], text)
	return err
}

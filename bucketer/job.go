package bucketer

import (
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
	JobName string       // of the job that the origin is a run of; "": it has none
	// OriginJob is the job among whose runs Origin is listed, and this one is too (schema.Spec);
	// zero: there is none.
	OriginJob schema.JobID

	// Region: the home at which it is to lie, named after the region that served it first; "": where
	// Regions says.
	Region string
	// RequireRegion: only the region that its home is named after runs it.
	RequireRegion bool

	// After: the job waits until other one-off jobs have ended; At is then zero.
	After *schema.After

	// CreatedBy is who asks for it, as the audit log names callers; "": no key was asked for.
	CreatedBy string

	// Durability is when it is acknowledged; "": as its tenant or the configuration says.
	Durability schema.Durability

	// Unique: it is made only if no job of the same key was made within that one's window.
	Unique *schema.Unique

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
	// Unique: of an existing run: another request made it, as a job of the same unique key.
	Unique bool
	// Everywhere: every region holds a run that was made just now.
	Everywhere bool
	// Entry is that of a run which was made just now, or, if Unique, as it was made; nil: its rows
	// say it.
	Entry *schema.Entry
}

// Errors of intake, besides those of the store. schema.ErrUnknown and schema.ErrUnavailable mean
// that the request cannot be promised now (503); it may be sent again with the same key.
var (
	// ErrKeyReused: the idempotency key came before with another body.
	ErrKeyReused = errors.New("the idempotency key was used with another body")
	// ErrPartitionFull: the minute is full; nothing was written. Another minute, or later, will do
	// (429).
	ErrPartitionFull = errors.New("too many bytes are due in this minute")
	// ErrOverloaded: more is under way than may be; nothing was written (429).
	ErrOverloaded = errors.New("too many writes are under way")
	// ErrNoTask: the job names a task that does not exist.
	ErrNoTask = errors.New("no such task")
	// ErrManyRates: as many tasks of the cluster have a rate, or require labels, as may (409).
	ErrManyRates = errors.New("as many tasks have a rate, or require labels, as may")
	// ErrStale: it is not as the caller has seen it; nothing was changed (412).
	ErrStale = errors.New("it was changed meanwhile")
	// ErrFinished: the run has ended, or has started, and cannot be changed any more (409).
	ErrFinished = errors.New("the run cannot be changed any more")
	// ErrNotReady: this node may not write now: its clock is off, it was stopped, or it has not
	// read the settings yet (503).
	ErrNotReady = errors.New("not ready to write")
	// ErrSealed: a secret cannot be opened: the key that sealed it is not configured here, or the
	// secret was tampered with.
	ErrSealed = errors.New("the secret cannot be opened")
)

// Finished is an attempt with its record, and the entry that started it or that attempt 0 is about.
type Finished struct {
	Entry   schema.Entry
	Attempt schema.Attempt
}

package schema

import (
	"context"
	"time"
)

// EntryWriter writes rows of runs.
type EntryWriter interface {
	// PutEntries writes the entries, and the payloads over InlinePayload of those that carry one,
	// as one batch with each entry's own timestamp and expiry. The caller bounds the batch and
	// groups it by partition; a batch of many partitions is allowed and costs more. Marks are not
	// written.
	//
	// Nil means that a quorum holds all. ErrUnknown and ErrUnavailable mean that any of them may or
	// may not be held; ErrTooLarge, that none is. Writing an entry again is harmless.
	PutEntries(ctx context.Context, entries []Entry) error
}

// EntryReader reads rows of runs. Rows without a spec (marks whose entry has left) are not
// returned.
type EntryReader interface {
	// Entries returns the entries of p in r, in id order (so by due time), at most limit of them,
	// with inline payloads and marks. Fewer than limit means that r was read to its end.
	Entries(ctx context.Context, p Partition, r IDRange, limit int) ([]Entry, error)
	// EntryIDs returns only the ids of what Entries would return.
	EntryIDs(ctx context.Context, p Partition, r IDRange, limit int) ([]EntryID, error)
	// EntriesByID returns those of the entries that exist, in id order. All ids lie in p, at most
	// 100.
	EntriesByID(ctx context.Context, p Partition, ids []EntryID) ([]Entry, error)
	// Payload returns the payload that lies in payloads under id, or ErrNotFound.
	Payload(ctx context.Context, id EntryID) ([]byte, error)
}

// MarkStore sets the marks of a run by conditional writes.
type MarkStore interface {
	// CancelRun marks the run cancelled if its row exists, is not cancelled, and is moved to asRead
	// (zero: not moved). ErrConflict comes with the marks as they are; ErrNotFound means no row.
	CancelRun(ctx context.Context, id RunID, asRead EntryID, mark Cancel, expires time.Time) (Marks, error)
	// MoveRun sets moved_to under the same condition.
	MoveRun(ctx context.Context, id RunID, asRead, to EntryID, expires time.Time) (Marks, error)
	// Marks reads the marks so that every conditional write that was begun before is decided
	// (SERIAL). ErrNotFound means no row.
	Marks(ctx context.Context, id RunID) (Marks, error)
}

// AttemptStore holds the attempts of runs.
type AttemptStore interface {
	// PutAttempts writes the rows as one batch, each with its own timestamp and expiry; nil cells
	// are left as they are. The caller bounds it and groups it by partition. Errors as PutEntries.
	PutAttempts(ctx context.Context, attempts []Attempt) error
	// Attempts returns the attempts of the runs, which all lie in p, at most 100, ordered by run,
	// number and fence. One whose row cannot be understood is among them, with its Fault.
	Attempts(ctx context.Context, p Partition, runs []RunID) ([]Attempt, error)
	// KeepAttempts makes some attempts of a run stay until expires at least: those that `which`
	// picks, and those that cannot be understood. It writes their cells again byte for byte, each
	// under its own timestamp: of equal cells the longer-lived one wins. Errors as PutEntries.
	KeepAttempts(ctx context.Context, run RunID, expires time.Time, which func(*Attempt) bool) error
}

// SessionStore holds the executors' sessions, by conditional writes only.
type SessionStore interface {
	// SwapSession replaces was (as read; zero ID: none) by is. A zero is.ID removes it: the session
	// is declared dead. ErrConflict: another stands, or other values do.
	SwapSession(ctx context.Context, was, is Session) error
	// Session returns the session of an executor as every conditional write before has left it
	// (SERIAL), or ErrNotFound.
	Session(ctx context.Context, executor string) (Session, error)
}

// KeyRecord is what an idempotency key stands for: the hash of the body that it came with first,
// and the entry made of that body.
type KeyRecord struct {
	BodyHash string
	Entry    EntryID
	Text     []byte // the entry's text and payload, to write the recorded row again
	Payload  []byte
	Expires  time.Time // of the entry
}

// KeyStore holds idempotency keys.
type KeyStore interface {
	// RegisterKey records claim under the tenant's key, until expires, unless the key is taken. It
	// returns the record that stands, and whether it is the one given.
	RegisterKey(ctx context.Context, tenant, key string, claim KeyRecord, expires time.Time) (KeyRecord, bool, error)
}

// Cursor says how far a shard has come in an epoch. Both numbers only grow within an epoch.
type Cursor struct {
	Shard      Shard
	Epoch      int64
	Dispatched Bucket // every bucket up to this one has been published whole
	Settled    Bucket // every bucket up to this one is finished: all its entries are done
}

// CursorStore holds the cursors.
type CursorStore interface {
	// Cursors returns the newest epoch's cursor of every shard that has one, in shard order.
	Cursors(ctx context.Context) ([]Cursor, error)
	// Cursor returns the newest epoch's cursor of a shard, or ErrNotFound. In a cluster that is a
	// fault: a shard without a cursor has no owner.
	Cursor(ctx context.Context, shard Shard) (Cursor, error)
	// AdvanceCursor raises dispatched and settled to c's. Each is a max-register: a lower value
	// than the stored one changes nothing.
	AdvanceCursor(ctx context.Context, c Cursor) error
}

// Settings are what the whole cluster must agree on.
type Settings struct {
	Shards    int           // S: new ids take shards below it
	Retention time.Duration // how long after its due time a row stays
	History   []ShardCount  // the S before this one, newest first, kept for 24 h
}

// ShardCount is a former number of shards and when it ended.
type ShardCount struct {
	Shards int       `json:"shards"`
	Until  time.Time `json:"until"`
}

// SettingsStore holds the settings.
type SettingsStore interface {
	// Settings returns the settings, or ErrNotFound before the first migration.
	Settings(ctx context.Context) (Settings, error)
}

// TaskStore holds the tasks of tenants.
type TaskStore interface {
	// PutTask creates or replaces a task.
	PutTask(ctx context.Context, t Task) error
	// Task returns a task, or ErrNotFound. With ErrNotUnderstood comes a task that has its names, a
	// Fault, and the write timestamp as UpdatedAt: it can be put again, or deleted.
	Task(ctx context.Context, tenant, name string) (Task, error)
	// Tasks returns at most limit tasks of a tenant with a name after `after`, in name order.
	Tasks(ctx context.Context, tenant, after string, limit int) ([]Task, error)
	// DeleteTask removes a task; one that does not exist is removed already.
	DeleteTask(ctx context.Context, tenant, name string, at time.Time) error
}

// Prober tells how the store is.
type Prober interface {
	// Time returns the store's own clock; an error means that it cannot be reached.
	Time(ctx context.Context) (time.Time, error)
}

// HostClock is the clock of one host that serves the store or the queue.
type HostClock struct {
	// Host is the address of the host, without a port; its DNS name until its address is known. It
	// is empty for this process.
	Host string
	// Name is what the configuration calls the host: an address or a DNS name. It may be empty.
	Name string
	// Time asks that host, and no other, what time it is there.
	Time func(ctx context.Context) (time.Time, error)
}

// ClockStore knows the clocks of the hosts that serve the store.
type ClockStore interface {
	// Clocks returns the clock of every host that serves the store, in no order, also of those that
	// do not answer at present. It does no I/O; the caller owns the slice.
	Clocks() []HostClock
}

// Store is everything that a backend implements. Users take the roles they need.
//
// A backend writes the roles of administrative rows by the four methods of document.Rows.
type Store interface {
	EntryWriter
	EntryReader
	MarkStore
	AttemptStore
	OutputStore
	SessionStore
	KeyStore
	CursorStore
	SettingsStore
	TaskStore
	RateStore
	JobStore
	JobIndex
	HistoryStore
	DecisionStore
	LeaseStore
	WaitListStore
	TenantStore
	APIKeyStore
	SigningKeyStore
	AuditStore
	StatsStore
	OperationStore
	DeadLetterStore
	Prober
	ClockStore
	// Close releases what the store holds. Calls under way may fail.
	Close() error
}

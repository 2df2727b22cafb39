package schema

import (
	"context"
	"time"
)

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

// Notice tells a shard's owner that an entry is finished: its record and every follow-up of it
// are held by a quorum. A lost notice costs a look, nothing else.
type Notice struct {
	Entry   EntryID
	Run     RunID
	Attempt int
	// Succeeded: the run has succeeded, and nothing else was ever said of its end. The owner need
	// not read the rows of a step to know what comes next.
	Succeeded bool
}

// Hints carries entries that may lie behind their dispatcher's scan to the owner of their shard.
// It is advice: a hint may be lost, doubled or late.
type Hints interface {
	// Near hands over entries of one shard that are due soon. It does not wait.
	Near(shard Shard, entries []Entry)
}

// Notices carries notices to the owners of their shards. It is advice, as Hints is.
type Notices interface {
	// Done hands over notices of one shard. It does not wait.
	Done(shard Shard, notices []Notice)
}

// The topics of signals: best-effort messages from one node to all. Whoever misses one finds out by
// reading, some seconds later.
const (
	// TopicCancel tells executors to stop a run. Body: its id, as text.
	TopicCancel = "cancel"
	// TopicTask tells that a task was changed. Body: tenant, a line feed, name.
	TopicTask = "task"
	// TopicTaskAsk asks each member to forget a task, and to say so. Body: JSON, with the topic of
	// the answers: this one, a dot and a word.
	TopicTaskAsk = "task-ask"
	// TopicKey tells that an API key was made or revoked. Body: its hash.
	TopicKey = "key"
	// TopicTenant tells that a tenant was changed. Body: its name.
	TopicTenant = "tenant"
	// TopicSigning tells that the signing keys of a tenant were changed. Body: its name.
	TopicSigning = "signing"
	// TopicSecret tells that a secret was changed. Body: as TopicTask.
	TopicSecret = "secret"
	// TopicTargets asks about the targets of a tenant, and may ask to close the circuit of one.
	// Body: JSON, with the topic of the answers: this one, a dot and a word.
	TopicTargets = "targets"
	// TopicStats asks nodes what they count in the minute under way. Body: JSON, with the topic of the
	// answers: this one, a dot and a word.
	TopicStats = "stats"
	// TopicMembers asks each member how it stands. Body: JSON, with the topic of the answers: this
	// one, a dot and a word.
	TopicMembers = "members"
	// TopicSlots tells that an executor waits for slots of a task's limit, or has released some.
	// Body: the key of the limit.
	TopicSlots = "slots"
)

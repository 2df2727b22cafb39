package schema

import (
	"context"
	"errors"
	"time"
)

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
	JobBatchStore
	JobIndex
	HistoryStore
	DecisionStore
	LeaseStore
	WaitListStore
	TenantStore
	APIKeyStore
	SigningKeyStore
	SecretStore
	SubscriptionStore
	NotificationStore
	IncidentStore
	CalendarStore
	AuditStore
	StatsStore
	OperationStore
	DeadLetterStore
	DeadLetterIndex
	Prober
	ClockStore
	// Close releases what the store holds. Calls under way may fail.
	Close() error
}

// What a store answers besides success. Adapters translate their driver's errors into these,
// once, and wrap them with the act: test with errors.Is.
var (
	// ErrNotFound: there is no such row, and a quorum said so.
	ErrNotFound = errors.New("not found")

	// ErrConflict: the condition of a conditional write did not hold; nothing was written.
	ErrConflict = errors.New("conflict")

	// ErrUnknown: a write may or may not have happened, and may still happen. Read before deciding;
	// repeating an unconditional write with the same timestamp is always right.
	ErrUnknown = errors.New("outcome unknown")

	// ErrUnavailable: the store could not answer. Of a read nothing may be concluded. A single
	// write did not happen; of a batch, any part may have.
	ErrUnavailable = errors.New("unavailable")

	// ErrNotUnderstood: a row is there that this program cannot understand. Another version wrote
	// it, it names a time zone that this program does not have, or it is damaged. Nothing was
	// written.
	ErrNotUnderstood = errors.New("not understood")

	// ErrTooLarge: a row is larger than the store takes; nothing was written.
	ErrTooLarge = errors.New("too large")
)

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
	// RegisteredKey returns the record under the tenant's key as every registration before has left
	// it (SERIAL), or ErrNotFound.
	RegisteredKey(ctx context.Context, tenant, key string) (KeyRecord, error)
}

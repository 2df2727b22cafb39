package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// AuditID orders audit entries: a UUIDv7 whose first 60 bits are the instant, to the µs, and the
// number of the entry.
type AuditID [16]byte

// MakeAuditID returns the id of the entry with that number among those of one node, at t.
func MakeAuditID(t time.Time, number uint16, random uint64) AuditID {
	us := t.UnixMicro()
	id := AuditID(MakeJobID(time.UnixMicro(us), Shard(us%1000), random)) // #nosec G115 -- below 4096
	id[8], id[9] = 0x80|byte(number>>8)&0x3f, byte(number)
	return id
}

// IsZero reports whether id is no id.
func (id AuditID) IsZero() bool { return id == AuditID{} }

// Compare orders ids by instant and number.
func (id AuditID) Compare(other AuditID) int { return bytes.Compare(id[:], other[:]) }

// Time returns the instant of the entry, to the ms.
func (id AuditID) Time() time.Time { return EntryID(id).Time() }

// String returns the usual form of a UUID, in lower case.
func (id AuditID) String() string { return formatUUID(id) }

// MarshalText returns String.
func (id AuditID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *AuditID) UnmarshalText(text []byte) error {
	u, err := parseUUID(string(text))
	if err != nil {
		return err
	}
	*id = u
	return nil
}

// AuditEntry says who changed what. It never holds a secret.
type AuditEntry struct {
	ID     AuditID
	Tenant string
	At     time.Time // UTC, to the ms: the time in ID
	Actor  string    // name of the key, or who else
	Action string    // "create", "update", "delete", and so on
	Object string    // kind and name: "task/send-email"
	// Before and After are the object as JSON, cut to some KiB; nil where there is none.
	Before, After json.RawMessage
	Note          string // such as "20 lines"
}

// NoteUnreadable is the note of an entry whose stored detail cannot be understood.
const NoteUnreadable = "what is stored of the change cannot be read"

// AuditDay returns the day in which an entry of the instant lies: days since the Unix epoch.
func AuditDay(t time.Time) int { return PeriodOf(t) }

// AuditRetention is how long audit entries stay.
const AuditRetention = 400 * 24 * time.Hour

// AuditStore holds the audit log. Entries leave after AuditRetention.
type AuditStore interface {
	// PutAudit writes entries; the caller bounds them. Errors as PutEntries. Writing one again is
	// harmless.
	PutAudit(ctx context.Context, entries []AuditEntry) error
	// Audit returns the tenant's entries of a day before `before` (zero: from the newest), newest
	// first, at most limit of them.
	Audit(ctx context.Context, tenant string, day int, before AuditID, limit int) ([]AuditEntry, error)
}

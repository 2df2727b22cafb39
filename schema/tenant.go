package schema

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"
)

// SystemTenant is the tenant of the operators: its keys may act for any tenant, and see what
// belongs to none.
const SystemTenant = "system"

// Role is what an API key may do. Each role may do what the ones before it may.
type Role string

// The roles, the weakest first.
const (
	Viewer   Role = "viewer"   // read
	Operator Role = "operator" // make and change jobs, runs and tasks
	Admin    Role = "admin"    // keys and tenants, and read the audit log
)

// Roles are all roles, the weakest first. Do not modify.
var Roles = []Role{Viewer, Operator, Admin}

// Covers reports whether r may do what need may. An unknown role covers nothing, and nothing covers
// it.
func (r Role) Covers(need Role) bool { return r.rank() >= need.rank() && need.rank() > 0 }

func (r Role) rank() int {
	switch r {
	case Viewer:
		return 1
	case Operator:
		return 2
	case Admin:
		return 3
	}
	return 0
}

// Quotas bound what a tenant may use. 0 means no bound.
type Quotas struct {
	// Jobs: jobs that can have many runs and have not ended
	Jobs int `json:"jobs,omitempty"`
	// RunsPerMinute: runs that are asked for, those of recurring jobs left out
	RunsPerMinute int `json:"runs_per_minute,omitempty"`
	// ImportLinesPerSecond: lines of imports that are taken in
	ImportLinesPerSecond int `json:"import_lines_per_second,omitempty"`
	// PayloadBytesPerMinute: of what is asked for, imports included
	PayloadBytesPerMinute int64 `json:"payload_bytes_per_minute,omitempty"`
}

// Tenant owns tasks and jobs. A tenant without a row has weight 1 and no quotas.
type Tenant struct {
	Name      string    `json:"-"`
	Weight    int       `json:"weight,omitempty"` // its share where tenants compete
	Quotas    Quotas    `json:"quotas"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Fault is set where the stored text cannot be understood (ErrNotUnderstood). Then UpdatedAt is
	// the write timestamp, and all but the name is unknown.
	Fault error `json:"-"`
}

// DefaultWeight is the share of a tenant that has stated none.
const DefaultWeight = 1

// KeyHash is the SHA-256 of an API key. The key itself is stored nowhere.
type KeyHash [sha256.Size]byte

// HashKey returns the hash of an API key.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// String returns h in lower-case hexadecimal digits.
func (h KeyHash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns String.
func (h KeyHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *KeyHash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("not the hash of a key")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// APIKey is what is stored of a key: whose it is and what it may do.
type APIKey struct {
	Hash      KeyHash   `json:"hash"`
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"` // unique in the tenant
	Role      Role      `json:"role"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: never
	LastUsed  time.Time `json:"-"`                   // to some minutes; zero: never. Only in a list

	// Fault is set in a list where the stored text cannot be understood (ErrNotUnderstood). Such a
	// key has a name, and is not valid.
	Fault error `json:"-"`
}

// Expired reports whether k is no longer valid.
func (k *APIKey) Expired(now time.Time) bool {
	return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt)
}

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

// How long audit entries and counts stay.
const (
	AuditRetention = 400 * 24 * time.Hour
	StatsRetention = 14 * 24 * time.Hour
)

// MinuteStats counts what a node saw in one minute.
type MinuteStats struct {
	Minute time.Time `json:"-"` // its begin
	Node   string    `json:"-"` // and which of its lives: unique

	// Due: entries that were handed to executors for the first time
	Due       int64 `json:"due,omitempty"`
	Started   int64 `json:"started,omitempty"`   // runs that were started for the first time
	Succeeded int64 `json:"succeeded,omitempty"` // attempts, as the next
	Failed    int64 `json:"failed,omitempty"`    // timed out and lost ones too
	Missed    int64 `json:"missed,omitempty"`    // runs
	Retried   int64 `json:"retried,omitempty"`   // retries that were written
	// Lateness counts first starts by class: those later than the class before and at most UpTo.
	Lateness []LatenessClass `json:"lateness,omitempty"`

	Written int64 `json:"-"` // write timestamp, µs; not read back
}

// LatenessClass is a class of lateness and how many starts were in it.
type LatenessClass struct {
	UpTo  Duration `json:"up_to"`
	Count int64    `json:"count"`
}

// StatsHour returns the hour in which a minute lies: hours since the Unix epoch.
func StatsHour(t time.Time) int { return int(floorDiv(t.Unix(), 3600)) }

// TenantStore holds the tenants.
type TenantStore interface {
	// PutTenant creates or replaces a tenant. Of two writes the one with the later UpdatedAt
	// stands.
	PutTenant(ctx context.Context, t Tenant) error
	// Tenant returns a tenant, or ErrNotFound. One that cannot be understood comes with its Fault.
	Tenant(ctx context.Context, name string) (Tenant, error)
	// Tenants returns at most limit tenants with a name after `after`, in name order.
	Tenants(ctx context.Context, after string, limit int) ([]Tenant, error)
}

// APIKeyStore holds the API keys, found by hash and by name.
type APIKeyStore interface {
	// CreateAPIKey stores the key. ErrConflict: the tenant has another key of this name. Creating
	// it again is harmless until it is deleted.
	CreateAPIKey(ctx context.Context, k APIKey) error
	// APIKey returns the key of that hash, without LastUsed, or ErrNotFound. A key that cannot be
	// understood is not found, so it is refused.
	APIKey(ctx context.Context, hash KeyHash) (APIKey, error)
	// APIKeys returns at most limit keys of a tenant with a name after `after`, in name order. A
	// key whose creation or deletion was cut short may be among them, and is not valid.
	APIKeys(ctx context.Context, tenant, after string, limit int) ([]APIKey, error)
	// DeleteAPIKey removes the key of that name, for ever, and returns it, or ErrNotFound. After an
	// error it may not be valid any more, and is to be removed again.
	DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (APIKey, error)
	// TouchAPIKey notes that the key was used then. The latest use stands.
	TouchAPIKey(ctx context.Context, hash KeyHash, at time.Time) error
}

// AuditStore holds the audit log. Entries leave after AuditRetention.
type AuditStore interface {
	// PutAudit writes entries; the caller bounds them. Errors as PutEntries. Writing one again is
	// harmless.
	PutAudit(ctx context.Context, entries []AuditEntry) error
	// Audit returns the tenant's entries of a day before `before` (zero: from the newest), newest
	// first, at most limit of them.
	Audit(ctx context.Context, tenant string, day int, before AuditID, limit int) ([]AuditEntry, error)
}

// StatsStore holds counts of minutes. They leave after StatsRetention.
type StatsStore interface {
	// PutStats writes what a node counted in a minute; the latest write stands.
	PutStats(ctx context.Context, s MinuteStats) error
	// Stats returns all counts of an hour, by minute and node. Those that cannot be understood are
	// left out.
	Stats(ctx context.Context, hour int) ([]MinuteStats, error)
}

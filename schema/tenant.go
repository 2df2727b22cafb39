package schema

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// SystemTenant is the tenant of the operators: its keys may act for any tenant, and see what
// belongs to none.
const SystemTenant = "system"

// Quotas bound what a tenant may use. 0 means no bound.
type Quotas struct {
	// Jobs: jobs that can have many runs and have not ended.
	Jobs int `json:"jobs,omitempty"`
	// RunsPerMinute: runs that are asked for or that schedules start, those of recurring workflows
	// left out. What is asked for beyond it is refused; what schedules start, is deferred.
	RunsPerMinute int `json:"runs_per_minute,omitempty"`
	// Concurrency: runs under way at once, in the whole cluster. A run of a workflow counts by its
	// steps.
	Concurrency int `json:"concurrency,omitempty"`
	// ImportLinesPerSecond: lines of imports that are taken in.
	ImportLinesPerSecond int `json:"import_lines_per_second,omitempty"`
	// PayloadBytesPerMinute: of what is asked for, imports included.
	PayloadBytesPerMinute int64 `json:"payload_bytes_per_minute,omitempty"`
}

// Tenant owns tasks and jobs. A tenant without a row has weight 1 and no quotas.
type Tenant struct {
	Name   string `json:"-"`
	Weight int    `json:"weight,omitempty"` // its share where tenants compete
	Quotas Quotas `json:"quotas"`
	// Durability is that of jobs that state none; "": that of the configuration.
	Durability Durability `json:"durability,omitempty"`
	// Retention is how many days the history of its runs is kept; 0: as long as the cluster keeps
	// it. At least MinRetention, and no more than the cluster's.
	Retention int `json:"retention,omitempty"`
	// Audit is what the audit log has of the tenant besides what it always has.
	Audit TenantAudit `json:"audit,omitzero"`
	// EncryptPayloads: payloads and outputs are stored encrypted from now on (package sealed).
	EncryptPayloads bool `json:"encrypt_payloads,omitempty"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`

	// Fault is set where the stored text cannot be understood (ErrNotUnderstood). Then UpdatedAt is
	// the write timestamp, and all but the name is unknown.
	Fault error `json:"-"`
}

// MinRetention is the least retention of a tenant, in days. An idempotency key is known for 24 h,
// that of a line with an instant by the row of its run. What else must find the rows of a run that
// was due does so within hours: the second read of a bucket 3 h 15 min after its end, a cursor that
// goes back an hour. And a day leaves time to mend what keeps runs from starting.
const MinRetention = 1

// RetentionDay is the unit of retentions of tenants.
const RetentionDay = 24 * time.Hour

// Keeping is the name under which it is kept that a tenant has, or had, a retention of its own
// (SubscriptionStore.PutListening). No tenant has such a name.
func Keeping(tenant string) string { return tenant + keepingSuffix }

// KeepingTenant returns the tenant of a name that Keeping made.
func KeepingTenant(name string) (tenant string, ok bool) {
	return strings.CutSuffix(name, keepingSuffix)
}

const keepingSuffix = "/retention"

// TenantAudit is what a tenant asks of the audit log.
type TenantAudit struct {
	// Creations: each one-off job that a request creates has an entry.
	Creations bool `json:"creations,omitempty" doc:"Whether each one-off job that is created has an entry; those of an import have that of the import"`
}

// DefaultWeight is the share of a tenant that has stated none.
const DefaultWeight = 1

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

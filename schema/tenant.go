package schema

import (
	"context"
	"time"
)

// SystemTenant is the tenant of the operators: its keys may act for any tenant, and see what
// belongs to none.
const SystemTenant = "system"

// Quotas bound what a tenant may use. 0 means no bound.
type Quotas struct {
	// Jobs: jobs that can have many runs and have not ended.
	Jobs int `json:"jobs,omitempty"`
	// RunsPerMinute: runs that are asked for, those of recurring jobs left out.
	RunsPerMinute int `json:"runs_per_minute,omitempty"`
	// ImportLinesPerSecond: lines of imports that are taken in.
	ImportLinesPerSecond int `json:"import_lines_per_second,omitempty"`
	// PayloadBytesPerMinute: of what is asked for, imports included.
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

package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/request"
	"carillon.dev/carillon/schema"
)

// Tenants keeps weights and quotas (admin.Tenants).
type Tenants interface {
	// Tenant returns a tenant. One without a row has the defaults and no times.
	Tenant(ctx context.Context, name string) (schema.Tenant, error)
	// AuditsCreations reports whether a tenant asks for audit entries of one-off jobs that are
	// created, as it was within the last 10 s.
	AuditsCreations(ctx context.Context, name string) bool
	// Tenants returns at most limit tenants of which something was stated, with a name after
	// `after`, in name order.
	Tenants(ctx context.Context, after string, limit int) ([]schema.Tenant, error)
	// PutTenantIf puts a tenant that must be as it was put at `seen` (zero: never; nil: any), else
	// it is bucketer.ErrStale.
	PutTenantIf(ctx context.Context, t schema.Tenant, seen *time.Time) (stored, was schema.Tenant, err error)
}

// Tenant is a tenant as the API answers it.
type Tenant struct {
	Name   string        `json:"name" example:"default"`
	Weight int           `json:"weight" doc:"Its share where tenants compete"`
	Quotas schema.Quotas `json:"quotas" doc:"Absent or 0: no bound"`

	Durability schema.Durability `json:"durability,omitempty" enum:"home,everywhere" doc:"Of jobs and imports that state none; absent: that of the configuration"`

	Audit schema.TenantAudit `json:"audit,omitzero" doc:"What the audit log has of the tenant besides what it always has"`

	CreatedAt Time   `json:"created_at,omitzero"`
	UpdatedAt Time   `json:"updated_at,omitzero"`
	Fault     string `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: until it is put again it has the defaults"`
}

func tenantFrom(t schema.Tenant) Tenant {
	return Tenant{Name: t.Name, Weight: t.Weight, Quotas: t.Quotas, Durability: t.Durability, Audit: t.Audit, CreatedAt: Time{t.CreatedAt}, UpdatedAt: Time{t.UpdatedAt}, Fault: faultOf(t.Fault)}
}

type (
	tenantByName struct {
		Name string `path:"name" doc:"The tenant's name" example:"default"`
	}
	tenantPut struct {
		Name    string `path:"name" doc:"The tenant's name" example:"default"`
		IfMatch string `header:"If-Match" doc:"Change it only if this is its ETag; else 412"`
		body
	}
	tenantAnswer struct {
		ETag string `header:"ETag"`
		Body Tenant
	}
	tenantList struct {
		Body struct {
			Items      []Tenant `json:"items"`
			NextCursor string   `json:"next_cursor,omitempty"`
		}
	}
)

const (
	tenantsPath = "/v1/tenants"
	tenantPath  = tenantsPath + "/{name}"
)

// tenantRoutes serves tenants.
type tenantRoutes struct{ *Server }

func (s tenantRoutes) route() {
	op := s.operation("list-tenants", http.MethodGet, tenantsPath, "Weights and quotas of tenants, by name", 200, 422, 503)
	op.Description = "For a key of the tenant " + schema.SystemTenant + ", and where no key is asked for: every tenant of which something was stated. For other keys: their own tenant."
	huma.Register(s.api, op, s.listTenants)
	op = s.operation("get-tenant", http.MethodGet, tenantPath, "Weight and quotas of a tenant", 200, 404, 422, 503)
	op.Description = "A tenant is there once it is named: one of which nothing was stated has weight 1 and no quotas. Another tenant than the key's is 404, unless the key is of the tenant " + schema.SystemTenant + "."
	huma.Register(s.api, op, s.getTenant)
	op = s.operation("put-tenant", http.MethodPut, tenantPath, "State weight and quotas of a tenant", 200, 400, 408, 412, 413, 415, 422, 429, 503)
	op.Description = "Quotas that are rates are kept by each node for its share: the quota divided by the nodes that take jobs in. What is over is answered 429 with Retry-After; lines of imports are taken in more slowly instead, as far as import_lines_per_second is concerned."
	huma.Register(s.api, op, s.putTenant)
	s.describeBody(tenantPath, http.MethodPut, reflect.TypeFor[request.TenantRequest](), "application/json")
}

func (s tenantRoutes) getTenant(ctx context.Context, in *tenantByName) (*tenantAnswer, error) {
	if what := bucketer.NameFault(in.Name); what != "" {
		return nil, invalid(bucketer.Fault{Location: "path.name", Message: what})
	}
	if who := callerOf(ctx); s.deps.Tenants == nil || in.Name != who.tenant && !who.system {
		return nil, notFound("There is no tenant of this name.")
	}
	t, err := s.deps.Tenants.Tenant(ctx, in.Name)
	if err != nil {
		return nil, s.fail(ctx, "read tenant", err)
	}
	return &tenantAnswer{timeTag(t.UpdatedAt), tenantFrom(t)}, nil
}

func (s tenantRoutes) putTenant(ctx context.Context, in *tenantPut) (*tenantAnswer, error) {
	if s.deps.Tenants == nil {
		return nil, notFound("This node keeps no tenants.")
	}
	text, err := in.text()
	if err != nil {
		return nil, err
	}
	d := s.decoder()
	defer s.decoders.Put(d)
	t, err := d.Tenant(in.Name, text)
	if err != nil {
		return nil, s.fail(ctx, "put tenant", err)
	}
	if err := durable(s.deps.Homes, t.Durability, "body.durability"); err != nil {
		return nil, s.fail(ctx, "put tenant", err)
	}
	var seen *time.Time
	if in.IfMatch != "" {
		read, err := s.deps.Tenants.Tenant(ctx, in.Name)
		if err == nil {
			err = matchTag(in.IfMatch, timeTag(read.UpdatedAt))
		}
		if err != nil {
			return nil, s.fail(ctx, "put tenant", err)
		}
		seen = &read.UpdatedAt
	}
	stored, was, err := s.deps.Tenants.PutTenantIf(ctx, t, seen)
	if err != nil {
		return nil, s.fail(ctx, "put tenant", err)
	}
	s.noteFor(ctx, in.Name, "update", "tenant/"+in.Name, tenantFrom(was), tenantFrom(stored), "")
	return &tenantAnswer{timeTag(stored.UpdatedAt), tenantFrom(stored)}, nil
}

func (s tenantRoutes) listTenants(ctx context.Context, in *page) (*tenantList, error) {
	if s.deps.Tenants == nil {
		return nil, notFound("This node keeps no tenants.")
	}
	who := callerOf(ctx)
	out := new(tenantList)
	var err error
	out.Body.Items, out.Body.NextCursor, err = listed(s.cursors, []any{"tenants", who.system}, in.Cursor, in.Limit,
		func(after string, limit int) ([]schema.Tenant, error) {
			if who.system {
				return s.deps.Tenants.Tenants(ctx, after, limit)
			}
			own, err := s.deps.Tenants.Tenant(ctx, who.tenant)
			return []schema.Tenant{own}, err
		},
		func(t *schema.Tenant) string { return t.Name }, tenantFrom)
	if err != nil {
		return nil, s.fail(ctx, "list tenants", err)
	}
	return out, nil
}

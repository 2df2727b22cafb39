package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
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
	// Retention returns for how many days a tenant keeps the history of its runs, as it was within
	// the last 10 s; 0: as long as the cluster does.
	Retention(ctx context.Context, name string) (days int, err error)
	// MaxRetention returns the most days that a tenant may state: 0 if the cluster keeps history
	// for less than a day.
	MaxRetention(ctx context.Context) (days int, err error)
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

	Retention int `json:"retention,omitempty" doc:"Days for which the history of its runs is kept; absent: as long as the cluster keeps it. It holds for runs that are asked for or planned from then on"`

	Audit schema.TenantAudit `json:"audit,omitzero" doc:"What the audit log has of the tenant besides what it always has"`

	EncryptPayloads bool `json:"encrypt_payloads,omitempty" doc:"Payloads, outputs, logs of workers, errors and definitions of workflows are stored encrypted, with the operator's keys (secrets.keys), and so are payloads on their way through NATS. What was stored before stays as it is. Not encrypted are names, labels, times, tasks and how work is done: URLs, headers, arguments; nor conditions of steps in the audit log, what is sent to callees, and events that clients publish to NATS. Refused (409) while the operator has configured no key"`

	CreatedAt Time   `json:"created_at,omitzero"`
	UpdatedAt Time   `json:"updated_at,omitzero"`
	Fault     string `json:"fault,omitempty" doc:"Why what is stored of it cannot be understood: until it is put again it has the defaults"`
}

func tenantFrom(t schema.Tenant) Tenant {
	return Tenant{Name: t.Name, Weight: t.Weight, Quotas: t.Quotas, Durability: t.Durability, Retention: t.Retention, Audit: t.Audit, EncryptPayloads: t.EncryptPayloads, CreatedAt: Time{t.CreatedAt}, UpdatedAt: Time{t.UpdatedAt}, Fault: faultOf(t.Fault)}
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
	op = s.operation("put-tenant", http.MethodPut, tenantPath, "State weight and quotas of a tenant", 200, 400, 408, 409, 412, 413, 415, 422, 429, 503)
	op.Description = "Quotas that are rates are kept by each node for its share: the quota divided by the nodes that take jobs in. What is over is answered 429 with Retry-After; lines of imports are taken in more slowly instead, as far as import_lines_per_second is concerned. " +
		"retention is in days, from 1 to the cluster's own; absent or null: the cluster's. Entries, results, logs and events of runs leave so many days after they were due. " +
		"It holds for runs that are asked for or planned from 10 s after the answer on: those that are there keep the retention that they have, and are not listed beyond the new one. " +
		"A run that cannot start for as long as that is gone. Dead letters, the audit log, counts and idempotency keys have lives of their own."
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
	var faults bucketer.Faults
	if err != nil && !errors.As(err, &faults) {
		return nil, s.fail(ctx, "put tenant", err)
	}
	what, err := s.retentionFault(ctx, t.Retention)
	if err != nil {
		return nil, s.fail(ctx, "put tenant", err)
	}
	if faults = append(faults, what...); len(faults) > 0 {
		return nil, invalid(faults...)
	}
	if err := durable(s.deps.Homes, t.Durability, "body.durability"); err != nil {
		return nil, s.fail(ctx, "put tenant", err)
	}
	if t.EncryptPayloads && (s.deps.Encrypts == nil || !s.deps.Encrypts()) {
		return nil, s.fail(ctx, "put tenant", admin.ErrNoSeal)
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

// retentionFault finds fault with a tenant's retention, in days, that is longer than the cluster's.
func (s tenantRoutes) retentionFault(ctx context.Context, days int) (bucketer.Faults, error) {
	if days == 0 {
		return nil, nil
	}
	most, err := s.deps.Tenants.MaxRetention(ctx)
	if err != nil || days <= most {
		return nil, err
	}
	what := "must be at most " + numberOfDays(most) + ": so long the cluster keeps history"
	if most < schema.MinRetention {
		what = "cannot be stated: the cluster keeps history for less than a day"
	}
	return bucketer.Faults{{Location: "body.retention", Message: what, Value: days}}, nil
}

func numberOfDays(n int) string {
	if n == 1 {
		return "1 day"
	}
	return strconv.Itoa(n) + " days"
}

// keptFrom returns since when the history of the caller's tenant is kept, and for how many days; 0:
// as long as the cluster keeps it. While that cannot be read nothing is refused: what has left is
// not there anyway.
func keptFrom(ctx context.Context, s *Server) (from time.Time, days int) {
	if s.deps.Tenants == nil {
		return from, 0
	}
	days, err := s.deps.Tenants.Retention(ctx, tenantOf(ctx))
	if err != nil || days == 0 {
		return from, 0
	}
	return s.config.Now().Add(-time.Duration(days) * schema.RetentionDay), days
}

// beforeKept finds fault with a window that begins before the history of the caller's tenant. A
// list that goes on by its cursor is not asked: it began in time.
func beforeKept(ctx context.Context, s *Server, cursor string, from time.Time) bucketer.Faults {
	if cursor != "" && cursor != onlyFaults || from.IsZero() {
		return nil
	}
	kept, days := keptFrom(ctx, s)
	if days == 0 || !from.Before(kept) {
		return nil
	}
	return bucketer.Faults{{Location: "query.from", Message: "must be at most " + numberOfDays(days) + " ago: so long the tenant keeps history (its retention)"}}
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

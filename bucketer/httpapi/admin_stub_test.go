package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

var (
	_ Keys    = (*admin.Keys)(nil)
	_ Tenants = (*admin.Tenants)(nil)
	_ Quotas  = (*admin.Tenants)(nil)
	_ Audit   = (*admin.Audit)(nil)
	_ Stats   = (*admin.Stats)(nil)

	_ Upcoming = (*admin.Upcoming)(nil)
)

// adminStub keeps keys, tenants, quotas, the audit log and counts in memory.
type adminStub struct {
	mu      sync.Mutex
	keys    map[string]schema.APIKey // by secret
	tenants map[string]schema.Tenant
	acts    []admin.AuditEvent
	minutes []admin.Minute
	top     admin.Top
	coming  admin.Forecast
	missing []string // nodes that did not tell

	askedMinutes admin.MinutesQuery
	askedTop     admin.TopQuery
	askedFrom    time.Time
	askedCount   int
	made         int
	err          error

	signing   Signing
	secrets   Secrets
	rules     *ruleDesk
	calendars *calendarDesk

	admit func(tenant string, bytes int) error
	line  func() time.Duration
	jobs  int // quota

	asked    admin.AuditQuery // by the last list of the log
	askedPos *admin.AuditPosition
	entries  []schema.AuditEntry
}

func newAdminStub() *adminStub {
	return &adminStub{keys: map[string]schema.APIKey{}, tenants: map[string]schema.Tenant{}, rules: &ruleDesk{rules: map[string]schema.NotificationRule{}}, calendars: newCalendarDesk()}
}

// desk makes a node that asks for keys, which the stub keeps.
func (o *adminStub) desk(c *Config, d *Deps) {
	c.Auth = true
	o.deps(c, d)
}

// deps gives a node everything that the stub keeps.
func (o *adminStub) deps(_ *Config, d *Deps) {
	d.Keys, d.Tenants, d.Quotas, d.Audit, d.Stats, d.Upcoming = o, o, o, o, o, o
	d.Signing, d.Secrets, d.Notifications, d.Calendars = o.signing, o.secrets, o.rules, o.calendars
}

// secret is the key of a name: "tenant/role" names both.
func secret(of string) string { return "secret-" + strings.ReplaceAll(of, "/", "-") }

// key makes a key for each name "tenant/role" and returns the header that carries the first.
func (o *adminStub) key(names ...string) http.Header {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range names {
		tenant, role, _ := strings.Cut(of, "/")
		o.keys[secret(of)] = schema.APIKey{Tenant: tenant, Name: role + "-key", Role: schema.Role(role), CreatedAt: testNow}
	}
	return bearer(secret(names[0]))
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func (o *adminStub) Authenticate(_ context.Context, key string) (schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.APIKey{}, o.err
	}
	k, ok := o.keys[key]
	if !ok {
		return schema.APIKey{}, admin.ErrNoKey
	}
	return k, nil
}

func (o *adminStub) Create(_ context.Context, key schema.APIKey) (string, schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return "", schema.APIKey{}, o.err
	}
	for _, k := range o.keys {
		if k.Tenant == key.Tenant && k.Name == key.Name {
			return "", schema.APIKey{}, fmt.Errorf("create key: %w", schema.ErrConflict)
		}
	}
	o.made++
	key.CreatedAt = testNow
	made := fmt.Sprint("made-", o.made)
	o.keys[made] = key
	return made, key, nil
}

func (o *adminStub) List(_ context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	var out []schema.APIKey
	for _, k := range o.keys {
		if k.Tenant == tenant && k.Name > after {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b schema.APIKey) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(limit, len(out))], nil
}

func (o *adminStub) Revoke(_ context.Context, tenant, name string) (schema.APIKey, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.APIKey{}, o.err
	}
	for secret, k := range o.keys {
		if k.Tenant == tenant && k.Name == name {
			delete(o.keys, secret)
			return k, nil
		}
	}
	return schema.APIKey{}, fmt.Errorf("revoke key: %w", schema.ErrNotFound)
}

func (o *adminStub) Tenant(_ context.Context, name string) (schema.Tenant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return schema.Tenant{}, o.err
	}
	if t, ok := o.tenants[name]; ok {
		return t, nil
	}
	return schema.Tenant{Name: name, Weight: 1}, nil
}

func (o *adminStub) AuditsCreations(ctx context.Context, name string) bool {
	t, err := o.Tenant(ctx, name)
	return err != nil || t.Audit.Creations
}

func (o *adminStub) Retention(ctx context.Context, name string) (int, error) {
	t, err := o.Tenant(ctx, name)
	return t.Retention, err
}

// MaxRetention is that of a cluster that keeps history for a week.
func (o *adminStub) MaxRetention(context.Context) (int, error) { return 7, nil }

func (o *adminStub) Tenants(_ context.Context, after string, limit int) ([]schema.Tenant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []schema.Tenant
	for _, name := range slices.Sorted(maps.Keys(o.tenants)) {
		if name > after && len(out) < limit {
			out = append(out, o.tenants[name])
		}
	}
	return out, o.err
}

func (o *adminStub) PutTenantIf(ctx context.Context, t schema.Tenant, seen *time.Time) (stored, was schema.Tenant, err error) {
	if was, err = o.Tenant(ctx, t.Name); err != nil {
		return t, was, err
	}
	if seen != nil && !was.UpdatedAt.Equal(*seen) {
		return t, was, bucketer.ErrStale
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t.CreatedAt, t.UpdatedAt = testNow, bucketer.StampAfter(testNow, was.UpdatedAt)
	o.tenants[t.Name] = t
	return t, was, err
}

func (o *adminStub) AdmitRun(_ context.Context, tenant string, bytes int) error {
	if o.admit == nil {
		return nil
	}
	return o.admit(tenant, bytes)
}

func (o *adminStub) AdmitLine(context.Context, string) (time.Duration, error) {
	if o.line == nil {
		return 0, nil
	}
	return o.line(), nil
}

func (o *adminStub) AdmitJob(ctx context.Context, tenant string, count func(ctx context.Context, most int) (int, error)) error {
	if o.jobs == 0 {
		return nil
	}
	n, err := count(ctx, o.jobs)
	if err == nil && n >= o.jobs {
		err = &admin.QuotaError{Quota: "jobs", Limit: int64(o.jobs), RetryAfter: time.Second}
	}
	return err
}

func (o *adminStub) Note(act admin.AuditEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acts = append(o.acts, act)
}

// noted returns what was noted, and forgets it.
func (o *adminStub) noted() []admin.AuditEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	acts := o.acts
	o.acts = nil
	return acts
}

func (o *adminStub) Entries(_ context.Context, q admin.AuditQuery, pos *admin.AuditPosition, limit int) ([]schema.AuditEntry, *admin.AuditPosition, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked, o.askedPos = q, pos
	if pos == nil && len(o.entries) > limit {
		return o.entries[:limit], &admin.AuditPosition{Day: 7, Before: o.entries[limit-1].ID}, nil
	}
	if pos != nil {
		return o.entries[min(limit, len(o.entries)):], nil, o.err
	}
	return o.entries, nil, o.err
}

func (o *adminStub) Minutes(_ context.Context, q admin.MinutesQuery) ([]admin.Minute, []string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.askedMinutes = q
	return o.minutes, o.missing, o.err
}

func (o *adminStub) Top(_ context.Context, q admin.TopQuery) (admin.Top, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.askedTop = q
	return o.top, o.err
}

func (o *adminStub) Forecast(_ context.Context, from time.Time, count int) (admin.Forecast, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.askedFrom, o.askedCount = from, count
	return o.coming, o.err
}

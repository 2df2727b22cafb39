package request

import (
	"time"

	"carillon.dev/carillon/bucketer/admin"
	"carillon.dev/carillon/schema"
)

// TenantRequest is the body of PUT /v1/tenants/{name}. What is absent has its default: weight 1, no
// quota.
type TenantRequest struct {
	Weight int           `json:"weight,omitempty"`
	Quotas schema.Quotas `json:"quotas,omitzero"`
	// Durability is that of jobs and imports that state none; absent: that of the configuration.
	Durability schema.Durability `json:"durability,omitempty"`
	// Retention is how many days the history of its runs is kept; absent or null: as long as the
	// cluster keeps it.
	Retention int `json:"retention,omitempty" minimum:"1" doc:"Days for which the history of its runs is kept, at most the cluster's own; absent: as long as the cluster keeps it"`
	// Audit is what the audit log has of the tenant besides what it always has.
	Audit schema.TenantAudit `json:"audit,omitzero"`
	// EncryptPayloads: payloads, outputs and errors are stored encrypted from now on.
	EncryptPayloads bool `json:"encrypt_payloads,omitempty"`
}

// KeyRequest is the body of POST /v1/api-keys.
type KeyRequest struct {
	Name      string      `json:"name"`
	Role      schema.Role `json:"role"`
	ExpiresAt time.Time   `json:"expires_at,omitzero"` // absent: never
}

// Bounds of quotas: beyond them there is no telling a quota from a slip.
const (
	maxQuota      = 1_000_000_000
	maxQuotaBytes = 1 << 50
	// maxRetention is in days. The cluster's own retention is the bound (Server.putTenant).
	maxRetention = 36_500
)

var roles = []string{string(schema.Viewer), string(schema.Operator), string(schema.Admin)}

// Tenant reads the body of PUT /v1/tenants/{name}. A fault of the name is located at path.name.
// What was read comes with the faults of the rest, so that the caller can look for more.
func (d *Decoder) Tenant(name string, body []byte) (schema.Tenant, error) {
	if !d.begin(body) {
		return schema.Tenant{}, d.err()
	}
	d.faults = append(d.faults, pathFaults("path.name", name)...)
	t := schema.Tenant{Name: name, Weight: schema.DefaultWeight}
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "weight":
			t.Weight = d.integer(c, 1, admin.MaxWeight)
		case "quotas":
			t.Quotas = d.quotas(c)
		case "durability":
			t.Durability = schema.Durability(d.oneOf(c, schema.Durabilities))
		case "retention":
			t.Retention = d.integer(c, schema.MinRetention, maxRetention)
		case "audit":
			t.Audit = tenantAudit(&d.fields, c)
		case "encrypt_payloads":
			if t.EncryptPayloads = d.is(c, kindTrue); !t.EncryptPayloads && !d.is(c, kindFalse) {
				d.fault(c, "must be true or false")
			}
		default:
			d.faultQuietly(c, "is not a field of a tenant")
		}
	}
	return t, d.err()
}

// tenantAudit reads what a tenant asks of the audit log.
func tenantAudit(d *fields, i int32) (a schema.TenantAudit) {
	for c := range d.object(i) {
		switch field := d.doc.name(c); string(field) {
		case "creations":
			if a.Creations = d.is(c, kindTrue); !a.Creations && !d.is(c, kindFalse) {
				d.fault(c, "must be true or false")
			}
		default:
			d.faultQuietly(c, "is nothing that the audit log can be asked for")
		}
	}
	return a
}

func (d *Decoder) quotas(i int32) (q schema.Quotas) {
	for c := range d.object(i) {
		switch field := d.doc.name(c); string(field) {
		case "jobs":
			q.Jobs = d.integer(c, 0, maxQuota)
		case "runs_per_minute":
			q.RunsPerMinute = d.integer(c, 0, maxQuota)
		case "concurrency":
			q.Concurrency = d.integer(c, 0, schema.MaxTaskConcurrent)
		case "import_lines_per_second":
			q.ImportLinesPerSecond = d.integer(c, 0, maxQuota)
		case "payload_bytes_per_minute":
			q.PayloadBytesPerMinute = int64(d.integer(c, 0, maxQuotaBytes))
		default:
			d.faultQuietly(c, "is not a quota")
		}
	}
	return q
}

// Key reads the body of POST /v1/api-keys for a tenant.
func (d *Decoder) Key(tenant string, body []byte, now time.Time) (schema.APIKey, error) {
	if !d.begin(body) {
		return schema.APIKey{}, d.err()
	}
	k := schema.APIKey{Tenant: tenant}
	named, ranked := false, false
	for c := range d.members(0) {
		switch field := d.doc.name(c); string(field) {
		case "name":
			named = true
			k.Name = d.named(c)
		case "role":
			ranked = true
			k.Role = schema.Role(d.oneOf(c, roles))
		case "expires_at":
			k.ExpiresAt = d.future(c, now)
		default:
			d.faultQuietly(c, "is not a field of a key")
		}
	}
	d.require(0, named, "name")
	d.require(0, ranked, "role")
	if err := d.err(); err != nil {
		return schema.APIKey{}, err
	}
	return k, nil
}

// future returns the instant after now that node i is, to the ms.
func (d *fields) future(i int32, now time.Time) time.Time {
	switch t, ok := d.time(i); {
	case !ok:
		d.fault(i, noTime)
	case !t.After(now), t.UTC().Year() > 9999:
		d.fault(i, "must be after now, and not after the year 9999")
	default:
		return t.UTC().Truncate(time.Millisecond)
	}
	return time.Time{}
}

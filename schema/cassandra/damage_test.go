package cassandra

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gocql/gocql"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// damaged is a store whose cells a test overwrites.
type damaged struct{ *Store }

func (d damaged) Close() error { return nil }

// Damage implements schematest.Damager. Whatever wrote the cell before, this is the later write.
func (d damaged) Damage(t *testing.T, c schematest.Cell, text []byte) {
	t.Helper()
	if !utf8.Valid(text) {
		t.Skip("a column of text takes only UTF-8")
	}
	if c.Table == "runs" && len(text) == 0 {
		t.Skip("the driver does not tell an empty cell from none, and nobody writes an empty one there")
	}
	p := c.Run.Partition()
	hour := schema.StatsHour(c.Minute)
	if c.Kind != "" {
		hour = schema.StatsPartition(c.Kind, hour)
	}
	key := map[string]struct {
		where string
		args  []any
	}{
		"runs":          {"bucket = ? AND shard = ? AND entry_id = ?", []any{int64(p.Bucket), int(p.Shard), uuid(c.Run)}},
		"attempts":      {"bucket = ? AND shard = ? AND run_id = ? AND attempt = ? AND fence = ?", []any{int64(p.Bucket), int(p.Shard), uuid(c.Run), c.Number, int64(c.Fence)}},
		"tasks":         {"tenant = ? AND name = ?", []any{c.Tenant, c.Name}},
		"tenants":       {"scope = 'tenants' AND name = ?", []any{c.Name}},
		"api_keys":      {"hash = ?", []any{c.Hash.String()}},
		"api_key_names": {"tenant = ? AND name = ?", []any{c.Tenant, c.Name}},
		"sessions":      {"executor = ?", []any{c.Name}},
		"leases":        {"lease = ?", []any{leasePrefix + c.Name}},
		"job_runs":      {"job_id = ? AND period = ? AND run_id = ?", []any{gocql.UUID(c.Job), schema.PeriodOf(c.Run.Time()), uuid(c.Run)}},
		"dead_letters":  {"tenant = ? AND day = ? AND run_id = ?", []any{c.Tenant, dayOf(schema.DeadLetterDay(c.Run)), uuid(c.Run)}},
		"stats":         {"hour = ? AND minute = ? AND node = ?", []any{hour, c.Minute, c.Name}},
		"audit":         {"tenant = ? AND day = ? AND at = ? AND id = ?", []any{c.Tenant, dayOf(schema.AuditDay(c.Audit.Time())), c.Audit.Time(), gocql.UUID(c.Audit)}},
		"operations":    {"tenant = ? AND operation_id = ?", []any{c.Tenant, gocql.UUID(c.Operation)}},
		"signing_keys":  {"tenant = ?", []any{c.Tenant}},
		"secrets":       {"tenant = ? AND name = ?", []any{c.Tenant, c.Name}},
		"notifications": {"tenant = ? AND name = ?", []any{c.Tenant, c.Name}},
		"incidents":     {"tenant = ? AND minute = ? AND incident_id = ?", []any{c.Tenant, int64(schema.BucketOf(c.Run.Time())), uuid(c.Run)}},

		"notification_groups": {"tenant = ? AND name = ?", []any{c.Tenant, c.Name}},
	}[c.Table]
	later := time.Now().Add(time.Second).UnixMicro()
	// Conditional writes must be able to follow: their timestamps are those of the server's clock.
	switch c.Table {
	case "sessions", "leases", "signing_keys", "secrets", "api_key_names", "notification_groups":
		later = time.Now().UnixMicro()
	case "incidents": // they are written at their own instant
		later = max(later, c.Run.Time().Add(time.Minute).UnixMicro())
	}
	st := "UPDATE " + c.Table + " USING TIMESTAMP ? SET " + c.Column + " = ? WHERE " + key.where
	if err := d.session.Query(st, append([]any{later, text}, key.args...)...).Exec(); err != nil {
		t.Fatalf("damage %+v: %v", c, err)
	}
}

// TestDamage: one bad row harms one thing.
func TestDamage(t *testing.T) {
	s := openTest(t)
	schematest.ExerciseDamage(t, func(*testing.T) schematest.Damager { return damaged{s} })
}

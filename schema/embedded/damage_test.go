package embedded

import (
	"bytes"
	"testing"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/document"
	"carillon.dev/carillon/schema/schematest"
)

// damaged is a store whose cells a test overwrites.
type damaged struct{ *Store }

func documentKey(kind document.Kind, scope, name string) []byte {
	t := documentTables[kind]
	return t.key(scope, name)
}

// Damage implements schematest.Damager.
func (d damaged) Damage(t *testing.T, c schematest.Cell, text []byte) {
	t.Helper()
	var key []byte
	at := colValue
	switch c.Table {
	case "runs":
		key = appendEntry(nil, tableRuns, c.Run)
		at = map[string]column{"spec": colText, "cancelled": colCancelled}[c.Column]
	case "attempts":
		a := schema.Attempt{Run: c.Run, Number: c.Number, Fence: c.Fence}
		key = appendAttempt(nil, &a)
		at = map[string]column{"record": colRecord, "session": colSession}[c.Column]
	case "tasks":
		key = documentKey(document.Task, c.Tenant, c.Name)
	case "tenants":
		key = documentKey(document.Tenant, "", c.Name)
	case "api_keys":
		key = apiKeyKey(tableAPIKeys, c.Hash)
	case "api_key_names":
		key = keyNameKey(c.Tenant, c.Name)
	case "sessions":
		row, err := d.row(sessionKey(c.Name))
		if err != nil {
			t.Fatal(err)
		}
		key = sessionKey(c.Name)
		head, _, _ := bytes.Cut(row.at(colValue, 0).data[8:], []byte{0})
		head = append(append(bytes.Clone(row.at(colValue, 0).data[:8]), head...), 0)
		if c.Column == "released" {
			head = append(head, 0)
		}
		text = append(head, text...)
	case "leases":
		key = leaseKey(c.Name)
	case "job_runs":
		key = appendJobRun(nil, &schema.JobRun{Job: c.Job, Run: c.Run})
		at = colText
	case "dead_letters":
		key = deadKey(c.Tenant, c.Run)
		at = map[string]column{"last": colLast, "fate": colResolution}[c.Column]
	case "stats":
		prefix := statsHour(schema.StatsHour(c.Minute))
		if c.Kind != "" {
			prefix = nameStatsHour(c.Kind, schema.StatsHour(c.Minute))
		}
		key = append(appendInt(prefix, c.Minute.UnixMilli()), c.Name...)
	case "audit":
		key = appendNewestFirst(auditPrefix(c.Tenant, schema.AuditDay(c.Audit.Time())), c.Audit)
	case "operations":
		key = documentKey(document.Operation, c.Tenant, string(c.Operation[:]))
	case "signing_keys":
		key = documentKey(document.SigningKeys, "", c.Tenant)
	case "secrets":
		key = documentKey(document.Secret, c.Tenant, c.Name)
	case "notifications":
		key = documentKey(document.Notification, c.Tenant, c.Name)
	case "incidents":
		key = documentKey(document.Incident, document.IncidentScope(c.Tenant, schema.BucketOf(c.Run.Time())), string(c.Run[:]))
	case "notification_groups":
		key = documentKey(document.NotificationGroup, c.Tenant, c.Name)
	}
	old, err := d.row(key)
	if err != nil {
		t.Fatal(err)
	}
	was := old.at(at, 0)
	if was == nil {
		t.Fatalf("damage %+v: there is no such cell", c)
	}
	was.data = text
	var row []byte
	for i := range old {
		if old[i].column != 0 {
			row = appendCell(row, old[i])
		}
	}
	if err := d.db.Set(key, row, d.write); err != nil {
		t.Fatal(err)
	}
}

// TestDamage: one bad row harms one thing.
func TestDamage(t *testing.T) {
	schematest.ExerciseDamage(t, func(t *testing.T) schematest.Damager {
		s, err := Open(Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return damaged{s}
	})
}

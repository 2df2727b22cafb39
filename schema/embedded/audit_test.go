package embedded_test

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
)

// What is past its retention is not returned, and its space is given back: it stays away when the
// clock is set back.
func TestExpireRemovesWhatWasOnlyTold(t *testing.T) {
	begin := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	s, set := backwards(t, begin)
	ctx := t.Context()
	for i, tenant := range []string{"a", "b"} {
		entry := schema.AuditEntry{ID: schema.MakeAuditID(begin, uint16(i), 1), Tenant: tenant, Actor: "me", Action: "update", Object: "task/t"} // #nosec G115 -- small
		if err := s.PutAudit(ctx, []schema.AuditEntry{entry}); err != nil {
			t.Fatalf("PutAudit = %v", err)
		}
	}
	if err := s.PutStats(ctx, schema.MinuteStats{Minute: begin, Node: "n", Due: 1, Written: begin.UnixMicro()}); err != nil {
		t.Fatalf("PutStats = %v", err)
	}
	if err := s.PutNameStats(ctx, schema.NameStats{Minute: begin, Node: "n", Kind: schema.ByHost, Written: begin.UnixMicro()}); err != nil {
		t.Fatalf("PutNameStats = %v", err)
	}
	for _, step := range []struct {
		name         string
		expire, look time.Time
		audit, stats int
	}{
		{"at once", begin, begin, 1, 1},
		{"when the counts have expired, before Expire", begin, begin.Add(schema.StatsRetention), 1, 0},
		{"and then looked at from before", begin.Add(schema.StatsRetention - time.Minute), begin, 1, 1},
		{"after Expire, looked at from before", begin.Add(schema.StatsRetention + time.Hour), begin, 1, 0},
		{"when all has expired, before Expire", begin, begin.Add(schema.AuditRetention), 0, 0},
		{"after Expire of all, looked at from before", begin.Add(schema.AuditRetention + 24*time.Hour), begin, 0, 0},
	} {
		set(step.expire)
		if _, err := s.Expire(ctx, step.expire); err != nil {
			t.Fatalf("%s: Expire = %v", step.name, err)
		}
		set(step.look)
		for _, tenant := range []string{"a", "b"} {
			got, err := s.Audit(ctx, tenant, schema.AuditDay(begin), schema.AuditID{}, 10)
			if err != nil || len(got) != step.audit {
				t.Errorf("%s: Audit of %s = %d entries, %v; want %d", step.name, tenant, len(got), err, step.audit)
			}
		}
		got, err := s.Stats(ctx, schema.StatsHour(begin))
		if err != nil || len(got) != step.stats {
			t.Errorf("%s: Stats = %d, %v; want %d", step.name, len(got), err, step.stats)
		}
		names, err := s.NameStats(ctx, schema.ByHost, schema.StatsHour(begin), begin)
		if err != nil || len(names) != step.stats {
			t.Errorf("%s: NameStats = %d, %v; want %d", step.name, len(names), err, step.stats)
		}
	}
}

// A store that is opened again knows its keys and tenants.
func TestKeysAndTenantsStay(t *testing.T) {
	dir := t.TempDir()
	key := schema.APIKey{Hash: schema.HashKey("k"), Tenant: "a", Name: "n", Role: schema.Admin, CreatedAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	s, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateAPIKey(t.Context(), key); err != nil {
		t.Errorf("CreateAPIKey = %v", err)
	}
	if err := s.PutTenant(t.Context(), schema.Tenant{Name: "a", Weight: 3, UpdatedAt: key.CreatedAt}); err != nil {
		t.Errorf("PutTenant = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, embedded.Config{Dir: dir})
	if got, err := s.APIKey(t.Context(), key.Hash); err != nil || got != key {
		t.Errorf("APIKey = %+v, %v; want %+v", got, err, key)
	}
	if got, err := s.Tenant(t.Context(), "a"); err != nil || got.Weight != 3 {
		t.Errorf("Tenant = %+v, %v; want weight 3", got, err)
	}
}

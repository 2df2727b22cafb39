package admin

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

// strongroom is a store of one key and of no tenants.
type strongroom struct {
	schema.APIKeyStore
	schema.TenantStore
	schema.LeaseStore
	schema.SettingsStore
	schema.SubscriptionStore
}

func (strongroom) CreateAPIKey(context.Context, schema.APIKey) error { return nil }

func (strongroom) APIKey(_ context.Context, hash schema.KeyHash) (schema.APIKey, error) {
	return schema.APIKey{Hash: hash, Tenant: "a", Role: schema.Operator}, nil
}

func (strongroom) Tenant(context.Context, string) (schema.Tenant, error) {
	return schema.Tenant{}, schema.ErrNotFound
}

// What every request costs: that its key is recognised.
func BenchmarkAuthenticate(b *testing.B) {
	keys := NewKeys(strongroom{}, bucketertest.Signals(nil), time.Now, slog.New(slog.DiscardHandler))
	secret, _, err := keys.Create(b.Context(), schema.APIKey{Tenant: "a"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Authenticate(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}

// What every line of an import costs where its tenant has no quotas.
func BenchmarkAdmitWithoutQuotas(b *testing.B) {
	tenants := NewTenants(strongroom{}, bucketertest.Signals(nil), time.Now, func() int { return 3 })
	b.ReportAllocs()
	for b.Loop() {
		if err := tenants.AdmitRun(b.Context(), "a", 100); err != nil {
			b.Fatal(err)
		}
		if _, err := tenants.AdmitLine(b.Context(), "a"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAdmissionAllocatesNothing(t *testing.T) {
	tenants := NewTenants(strongroom{}, bucketertest.Signals(nil), time.Now, func() int { return 3 })
	allocs := testing.AllocsPerRun(100, func() {
		if err := tenants.AdmitRun(t.Context(), "a", 100); err != nil {
			t.Fatal(err)
		}
		if _, err := tenants.AdmitLine(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("AdmitRun and AdmitLine without quotas allocate %v times, want not at all", allocs)
	}
}

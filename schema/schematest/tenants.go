package schematest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

func (a *around) PutTenant(ctx context.Context, t schema.Tenant) error {
	return put(ctx, a, "PutTenant", func(ctx context.Context) error { return a.inner.PutTenant(ctx, t) })
}

func (a *around) Tenant(ctx context.Context, name string) (schema.Tenant, error) {
	return read(ctx, a, "Tenant", 1, func(ctx context.Context) (schema.Tenant, error) { return a.inner.Tenant(ctx, name) })
}

func (a *around) Tenants(ctx context.Context, after string, limit int) ([]schema.Tenant, error) {
	return read(ctx, a, "Tenants", limit, func(ctx context.Context) ([]schema.Tenant, error) { return a.inner.Tenants(ctx, after, limit) })
}

func (a *around) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	_, err := swap(ctx, a, "CreateAPIKey", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.inner.CreateAPIKey(ctx, k)
	})
	return err
}

func (a *around) APIKey(ctx context.Context, hash schema.KeyHash) (schema.APIKey, error) {
	return read(ctx, a, "APIKey", 1, func(ctx context.Context) (schema.APIKey, error) { return a.inner.APIKey(ctx, hash) })
}

func (a *around) APIKeys(ctx context.Context, tenant, after string, limit int) ([]schema.APIKey, error) {
	return read(ctx, a, "APIKeys", limit, func(ctx context.Context) ([]schema.APIKey, error) {
		return a.inner.APIKeys(ctx, tenant, after, limit)
	})
}

func (a *around) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (schema.APIKey, error) {
	return swap(ctx, a, "DeleteAPIKey", func(ctx context.Context) (schema.APIKey, error) {
		return a.inner.DeleteAPIKey(ctx, tenant, name, at)
	})
}

func (a *around) TouchAPIKey(ctx context.Context, hash schema.KeyHash, at time.Time) error {
	return put(ctx, a, "TouchAPIKey", func(ctx context.Context) error { return a.inner.TouchAPIKey(ctx, hash, at) })
}

func (a *around) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	return putBatch(ctx, a, "PutAudit", entries, a.inner.PutAudit)
}

func (a *around) Audit(ctx context.Context, tenant string, day int, before schema.AuditID, limit int) ([]schema.AuditEntry, error) {
	return read(ctx, a, "Audit", limit, func(ctx context.Context) ([]schema.AuditEntry, error) {
		return a.inner.Audit(ctx, tenant, day, before, limit)
	})
}

func (a *around) PutStats(ctx context.Context, m schema.MinuteStats) error {
	return put(ctx, a, "PutStats", func(ctx context.Context) error { return a.inner.PutStats(ctx, m) })
}

func (a *around) Stats(ctx context.Context, hour int) ([]schema.MinuteStats, error) {
	return read(ctx, a, "Stats", 1, func(ctx context.Context) ([]schema.MinuteStats, error) { return a.inner.Stats(ctx, hour) })
}

// PutAudit is the store's, with faults. It copies the batch, as PutEntries does.
func (f *FaultyStore) PutAudit(ctx context.Context, entries []schema.AuditEntry) error {
	return f.around.PutAudit(ctx, slices.Clone(entries))
}

func (r *retrying) CreateAPIKey(ctx context.Context, k schema.APIKey) error {
	// A key that meets itself says so: creating it again is the look.
	return decide(ctx, func() error { return r.around.CreateAPIKey(ctx, k) }, func() (bool, bool, error) { return false, true, nil })
}

func (r *retrying) DeleteAPIKey(ctx context.Context, tenant, name string, at time.Time) (k schema.APIKey, err error) {
	before, err := r.keyNamed(ctx, tenant, name)
	if err != nil {
		return schema.APIKey{}, err
	}
	err = decide(ctx, func() error {
		k, err = r.around.DeleteAPIKey(ctx, tenant, name, at)
		return err
	}, func() (mine, again bool, err error) {
		stands, err := r.keyNamed(ctx, tenant, name)
		switch {
		case errors.Is(err, schema.ErrNotFound), err == nil && stands.Hash != before.Hash:
			k = before
			return true, false, nil
		}
		return false, true, err
	})
	return k, err
}

func (r *retrying) keyNamed(ctx context.Context, tenant, name string) (schema.APIKey, error) {
	keys, err := r.APIKeys(ctx, tenant, "", 10_000)
	for _, k := range keys {
		if err == nil && k.Name == name {
			return k, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("key %s: %w", name, schema.ErrNotFound)
	}
	return schema.APIKey{}, err
}

// aTenant makes a tenant as of that many ms after the beginning of the test.
func (b *bench) aTenant(name string, age, weight int) schema.Tenant {
	return schema.Tenant{
		Name: name, Weight: weight, CreatedAt: b.now, UpdatedAt: b.now.Add(time.Duration(age) * time.Millisecond),
		Quotas: schema.Quotas{Jobs: 1, RunsPerMinute: 2, ImportLinesPerSecond: 3, PayloadBytesPerMinute: 1 << 40},
	}
}

func (b *bench) wantTenant(want schema.Tenant) {
	b.Helper()
	got, err := b.store.Tenant(b.ctx, want.Name)
	b.must(err, "Tenant")
	if got.Name != want.Name || got.Weight != want.Weight || got.Quotas != want.Quotas ||
		!got.CreatedAt.Equal(want.CreatedAt) || !got.UpdatedAt.Equal(want.UpdatedAt) {
		b.Errorf("Tenant = %+v, want %+v", got, want)
	}
}

var tenantRules = []rule{
	{"put, replaced, listed by name", func(b *bench) {
		_, err := b.store.Tenant(b.ctx, b.tenant)
		b.wantErr(err, schema.ErrNotFound, "Tenant before it was put")
		first, second := b.aTenant(b.tenant, 0, 1), b.aTenant(b.tenant, 1, 2)
		b.must(b.store.PutTenant(b.ctx, first), "PutTenant")
		b.wantTenant(first)
		b.must(b.store.PutTenant(b.ctx, second), "PutTenant again")
		b.must(b.store.PutTenant(b.ctx, first), "PutTenant, a late repetition of the first")
		b.wantTenant(second)
		names := []string{b.tenant, b.tenant + "-b", b.tenant + "0"}
		for _, name := range names[1:] {
			b.must(b.store.PutTenant(b.ctx, b.aTenant(name, 0, 1)), "PutTenant")
		}
		var got []string
		after := b.tenant[:len(b.tenant)-1] // just before: others have tenants too
		for len(got) < len(names) {
			page, err := b.store.Tenants(b.ctx, after, 2)
			b.must(err, "Tenants")
			if len(page) == 0 {
				break
			}
			for _, t := range page {
				if after = t.Name; slices.Contains(names, t.Name) {
					got = append(got, t.Name)
				}
			}
		}
		if !slices.Equal(got, names) {
			b.Errorf("Tenants = %q, want %q", got, names)
		}
	}},
}

// apiKey makes a key.
func (b *bench) apiKey(name string) schema.APIKey {
	return schema.APIKey{
		Hash: schema.HashKey(fmt.Sprint(b.rnd.Uint64())), Tenant: b.tenant, Name: name, Role: schema.Operator,
		CreatedAt: b.now, CreatedBy: "me", ExpiresAt: b.now.Add(time.Hour),
	}
}

// sameKey compares what is stored of a key, when it was used left out.
func sameKey(a, b schema.APIKey) bool {
	return a.Hash == b.Hash && a.Tenant == b.Tenant && a.Name == b.Name && a.Role == b.Role && a.CreatedBy == b.CreatedBy &&
		a.CreatedAt.Equal(b.CreatedAt) && a.ExpiresAt.Equal(b.ExpiresAt)
}

func (b *bench) wantKey(want schema.APIKey) {
	b.Helper()
	got, err := b.store.APIKey(b.ctx, want.Hash)
	if err != nil || !sameKey(got, want) {
		b.Errorf("APIKey = %+v, %v; want %+v", got, err, want)
	}
}

func (b *bench) wantKeys(want ...schema.APIKey) {
	b.Helper()
	for _, limit := range []int{1, 2, 100} {
		var got []schema.APIKey
		for after := ""; ; after = got[len(got)-1].Name {
			page, err := b.store.APIKeys(b.ctx, b.tenant, after, limit)
			b.must(err, "APIKeys")
			got = append(got, page...)
			if len(page) < limit || len(got) > len(want) {
				break
			}
		}
		if !slices.EqualFunc(got, want, sameKey) {
			b.Errorf("APIKeys, limit %d = %+v, want %+v", limit, got, want)
		}
	}
}

var apiKeyRules = []rule{
	{"a key is found by its hash, and among its tenant's by name", func(b *bench) {
		first, second := b.apiKey("b"), b.apiKey("a")
		other := b.apiKey("a")
		other.Tenant += "0"
		_, err := b.store.APIKey(b.ctx, first.Hash)
		b.wantErr(err, schema.ErrNotFound, "APIKey before it was created")
		for _, k := range []schema.APIKey{first, second, other, first} {
			b.must(b.store.CreateAPIKey(b.ctx, k), "CreateAPIKey %s", k.Name)
		}
		b.wantKey(first)
		b.wantKey(second)
		b.wantKey(other)
		b.wantKeys(second, first)
	}},
	{"a name is had by one key, and is free when that is deleted", func(b *bench) {
		first, second := b.apiKey("n"), b.apiKey("n")
		b.must(b.store.CreateAPIKey(b.ctx, first), "CreateAPIKey")
		b.wantErr(b.store.CreateAPIKey(b.ctx, second), schema.ErrConflict, "CreateAPIKey of the same name")
		_, err := b.store.APIKey(b.ctx, second.Hash)
		b.wantErr(err, schema.ErrNotFound, "APIKey of a key whose name was taken")
		deleted, err := b.store.DeleteAPIKey(b.ctx, b.tenant, "n", b.now.Add(-time.Hour)) // by a clock that is behind
		if err != nil || !sameKey(deleted, first) {
			b.Errorf("DeleteAPIKey = %+v, %v; want %+v", deleted, err, first)
		}
		_, err = b.store.APIKey(b.ctx, first.Hash)
		b.wantErr(err, schema.ErrNotFound, "APIKey after it was deleted")
		_, err = b.store.DeleteAPIKey(b.ctx, b.tenant, "n", b.now)
		b.wantErr(err, schema.ErrNotFound, "DeleteAPIKey again")
		b.must(b.store.CreateAPIKey(b.ctx, second), "CreateAPIKey, of a name that is free")
		b.wantKeys(second)
		b.wantKey(second)
	}},
	{"its use is noted, and makes no key of one that was deleted", func(b *bench) {
		k, unused := b.apiKey("a"), b.apiKey("b")
		b.must(b.store.CreateAPIKey(b.ctx, k), "CreateAPIKey")
		b.must(b.store.CreateAPIKey(b.ctx, unused), "CreateAPIKey")
		for _, after := range []time.Duration{time.Minute, time.Hour, time.Second} {
			b.must(b.store.TouchAPIKey(b.ctx, k.Hash, b.now.Add(after)), "TouchAPIKey")
		}
		keys, err := b.store.APIKeys(b.ctx, b.tenant, "", 10)
		b.must(err, "APIKeys")
		if len(keys) != 2 || !keys[0].LastUsed.Equal(b.now.Add(time.Hour)) || !keys[1].LastUsed.IsZero() {
			b.Errorf("APIKeys = %+v, want the first used at %v and the second never", keys, b.now.Add(time.Hour))
		}
		_, err = b.store.DeleteAPIKey(b.ctx, b.tenant, "a", b.now)
		b.must(err, "DeleteAPIKey")
		b.must(b.store.TouchAPIKey(b.ctx, k.Hash, b.now.Add(2*time.Hour)), "TouchAPIKey after DeleteAPIKey")
		_, err = b.store.APIKey(b.ctx, k.Hash)
		b.wantErr(err, schema.ErrNotFound, "APIKey after it was deleted and used")
		b.wantKeys(unused)
	}},
	{"of many of one name at once one is created", func(b *bench) {
		for round := range raceRounds {
			keys := make([]schema.APIKey, racers)
			for i := range keys {
				keys[i] = b.apiKey(fmt.Sprint("n", round))
			}
			var won atomic.Int32
			race(racers, func(i int) {
				switch err := b.store.CreateAPIKey(b.ctx, keys[i]); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, schema.ErrConflict) && !errors.Is(err, schema.ErrUnknown):
					b.Errorf("CreateAPIKey %d = %v, want none or %v", i, err, schema.ErrConflict)
				}
			})
			good := 0
			for _, k := range keys {
				if _, err := b.store.APIKey(b.ctx, k.Hash); err == nil {
					good++
				}
			}
			if won.Load() > 1 || good > 1 {
				b.Errorf("of %d keys of one name %d were created and %d are good, want at most 1", racers, won.Load(), good)
			}
		}
	}},
}

// auditEntry makes the entry number n, at that many ms after the beginning of day.
func (b *bench) auditEntry(day, ms int, n uint16) schema.AuditEntry {
	at := time.Unix(int64(day)*24*3600, 0).Add(time.Duration(ms) * time.Millisecond).UTC()
	return schema.AuditEntry{
		ID: schema.MakeAuditID(at, n, b.rnd.Uint64()), Tenant: b.tenant, At: at, Actor: "me", Action: "update", Object: fmt.Sprint("task/", n),
		Before: []byte(`{"a":1}`), After: []byte(`{"a":"ü"}`), Note: "note",
	}
}

func sameEntry(a, b schema.AuditEntry) bool {
	return a.ID == b.ID && a.Tenant == b.Tenant && a.At.Equal(b.At) && a.Actor == b.Actor && a.Action == b.Action && a.Object == b.Object &&
		string(a.Before) == string(b.Before) && string(a.After) == string(b.After) && a.Note == b.Note
}

var auditRules = []rule{
	{"entries of a day come newest first, page by page, of one tenant", func(b *bench) {
		day := schema.AuditDay(b.now)
		var all []schema.AuditEntry
		for i := range 7 { // two of one ms each
			all = append(all, b.auditEntry(day, 1000+i/2, uint16(i))) // #nosec G115 -- small
		}
		bare := b.auditEntry(day, 5000, 0)
		bare.Before, bare.After, bare.Note = nil, nil, ""
		all = append(all, bare)
		other := b.auditEntry(day, 1, 1)
		other.Tenant += "0"
		b.must(b.store.PutAudit(b.ctx, append(slices.Clone(all), other, b.auditEntry(day-1, 1, 1), b.auditEntry(day+1, 0, 1))), "PutAudit")
		b.must(b.store.PutAudit(b.ctx, all[:2]), "PutAudit again")
		slices.Reverse(all)
		for _, limit := range []int{1, 3, 8, 100} {
			var got []schema.AuditEntry
			for before := (schema.AuditID{}); ; before = got[len(got)-1].ID {
				page, err := b.store.Audit(b.ctx, b.tenant, day, before, limit)
				b.must(err, "Audit")
				got = append(got, page...)
				if len(page) < limit || len(got) > len(all) {
					break
				}
			}
			if !slices.EqualFunc(got, all, sameEntry) {
				b.Errorf("Audit, limit %d = %+v\nwant %+v", limit, got, all)
			}
		}
	}},
}

var statsRules = []rule{
	{"an hour is read whole, and a minute of a node is replaced", func(b *bench) {
		hour := b.now.Truncate(time.Hour)
		minute := func(m int, node string, due int64) schema.MinuteStats {
			return schema.MinuteStats{
				Written: b.now.UnixMicro() - due,
				Minute:  hour.Add(time.Duration(m) * time.Minute), Node: b.tenant + node, Due: due, Started: 2, Succeeded: 3, Failed: 4,
				Missed: 5, Retried: 6, Lateness: []schema.LatenessClass{{UpTo: schema.Duration(time.Millisecond), Count: 2}},
			}
		}
		want := []schema.MinuteStats{minute(0, "a", 1), minute(59, "a", 1), minute(59, "b", 2)}
		for _, m := range []schema.MinuteStats{minute(59, "b", 7), want[2], want[1], want[0], minute(60, "a", 1), minute(-1, "a", 1)} {
			b.must(b.store.PutStats(b.ctx, m), "PutStats")
		}
		all, err := b.store.Stats(b.ctx, schema.StatsHour(hour))
		b.must(err, "Stats")
		var got []schema.MinuteStats
		for _, m := range all { // others count too
			if len(m.Node) > len(b.tenant) && m.Node[:len(b.tenant)] == b.tenant {
				got = append(got, m)
			}
		}
		for i := range want {
			want[i].Written = 0
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			b.Errorf("Stats = %+v\nwant %+v", got, want)
		}
	}},
}

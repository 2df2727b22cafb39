package schematest

import (
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

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
		got := pages(b, "APIKeys", limit, func(last *schema.APIKey) ([]schema.APIKey, error) {
			return b.store.APIKeys(b.ctx, b.tenant, or(last, func(k *schema.APIKey) string { return k.Name }), limit)
		})
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
		// by a clock that is behind
		deleted, err := b.store.DeleteAPIKey(b.ctx, b.tenant, "n", b.now.Add(-time.Hour))
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
}

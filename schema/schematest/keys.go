package schematest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

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

// signing makes signing keys of a revision, one for each name.
func (b *bench) signing(revision int64, names ...string) schema.SigningKeys {
	k := schema.SigningKeys{Revision: revision}
	for _, name := range names {
		k.Keys = append(k.Keys, schema.SigningKey{
			Name: name, CreatedAt: b.now, CreatedBy: "ü", Secrets: []schema.SigningSecret{
				{SealedWith: "k2", Sealed: []byte{0, 255, 13, 10}, CreatedAt: b.now},
				{SealedWith: "k1", Sealed: bytes.Repeat([]byte{'x'}, 60), CreatedAt: b.now, Until: b.now.Add(time.Hour)},
			},
		})
	}
	return k
}

// wantSigning checks what stands.
func (b *bench) wantSigning(tenant string, want schema.SigningKeys) {
	b.Helper()
	got, err := b.store.SigningKeys(b.ctx, tenant)
	if want.Revision == 0 {
		b.wantErr(err, schema.ErrNotFound, "SigningKeys(%s)", tenant)
		return
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		b.Errorf("SigningKeys(%s) = %v (-want +got):\n%s", tenant, err, diff)
	}
}

var signingRules = []rule{
	{"all of a tenant are replaced as read", func(b *bench) {
		none, one, two, other := b.signing(0), b.signing(10, "a"), b.signing(12, "a", "b"), b.signing(11, "c")
		left := b.signing(13)
		for _, step := range []struct {
			name   string
			was    int64
			is     schema.SigningKeys
			want   error
			stands schema.SigningKeys
		}{
			{"replace what never was", 9, one, schema.ErrConflict, none},
			{"make the first", 0, one, nil, one},
			{"make it again", 0, one, nil, one},
			{"make the first after another", 0, other, schema.ErrConflict, one},
			{"replace another revision", 9, other, schema.ErrConflict, one},
			{"replace it", 10, two, nil, two},
			{"replace it again", 10, two, nil, two},
			{"replace what is no more", 10, other, schema.ErrConflict, two},
			{"remove all", 12, left, nil, left},
		} {
			err := b.store.SwapSigningKeys(b.ctx, b.tenant, step.was, step.is)
			if !errors.Is(err, step.want) || step.want == nil && err != nil {
				b.Errorf("%s: SwapSigningKeys = %v, want %v", step.name, err, step.want)
			}
			b.wantSigning(b.tenant, step.stands)
		}
	}},
	{"the revision grows", func(b *bench) {
		b.must(b.store.SwapSigningKeys(b.ctx, b.tenant, 0, b.signing(10, "a")), "SwapSigningKeys")
		for name, c := range map[string]struct{ was, is int64 }{"the same": {10, 10}, "lower": {10, 9}, "none": {0, 0}, "negative": {-1, 5}} {
			if err := b.store.SwapSigningKeys(b.ctx, b.tenant, c.was, b.signing(c.is, "b")); err == nil {
				b.Errorf("%s: SwapSigningKeys(%d → %d) = nil, want an error", name, c.was, c.is)
			}
		}
		b.wantSigning(b.tenant, b.signing(10, "a"))
	}},
	{"a tenant has only its own", func(b *bench) {
		other := b.tenant + "x"
		b.must(b.store.SwapSigningKeys(b.ctx, b.tenant, 0, b.signing(10, "a")), "SwapSigningKeys")
		b.wantSigning(other, b.signing(0))
		b.must(b.store.SwapSigningKeys(b.ctx, other, 0, b.signing(11, "b")), "SwapSigningKeys")
		b.wantSigning(b.tenant, b.signing(10, "a"))
	}},
	{"as many as may be fit", func(b *bench) {
		var names []string
		for i := range schema.MaxSigningKeys {
			names = append(names, fmt.Sprintf("%02d-%s", i, strings.Repeat("n", 60)))
		}
		all := b.signing(1, names...)
		b.must(b.store.SwapSigningKeys(b.ctx, b.tenant, 0, all), "SwapSigningKeys")
		b.wantSigning(b.tenant, all)
	}},
}

// secret makes a secret of a revision, which its value says.
func (b *bench) secret(name string, revision int64) schema.Secret {
	return schema.Secret{
		Tenant: b.tenant, Name: name, Revision: revision, CreatedAt: b.now, CreatedBy: "ü", Versions: []schema.SecretVersion{
			{Number: revision, SealedWith: "k2", Sealed: fmt.Append([]byte{0, 255, 13, 10}, revision), CreatedAt: b.now, CreatedBy: "me"},
			{Number: 0, SealedWith: "k1", Sealed: bytes.Repeat([]byte{'x'}, 60), CreatedAt: b.now, Until: b.now.Add(time.Hour)},
		},
	}
}

// wantSecret checks what stands; revision 0: nothing.
func (b *bench) wantSecret(want schema.Secret) {
	b.Helper()
	got, err := b.store.Secret(b.ctx, want.Tenant, want.Name)
	if want.Revision == 0 {
		b.wantErr(err, schema.ErrNotFound, "Secret(%s)", want.Name)
		return
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		b.Errorf("Secret(%s) = %v (-want +got):\n%s", want.Name, err, diff)
	}
}

var secretRules = []rule{
	{"it is replaced as read, and removed as read", func(b *bench) {
		none, one, two, other := b.secret("n", 0), b.secret("n", 10), b.secret("n", 12), b.secret("n", 11)
		anew := b.secret("n", 20)
		for _, step := range []struct {
			name   string
			was    int64
			is     schema.Secret // revision 0: it is removed
			want   error
			stands schema.Secret
		}{
			{"replace what never was", 9, one, schema.ErrConflict, none},
			{"remove what never was", 9, none, nil, none},
			{"make it", 0, one, nil, one},
			{"make it again", 0, one, nil, one},
			{"make it after another", 0, other, schema.ErrConflict, one},
			{"replace another revision", 9, other, schema.ErrConflict, one},
			{"remove another revision", 9, none, schema.ErrConflict, one},
			{"replace it", 10, two, nil, two},
			{"replace it again", 10, two, nil, two},
			{"replace what is no more", 10, other, schema.ErrConflict, two},
			{"remove what is no more", 10, none, schema.ErrConflict, two},
			{"remove it", 12, none, nil, none},
			{"remove it again", 12, none, nil, none},
			{"replace what is removed", 12, anew, schema.ErrConflict, none},
			{"make it anew", 0, anew, nil, anew},
		} {
			var err error
			if step.is.Revision == 0 {
				err = b.store.DeleteSecret(b.ctx, b.tenant, "n", step.was)
			} else {
				err = b.store.SwapSecret(b.ctx, step.was, step.is)
			}
			if !errors.Is(err, step.want) || step.want == nil && err != nil {
				b.Errorf("%s: got %v, want %v", step.name, err, step.want)
			}
			b.wantSecret(step.stands)
		}
	}},
	{"its revision grows", func(b *bench) {
		b.must(b.store.SwapSecret(b.ctx, 0, b.secret("n", 10)), "SwapSecret")
		for name, c := range map[string]struct{ was, is int64 }{"the same": {10, 10}, "lower": {10, 9}, "none": {0, 0}, "negative": {-1, 5}} {
			if err := b.store.SwapSecret(b.ctx, c.was, b.secret("n", c.is)); err == nil {
				b.Errorf("%s: SwapSecret(%d → %d) = nil, want an error", name, c.was, c.is)
			}
		}
		b.wantSecret(b.secret("n", 10))
	}},
	{"a tenant's are listed by name", func(b *bench) {
		names := []string{"a", "a-b", "a.b", "aa", "b", "b0", "c"}
		for _, i := range b.rnd.Perm(len(names)) {
			b.must(b.store.SwapSecret(b.ctx, 0, b.secret(names[i], 1)), "SwapSecret")
		}
		other := b.secret("other", 1)
		other.Tenant += "0"
		b.must(b.store.SwapSecret(b.ctx, 0, other), "SwapSecret")
		b.must(b.store.SwapSecret(b.ctx, 0, b.secret("gone", 1)), "SwapSecret")
		b.must(b.store.DeleteSecret(b.ctx, b.tenant, "gone", 1), "DeleteSecret")
		b.must(b.store.TouchSecret(b.ctx, b.tenant, "gone", b.now), "TouchSecret of a secret that was deleted")
		for _, limit := range []int{1, 2, 7, 100} {
			all := pages(b, "Secrets", limit, func(last *schema.Secret) ([]schema.Secret, error) {
				return b.store.Secrets(b.ctx, b.tenant, or(last, func(s *schema.Secret) string { return s.Name }), limit)
			})
			var want []schema.Secret
			for _, name := range names {
				want = append(want, b.secret(name, 1))
			}
			if diff := cmp.Diff(want, all); diff != "" {
				b.Errorf("Secrets, limit %d (-want +got):\n%s", limit, diff)
			}
		}
		b.wantSecret(other)
		other.Tenant, other.Revision = b.tenant, 0
		b.wantSecret(other)
	}},
	{"its latest use is noted, and makes no secret", func(b *bench) {
		b.must(b.store.TouchSecret(b.ctx, b.tenant, "n", b.now.Add(-time.Minute)), "TouchSecret of what never was")
		b.wantSecret(b.secret("n", 0))
		s := b.secret("n", 1)
		b.must(b.store.SwapSecret(b.ctx, 0, s), "SwapSecret")
		b.wantSecret(s) // the use was of another
		for _, after := range []time.Duration{time.Minute, time.Hour, time.Second} {
			b.must(b.store.TouchSecret(b.ctx, b.tenant, "n", b.now.Add(after)), "TouchSecret")
		}
		s.LastUsed = b.now.Add(time.Hour)
		b.wantSecret(s)
		next := b.secret("n", 2)
		next.LastUsed = s.LastUsed
		b.must(b.store.SwapSecret(b.ctx, 1, next), "SwapSecret")
		b.wantSecret(next)
		b.must(b.store.DeleteSecret(b.ctx, b.tenant, "n", 2), "DeleteSecret")
		b.must(b.store.TouchSecret(b.ctx, b.tenant, "n", b.now.Add(2*time.Hour)), "TouchSecret of a secret that was deleted")
		b.wantSecret(b.secret("n", 0))
		list, err := b.store.Secrets(b.ctx, b.tenant, "", 10)
		if err != nil || len(list) != 0 {
			b.Errorf("Secrets = %+v, %v; want none", list, err)
		}
	}},
	{"one as large as may be fits", func(b *bench) {
		s := b.secret("n", 1)
		s.Versions = nil
		for i := range schema.MaxSecretVersions {
			s.Versions = append(s.Versions, schema.SecretVersion{
				Number: int64(i), SealedWith: strings.Repeat("k", 32), Sealed: bytes.Repeat([]byte{byte(i)}, schema.MaxSecretValue+28), CreatedAt: b.now,
				CreatedBy: strings.Repeat("n", 127),
			})
		}
		b.must(b.store.SwapSecret(b.ctx, 0, s), "SwapSecret")
		b.wantSecret(s)
	}},
}

package schematest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

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

package schematest

import (
	"carillon.dev/carillon/schema"
)

// claim makes a claim of a body with that hash.
func (b *bench) record(hash string) schema.KeyRecord {
	return schema.KeyRecord{
		BodyHash: hash, Entry: b.id(b.partition(), 0),
		Text: []byte(`{"a": "ü"}`), Payload: []byte("\x00\xff"), Expires: b.later(),
	}
}

// claims claims key and checks which claim is in force.
func (b *bench) keeps(tenant, key string, claim, want schema.KeyRecord, wantMine bool) {
	b.Helper()
	got, mine, err := b.store.RegisterKey(b.ctx, tenant, key, claim, b.later())
	b.must(err, "RegisterKey")
	same := got.BodyHash == want.BodyHash && got.Entry == want.Entry && string(got.Text) == string(want.Text) &&
		string(got.Payload) == string(want.Payload) && got.Expires.Equal(want.Expires)
	if !same || mine != wantMine {
		b.Errorf("RegisterKey(%s, %s) = %+v, %v; want %+v, %v", tenant, key, got, mine, want, wantMine)
	}
}

var keyRules = []rule{
	{"the first claim stands, and knows itself again", func(b *bench) {
		first, second := b.record("one"), b.record("one")
		b.keeps(b.tenant, "key", first, first, true)
		b.keeps(b.tenant, "key", second, first, false)
		b.keeps(b.tenant, "key", b.record("two"), first, false)
		// repeated after ErrUnknown, it must not be taken for another's
		b.keeps(b.tenant, "key", first, first, true)
	}},
	{"keys belong to tenants", func(b *bench) {
		for _, of := range [][2]string{{b.tenant, "key"}, {b.tenant, "key2"}, {b.tenant + "k", "ey"}, {b.tenant + "2", "key"}} {
			c := b.record("hash")
			b.keeps(of[0], of[1], c, c, true)
		}
	}},
	{"an expired claim is free", func(b *bench) {
		old, next := b.record("old"), b.record("next")
		_, _, err := b.store.RegisterKey(b.ctx, b.tenant, "key", old, b.soon())
		b.must(err, "RegisterKey")
		b.eventually("the claim expires", func() bool {
			got, mine, err := b.store.RegisterKey(b.ctx, b.tenant, "key", next, b.later())
			b.must(err, "RegisterKey")
			return mine && got.Entry == next.Entry
		})
		b.keeps(b.tenant, "key", old, next, false)
	}},
}

package schematest

// decides checks what is decided under a key.
func (b *bench) decides(key, text, want string) {
	b.Helper()
	got, err := b.store.Decide(b.ctx, key, text, b.later())
	if err != nil || got != want {
		b.Errorf("Decide(%s, %s) = %q, %v; want %q", key, text, got, err, want)
	}
}

var decisionRules = []rule{
	{"the first stands", func(b *bench) {
		key := b.tenant + "/a"
		b.decides(key, "first ü", "first ü")
		b.decides(key, "second", "first ü")
		b.decides(key, "first ü", "first ü")
		b.decides(b.tenant+"/b", "second", "second")
		b.decides(b.tenant+"/", "third", "third")
	}},
	{"an expired one is free", func(b *bench) {
		key := b.tenant + "/a"
		if _, err := b.store.Decide(b.ctx, key, "old", b.soon()); err != nil {
			b.Fatalf("Decide = %v", err)
		}
		b.eventually("the decision expires", func() bool {
			got, err := b.store.Decide(b.ctx, key, "new", b.later())
			b.must(err, "Decide")
			return got == "new"
		})
		b.decides(key, "old", "new")
	}},
}

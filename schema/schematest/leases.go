package schematest

import (
	"errors"
	"time"

	"carillon.dev/carillon/schema"
)

// holder draws a holder of a lease.
func (b *bench) holder(executor string) *schema.SessionRef {
	return &schema.SessionRef{Executor: executor, ID: "s-" + executor, Started: b.now.Add(123456789).UTC(), Entry: b.id(b.partition(), 0)}
}

// wantLease checks what stands under the lease's key.
func (b *bench) wantLease(want schema.Lease) {
	b.Helper()
	got, err := b.store.Lease(b.ctx, want.Key)
	if want.Fence == 0 {
		b.wantErr(err, schema.ErrNotFound, "Lease(%s)", want.Key)
		return
	}
	if err != nil || got.Key != want.Key || !got.Same(want) {
		b.Errorf("Lease(%s) = %+v (record %q), %v; want %+v (record %q)", want.Key, got, got.Record, err, want, want.Record)
	}
}

var leaseRules = []rule{
	{"one stands at a time, and is replaced as read", func(b *bench) {
		key := b.tenant + "/ü"
		none := schema.Lease{Key: key}
		held := schema.Lease{Key: key, Fence: 10, Holder: b.holder("a"), Record: []byte(`{"attempt": 1}`)}
		other := schema.Lease{Key: key, Fence: 11, Holder: b.holder("b")}
		free := schema.Lease{Key: key, Fence: 10, Record: []byte(`{"ended": "ü"}`)}
		bare := schema.Lease{Key: key, Fence: 12}
		like := func(l schema.Lease, change func(l *schema.Lease)) schema.Lease {
			if l.Holder != nil {
				h := *l.Holder
				l.Holder = &h
			}
			change(&l)
			return l
		}
		for _, step := range []struct {
			name    string
			was, is schema.Lease
			want    error
			stands  schema.Lease
		}{
			{"take what nobody ever had, as if somebody had", held, other, schema.ErrConflict, none},
			{"take what nobody ever had", none, held, nil, held},
			{"take it again", none, held, nil, held},
			{"take what another has as if nobody had", none, other, schema.ErrConflict, held},
			{"take it with another's fence", like(held, func(l *schema.Lease) { l.Fence = 9 }), other, schema.ErrConflict, held},
			{"take it with another's session", like(held, func(l *schema.Lease) { l.Holder.ID = "x" }), other, schema.ErrConflict, held},
			{"take it with another holder's entry", like(held, func(l *schema.Lease) { l.Holder.Entry = schema.EntryID{} }), other, schema.ErrConflict, held},
			{"take it with another record", like(held, func(l *schema.Lease) { l.Record = []byte("{}") }), other, schema.ErrConflict, held},
			{"take it as if it had no record", like(held, func(l *schema.Lease) { l.Record = nil }), other, schema.ErrConflict, held},
			{"take it as if nobody held it", like(held, func(l *schema.Lease) { l.Holder = nil }), other, schema.ErrConflict, held},
			{"end it under the same fence", held, free, nil, free},
			{"end it again", held, free, nil, free},
			{"take what is free", free, other, nil, other},
			{"end it by who had it before", held, free, schema.ErrConflict, other},
			{"clear it", other, bare, nil, bare},
			{"keep it as it is", bare, bare, nil, bare},
		} {
			b.Log(step.name)
			got, err := b.store.SwapLease(b.ctx, step.was, step.is, b.later())
			if !errors.Is(err, step.want) || got.Key != key || !got.Same(step.stands) {
				b.Errorf("%s: SwapLease = %+v, %v; want %+v, %v", step.name, got, err, step.stands, step.want)
			}
			b.wantLease(step.stands)
		}
		b.wantLease(schema.Lease{Key: b.tenant})
	}},
	{"a fence only grows", func(b *bench) {
		held := schema.Lease{Key: b.tenant, Fence: 10}
		_, err := b.store.SwapLease(b.ctx, schema.Lease{}, held, b.later())
		b.must(err, "SwapLease")
		for _, f := range []schema.Fence{-1, 0, 9} {
			if _, err := b.store.SwapLease(b.ctx, held, schema.Lease{Key: b.tenant, Fence: f}, b.later()); err == nil || errors.Is(err, schema.ErrConflict) {
				b.Errorf("SwapLease from fence 10 to %d = %v, want a refusal", f, err)
			}
			b.wantLease(held)
		}
	}},
	{"a record may be long, but not too long", func(b *bench) {
		long := schema.Lease{Key: b.tenant, Fence: 1, Record: []byte(text(64 << 10))}
		_, err := b.store.SwapLease(b.ctx, schema.Lease{}, long, b.later())
		b.must(err, "SwapLease with a record of 64 KiB")
		b.wantLease(long)
		next := schema.Lease{Key: b.tenant, Fence: 2, Record: []byte(text(32 << 20))}
		_, err = b.store.SwapLease(b.ctx, long, next, b.later())
		b.wantErr(err, schema.ErrTooLarge, "SwapLease with a record of 32 MiB")
		b.wantLease(long)
	}},
	{"a lease and a decision of one key are two", func(b *bench) {
		b.decides(b.tenant, "decided", "decided")
		l := schema.Lease{Key: b.tenant, Fence: 7, Record: []byte("record")}
		_, err := b.store.SwapLease(b.ctx, schema.Lease{}, l, b.later())
		b.must(err, "SwapLease")
		b.wantLease(l)
		b.decides(b.tenant, "other", "decided")
	}},
	{"an expired one is not there, and one that is swapped lives as long as was said last", func(b *bench) {
		first, second := schema.Lease{Key: b.tenant + "/1", Fence: 5}, schema.Lease{Key: b.tenant + "/2", Fence: 5}
		third := schema.Lease{Key: b.tenant + "/3", Fence: 5, Record: []byte("x")}
		for _, l := range []schema.Lease{first, second, third} {
			_, err := b.store.SwapLease(b.ctx, schema.Lease{}, l, b.soon())
			b.must(err, "SwapLease")
		}
		kept := schema.Lease{Key: second.Key, Fence: 6}
		_, err := b.store.SwapLease(b.ctx, second, kept, time.Time{})
		b.must(err, "SwapLease for ever")
		longer := third
		longer.Fence++
		_, err = b.store.SwapLease(b.ctx, third, longer, b.later())
		b.must(err, "SwapLease for longer")
		b.eventually("the lease expires", func() bool {
			_, err := b.store.Lease(b.ctx, first.Key)
			return errors.Is(err, schema.ErrNotFound)
		})
		b.wantLease(kept)
		b.wantLease(longer)
		_, err = b.store.SwapLease(b.ctx, first, schema.Lease{Key: first.Key, Fence: 6}, b.later())
		b.wantErr(err, schema.ErrConflict, "SwapLease of what expired")
		anew := schema.Lease{Key: first.Key, Fence: 1}
		_, err = b.store.SwapLease(b.ctx, schema.Lease{}, anew, b.later())
		b.must(err, "SwapLease where one expired")
		b.wantLease(anew)
	}},
}

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
	{"it can be read", func(b *bench) {
		key := b.tenant + "/a"
		_, err := b.store.Decided(b.ctx, key)
		b.wantErr(err, schema.ErrNotFound, "Decided before anything was")
		b.decides(key, "first ü", "first ü")
		b.decides(key, "second", "first ü")
		if got, err := b.store.Decided(b.ctx, key); err != nil || got != "first ü" {
			b.Errorf("Decided = %q, %v", got, err)
		}
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

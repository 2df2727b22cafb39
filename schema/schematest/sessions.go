package schematest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// executor draws a name.
func (b *bench) executor() string { return fmt.Sprintf("executor-%016x", b.rnd.Uint64()) }

// wantSession checks which session of an executor stands; a zero want means none.
func (b *bench) wantSession(executor string, want schema.Session) {
	b.Helper()
	got, err := b.store.Session(b.ctx, executor)
	if want.ID == "" {
		b.wantErr(err, schema.ErrNotFound, "Session")
		return
	}
	if err != nil || got.Executor != want.Executor || got.ID != want.ID || !got.Expires.Equal(want.Expires) || !slices.EqualFunc(got.Former, want.Former, sameFormer) ||
		!maps.Equal(got.Released, want.Released) {
		b.Errorf("Session = %+v, %v; want %+v", got, err, want)
	}
}

func sameFormer(x, y schema.FormerSession) bool { return x.ID == y.ID && x.Expires.Equal(y.Expires) }

var sessionRules = []rule{
	{"one stands at a time, and is replaced as read", func(b *bench) {
		executor := b.executor()
		b.wantSession(executor, schema.Session{})
		first := schema.Session{Executor: executor, ID: "first", Expires: b.now.Add(10 * time.Second)}
		renewed := first
		renewed.Expires = first.Expires.Add(3*time.Second + time.Millisecond)
		second := schema.Session{Executor: executor, ID: "second", Expires: b.now.Add(20 * time.Second)}
		for _, step := range []struct {
			name    string
			was, is schema.Session
			want    error
			stands  schema.Session
		}{
			{name: "renew none", was: first, is: renewed, want: schema.ErrConflict},
			{name: "begin", is: first, stands: first},
			{name: "begin a second", is: second, want: schema.ErrConflict, stands: first},
			{name: "renew", was: first, is: renewed, stands: renewed},
			{name: "renew what was renewed", was: first, is: second, want: schema.ErrConflict, stands: renewed},
			{name: "declare dead what was renewed", was: first, is: schema.Session{Executor: executor}, want: schema.ErrConflict, stands: renewed},
			{name: "declare another dead", was: second, is: schema.Session{Executor: executor}, want: schema.ErrConflict, stands: renewed},
			{name: "declare dead", was: renewed, is: schema.Session{Executor: executor}},
			{name: "renew the dead", was: renewed, is: first, want: schema.ErrConflict},
			{name: "begin anew", is: second, stands: second},
			{name: "declare dead without a name", was: second},
		} {
			err := b.store.SwapSession(b.ctx, step.was, step.is)
			if !errors.Is(err, step.want) {
				b.Errorf("%s: SwapSession = %v, want %v", step.name, err, step.want)
			}
			b.Log(step.name)
			b.wantSession(executor, step.stands)
		}
	}},
	{"what it remembers is kept as it is said", func(b *bench) {
		executor := b.executor()
		var former []schema.FormerSession
		for i := range schema.MaxFormer {
			former = append(former, schema.FormerSession{ID: fmt.Sprintf("%016x", i), Expires: b.now.Add(time.Duration(i) * time.Millisecond)})
		}
		was := schema.Session{}
		for i, remembered := range [][]schema.FormerSession{former[:2], nil, former[:1], former[1:3], former, nil} {
			is := schema.Session{Executor: executor, ID: "same", Expires: b.now.Add(time.Duration(i) * time.Second), Former: remembered}
			if i%2 == 1 || i == 4 {
				is.Released = map[string]int64{"eu": int64(i), "us": 1 << 40}
			}
			b.must(b.store.SwapSession(b.ctx, was, is), "SwapSession")
			b.wantSession(executor, is)
			was = is
		}
		b.must(b.store.SwapSession(b.ctx, was, schema.Session{Executor: executor}), "SwapSession")
		b.wantSession(executor, schema.Session{})
		again := schema.Session{Executor: executor, ID: "again", Expires: b.now}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, again), "SwapSession")
		b.wantSession(executor, again)
	}},
	{"an expired one stands until it is declared dead", func(b *bench) {
		executor := b.executor()
		old := schema.Session{Executor: executor, ID: "old", Expires: b.now.Add(-time.Hour)}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, old), "SwapSession")
		b.wantSession(executor, old)
		err := b.store.SwapSession(b.ctx, schema.Session{}, schema.Session{Executor: executor, ID: "new", Expires: b.now})
		b.wantErr(err, schema.ErrConflict, "SwapSession beside an expired one")
	}},
}

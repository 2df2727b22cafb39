package retention

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
)

// tenants are tenants by name: a store that counts its reads.
type tenants struct {
	of    atomic.Pointer[map[string]schema.Tenant]
	fails atomic.Bool
	reads atomic.Int64
}

func (s *tenants) put(days map[string]int) {
	of := make(map[string]schema.Tenant)
	for name, n := range days {
		of[name] = schema.Tenant{Name: name, Retention: n}
	}
	s.of.Store(&of)
}

func (s *tenants) Tenant(_ context.Context, name string) (schema.Tenant, error) {
	s.reads.Add(1)
	if s.fails.Load() {
		return schema.Tenant{}, schema.ErrUnavailable
	}
	t, ok := (*s.of.Load())[name]
	if !ok {
		return t, schema.ErrNotFound
	}
	return t, nil
}

func TestRetentionsAreKnown(t *testing.T) {
	s := new(tenants)
	s.put(map[string]int{"a": 3, "b": 0, "c": 1})
	k := New(s, slog.New(slog.DiscardHandler))
	want := func(when string, days map[string]int, any bool) {
		t.Helper()
		got := make(map[string]int)
		for _, name := range []string{"a", "b", "c", "d"} {
			if n := k.RetentionOf(name); n != 0 {
				got[name] = n
			}
		}
		if !maps.Equal(got, days) || k.AnyRetention() != any {
			t.Errorf("%s: the retentions are %v, any %v; want %v, %v", when, got, k.AnyRetention(), days, any)
		}
	}
	read := func(want error) {
		t.Helper()
		if err := k.ReadRetentions(t.Context()); !errors.Is(err, want) {
			t.Errorf("ReadRetentions = %v, want %v", err, want)
		}
	}
	read(nil)
	k.NoteRetentions(nil)
	read(nil)
	if n := s.reads.Load(); n != 0 {
		t.Errorf("of no tenant %d were read, want none", n)
	}
	want("nothing noted", nil, false)
	k.NoteRetentions([]string{"a", "b", "d"}) // b has none, d was noted and not put
	want("noted", nil, true)
	read(nil)
	want("read", map[string]int{"a": 3}, true)
	s.fails.Store(true)
	read(schema.ErrUnavailable)
	want("not read", map[string]int{"a": 3}, true)
	s.fails.Store(false)
	s.put(map[string]int{"b": 2})
	read(nil)
	want("changed", map[string]int{"b": 2}, true)
}

// A tenant that is noted is read at once, and again every few seconds.
func TestRetentionsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(tenants)
		s.put(map[string]int{"a": 3})
		k := New(s, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go k.WatchRetentions(ctx)
		synctest.Wait()
		k.NoteRetentions([]string{"a"})
		synctest.Wait()
		if n := k.RetentionOf("a"); n != 3 {
			t.Errorf("the retention of a tenant that was just noted is %d, want 3", n)
		}
		s.put(map[string]int{"a": 5})
		time.Sleep(readEvery)
		synctest.Wait()
		if n := k.RetentionOf("a"); n != 5 {
			t.Errorf("the retention after a change is %d, want 5", n)
		}
	})
}

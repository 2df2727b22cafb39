package embedded_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

// writes are what a store hands on to its copy.
type writes struct {
	mu  sync.Mutex
	all []embedded.Mutation
}

func (w *writes) add(of []embedded.Mutation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, of...)
}

// copyTo applies the writes in any order, some of them twice.
func (w *writes) copyTo(t *testing.T, s *embedded.Store) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := append(slices.Clone(w.all), w.all[:len(w.all)/3]...)
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for chunk := range slices.Chunk(all, 7) {
		if err := s.Apply(context.Background(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSameRows compares two copies row by row.
func wantSameRows(t *testing.T, a, b *embedded.Store) {
	t.Helper()
	as, err := a.Rows(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	bs, err := b.Rows(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for key := range maps.Keys(as) {
		if as[key] != bs[key] {
			t.Errorf("row %q: one copy has %q, the other %q", key, as[key], bs[key])
		}
	}
	for key := range bs {
		if _, ok := as[key]; !ok {
			t.Errorf("row %q is in one copy only", key)
		}
	}
}

// TestAStoreWithACopy answers as one without, and a copy that took in its writes in any order, some
// of them twice, has the same rows.
func TestAStoreWithACopy(t *testing.T) {
	schematest.Exercise(t, func(t *testing.T) schema.Store {
		t.Helper()
		var w writes
		clock, opened := fast(), false
		began := clock()
		now := func() time.Time {
			if !opened {
				return began
			}
			return clock()
		}
		s := open(t, embedded.Config{Now: now, Replicate: w.add})
		there := open(t, embedded.Config{Now: now})
		opened = true
		t.Cleanup(func() {
			w.copyTo(t, there)
			wantSameRows(t, s, there)
		})
		return s
	})
}

// TestCopiesThatBothDecide: a conditional write is decided by each copy alone, so both may win. The
// later one stays at both, and so does a removal.
func TestCopiesThatBothDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ofA, ofB writes
		a, b := open(t, embedded.Config{Replicate: ofA.add}), open(t, embedded.Config{Replicate: ofB.add})
		ctx, expires := context.Background(), time.Now().Add(time.Hour)
		lease := func(key, record string) schema.Lease { return schema.Lease{Key: key, Fence: 1, Record: []byte(record)} }
		swap := func(s *embedded.Store, is schema.Lease) {
			t.Helper()
			if _, err := s.SwapLease(ctx, schema.Lease{Key: is.Key}, is, expires); err != nil {
				t.Fatalf("SwapLease: %v", err)
			}
		}
		swap(a, lease("x", "a"))
		time.Sleep(time.Millisecond)
		swap(b, lease("x", "b")) // a's has not come yet

		session := schema.Session{Executor: "e", ID: "one", Expires: time.Now().Add(time.Minute)}
		if err := a.SwapSession(ctx, schema.Session{Executor: "e"}, session); err != nil {
			t.Fatal(err)
		}
		if err := a.SwapSession(ctx, session, schema.Session{Executor: "e"}); err != nil {
			t.Fatal(err)
		}
		ofA.copyTo(t, b)
		ofB.copyTo(t, a)
		wantSameRows(t, a, b)
		for name, s := range map[string]*embedded.Store{"a": a, "b": b} {
			if l, err := s.Lease(ctx, "x"); err != nil || string(l.Record) != "b" {
				t.Errorf("the lease at %s = %q, %v; want the later one, b", name, l.Record, err)
			}
			if got, err := s.Session(ctx, "e"); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("the session at %s = %+v, %v; want none", name, got, err)
			}
		}
	})
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/lease"
	"carillon.dev/carillon/schema/schematest"
)

func open(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// add returns a change that adds a name to a list, once.
func add(name string) lease.Change {
	return func(was schema.Lease, _ bool) (schema.Lease, time.Time, error) {
		names := strings.Fields(string(was.Record))
		if slices.Contains(names, name) {
			return was, time.Time{}, lease.ErrUnchanged
		}
		return schema.Lease{
			Fence: was.Fence + 1, Record: []byte(strings.Join(append(names, name), " ")),
		}, time.Time{}, nil
	}
}

// TestNoUpdateIsLost: many add their names to one lease, while answers are lost, come late, and
// calls fail. Each that was told success is in the list, once, and every fence was given once.
func TestNoUpdateIsLost(t *testing.T) {
	const writers, each = 8, 20
	synctest.Test(t, func(t *testing.T) {
		inner := open(t)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		store := schematest.Faulty(inner, schematest.Seeded(seed, schematest.Odds{Delay: 0.3, Fail: 0.02, Lose: 0.1, Late: 0.1}))
		var mu sync.Mutex
		told, failed := map[string]bool{}, 0
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				var known schema.Lease
				for n := range each {
					name := fmt.Sprintf("%d.%d", w, n)
					got, err := lease.Update(t.Context(), store, "k", known, add(name))
					if known = got; err == nil && !slices.Contains(strings.Fields(string(got.Record)), name) {
						t.Errorf("Update of %s = %q, without it", name, got.Record)
					}
					mu.Lock()
					if told[name] = err == nil; err != nil {
						failed++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Minute) // what comes late has come
		end, err := lease.Read(t.Context(), inner, "k")
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(string(end.Record))
		counts := map[string]int{}
		for _, n := range names {
			counts[n]++
		}
		for name, ok := range told {
			if counts[name] > 1 || ok && counts[name] == 0 {
				t.Errorf("%s was told %t, and is there %d times", name, ok, counts[name])
			}
		}
		if int(end.Fence) != len(names) {
			t.Errorf("%d names under the fence %d", len(names), end.Fence)
		}
		if failed == len(told) || failed == 0 {
			t.Errorf("%d of %d updates failed: the test shows little", failed, len(told))
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestUpdate: what becomes of one update, by what befalls its calls.
func TestUpdate(t *testing.T) {
	fails := func(op string, times int, f schematest.Fault) schematest.Plan {
		return func(_ context.Context, got string) schematest.Fault {
			if got == op && times != 0 {
				times--
				return f
			}
			return schematest.Fault{}
		}
	}
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		plan   schematest.Plan
		known  bool // the lease is known, from before another changed it
		change lease.Change
		want   error
		record string
	}{
		{name: "read, and swapped", change: add("b"), record: "a b"},
		{name: "known, and out of date", known: true, change: add("b"), record: "a b"},
		{name: "known, and to be read first", known: true, change: func(was schema.Lease, fresh bool) (schema.Lease, time.Time, error) {
			if !fresh {
				return schema.Lease{}, time.Time{}, lease.ErrStale
			}
			return add("b")(was, fresh)
		}, record: "a b"},
		{name: "never good enough", change: func(schema.Lease, bool) (schema.Lease, time.Time, error) {
			return schema.Lease{}, time.Time{}, lease.ErrStale
		}, want: lease.ErrStale, record: "a"},
		{name: "as it should be", change: add("a"), record: "a"},
		{name: "the change is refused", change: func(schema.Lease, bool) (schema.Lease, time.Time, error) {
			return schema.Lease{}, time.Time{}, boom
		}, want: boom, record: "a"},
		{name: "answers are lost", plan: fails("SwapLease", 3, schematest.Fault{Lose: true}), change: add("b"), record: "a b"},
		{name: "answers stay lost", plan: fails("SwapLease", -1, schematest.Fault{Lose: true}), change: add("b"), want: schema.ErrUnknown, record: "a b"},
		{name: "it cannot be read", plan: fails("Lease", 1, schematest.Fault{Fail: true}), change: add("b"), want: schema.ErrUnavailable, record: "a"},
		{name: "it cannot be swapped", plan: fails("SwapLease", 1, schematest.Fault{Fail: true}), change: add("b"), want: schema.ErrUnavailable, record: "a"},
		{name: "the fence falls", change: func(was schema.Lease, _ bool) (schema.Lease, time.Time, error) {
			return schema.Lease{Fence: was.Fence - 1}, time.Time{}, nil
		}, want: errors.ErrUnsupported, record: "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := open(t)
				if _, err := lease.Update(t.Context(), inner, "k", schema.Lease{}, add("a")); err != nil {
					t.Fatal(err)
				}
				plan := c.plan
				if plan == nil {
					plan = func(context.Context, string) schematest.Fault { return schematest.Fault{} }
				}
				var known schema.Lease
				if c.known {
					known = schema.Lease{Key: "k"}
				}
				got, err := lease.Update(t.Context(), schematest.Faulty(inner, plan), "k", known, c.change)
				switch {
				case errors.Is(c.want, errors.ErrUnsupported):
					if err == nil {
						t.Errorf("Update = %+v, want an error", got)
					}
				case !errors.Is(err, c.want):
					t.Errorf("Update = %+v, %v, want %v", got, err, c.want)
				}
				end, _ := lease.Read(t.Context(), inner, "k")
				if string(end.Record) != c.record {
					t.Errorf("the lease says %q, want %q", end.Record, c.record)
				}
				if err == nil && !got.Same(end) {
					t.Errorf("Update = %+v, and %+v stands", got, end)
				}
			})
		})
	}
}

// TestContendedLeasesAreGivenUp: another changes the lease before each swap.
func TestContendedLeasesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, calls := open(t), 0
		other := func() {
			calls++
			if _, err := lease.Update(t.Context(), store, "k", schema.Lease{}, add(fmt.Sprint(calls))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := lease.Update(t.Context(), store, "k", schema.Lease{}, func(was schema.Lease, _ bool) (schema.Lease, time.Time, error) {
			other()
			return add("ours")(was, true)
		})
		if !errors.Is(err, lease.ErrContended) || !errors.Is(err, schema.ErrUnavailable) || calls != lease.Tries {
			t.Errorf("Update = %v after %d tries, want ErrContended after %d", err, calls, lease.Tries)
		}
	})
}

package schematest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// A store that keeps leases wrongly must be found out.
type wrong struct {
	schema.Store
	swap func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error)
	read func(s schema.Store, ctx context.Context, key string) (schema.Lease, error)
}

func (w wrong) SwapLease(ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
	if w.swap == nil {
		return w.Store.SwapLease(ctx, was, is, expires)
	}
	return w.swap(w.Store, ctx, was, is, expires)
}

func (w wrong) Lease(ctx context.Context, key string) (schema.Lease, error) {
	if w.read == nil {
		return w.Store.Lease(ctx, key)
	}
	return w.read(w.Store, ctx, key)
}

// TestLinearFindsFaults: in both modes. But a success that is taken for a conflict is just what
// Vague is there to allow, and comes to light by chance alone.
func TestLinearFindsFaults(t *testing.T) {
	contention := schematest.Contention{
		Claimers: 16, Claims: 100, Odds: schematest.Odds{Delay: 0.1, Lose: 0.1, MaxDelay: 2 * time.Millisecond},
		Crash: 0.1, Pause: 0.7, Think: 2 * time.Millisecond, Paused: 6 * time.Millisecond,
	}
	var mu sync.Mutex
	var old schema.Lease
	const allowed = "a success is taken for a conflict" // where the contention is vague
	for name, w := range map[string]wrong{
		"a swap compares nothing": {swap: func(s schema.Store, ctx context.Context, _, is schema.Lease, expires time.Time) (schema.Lease, error) {
			stands, err := s.Lease(ctx, is.Key)
			if err != nil && !errors.Is(err, schema.ErrNotFound) {
				return schema.Lease{}, err
			}
			is.Fence = max(is.Fence, stands.Fence)
			return s.SwapLease(ctx, stands, is, expires)
		}},
		"a swap compares the fence alone": {swap: func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
			stands, err := s.Lease(ctx, is.Key)
			if err == nil && stands.Fence == was.Fence {
				was = stands
			}
			return s.SwapLease(ctx, was, is, expires)
		}},
		"a conflict is taken for success": {swap: func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
			stands, err := s.SwapLease(ctx, was, is, expires)
			if errors.Is(err, schema.ErrConflict) && is.Holder == nil {
				return is, nil
			}
			return stands, err
		}},
		allowed: {swap: func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
			if _, err := s.SwapLease(ctx, was, is, expires); err == nil && is.Holder == nil {
				return was, schema.ErrConflict
			}
			return s.SwapLease(ctx, was, is, expires)
		}},
		"a conflict tells of a holder that never was": {swap: func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
			stands, err := s.SwapLease(ctx, was, is, expires)
			if h := stands.Holder; h != nil && errors.Is(err, schema.ErrConflict) {
				nobody := *h
				nobody.ID += "?"
				stands.Holder = &nobody
			}
			return stands, err
		}},
		"reads are of a moment ago": {read: func(s schema.Store, ctx context.Context, key string) (schema.Lease, error) {
			l, err := s.Lease(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			stale := old
			old = l
			if stale.Key == key && stale.Fence != l.Fence {
				return stale, nil
			}
			return l, err
		}},
	} {
		for mode, vague := range map[string]bool{"exact": false, "vague": true} {
			if vague && name == allowed {
				continue
			}
			t.Run(name+", "+mode, func(t *testing.T) {
				// In a bubble pauses last as long as they say: who is fought with does not depend
				// on the machine's pace.
				synctest.Test(t, func(t *testing.T) {
					w.Store = open(t)
					c := contention
					c.Vague = vague
					for range 10 {
						if err := schematest.LinearFault(t, w, c); err != nil {
							t.Log(err)
							return
						}
					}
					t.Error("LinearFault = nil ten times, want that no order explains it")
				})
			})
		}
	}
}

// TestLinearAllowsWhatVagueIsFor: a store that asks what became of a swap, and answers a conflict
// if somebody has taken the lease over since.
func TestLinearAllowsWhatVagueIsFor(t *testing.T) {
	asks := wrong{swap: func(s schema.Store, ctx context.Context, was, is schema.Lease, expires time.Time) (schema.Lease, error) {
		stands, err := s.SwapLease(ctx, was, is, expires)
		if err != nil {
			return stands, err
		}
		time.Sleep(time.Millisecond)
		if stands, err = s.Lease(ctx, is.Key); err == nil && !stands.Same(is) {
			err = schema.ErrConflict
		}
		return stands, err
	}}
	for name, vague := range map[string]bool{"exact": false, "vague": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asks.Store = open(t)
				var err error
				for i := 0; i < 10 && err == nil; i++ {
					err = schematest.LinearFault(t, asks, schematest.Contention{
						Claimers: 16, Claims: 100, Odds: schematest.Odds{Delay: 0.1, Lose: 0.1, MaxDelay: 2 * time.Millisecond},
						Crash: 0.1, Pause: 0.1, Think: 2 * time.Millisecond, Paused: 6 * time.Millisecond, Vague: vague,
					})
				}
				if vague != (err == nil) {
					t.Errorf("LinearFault, ten times or until one is found = %v, want none where the contention is vague, and one elsewhere", err)
				}
			})
		})
	}
}

// Package lease changes leases: registers that many processes read and write by compare-and-set.
// It owns the one loop around schema.LeaseStore, so that conflicts, lost answers and bounds are
// treated alike wherever a lease decides something.
//
// # Invariants
//
//  1. A change is computed from the lease that it replaces, never from an older one.
//  2. A swap whose outcome is unknown is made again, unchanged, before anything else is decided:
//     the store answers success if it had been done, and a conflict if another one came after it.
//  3. A nil error means that the returned lease stood, whole, at one instant of the call.
//
// If we crash in the middle, the lease is as it was or as the change left it. The next process to
// change it reads which.
package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"carillon.dev/carillon/schema"
)

// Tries bounds the swaps of one Update.
const Tries = 20

// ErrContended means that others changed the lease at each of Tries swaps. It is a
// schema.ErrUnavailable.
var ErrContended = fmt.Errorf("%w: the lease keeps changing", schema.ErrUnavailable)

var (
	// ErrUnchanged is what a Change returns to leave the lease as it is.
	ErrUnchanged = errors.New("the lease is as it should be")
	// ErrStale is what a Change returns to have the lease read first: what is known of it is not
	// enough to decide on.
	ErrStale = errors.New("the lease must be read first")
)

// Change computes a lease from the one that stands, and when its row expires (zero: never). A lease
// without a row has the fence 0. fresh: it stood during this call of Update; otherwise it is what
// the caller knew.
//
// A Change may be called again after the swap of an earlier call was done and its answer lost. So
// where it must act once it writes down who acts, and recognises that in what it is given.
type Change func(was schema.Lease, fresh bool) (is schema.Lease, expires time.Time, err error)

// Update replaces the lease of a key by what change makes of it, and returns what stands then.
// known is the lease as last seen, or the zero Lease to read it first; if it is out of date, change
// is called again with the lease that stands.
//
// Errors: what change returned, except ErrUnchanged; ErrContended; schema.ErrUnknown if the last
// swap may still happen; what the store answered. With an error the returned lease is the zero
// Lease: it must be read before it is changed again.
func Update(ctx context.Context, store schema.LeaseStore, key string, known schema.Lease, change Change) (schema.Lease, error) {
	was, fresh := known, false
	for try := range Tries {
		if was.Key == "" {
			var err error
			if was, err = Read(ctx, store, key); err != nil {
				return schema.Lease{}, err
			}
			fresh = true
		}
		is, expires, err := change(was, fresh)
		switch {
		case errors.Is(err, ErrUnchanged):
			return was, nil
		case errors.Is(err, ErrStale) && !fresh:
			was = schema.Lease{}
			continue
		case err != nil:
			return schema.Lease{}, err
		}
		is.Key = key
		stands, err := swap(ctx, store, was, is, expires)
		switch {
		case err == nil:
			return is, nil
		case !errors.Is(err, schema.ErrConflict):
			return schema.Lease{}, err
		}
		was, was.Key, fresh = stands, key, true
		pause(ctx, try)
	}
	return schema.Lease{}, ErrContended
}

// Read returns the lease of a key such that every swap begun before is decided. A key without a row
// has a lease of the fence 0.
func Read(ctx context.Context, store schema.LeaseStore, key string) (schema.Lease, error) {
	l, err := store.Lease(ctx, key)
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return schema.Lease{}, err
	}
	l.Key = key
	return l, nil
}

// swap makes a swap until its outcome is known, at most Tries times.
func swap(ctx context.Context, store schema.LeaseStore, was, is schema.Lease, expires time.Time) (stands schema.Lease, err error) {
	for try := range Tries {
		stands, err = store.SwapLease(ctx, was, is, expires)
		if !errors.Is(err, schema.ErrUnknown) || ctx.Err() != nil {
			break
		}
		pause(ctx, try)
	}
	return stands, err
}

// pause waits up to 5 ms, doubled with each try up to 160 ms: a random time, so that those who
// contend come apart.
func pause(ctx context.Context, try int) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(5 * time.Millisecond << min(try, 5))): // #nosec G404 -- not a secret
	}
}

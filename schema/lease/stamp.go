package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// stampLife is how long a register outlives its timestamp. By then every good clock is past it.
	stampLife = time.Hour
	// stampStep is how much later a timestamp is than the one drawn before it, at least.
	stampStep = time.Millisecond
)

// Stamp draws the timestamp of a change from the register of key: at, or a little after the one
// that was drawn last, if that is later. So each is later than all that were drawn before it, for
// as long as the register lives. A draw that is not used, or not answered, does no harm.
//
// check, which may be nil, is called with the one that was drawn last by others (zero: none that is
// known); its error refuses the draw, and is returned.
func Stamp(ctx context.Context, store schema.LeaseStore, key string, at time.Time, check func(last time.Time) error) (time.Time, error) {
	who := []byte(rand.Text()) // two concurrent draws must not both take one for their own
	var drawn time.Time
	_, err := Update(ctx, store, key, schema.Lease{}, func(was schema.Lease, _ bool) (schema.Lease, time.Time, error) {
		var last time.Time
		if was.Fence != 0 {
			last = time.UnixMicro(int64(was.Fence)).UTC()
		}
		if check != nil && !bytes.Equal(was.Record, who) {
			if err := check(last); err != nil {
				return schema.Lease{}, time.Time{}, err
			}
		}
		drawn = at
		if next := last.Add(stampStep); was.Fence != 0 && next.After(at) {
			drawn = next
		}
		return schema.Lease{Fence: schema.Fence(drawn.UnixMicro()), Record: who}, drawn.Add(stampLife), nil
	})
	return drawn, err
}

// unusedAfter is when a draw counts as one that was given up: no request takes as long to use its
// own.
const unusedAfter = time.Minute

// Unchanged returns a check for Stamp: nothing was drawn since `seen`, but what was given up by
// now. Otherwise it refuses with stale.
func Unchanged(seen, now time.Time, stale error) func(last time.Time) error {
	return func(last time.Time) error {
		if last.After(seen) && now.Sub(last) < unusedAfter {
			return stale
		}
		return nil
	}
}

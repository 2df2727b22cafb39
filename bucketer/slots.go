package bucketer

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

// emptyFor is how long the lease of a limit lives whose slots are all free.
const emptyFor = time.Hour

// SlotsExpire returns when the lease of a limit expires that says s: never while a run holds a
// slot.
func SlotsExpire(s *schema.Slots, now time.Time) time.Time {
	if len(s.Blocks) > 0 || slices.ContainsFunc(s.Taken, func(t schema.Slot) bool { return !t.Kept() }) {
		return time.Time{}
	}
	return now.Add(emptyFor)
}

// SlotsPause waits, longer after each of n conflicts, before slots are swapped again.
func SlotsPause(ctx context.Context, n int) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(5 * time.Millisecond << min(n, 5))): // #nosec G404 -- not a secret
	}
}

// CancelledByLimit is the author of cancels that make room for later runs.
const CancelledByLimit = "carillon: concurrency"

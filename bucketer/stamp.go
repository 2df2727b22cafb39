package bucketer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/schema"
)

// Rows that are written without a condition carry a timestamp, and the highest one stays. A clock that counts as good may
// be seconds behind another. So a timestamp that is only a clock's can be lower than the one it is to replace: the store
// acknowledges the write, and nobody ever sees it. The timestamp of a change is therefore the clock's, or one step above
// what it replaces, whichever is later.
//
// Where a row is never deleted, the row itself says what is replaced (after). A deleted row says nothing any more, so the
// changes of a task draw their timestamps from a register (stampTask): each draw is later than all before it.

// stampStep is how far one change lies above the other at least: what the API shows of times.
const stampStep = time.Millisecond

const (
	// stampLife is how long a register outlives the timestamp that it holds: by then every good clock is past it.
	stampLife = time.Hour
	// stampTries bounds how often a draw is repeated because another was faster.
	stampTries = 20
)

// StampAfter returns the timestamp of a change at now of what was written at `replaced`.
func StampAfter(now, replaced time.Time) time.Time {
	return Latest(now.UTC().Truncate(stampStep), replaced.Add(stampStep))
}

// stampTask draws the timestamp of a change of a task that was last put at `replaced`, as far as reading it told (zero: it
// was not there). A draw that is not used, or was not answered, is harmless: the next one is higher.
func (b *Bucketer) stampTask(ctx context.Context, task schema.TaskName, replaced time.Time) (time.Time, error) {
	key := "changed/task/" + task.Tenant + "/" + task.Name
	who := []byte(rand.Text()) // two that draw at once must not take the same draw for their own
	lease, err := b.store.Lease(ctx, key)
	for try := range stampTries {
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return time.Time{}, err
		}
		at := StampAfter(b.now(), replaced)
		if lease.Fence != 0 {
			at = StampAfter(at, time.UnixMicro(int64(lease.Fence)).UTC())
		}
		var stands schema.Lease
		is := schema.Lease{Key: key, Fence: schema.Fence(at.UnixMicro()), Record: who}
		stands, err = b.store.SwapLease(ctx, lease, is, at.Add(stampLife))
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, schema.ErrConflict):
			lease, err = stands, nil
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			lease, err = b.store.Lease(ctx, key)
		}
		SlotsPause(ctx, try)
	}
	return time.Time{}, fmt.Errorf("%w: the task keeps changing", schema.ErrUnavailable)
}

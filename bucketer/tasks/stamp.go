package tasks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

const (
	// stampLife is how long a register outlives its timestamp. By then every good clock is past it.
	stampLife = time.Hour
	// stampTries bounds how often a draw is repeated after conflicts.
	stampTries = 20
)

// stampTask draws the timestamp of a change of a task that was last put at `replaced` (zero: it was
// not there). Rows of tasks are deleted, and a deleted row does not say its timestamp. So changes
// draw theirs from a register, a lease: each draw is later than all before it. A draw that is not
// used, or not answered, does no harm.
func (t *Tasks) stampTask(ctx context.Context, task schema.TaskName, replaced time.Time) (time.Time, error) {
	key := "changed/task/" + task.Tenant + "/" + task.Name
	who := []byte(rand.Text()) // two concurrent draws must not both take one for their own
	lease, err := t.store.Lease(ctx, key)
	for try := range stampTries {
		if err != nil && !errors.Is(err, schema.ErrNotFound) {
			return time.Time{}, err
		}
		at := bucketer.StampAfter(t.now(), replaced)
		if lease.Fence != 0 {
			at = bucketer.StampAfter(at, time.UnixMicro(int64(lease.Fence)).UTC())
		}
		var stands schema.Lease
		is := schema.Lease{Key: key, Fence: schema.Fence(at.UnixMicro()), Record: who}
		stands, err = t.store.SwapLease(ctx, lease, is, at.Add(stampLife))
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, schema.ErrConflict):
			lease, err = stands, nil
		case errors.Is(err, schema.ErrUnknown) && ctx.Err() == nil:
			lease, err = t.store.Lease(ctx, key)
		}
		bucketer.SlotsPause(ctx, try)
	}
	return time.Time{}, fmt.Errorf("%w: the task keeps changing", schema.ErrUnavailable)
}

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
	// stampLife is how long a register outlives the timestamp that it holds: by then every good
	// clock is past it.
	stampLife = time.Hour
	// stampTries bounds how often a draw is repeated because another was faster.
	stampTries = 20
)

// stampTask draws the timestamp of a change of a task that was last put at `replaced`, as far as
// reading it told (zero: it was not there). A draw that is not used, or was not answered, is
// harmless: the next one is higher.
func (t *Tasks) stampTask(ctx context.Context, task schema.TaskName, replaced time.Time) (time.Time, error) {
	key := "changed/task/" + task.Tenant + "/" + task.Name
	who := []byte(rand.Text()) // two that draw at once must not take the same draw for their own
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

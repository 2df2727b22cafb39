package tasks

import (
	"context"
	"crypto/rand"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// stampLife is how long a register outlives its timestamp. By then every good clock is past it.
const stampLife = time.Hour

// stampTask draws the timestamp of a change of a task that was last put at `replaced` (zero: it was
// not there). Rows of tasks are deleted, and a deleted row does not say its timestamp. So changes
// draw theirs from a register, a lease: each draw is later than all before it. A draw that is not
// used, or not answered, does no harm.
func (t *Tasks) stampTask(ctx context.Context, task schema.TaskName, replaced time.Time) (time.Time, error) {
	key := "changed/task/" + task.Tenant + "/" + task.Name
	who := []byte(rand.Text()) // two concurrent draws must not both take one for their own
	var at time.Time
	_, err := lease.Update(ctx, t.store, key, schema.Lease{}, func(was schema.Lease, _ bool) (schema.Lease, time.Time, error) {
		at = bucketer.StampAfter(t.now(), replaced)
		if was.Fence != 0 {
			at = bucketer.StampAfter(at, time.UnixMicro(int64(was.Fence)).UTC())
		}
		return schema.Lease{Fence: schema.Fence(at.UnixMicro()), Record: who}, at.Add(stampLife), nil
	})
	return at, err
}

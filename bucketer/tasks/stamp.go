package tasks

import (
	"context"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// stampTask draws the timestamp of a change of a task that was last put at `replaced` (zero: it was
// not there). Rows of tasks are deleted, and a deleted row does not say its timestamp. So changes
// draw theirs from a register, a lease: each draw is later than all before it. A draw that is not
// used, or not answered, does no harm.
//
// seen is when the task was put that the change is made of, zero: any. If somebody has drawn a
// timestamp since, the error is bucketer.ErrStale, unless that draw was given up.
func (t *Tasks) stampTask(ctx context.Context, task schema.TaskName, replaced, seen time.Time) (time.Time, error) {
	var check func(time.Time) error
	if !seen.IsZero() {
		check = lease.Unchanged(seen, t.now(), bucketer.ErrStale)
	}
	return lease.Stamp(ctx, t.store, "changed/task/"+task.Tenant+"/"+task.Name, bucketer.StampAfter(t.now(), replaced), check)
}

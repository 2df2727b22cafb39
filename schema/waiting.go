package schema

import (
	"context"
	"time"
)

// Waiter is a run that is held back, since the limit under which it would start has been reached.
type Waiter struct {
	Limit LimitKey
	Shard Shard // whose owner looks after the limit
	// Run is due, first of all, at Run.Time(): that is the order in which runs wait.
	Run RunID
	// Entry is the one that was to start. When its turn has come another takes its place.
	Entry EntryID
	// Noted is when it was written down that something waits for the limit (see LimitMark). UTC, µs; unknown (zero) when read.
	Noted time.Time
	// Expires is when the row leaves. Read, it is exact to about a second.
	Expires time.Time
}

// Written returns the write timestamp of the row, in µs: that of its entry, so that an entry that was taken out is never put in again, and
// one that took its place and waits in turn is.
func (w *Waiter) Written() int64 { return w.Entry.Time().UnixMicro() }

// LimitMark says that something waits for a limit, or did.
type LimitMark struct {
	Shard Shard
	Limit LimitKey
	Noted time.Time // when it was written last; UTC, µs
}

// WaitListStore holds the runs that limits hold back, by plain writes: a run that rises again is looked at, and starts nothing twice.
type WaitListStore interface {
	// PutWaiter notes that something waits for the limit, and then has the run wait, in the place of whatever earlier entry of it does. Nothing is put
	// back that DeleteWaiter has taken out. Errors as PutEntries: either, both or none may be held.
	PutWaiter(ctx context.Context, w Waiter) error
	// Waiter returns the runs in r that wait for a limit, in the order of their ids (so by due time), at
	// most limit of them. Fewer means that there are no more. A store may have to pass over what was taken
	// out of r lately: where that is a hundred thousand rows it may answer ErrUnavailable.
	Waiters(ctx context.Context, key LimitKey, r IDRange, limit int) ([]Waiter, error)
	// DeleteWaiter takes the run's row out, unless it is of a later entry. Of what is not there it sees to it that it never comes.
	DeleteWaiter(ctx context.Context, w Waiter) error
	// LimitsWithWaiters returns the marks of a shard, in the order of their limits, those after `after` ("": all), at most limit of them. Fewer
	// means that there are no more.
	LimitsWithWaiters(ctx context.Context, shard Shard, after LimitKey, limit int) ([]LimitMark, error)
	// DeleteLimitMark takes out the mark as it was read, which one that is written later survives. Who calls it knows that nothing waits that was noted until
	// then.
	DeleteLimitMark(ctx context.Context, m LimitMark) error
}

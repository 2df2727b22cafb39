package schema

import (
	"context"
	"time"
)

// Waiter is a run on the wait list of a limit: it is held back because the limit is reached.
type Waiter struct {
	Limit LimitKey
	Shard Shard // whose owner looks after the limit
	// Run is due at Run.Time(), the order in which runs wait.
	Run RunID
	// Entry is the one that was to start. Another replaces it when a slot is free.
	Entry EntryID
	// Noted is when the limit was marked as waited for (see LimitMark). UTC, µs; zero when read.
	Noted time.Time
	// Expires is when the row leaves. Read, it is exact to about a second.
	Expires time.Time
}

// Written returns the write timestamp of the row, in µs: that of its entry. So an entry that was
// taken out is never put in again, and a later entry of the run is.
func (w *Waiter) Written() int64 { return w.Entry.Time().UnixMicro() }

// LimitMark says that something waits for a limit, or did.
type LimitMark struct {
	Shard Shard
	Limit LimitKey
	Noted time.Time // when it was written last; UTC, µs
}

// WaitListStore holds the wait lists of limits, by plain writes. A row that comes back is checked
// against the run, and starts nothing twice.
type WaitListStore interface {
	// PutWaiter marks the limit as waited for, and then puts the run on its list, in place of an
	// earlier entry of the run. It puts back nothing that DeleteWaiter took out. Errors as
	// PutEntries: either, both or none may be held.
	PutWaiter(ctx context.Context, w Waiter) error
	// Waiters returns the runs in r that wait for a limit, in id order (so by due time), at most
	// limit. Fewer than limit means that there are no more. A store may have to skip what was taken
	// out of r lately; beyond a hundred thousand such rows it may answer ErrUnavailable.
	Waiters(ctx context.Context, key LimitKey, r IDRange, limit int) ([]Waiter, error)
	// DeleteWaiter takes the run's row out, unless it is of a later entry. If it is not there, it
	// will not come.
	DeleteWaiter(ctx context.Context, w Waiter) error
	// LimitsWithWaiters returns the marks of a shard after `after` ("": all), by limit, at most
	// limit. Fewer than limit means that there are no more.
	LimitsWithWaiters(ctx context.Context, shard Shard, after LimitKey, limit int) ([]LimitMark, error)
	// DeleteLimitMark takes out the mark as it was read; a mark that is written later stays. The
	// caller knows that nothing waits that was noted until then.
	DeleteLimitMark(ctx context.Context, m LimitMark) error
}

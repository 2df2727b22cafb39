package progress

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// doubtSpan is how far back an owner sweeps whose cursor lay in the future, and so said nothing. It
// covers an outage of an hour. For what is older there is "carillon cursor rewind".
const doubtSpan = schema.Bucket(time.Hour / time.Minute)

// Sweepable is the last bucket that can have been swept by a clock that says now: everything due in
// it has been due for longer than bucketer.Grace.
func Sweepable(now time.Time) schema.Bucket { return schema.BucketOf(now.Add(-bucketer.Grace)) - 1 }

// IsAhead reports whether a cursor lies in the future, where no clock within its bound can have
// moved it. An owner whose clock is ahead of ours may be one bucket further.
func IsAhead(c schema.Cursor, now time.Time) bool {
	return max(c.Dispatched, c.Settled) > Sweepable(now)+1
}

// Restored returns what replaces a cursor that lies in the future: since cursors only grow, the
// first of another epoch. A cursor that lags by more stays where it is, since something is open
// there. If it is our clock that is wrong no harm is done: an owner looks at more than it must.
func Restored(c schema.Cursor, now time.Time) schema.Cursor {
	from := Sweepable(now) - doubtSpan
	return schema.Cursor{Shard: c.Shard, Epoch: c.Epoch + 1, Dispatched: min(c.Dispatched, from), Settled: min(c.Settled, from)}
}

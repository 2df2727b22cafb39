package progress

import (
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// doubtSpan is how far back an owner sweeps whose cursor lay in the future, and so said nothing. It
// covers an outage of an hour. For what is older there is "carillon cursor rewind".
const doubtSpan = schema.Bucket(time.Hour / time.Minute)

// An owner that serves the home of a shard in an epoch of it has cursors of its own, in the epochs of
// cursors from epochSpan times that number on: the first is where it took over, and each that follows
// replaces one in the same epoch of the home. Without regions it is epoch 0 of the home.
const epochSpan = 1000

// replicationSpan is how far before the last cursor of another epoch of the home an owner begins:
// what the region before had settled may have reached us before the rows that say so. What is done
// costs a look.
const replicationSpan = schema.Bucket(10)

// TakenOver returns the cursor with which an owner begins in an epoch of the home, and whether that is
// another one than was stored.
func TakenOver(stored schema.Cursor, home int64) (schema.Cursor, bool) {
	if stored.Epoch/epochSpan >= home {
		return stored, false
	}
	return schema.Cursor{
		Shard: stored.Shard, Epoch: home * epochSpan,
		Dispatched: stored.Dispatched - replicationSpan, Settled: stored.Settled - replicationSpan,
	}, true
}

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

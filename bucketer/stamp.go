package bucketer

import (
	"time"
)

// Rows that are written without a condition carry a timestamp, and the highest one stays. A clock
// that counts as good may be seconds behind another. So a timestamp that is only a clock's can be
// lower than the one it is to replace: the store acknowledges the write, and nobody ever sees it.
// The timestamp of a change is therefore the clock's, or one step above what it replaces, whichever
// is later.
//
// Where a row is never deleted, the row itself says what is replaced (after). A deleted row says
// nothing any more, so the changes of a task draw their timestamps from a register (stampTask):
// each draw is later than all before it.

// stampStep is how far one change lies above the other at least: what the API shows of times.
const stampStep = time.Millisecond

// StampAfter returns the timestamp of a change at now of what was written at `replaced`.
func StampAfter(now, replaced time.Time) time.Time {
	return Latest(now.UTC().Truncate(stampStep), replaced.Add(stampStep))
}

package bucketer

import (
	"time"
)

// Rows that are written without a condition have a timestamp, and the row with the highest one
// stays. A good clock may be seconds behind another. If a change had the timestamp of such a clock,
// the store would acknowledge it, and no read would ever see it. So the timestamp of a change is
// the later of:
//
//	- the clock
//	- the timestamp of what it replaces + stampStep
//
// If the row is never deleted, it says what is replaced. Package tasks covers rows that are
// deleted.

// stampStep is how much later the timestamp of a change is, at least, than what it replaces. The
// API shows times to the same precision.
const stampStep = time.Millisecond

// StampAfter returns the timestamp of a change at now of what was written at `replaced`.
func StampAfter(now, replaced time.Time) time.Time {
	return Latest(now.UTC().Truncate(stampStep), replaced.Add(stampStep))
}

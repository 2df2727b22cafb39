package executor

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// What this package assumes of clocks; see the test of this name in package schema.
//
// One promise is not kept whatever the clocks say: freshFor is taken from a reading of the
// dispatcher's clock, so a change of a job may be heeded later than bucketer.TaskChangeWithin, by
// what the clocks differ.
func TestWhatIsAssumedOfClocks(t *testing.T) {
	for _, row := range []struct {
		name           string
		least, granted time.Duration
	}{
		// An executor begins by its own clock, at the last moment, and crashes. Who takes over has
		// a clock that is ahead.
		{"the callee of an executor that crashed: DESIGN says 8 s", 8 * time.Second, CalleeTime},
		{"from the last start under a session until another may start", CalleeTime + schema.MaxClockDifference, sessionReserve + schema.SessionGrace},
		{"what is stopped at the local deadline is over before another starts it", schema.MaxClockDifference + tendEvery + time.Second, schema.SessionGrace},
		{"a cancel is remembered while a message may rest on what was read before it", freshFor + schema.MaxClockDifference, cancelFor},
		{"a session leaves room for guarded work between two renewals", sessionReserve + renewEvery, sessionLife},
		{"an attempt that began is the only one with its message", heldFor, queue.AckWait}, // by each one's monotonic clock
		{"what was read is heeded in time where clocks are the same", freshFor, bucketer.TaskChangeWithin},
	} {
		if row.granted < row.least {
			t.Errorf("%s: granted are %v, want at least %v", row.name, row.granted, row.least)
		}
	}
}

package schema

import (
	"testing"
	"time"
)

// What this package assumes of clocks. The packages bucketer, dispatcher, executor and
// executor/worker have a test of this name too: together they list every place that assumes a
// bound.
func TestWhatIsAssumedOfClocks(t *testing.T) {
	for _, row := range []struct {
		name           string
		least, granted time.Duration
	}{
		{"two right clocks: each may be off by the offset, and slip", 2 * (MaxClockOffset + MaxClockSlip), MaxClockDifference},
		{"a session is declared dead after it is over by every right clock", MaxClockDifference + time.Second, SessionGrace},
		{"starts of a rate that were given for different times fall together: DESIGN says within 6 s", ReservationLife + MaxClockDifference, 6 * time.Second},
	} {
		if row.granted < row.least {
			t.Errorf("%s: granted are %v, want at least %v", row.name, row.granted, row.least)
		}
	}
}

package bucketer

import (
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// What this package assumes of clocks; see the test of this name in package schema.
func TestWhatIsAssumedOfClocks(t *testing.T) {
	const sweep = time.Second // from the beginning of a sweep until it has read what is held
	for _, row := range []struct {
		name           string
		least, granted time.Duration
	}{
		{"what counts as held in time by its writer is there when its slice is swept", LateAfter + schema.MaxClockDifference + sweep, Grace},
		{"the slip that halts a process is that which its clock may have", schema.MaxClockSlip, clockSlip},
	} {
		if row.granted < row.least {
			t.Errorf("%s: granted are %v, want at least %v", row.name, row.granted, row.least)
		}
	}
}

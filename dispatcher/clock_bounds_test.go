package dispatcher

import (
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// What this package assumes of clocks; see the test of this name in package schema.
func TestWhatIsAssumedOfClocks(t *testing.T) {
	for _, row := range []struct {
		name           string
		least, granted time.Duration
	}{
		{"a row of which its writer tells nobody lies ahead of the scan", depth.Lead + progress.ScanEvery + progress.ScanSlack + schema.MaxClockDifference, bucketer.NearSpan},
		{"what starts without a look leaves a trace while its message id is known", queue.FreshFor + queue.TraceWithin + schema.MaxClockDifference, queue.DuplicateWindow},
		{"what another owner swept may be swept no earlier by our clock", schema.MaxClockDifference, bucketer.Grace},
	} {
		if row.granted < row.least {
			t.Errorf("%s: granted are %v, want at least %v", row.name, row.granted, row.least)
		}
	}
}

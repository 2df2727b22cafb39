package worker

import (
	"testing"

	"carillon.dev/carillon/schema"
)

// TestWhatIsAssumedOfClocks: a worker whose clock is as good as a node's declines nothing that is
// in time. See the test of this name in package schema.
func TestWhatIsAssumedOfClocks(t *testing.T) {
	if maxSkew < schema.MaxClockDifference {
		t.Errorf("a worker allows for clocks that differ by %v, want at least %v", maxSkew, schema.MaxClockDifference)
	}
}

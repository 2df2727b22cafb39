package schema

import (
	"testing"
	"time"
)

// TestHomeLeaseGoesByTheClockThatSaysMore: the monotonic clock stands still while a machine is
// suspended, and the wall clock may be set forward, or back.
func TestHomeLeaseGoesByTheClockThatSaysMore(t *testing.T) {
	for _, test := range []struct {
		name                  string
		monotonic, wall, want time.Duration
	}{
		{"both alike", time.Second, time.Second, time.Second},
		{"suspended", time.Second, time.Hour, time.Hour},
		{"set back", 9 * time.Second, -time.Hour, 9 * time.Second},
	} {
		if got := elapsed(test.monotonic, test.wall); got != test.want {
			t.Errorf("%s: elapsed = %v, want %v", test.name, got, test.want)
		}
	}
}

package window

import (
	"testing"
	"time"
)

// TestRecent: the larger count of the current window and the one before; older events do not count.
func TestRecent(t *testing.T) {
	start := time.Unix(1000, 0)
	var c Counter
	for range 5 {
		c.Add(start)
	}
	c.Add(start.Add(Span)) // the second window
	for _, row := range []struct {
		after time.Duration
		want  int
	}{{Span, 5}, {2*Span - 1, 5}, {2 * Span, 1}, {3*Span - 1, 1}, {4 * Span, 0}} {
		if got := c.Recent(start.Add(row.after)); got != row.want {
			t.Errorf("Recent after %v = %d, want %d", row.after, got, row.want)
		}
	}
	if got := c.Recent(start.Add(-time.Hour)); got != 0 {
		t.Errorf("Recent after the clock was set back = %d, want 0", got)
	}
}

package worker

import (
	"testing"
	"time"
)

// TestLateAllowsForClocks: what is late by less than clocks may differ is not.
func TestLateAllowsForClocks(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		deadline time.Time
		want     bool
	}{
		"not said":                 {time.Time{}, false},
		"to come":                  {now.Add(time.Millisecond), false},
		"as late as clocks may be": {now.Add(-maxSkew), false},
		"later":                    {now.Add(-maxSkew - time.Millisecond), true},
	} {
		if got := (Run{deadline: c.deadline}).late(now); got != c.want {
			t.Errorf("%s: late = %v, want %v", name, got, c.want)
		}
	}
}

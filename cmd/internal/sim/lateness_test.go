package sim

import (
	"testing"
	"time"
)

func TestScenariosBoundLateness(t *testing.T) {
	for _, row := range []struct {
		name string
		of   Scenario
		want time.Duration
	}{
		{"nothing goes wrong", Scenario{}, onTime},
		{"what is promised", Scenario{Kills: 2, Promise: Promise{Lateness: time.Second}}, time.Second},
		{"nodes are killed", Scenario{Kills: 2}, onTime + time.Minute},
		{"nodes freeze, and clocks are off", Scenario{Freezes: 1, Skew: time.Second}, onTime + 50*time.Second + 31*time.Second},
		{"nobody runs", Scenario{Outage: 10 * time.Minute}, onTime + 11*time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.of.bound(30 * time.Second).Max; got != row.want {
				t.Errorf("bound = %v, want %v", got, row.want)
			}
		})
	}
}

// Every scenario bounds how late runs may start.
func TestEveryScenarioBoundsLateness(t *testing.T) {
	for i := range scenarios {
		if s := &scenarios[i]; s.bound(30*time.Second).Max <= 0 {
			t.Errorf("%q bounds no lateness", s.name)
		}
	}
}

package chaos

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

func TestEveryScenarioStatesHowLateRunsMayStart(t *testing.T) {
	for _, s := range Scenarios {
		if bound := latenessBound(Config{Scenario: s}.withDefaults()); bound.Max <= 0 {
			t.Errorf("latenessBound of %s = %v, want a maximum", s, bound)
		}
	}
}

func TestLatenessBound(t *testing.T) {
	of := func(s Scenario, change func(*Config)) Config {
		c := Config{Scenario: s}
		c.Cluster.Cassandra, c.Cluster.NATS = 3, 3
		if change != nil {
			change(&c)
		}
		return c.withDefaults()
	}
	for _, row := range []struct {
		name string
		of   Config
		want check.LatenessBound
	}{
		{
			"few jobs leave no backlog", of(Kill, func(c *Config) { c.Jobs = 2000; c.Span = 20 * time.Second }),
			check.LatenessBound{Max: deathCosts, P99: 15 * time.Second},
		},
		{
			"many jobs leave one", of(Calm, func(c *Config) { c.Jobs = 100_000 }),
			check.LatenessBound{Max: 150 * time.Second, P99: 142 * time.Second},
		},
		{
			"the only Cassandra and the only NATS server are away",
			of(Faults, func(c *Config) { c.Jobs = 2000; c.Cluster.Cassandra, c.Cluster.NATS = 1, 1 }),
			check.LatenessBound{Max: 2*deathCosts + 2*time.Minute},
		},
		{"no node runs", of(Stopped, nil), check.LatenessBound{Max: 3*time.Minute + time.Minute + deathCosts}},
		{
			"what was stated", of(Stopped, func(c *Config) { c.Late.Max = time.Second }),
			check.LatenessBound{Max: time.Second},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.of.Late != row.want {
				t.Errorf("Late = %v, want %v", row.of.Late, row.want)
			}
		})
	}
}

func TestCalmIsWhereNothingGoesWrong(t *testing.T) {
	for _, row := range []struct {
		of   Config
		want bool
	}{
		{Config{Scenario: Calm, Jobs: 2000, Span: 20 * time.Second}, true},
		{Config{Scenario: Calm, Jobs: 100_000, Span: time.Minute}, false},
		{Config{Scenario: Kill, Jobs: 2000, Span: 20 * time.Second}, false},
	} {
		if got := row.of.calm(); got != row.want {
			t.Errorf("%s of %d jobs: calm = %t, want %t", row.of.Scenario, row.of.Jobs, got, row.want)
		}
	}
}

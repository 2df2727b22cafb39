package sim

import (
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// What each kind of fault may cost a run at most. Faults may coincide, so the costs add up.
const (
	// onTime is how late a run may be where nothing goes wrong.
	onTime = 10 * time.Millisecond
	// deathCosts: 3 s until the ring notices, 12 s until the session expires, 15 s until the entry
	// is inspected again.
	deathCosts = 30 * time.Second
	// lossCosts: the sweep and settling find lost messages, and lost writes.
	lossCosts = 30 * time.Second
	// targetCosts: runs of a failing target are deferred until probes of its circuit breaker
	// succeed.
	targetCosts = 30 * time.Second
	// freezeLasts is how long a node is frozen at most.
	freezeLasts = 20 * time.Second
	// overdueAfter is the lateness from which the misfire policy decides about a run.
	overdueAfter = time.Minute
)

// bound returns how late runs may start: what the scenario promises, or else what its faults may
// cost.
func (s *Scenario) bound(away time.Duration) check.LatenessBound {
	if s.Promise.Lateness > 0 {
		return check.LatenessBound{Max: s.Promise.Lateness}
	}
	late := onTime
	for _, cost := range []struct {
		of bool
		is time.Duration
	}{
		{s.Kills > 0 || s.Faults.Crash > 0, deathCosts + away},
		// Around the steps of limits and of a task's blocks a node crashes every 4 to 6 s, often
		// before it has swept what is older than its shards' take-over: until the faults end.
		{(s.Limited > 0 || s.Concurrent > 0) && s.Faults.Crash > 0, s.Span},
		{s.Pooled > 0, deathCosts}, // one node is told to stop, once
		// Runs wait for a node with the labels that they require, and are tried seldom.
		{s.Pooled > 0 && !s.calm(), triedWithin},
		{s.Stops > 0, deathCosts + 2*maxDown}, // one after the other, of the only node
		{s.Freezes > 0, deathCosts + freezeLasts},
		{s.Steps > 0 || s.Skew > 0, deathCosts + s.off()},
		{s.Faults.Store > 0 || s.Faults.Message > 0 || s.StreamLosses > 0, lossCosts},
		{s.Faults.Target > 0, targetCosts},
		{s.LateBy > 0, lateCosts + s.lastRead()},
		{s.Cuts.Count > 0, deathCosts + s.Cuts.Each},
		{s.Outage > 0, s.Outage + overdueAfter},
		{s.Regions != nil, lateByRegister},
	} {
		if cost.of {
			late += cost.is
		}
	}
	return check.LatenessBound{Max: late}
}

// boundRecurring returns how late runs of recurring jobs may start. The runs of a job are planned
// one after the other, so what losses cost adds up, until the misfire policy decides.
func (s *Scenario) boundRecurring(away time.Duration) check.LatenessBound {
	b := s.bound(away)
	if s.Faults.Store > 0 || s.Faults.Message > 0 {
		b.Max += overdueAfter
	}
	if s.PerMinute > 0 {
		b.Max += minutesCost
	}
	return b
}

// off returns by how much clocks may be off.
func (s *Scenario) off() time.Duration {
	if s.Steps > 0 {
		return trusted
	}
	return s.Skew
}

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

// lateCosts bounds the lateness of a run whose row is written after its bucket was swept. The
// bucket is read again five minutes after its end, and its rows get entries that are due within two
// minutes.
const lateCosts = 9 * time.Minute

// judgePending judges that no run is pending long after it was due, not even one that was never
// acknowledged because its write came late.
func (w *world) judgePending(runs map[string]check.Reading) {
	for id, r := range runs {
		if r.Status == check.Found && r.Run.State == check.Pending && time.Since(r.Run.DueAt) > time.Minute {
			w.c.fault("run %s was due at %s, and is pending in the end", id, r.Run.DueAt.Format(time.TimeOnly))
		}
	}
}

// doubles reports whether attempts may be executed twice for reasons that the judge cannot see: a
// message is delivered twice, or a late row and its late entry both start. Nor does it see that a
// region took a home over before it had the records of the one before; of one-off jobs it is told
// which these are ([check.History.Forgive]).
func (s *Scenario) doubles() bool {
	return s.Faults.Message > 0 || s.LateBy > 0 || s.Regions != nil && s.Regions.Most > slowest
}

// doublesRecurring is doubles for runs of recurring jobs.
func (s *Scenario) doublesRecurring() bool { return s.doubles() || s.Regions != nil && s.Regions.Loses }

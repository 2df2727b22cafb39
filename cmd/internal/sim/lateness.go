package sim

import (
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// What each kind of fault may cost a run, at most. They come together, so the costs add up.
const (
	// onTime is how late a run may be where nothing goes wrong.
	onTime = 10 * time.Millisecond
	// deathCosts: 3 s until the ring notices, 12 s until a session falls, 15 s until the entry is looked at again (DESIGN sections 5, 7 and 8).
	deathCosts = 30 * time.Second
	// lossCosts: what is lost on its way, or was not written as it seemed, is found by the sweep and by settling.
	lossCosts = 30 * time.Second
	// targetCosts: a target that fails is called again by its circuit breaker's probes, and its runs are put off meanwhile.
	targetCosts = 30 * time.Second
	// freezeLasts is how long a node is frozen at most.
	freezeLasts = 20 * time.Second
	// overdueAfter is from when on a run is given to its misfire policy, which may start it.
	overdueAfter = time.Minute
)

// bound returns how late runs may start: what the scenario promises, or else what its faults may cost.
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
		// Around the steps of limits a node crashes every 4 to 5 s, often before it has what its shards hold: until the harm ends.
		{s.Limited > 0 && s.Faults.Crash > 0, s.Span},
		// Around those of a task's blocks every 9 s: a run may meet three deaths.
		{s.Crowded > 0 && s.Faults.Crash > 0, 2 * deathCosts},
		{s.Stops > 0, deathCosts + 2*maxDown}, // one after the other, of the only node
		{s.Freezes > 0, deathCosts + freezeLasts},
		{s.Steps > 0 || s.Skew > 0, deathCosts + s.off()},
		{s.Faults.Store > 0 || s.Faults.Message > 0 || s.StreamLosses > 0, lossCosts},
		{s.Faults.Target > 0, targetCosts},
		{s.LateBy > 0, lateCosts},
		{s.Cuts.Count > 0, deathCosts + s.Cuts.Each},
		{s.Outage > 0, s.Outage + overdueAfter},
	} {
		if cost.of {
			late += cost.is
		}
	}
	return check.LatenessBound{Max: late}
}

// off returns by how much clocks may be off.
func (s *Scenario) off() time.Duration {
	if s.Steps > 0 {
		return trusted
	}
	return s.Skew
}

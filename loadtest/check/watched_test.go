package check_test

import (
	"testing"

	"carillon.dev/carillon/loadtest/check"
)

// What was seen of a run between its start and the readings. It succeeded, or else failed for good,
// at both readings.
func TestStatesAreJudgedAllAlong(t *testing.T) {
	type look struct {
		at    int
		state check.State
	}
	for _, row := range []struct {
		name      string
		guarantee check.Guarantee
		line      int
		looks     []look
		fault     bool
	}{
		{"the way of a run", "", onTime, []look{{5_000, check.Pending}, {10_002, check.Running}, {10_010, check.Succeeded}, {20_000, check.Succeeded}}, false},
		{"in any order", "", onTime, []look{{10_010, check.Succeeded}, {5_000, check.Pending}}, false},
		{"succeeded, then failed for a while", "", onTime, []look{{10_010, check.Succeeded}, {20_000, check.Failed}, {30_000, check.Succeeded}}, true},
		{"succeeded, then running for a while", "", onTime, []look{{10_010, check.Succeeded}, {20_000, check.Running}, {30_000, check.Succeeded}}, true},
		{"failed, then retried", "", onTime, []look{{10_010, check.Failed}, {20_000, check.Retrying}, {30_000, check.Succeeded}}, true},
		{"failed, then a late success", "", onTime, []look{{10_010, check.Failed}, {20_000, check.Succeeded}}, false},
		{"cancelled, then a late success at the reading", "", onTime, []look{{10_010, check.Cancelled}}, false},
		{"no late success under effectively_once", check.EffectivelyOnce, onTime, []look{{10_010, check.Failed}, {20_000, check.Succeeded}}, true},
		{"nor at the reading", check.EffectivelyOnce, onTime, []look{{10_010, check.Failed}}, true},
		{"succeeded, and failed at both readings", "", failedForGood, []look{{10_010, check.Succeeded}}, true},
		{"a look between the readings", "", failedForGood, []look{{firstRead + 10, check.Succeeded}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := clean()
			w.ask(row.line).Guarantee = row.guarantee
			for _, l := range row.looks {
				w.States = append(w.States, check.Watched{Run: id(row.line), State: l.state, At: at(l.at)})
			}
			rep := judge(t, w.History)
			if rep.Reversed > 0 != row.fault || hasFault(rep, check.FaultReversed) != row.fault || row.fault && !rep.Failed() || rep.Watched != 1 {
				t.Errorf("Judge: reversed %d of %d watched, failed %t, want %t; faults: %+v", rep.Reversed, rep.Watched, rep.Failed(), row.fault, rep.Faults)
			}
		})
	}
}

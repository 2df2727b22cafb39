package check

import (
	"testing"
	"time"
)

// TestWhereRunsArePlaced: an attempt by an executor without a label that its run requires is a
// fault, unless the labels of the executor are not known.
func TestWhereRunsArePlaced(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	labels := map[string]map[string]string{"a": {"gpu": "true", "zone": "a"}, "b": {"zone": "a"}, "c": nil}
	for _, c := range []struct {
		name     string
		requires map[string]string
		executor string
		started  time.Time
		want     int
	}{
		{"it has them", map[string]string{"gpu": "true", "zone": "a"}, "a", at, 0},
		{"it lacks one", map[string]string{"gpu": "true", "zone": "a"}, "b", at, 1},
		{"it has another value", map[string]string{"zone": "b"}, "b", at, 1},
		{"it has none", map[string]string{"gpu": "true"}, "c", at, 1},
		{"nothing is required", nil, "c", at, 0},
		{"it is not known", map[string]string{"gpu": "true"}, "d", at, 0},
		{"nothing started", map[string]string{"gpu": "true"}, "b", time.Time{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := Ref{Source: "s", Line: 1}
			reading := Reading{Status: Found, At: at.Add(time.Minute), Run: Run{
				ID: "r", State: Succeeded, DueAt: at, StartedAt: at, Attempts: []Attempt{{Number: 1, Executor: c.executor, StartedAt: c.started, FinishedAt: at, Outcome: OutcomeSucceeded}},
			}}
			rep, err := Judge(History{
				Asked: []Ask{{Ref: ref, At: at, Requires: c.requires}}, Acks: []Ack{{Ref: ref, ID: "r", Status: 201, At: at}}, Labels: labels,
				Runs: []Observation{{ID: "r", First: reading, Second: reading}},
			})
			if err != nil || rep.Misplaced != c.want || c.want > 0 && !rep.Failed() {
				t.Errorf("Judge: %d misplaced, failed: %v, %v, want %d: %+v", rep.Misplaced, rep.Failed(), err, c.want, rep.Faults)
			}
		})
	}
}

package client_test

import (
	"errors"
	"slices"
	"testing"

	"carillon.dev/carillon/bucketer/client"
)

// TestLogsOfNoRuns: a search ends, says what it looked at, and a question that is wrong is an
// error.
func TestLogsOfNoRuns(t *testing.T) {
	c := open(t)
	asked := 0
	q := client.LogQuery{Text: "a", Kind: client.LogLine, Labels: map[string]string{"a": "b"}, Looked: func(client.LookedAt) { asked++ }}
	if got := collect(t, c.Runs.SearchLogs(t.Context(), q)); len(got) != 0 || asked == 0 {
		t.Errorf("SearchLogs = %+v after %d answers, want none after some", got, asked)
	}
	run := client.RunID{0: 1, 6: 0x80, 8: 0x80}
	for line, err := range c.Runs.FollowLogs(t.Context(), client.LogQuery{Run: run}) {
		e := new(client.Error)
		if !errors.As(err, &e) || !slices.ContainsFunc(e.Faults, func(f client.Fault) bool { return f.Location == "query.run" }) {
			t.Errorf("FollowLogs of a run that is not there = %+v, %v", line, err)
		}
	}
}

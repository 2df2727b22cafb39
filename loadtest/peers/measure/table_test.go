package measure

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableShowsMediansAndSums(t *testing.T) {
	result := func(system string, round int, perS, p99 float64, early int) *Result {
		return &Result{
			Protocol: Stream, System: system, Variant: HTTP, Round: round, N: 600, Rate: 10, RunsPerS: perS, Early: early,
			Lateness: &Lateness{1, p99, 3, 4 * p99, "sink"}, CPU: map[string]float64{"client": perS},
			Settings: Settings{Durability: "on disk"},
		}
	}
	failed := result("river", 3, 0, 0, 0)
	failed.Error, failed.Lateness = "it fell over", nil
	var b bytes.Buffer
	Table(&b, []*Result{
		result("river", 1, 100, 20, 1), result("river", 2, 200, 40, 2), failed,
		result("asynq", 1, 7, 5, 0), result("asynq", 2, 9, 1, 0), result("asynq", 3, 8, 3, 0),
	})
	for _, want := range []string{
		"### C: 600 runs, http, 10 due a second",
		"| asynq | 3 | 8 | 1.0 | 3.0 | 3.0 | 20.0 |  | 0 | 0 | 0 | client 8 |",
		"| river | 2 of 3 | 150 | 1.0 | 30.0 | 3.0 | 160.0 |  | 0 | 3 | 0 | client 150 |",
		"* asynq: on disk",
		"* river C 10/s, round 3: failed: it fell over",
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTableTellsOfASystemThatAlwaysFailed(t *testing.T) {
	var b bytes.Buffer
	Table(&b, []*Result{{Protocol: BurnDown, System: "river", Variant: Noop, Error: "no disk"}})
	if !strings.Contains(b.String(), "| river | 0 of 1 |") || !strings.Contains(b.String(), "no disk") {
		t.Errorf("table = %s, want that it failed and why", b.String())
	}
}

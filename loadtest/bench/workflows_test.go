package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/flow"
	"carillon.dev/carillon/schema"
)

// TestStepsAreKnownByTheIDsOfTheirRuns: no two steps share an id, and each id says which it is.
func TestStepsAreKnownByTheIDsOfTheirRuns(t *testing.T) {
	run := schema.MakeEntryID(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 3, 12345)
	c := Config{Items: 4, Chains: 1}.withDefaults()
	for _, row := range []struct {
		part string
		want [][2]int // step, item
	}{
		{chainsPart, [][2]int{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}}},
		{fanOutPart, [][2]int{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 0}}},
	} {
		var got [][2]int
		for _, text := range stepIDs(run, courseOf(c, row.part)) {
			id, err := schema.ParseEntryID(text)
			if err != nil {
				t.Fatal(err)
			}
			step, item := id.StepOf()
			got = append(got, [2]int{step, item})
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: steps and items are %v, want %v", row.part, got, row.want)
		}
	}
}

// TestACallIsOfItsStepOnlyAtItsSource: a call of another measurement's workflow is not asked for.
func TestACallIsOfItsStepOnlyAtItsSource(t *testing.T) {
	w := &workflows{name: "w7", places: map[string]flow.Place{"a": {Run: 2, Step: 3}}}
	for _, row := range []struct {
		run, source string
		want        bool
	}{{"a", "w7", true}, {"a", "w8", false}, {"b", "w7", false}} {
		p, ok := w.stepOf(&check.Sighting{Run: row.run, Ref: check.Ref{Source: row.source, Line: 4}})
		if ok != row.want || ok && p != (flow.Place{Run: 2, Step: 3}) {
			t.Errorf("a call of %s at %s is of %+v, %t, want %t", row.run, row.source, p, ok, row.want)
		}
	}
	if p, ok := w.followerOf(&check.Sighting{Ref: check.Ref{Source: "w7", Line: 5}}); !ok || p.Run != 4 {
		t.Errorf("a call at line 5 is of subscriber %d, %t, want 4, counted from 0", p.Run, ok)
	}
}

// seenOf returns what a sink saw of steps of a run: each pair is arrival and answer, in ms after t0.
func seenOf(t0 time.Time, pairs ...[2]int) []check.Sighting {
	var seen []check.Sighting
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	for i, p := range pairs {
		seen = append(seen, check.Sighting{Attempt: i, At: at(p[0]), End: at(p[1]), Status: 200})
	}
	return seen
}

func TestPartsAreJudgedByWhatTheSinkSaw(t *testing.T) {
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	byStep := func(s *check.Sighting) (flow.Place, bool) { return flow.Place{Step: s.Attempt}, true }
	byRun := func(s *check.Sighting) (flow.Place, bool) { return flow.Place{Run: s.Attempt}, true }
	rows := []struct {
		name        string
		runs, steps int
		seen        []check.Sighting
		place       func(s *check.Sighting) (flow.Place, bool)
		judge       func(r *Result, b *flow.Board, began time.Time)
		p50, max    float64 // ms; max 0: no lateness
		early       int
		missed      int
		last        float64 // s
	}{
		{"chain", 1, 3, seenOf(t0, [2]int{100, 110}, [2]int{115, 120}, [2]int{150, 160}), byStep, judgeChains, 5, 30, 0, 0, 0.15},
		{"chain with a step before the answer", 1, 3, seenOf(t0, [2]int{100, 110}, [2]int{105, 120}, [2]int{150, 160}), byStep, judgeChains, 0, 30, 1, 0, 0.15},
		{"fan-out", 1, 3, seenOf(t0, [2]int{100, 400}, [2]int{200, 300}, [2]int{450, 460}), byStep, judgeFanOut, 50, 50, 0, 0, 0.45},
		{"fan-out whose join is early", 1, 3, seenOf(t0, [2]int{100, 400}, [2]int{200, 300}, [2]int{350, 460}), byStep, judgeFanOut, 0, 0, 1, 0, 0.35},
		{"fan-out without its join", 1, 3, seenOf(t0, [2]int{100, 400}, [2]int{200, 300}), byStep, judgeFanOut, 0, 0, 0, 1, 0.2},
		{"subscribers", 4, 1, seenOf(t0, [2]int{100, 101}, [2]int{900, 901}, [2]int{200, 201}), byRun, judgeFollowers, 200, 900, 0, 1, 0.9},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			b := flow.NewBoard(row.runs, row.steps)
			b.Read(row.seen, row.place)
			r := &Result{Protocol: "W"}
			r.fromBoard(b, t0)
			row.judge(r, b, t0)
			if r.Early != row.early || r.Missed != row.missed || r.LastStart != row.last {
				t.Errorf("early, missed, last start = %d, %d, %g, want %d, %d, %g", r.Early, r.Missed, r.LastStart, row.early, row.missed, row.last)
			}
			if row.max > 0 && (r.Lateness == nil || r.Lateness.P50 != row.p50 || r.Lateness.Max != row.max) {
				t.Errorf("lateness = %+v, want p50 %g, max %g", r.Lateness, row.p50, row.max)
			}
			if want := float64(len(row.seen)) / row.last; r.RunsPerS != want {
				t.Errorf("steps a second = %g, want %g", r.RunsPerS, want)
			}
		})
	}
}

func TestGoalsOfWorkflows(t *testing.T) {
	of := func(system, part string, change func(r *Result)) *Result {
		r := &Result{Protocol: "W", System: system, Variant: part, N: 10_001, Rate: 200, Lateness: &Lateness{P99: 8}, RunsPerS: 2000, LastStart: 2}
		change(r)
		return r
	}
	as := func(*Result) {}
	rows := []struct {
		name string
		all  []*Result
		row  string
		want string
	}{
		{"pace", []*Result{of("carillon", "pace", as)}, "W: from the end", "| 8 ms | pass, aim reached |"},
		{"pace at another rate", []*Result{of("carillon", "pace", func(r *Result) { r.Rate = 100 })}, "W: from the end", "not measured"},
		{"pace with a step that never came", []*Result{of("carillon", "pace", func(r *Result) { r.Missed = 1 })}, "W: from the end", "| never | falls short |"},
		{"chains", []*Result{of("carillon", "chains", as), of("carillon-dev", "chains", as)}, "W: steps a second", "| 2,000 steps/s | pass |"},
		{"chains on dev", []*Result{of("carillon", "chains", as), of("carillon-dev", "chains", as)}, "carillon dev: W: steps a second, chains of 5 |", "| 2,000 steps/s | falls short |"},
		{"fan-out", []*Result{of("carillon", "fanout", as)}, "W: fan-out", "| 2 s | pass |"},
		{"a small fan-out is no figure", []*Result{of("carillon", "fanout", func(r *Result) { r.N = 10_000 })}, "W: fan-out", "not measured"},
		{"subscribers", []*Result{of("carillon-dev", "subscribers", as)}, "carillon dev: W: 10,000 sub", "| 2 s | pass |"},
		{"against Temporal, steps", []*Result{
			of("carillon-dev", "chains", as), of("temporal", "chains", func(r *Result) { r.RunsPerS = 1000 }), of("temporal-relaxed", "chains", func(r *Result) { r.RunsPerS = 1600 }),
			of("river", "chains", func(r *Result) { r.RunsPerS = 1 }), of("carillon", "chains", func(r *Result) { r.RunsPerS = 9 }),
		}, "carillon dev: W: steps a second, chains of 5, against", "| 1.25 × | pass |"},
		{"against Temporal, p99", []*Result{of("carillon-dev", "pace", as), of("temporal", "pace", func(r *Result) { r.Lateness = &Lateness{P99: 40} })}, "carillon dev: W: from the end", "| 0.2 × | pass, aim reached |"},
		{"extra calls of a step break no promise, early ones do", []*Result{of("carillon", "pace", func(r *Result) { r.Doubled, r.Early = 3, 2 })}, "early starts", "| 2 | falls short |"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := table(t, row.all, row.row); !strings.Contains(got, row.want) {
				t.Errorf("row is %s\nwant it to have %s", got, row.want)
			}
		})
	}
}

package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func TestFigureOfRounds(t *testing.T) {
	rows := []struct {
		name          string
		values        []float64
		highest       bool
		median, worst float64
	}{
		{"one", []float64{7}, true, 7, 7},
		{"three, high is good", []float64{5, 9, 7}, true, 7, 5},
		{"three, low is good", []float64{5, 9, 7}, false, 7, 9},
		{"of two the worse", []float64{5, 9}, true, 5, 5},
		{"never", []float64{1, math.Inf(1), 2}, false, 2, math.Inf(1)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			f, ok := figureOf(row.values, row.highest)
			if !ok || f.value != row.median || f.worst != row.worst || f.count != len(row.values) {
				t.Errorf("figureOf(%v) = %+v, want median %g, worst %g", row.values, f, row.median, row.worst)
			}
		})
	}
	if _, ok := figureOf(nil, true); ok {
		t.Error("figureOf(nothing) is a figure, want none")
	}
}

func TestVerdicts(t *testing.T) {
	high, low := goal{bar: 15_000, aim: 25_000, highest: true}, goal{bar: 50, aim: 20}
	rows := []struct {
		name  string
		goal  goal
		value float64
		want  Verdict
	}{
		{"above the aim", high, 25_000, Reached},
		{"above the bar", high, 15_000, Passes},
		{"below the bar", high, 14_999, FallsShort},
		{"sooner than the aim", low, 20, Reached},
		{"sooner than the bar", low, 50, Passes},
		{"later than the bar", low, 50.1, FallsShort},
		{"never", low, math.Inf(1), FallsShort},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := row.goal.verdict(figure{value: row.value}); got != row.want {
				t.Errorf("verdict of %g = %q, want %q", row.value, got, row.want)
			}
		})
	}
}

// table returns the row of the goals that begins with what.
func table(t *testing.T, all []*Result, what string) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteGoals(&b, all); err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(b.String()) {
		if strings.HasPrefix(l, "| "+what) {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("no row %q in\n%s", what, b.String())
	return ""
}

func measured(protocol, variant string, rate float64, resident, round int, p99 float64) *Result {
	return &Result{
		Protocol: protocol, System: "carillon", Variant: variant, Rate: rate, N: 100_000, Resident: resident, Round: round,
		Lateness: &Lateness{P99: p99, Max: 10 * p99}, LastStart: p99 / 100, RunsPerS: rate,
	}
}

func TestGoalsTable(t *testing.T) {
	missed := measured("C", "http", 8000, 0, 1, 30)
	missed.Missed = 1
	burn := func(per float64) *Result {
		return &Result{Protocol: "A", System: "carillon", Variant: "noop", RunsPerS: per}
	}
	of := func(system string, r *Result) *Result {
		other := *r
		other.System = system
		return &other
	}
	missedOf := func(r *Result) *Result {
		r.Missed = 1
		return r
	}
	grown := []*Result{
		measured("D", "C", 2000, 0, 1, 20), measured("D", "C", 2000, 10, 1, 25), measured("D", "B", 0, 0, 1, 100), measured("D", "B", 0, 10, 1, 110),
	}
	long := measured("C", "http", 2000, 0, 1, 20)
	long.Span = 60
	ended := func(unended, twice int) *Result {
		return &Result{Protocol: "B", System: "carillon", Unended: unended, DuplicateOutcomes: twice}
	}
	rows := []struct {
		name string
		all  []*Result
		row  string
		want string
	}{
		{"the best of the peers counts", []*Result{
			measured("C", "http", 2000, 0, 1, 20), of("river", measured("C", "http", 2000, 0, 1, 100)), of("asynq", measured("C", "http", 2000, 0, 1, 10)),
			of("carillon-dev", measured("C", "http", 2000, 0, 1, 1)),
		}, "C at 2,000/s: lateness p99 against", "| 2 × | falls short |"},
		{"a peer that failed is none", []*Result{burn(15_000), {Protocol: "A", System: "river", Variant: "noop", Error: "no database"}}, "A: burn-down against", "not measured"},
		{"nor is one that was measured once and failed twice", []*Result{
			burn(15_000), of("river", burn(30_000)), {Protocol: "A", System: "river", Variant: "noop", Error: "x"}, {Protocol: "A", System: "river", Variant: "noop", Error: "x"},
		}, "A: burn-down against", "| 0.5 × | aim not reached |"},
		{"without peers there is no comparison", []*Result{measured("C", "http", 2000, 0, 1, 20)}, "C at 2,000/s: lateness p99 against", "not measured"},
		{"an aim without a bar", []*Result{burn(15_000), of("river", burn(30_000)), of("asynq", burn(90_000))}, "A: burn-down against", "| ≥ – | 1 × | 0.5 × | aim not reached |"},
		{"what peers do is no promise of ours", []*Result{of("asynq", missed)}, "early starts", "not measured"},
		{"a run without an end", []*Result{ended(1, 0)}, "early starts", "| 1 | falls short |"},
		{"a run that ended twice", []*Result{ended(0, 2)}, "early starts", "| 2 | falls short |"},
		{"nothing measured", nil, "A:", "| – | not measured |"},
		{"burn-down, the median of three", []*Result{burn(14_000), burn(26_000), burn(16_000)}, "A:", "| 16,000 runs/s; 14,000 runs/s of 3 | pass |"},
		{"of carillon dev is another row", []*Result{burn(14_000)}, "carillon dev", "not measured"},
		{"the highest rate on time", []*Result{measured("C", "http", 6000, 0, 1, 900), missed, measured("C", "http", 10_000, 0, 1, 1200)}, "C: highest", "| 6,000 runs/s (over 0 s) | pass |"},
		{"no rate on time", []*Result{measured("C", "http", 2000, 0, 1, 1500)}, "C: highest", "| 0 runs/s (over 0 s) | falls short |"},
		{"2,000 a second only", []*Result{measured("C", "http", 6000, 0, 1, 900), measured("C", "http", 2000, 0, 1, 19)}, "C at 2,000", "| 19 ms | pass, aim reached |"},
		{"a missed run is never on time", []*Result{missed}, "early starts", "| 1 | falls short |"},
		{"every round must hold", []*Result{missed, burn(1), burn(1)}, "early starts", "falls short |"},
		{"growth of C", grown, "D: lateness p99 of C", "| 1.25 × (10 rows) | falls short |"},
		{"growth of B", grown, "D: lateness p99 of B", "| 1.1 × (10 rows) | pass |"},
		{"growth without anything resident is none", []*Result{measured("D", "C", 2000, 0, 1, 20)}, "D: lateness p99 of C", "not measured"},
		{"growth against some is none", []*Result{measured("D", "C", 2000, 5, 1, 20), measured("D", "C", 2000, 10, 1, 20)}, "D: lateness p99 of C", "not measured"},
		{"growth with the most rows", append(grown, measured("D", "C", 2000, 5, 1, 99)), "D: lateness p99 of C", "| 1.25 × (10 rows) | falls short |"},
		{"growth below a millisecond is none", []*Result{measured("D", "C", 2000, 0, 1, 0), measured("D", "C", 2000, 10, 1, 0.9)}, "D: lateness p99 of C", "| 1 × (10 rows) | pass, aim reached |"},
		{"who missed runs without anything resident has not grown less", []*Result{
			missedOf(measured("D", "C", 2000, 0, 1, 20)), measured("D", "C", 2000, 10, 1, 20), measured("D", "C", 2000, 0, 2, 20), measured("D", "C", 2000, 10, 2, 20),
		}, "D: lateness p99 of C", "| never; never of 2 (10 rows) | falls short |"},
		{"a burn-down that left something out is none", []*Result{missedOf(burn(30_000))}, "A: burn-down, in", "| 0 runs/s | falls short |"},
		{"a comparison is of the same", []*Result{measured("C", "http", 2000, 0, 1, 20), of("river", long)}, "C at 2,000/s: lateness p99 against", "not measured: `make peers` does"},
		{"how long a rate was kept up is told", []*Result{long}, "C: highest", "| 2,000 runs/s (over 60 s) | falls short |"},
		{"killed", []*Result{measured("E", "dispatcher", 2000, 0, 1, 450)}, "E: worst lateness, dispatcher", "| 4.5 s | pass |"},
		{"a small herd is no figure", []*Result{{Protocol: "B", System: "carillon", Variant: "http", N: 99_999}}, "B: 100,000", "not measured"},
		{"import", []*Result{{Protocol: "import", System: "carillon", Variant: "keyed 10m", Load: &Load{PerS: 24_999}}}, "import, keyed", "| 24,999 jobs/s | falls short |"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := table(t, row.all, row.row); !strings.HasSuffix(got, row.want) && !strings.Contains(got, row.want) {
				t.Errorf("row is %s\nwant it to end %s", got, row.want)
			}
		})
	}
}

// TestCommitsStandUnderTheTable: results of one commit need no word.
func TestCommitsStandUnderTheTable(t *testing.T) {
	for _, c := range []struct {
		all  []*Result
		want string // "": nothing
	}{
		{[]*Result{{System: "carillon", Commit: "b"}, {System: "carillon", Commit: "b"}, {System: "river", Commit: "a"}}, ""},
		{[]*Result{{System: "carillon", Commit: "b"}, {System: "carillon-dev", Commit: "a"}}, "Measured at several commits: a, b."},
	} {
		var b bytes.Buffer
		if err := WriteGoals(&b, c.all); err != nil || strings.Contains(b.String(), "several commits") != (c.want != "") || !strings.Contains(b.String(), c.want) {
			t.Errorf("WriteGoals (%v) =\n%s\nwant %q", err, b.String(), c.want)
		}
	}
}

func TestDurabilityStandsUnderTheTable(t *testing.T) {
	all := []*Result{{System: "carillon", Settings: Settings{Durability: "one"}}, {System: "carillon", Settings: Settings{Durability: "one"}}}
	var b bytes.Buffer
	if err := WriteGoals(&b, all); err != nil || strings.Count(b.String(), "Durability: carillon: one.") != 1 {
		t.Errorf("WriteGoals (%v) =\n%s\nwant the durability once", err, b.String())
	}
}

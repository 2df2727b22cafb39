package bench

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func aRound(cpu float64) []*Result {
	return []*Result{
		{Protocol: "A", Variant: "noop", RunsPerS: 1, CPU: map[string]float64{"carillon": cpu}},
		{Protocol: "C", Variant: "http", Rate: 2000, RunsPerS: 1, CPU: map[string]float64{"carillon": 2 * cpu, "sink": 10}},
		{Protocol: "import", Variant: "keyed", Load: &Load{PerS: 1000 / cpu}},
	}
}

func rounds(cpu ...float64) (all [][]*Result) {
	for _, c := range cpu {
		all = append(all, aRound(c))
	}
	return all
}

// TestPairs: a build holds if it is worse by less than 3 %, or by less than what the build before
// differs from itself.
func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []float64
		want          string
	}{
		{"equal", []float64{10, 10, 10, 10, 10}, []float64{10, 10, 10, 10, 10}, "holds: within 3 %"},
		{"a little worse", []float64{10, 10, 10, 10, 10}, []float64{10.2, 10.2, 10.2, 10.2, 10.2}, "holds: within 3 %"},
		{"worse", []float64{10, 10, 10, 10, 10}, []float64{11, 11, 11, 11, 11}, "**does not hold**"},
		{"worse, on a noisy machine", []float64{10, 9, 12, 10, 10}, []float64{11, 11, 11, 11, 11}, "holds: below the spread"},
		{"far better", []float64{10, 10, 10, 10, 10}, []float64{5, 5, 5, 5, 5}, "holds: within 3 %"},
		{"too few", []float64{10, 10}, []float64{10, 10}, "no verdict: fewer than 5 pairs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := MakePairs(rounds(c.before...), rounds(c.after...))
			if err != nil {
				t.Fatal(err)
			}
			if len(all) != 3 {
				t.Fatalf("%d figures, want A's, C's by the sink's, and lines/s", len(all))
			}
			for i := range all {
				if got := all[i].Verdict(); got != c.want {
					t.Errorf("%s: %q, want %q", all[i].What, got, c.want)
				}
			}
			if table := Table(all); strings.Count(table, "\n") != 5 || !strings.Contains(table, "C http 2000/s, Carillon CPU a run by the sink's CPU a call") {
				t.Errorf("the table is\n%s", table)
			}
		})
	}
}

// TestUnequalPairs: what cannot be compared is refused.
func TestUnequalPairs(t *testing.T) {
	missed := rounds(10)
	missed[0][0].Missed = 1
	other := rounds(10)
	other[0][0].Protocol = "B"
	for _, c := range []struct {
		name          string
		before, after [][]*Result
		want          string
	}{
		{"rounds", rounds(10, 10), rounds(10), "2 rounds before and 1 after"},
		{"results", rounds(10), [][]*Result{aRound(10)[:2]}, "3 results before and 2 after"},
		{"measurements", rounds(10), other, "A noop only before"},
		{"a broken promise", rounds(10), missed, "missed 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := MakePairs(c.before, c.after); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("MakePairs = %v, want %q in it", err, c.want)
			}
		})
	}
}

// TestReadRounds: rounds are read as they were kept, in the order of their folders.
func TestReadRounds(t *testing.T) {
	folder := t.TempDir()
	if _, err := ReadRounds(folder); err == nil {
		t.Error("an empty folder has rounds")
	}
	for i, cpu := range []float64{7, 5, 6} {
		for _, r := range aRound(cpu) {
			if err := r.keep(filepath.Join(folder, fmt.Sprint(i+1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := ReadRounds(folder)
	if err != nil || len(got) != 3 {
		t.Fatalf("ReadRounds = %d rounds, %v, want 3", len(got), err)
	}
	for i, want := range []float64{7, 5, 6} {
		if len(got[i]) != 3 || got[i][0].CPU["carillon"] != want {
			t.Errorf("round %d has %d results, the first with %g µs, want 3 and %g", i+1, len(got[i]), got[i][0].CPU["carillon"], want)
		}
	}
}

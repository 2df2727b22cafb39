package bench

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Pairs compares two builds that were measured in turn, in one run and on one machine. Each round
// gives a pair of results for each measurement.
type Pairs struct {
	What  string // what was measured, and the figure: "A noop, Carillon CPU µs a run"
	Lower bool   // whether lower is better
	// Within is the part by which they may differ and count as equal.
	Within float64
	// Before and After have a figure for each round, in the order of the rounds.
	Before, After []float64
}

// within is the part by which two builds may differ and count as equal.
const within = 0.03

// fewestPairs is how many rounds a verdict needs.
const fewestPairs = 5

// A costFigure is one number of a result that two builds are compared by. ok is false where a result
// has none.
type costFigure struct {
	name  string
	lower bool
	of    func(r *Result) (v float64, ok bool)
}

// costFigures are those that stand for what a build costs. Where a sink was called, Carillon's CPU is
// given by the sink's CPU a call: both rise and fall with the machine.
var costFigures = []costFigure{
	{"Carillon CPU µs a run", true, func(r *Result) (float64, bool) {
		_, sink := r.CPU["sink"]
		return r.CPU["carillon"], r.CPU["carillon"] > 0 && !sink
	}},
	{"Carillon CPU a run by the sink's CPU a call", true, func(r *Result) (float64, bool) {
		if r.CPU["sink"] <= 0 {
			return 0, false
		}
		return r.CPU["carillon"] / r.CPU["sink"], true
	}},
	{"Cassandra CPU µs a run", true, func(r *Result) (float64, bool) { return r.CPU["cassandra"], r.CPU["cassandra"] > 0 }},
	{"allocations a run", true, func(r *Result) (float64, bool) { return r.Allocs, r.Allocs > 0 }},
	{"lines/s", false, func(r *Result) (float64, bool) {
		if r.Load == nil || r.RunsPerS > 0 {
			return 0, false
		}
		return r.Load.PerS, true
	}},
}

// ReadRounds reads the results of rounds: a folder each, ordered by name.
func ReadRounds(folder string) ([][]*Result, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("compare: %s has no folder with results", folder)
	}
	byRound := map[string][]string{}
	for _, path := range paths {
		byRound[filepath.Dir(path)] = append(byRound[filepath.Dir(path)], path)
	}
	var all [][]*Result
	for _, dir := range slices.Sorted(maps.Keys(byRound)) {
		results, err := ReadResults(byRound[dir])
		if err != nil {
			return nil, err
		}
		all = append(all, results)
	}
	return all, nil
}

// MakePairs matches results by what they measured. before and after have the results of one round
// each, in the same order. It refuses rounds that measured different things, and results that break
// a promise.
func MakePairs(before, after [][]*Result) ([]Pairs, error) {
	if len(before) != len(after) {
		return nil, fmt.Errorf("compare: %d rounds before and %d after", len(before), len(after))
	}
	var all []Pairs
	index := map[string]int{}
	for round := range before {
		theirs := map[string]*Result{}
		for _, r := range after[round] {
			theirs[r.measured()] = r
		}
		if len(before[round]) != len(after[round]) {
			return nil, fmt.Errorf("compare: round %d has %d results before and %d after", round+1, len(before[round]), len(after[round]))
		}
		for _, old := range before[round] {
			now, ok := theirs[old.measured()]
			if !ok {
				return nil, fmt.Errorf("compare: round %d has %s only before", round+1, old.measured())
			}
			for _, r := range []*Result{old, now} {
				if broken := r.Faults(); len(broken) > 0 {
					return nil, fmt.Errorf("compare: round %d, %s at %s: %s", round+1, r.measured(), r.Commit, strings.Join(broken, ", "))
				}
			}
			for _, f := range costFigures {
				was, has := f.of(old)
				is, had := f.of(now)
				if !has || !had {
					continue
				}
				what := old.measured() + ", " + f.name
				i, known := index[what]
				if !known {
					i = len(all)
					index[what] = i
					all = append(all, Pairs{What: what, Lower: f.lower, Within: within})
				}
				all[i].Before, all[i].After = append(all[i].Before, was), append(all[i].After, is)
			}
		}
	}
	return all, nil
}

// measured names what r measured, whatever the round.
func (r *Result) measured() string {
	parts := []string{r.Protocol}
	if r.Variant != "" {
		parts = append(parts, r.Variant)
	}
	if r.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.0f/s", r.Rate))
	}
	return strings.Join(parts, " ")
}

// middle returns the median of what is not empty.
func middle(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Difference returns by which part the median after differs from the one before. Above 0 is more.
func (p *Pairs) Difference() float64 { return middle(p.After)/middle(p.Before) - 1 }

// Spread returns how far the figures before lie apart, by their median.
func (p *Pairs) Spread() float64 {
	return (slices.Max(p.Before) - slices.Min(p.Before)) / middle(p.Before)
}

// Verdict says whether the build after is as good as the one before: it is if it differs by less
// than Within, or by less than the spread of the build before.
func (p *Pairs) Verdict() string {
	worse := p.Difference()
	if !p.Lower {
		worse = -worse
	}
	switch {
	case len(p.Before) < fewestPairs:
		return fmt.Sprintf("no verdict: fewer than %d pairs", fewestPairs)
	case worse <= 0 && p.Within == 0:
		return "holds: no worse"
	case worse < p.Within:
		return fmt.Sprintf("holds: within %.3g %%", 100*p.Within)
	case worse < p.Spread():
		return "holds: below the spread"
	default:
		return "**does not hold**"
	}
}

// Table returns the pairs as a table of markdown.
func Table(all []Pairs) string {
	return pairsTable("| | before: each round, median | after: each round, median | difference; spread before | |", all)
}

// pairsTable returns the pairs as a table with this head, of five columns.
func pairsTable(head string, all []Pairs) string {
	var b strings.Builder
	b.WriteString(head + "\n|---|---|---|---|---|\n")
	for i := range all {
		p := &all[i]
		fmt.Fprintf(&b, "| %s | %s: **%s** | %s: **%s** | %+.1f %%; %.1f %% | %s |\n", p.What,
			listed(p.Before), threeDigits(middle(p.Before)), listed(p.After), threeDigits(middle(p.After)),
			100*p.Difference(), 100*p.Spread(), p.Verdict())
	}
	return b.String()
}

func listed(of []float64) string {
	var all []string
	for _, v := range of {
		all = append(all, threeDigits(v))
	}
	return strings.Join(all, ", ")
}

// threeDigits writes a figure with three digits that count, or as a whole number.
func threeDigits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// A Verdict says how a figure stands against its bar and aim.
type Verdict string

// The verdicts.
const (
	Reached    Verdict = "pass, aim reached"
	Passes     Verdict = "pass"
	FallsShort Verdict = "falls short"
	NotReached Verdict = "aim not reached" // where there is no bar
	NotSeen    Verdict = "not measured"
)

// A figure sums up several rounds of a measurement.
type figure struct {
	value float64 // the median
	worst float64
	count int
}

// figureOf returns the median and the worst of values. Of an even count the worse of the two in the
// middle counts.
func figureOf(values []float64, highest bool) (figure, bool) {
	if len(values) == 0 {
		return figure{}, false
	}
	v := slices.Clone(values)
	slices.SortFunc(v, func(a, b float64) int {
		if highest {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	return figure{value: v[len(v)/2], worst: v[len(v)-1], count: len(v)}, true
}

// A goal is a row of the table.
type goal struct {
	what     string
	unit     string
	bar, aim float64 // a bar that is no number: there is none
	highest  bool    // the higher the better
	// of returns the figures of the results that bear on it; each counts once.
	of func(all []*Result) []float64
	// under names the conditions of the figures where these may differ; nil: they do not.
	under func(all []*Result) string
	// by names the command that measures it, where neither suite does.
	by string
}

// verdict says how a figure stands.
func (g goal) verdict(f figure) Verdict {
	meets := func(limit float64) bool {
		if g.highest {
			return f.value >= limit
		}
		return f.value <= limit
	}
	switch {
	case meets(g.aim):
		return Reached
	case math.IsNaN(g.bar):
		return NotReached
	case meets(g.bar):
		return Passes
	}
	return FallsShort
}

// pick returns of each result that is wanted the figure.
func pick(wanted func(r *Result) bool, value func(r *Result) float64) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		var values []float64
		for _, r := range all {
			if wanted(r) {
				values = append(values, value(r))
			}
		}
		return values
	}
}

func is(protocol, system, variant string) func(*Result) bool {
	return func(r *Result) bool {
		return r.Protocol == protocol && r.System == system && strings.HasPrefix(r.Variant, variant)
	}
}

// runsPerS is 0 where not all runs were done: a run that failed took no time.
func runsPerS(r *Result) float64 {
	if r.Missed > 0 {
		return 0
	}
	return r.RunsPerS
}

// unlessMissed is a figure of a result, and infinite where a run did not come: that is as late, or
// as dear, as can be.
func unlessMissed(of func(r *Result) float64) func(*Result) float64 {
	return func(r *Result) float64 {
		if r.Missed > 0 {
			return math.Inf(1)
		}
		return of(r)
	}
}

// late is a figure of lateness, which a result may lack.
func late(of func(l *Lateness) float64) func(*Result) float64 {
	return unlessMissed(func(r *Result) float64 {
		if r.Lateness == nil {
			return math.Inf(1)
		}
		return of(r.Lateness)
	})
}

var (
	worstLate  = late(func(l *Lateness) float64 { return l.Max / 1000 })          // s
	p99        = late(func(l *Lateness) float64 { return l.P99 })                 // ms
	lastStartS = unlessMissed(func(r *Result) float64 { return r.LastStart })     // when the last run began
	cpuAgainst = unlessMissed(func(r *Result) float64 { return r.AgainstOneOff }) // of a recurring run
)

// loadPerS is the speed of the import.
func loadPerS(r *Result) float64 {
	if r.Load == nil {
		return 0
	}
	return r.Load.PerS
}

// sustainedP99 is the lateness up to which a rate counts as sustained, ms.
const sustainedP99 = 1000

// sustained returns, of each round of C, the highest rate that was sustained; 0 if none was.
func sustained(all []*Result) []float64 {
	byRound := map[int]float64{}
	for _, r := range all {
		if !is("C", "carillon", "http")(r) {
			continue
		}
		byRound[r.Round] = max(byRound[r.Round], 0)
		if r.Missed == 0 && r.Early == 0 && p99(r) <= sustainedP99 {
			byRound[r.Round] = max(byRound[r.Round], r.Rate)
		}
	}
	var rates []float64
	for _, rate := range byRound {
		rates = append(rates, rate)
	}
	return rates
}

// growth returns a figure for each round of a part of D (C or B) on a system: p99 with the most
// rows resident ÷ p99 with none. Less than a millisecond counts as one.
func growth(system, part string) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		var ratios []float64
		for _, pair := range extremes(all, system, part) {
			few, many := max(p99(pair.few), 1), max(p99(pair.many), 1)
			if math.IsInf(few, 1) {
				many, few = few, 1 // what did not come is nothing to be held against
			}
			ratios = append(ratios, many/few)
		}
		return ratios
	}
}

// resident says with how many rows growth was measured.
func resident(system, part string) func([]*Result) string {
	return func(all []*Result) string {
		rows := 0
		for _, pair := range extremes(all, system, part) {
			rows = max(rows, pair.many.Resident)
		}
		return grouped(int64(rows)) + " rows"
	}
}

// extreme is a round of a part of D with no rows resident, and with the most.
type extreme struct{ few, many *Result }

func extremes(all []*Result, system, part string) []extreme {
	byRound := map[int]extreme{}
	for _, r := range all {
		if !is("D", system, part)(r) {
			continue
		}
		e := byRound[r.Round]
		if r.Resident == 0 {
			e.few = r
		} else if e.many == nil || r.Resident > e.many.Resident {
			e.many = r
		}
		byRound[r.Round] = e
	}
	var whole []extreme
	for _, e := range byRound {
		if e.few != nil && e.many != nil {
			whole = append(whole, e)
		}
	}
	return whole
}

// isPeer reports whether a system is another one than Carillon.
func isPeer(system string) bool { return !strings.HasPrefix(system, "carillon") }

func isRiver(system string) bool { return system == "river" }

func isTemporal(system string) bool { return strings.HasPrefix(system, "temporal") }

// besidePeers is besideSystems for a cluster.
func besidePeers(wanted func(*Result) bool, peer func(system string) bool, value func(*Result) float64, highest bool) func([]*Result) []float64 {
	return besideSystems("carillon", wanted, peer, value, highest)
}

// besideSystems returns the median of own, a system of Carillon, as a multiple of the best peer's, if
// both were measured.
//
//   - A measurement of a peer that failed does not count.
//   - A peer that missed runs in half of its measurements does not count.
//   - One in which a peer began runs early counts as it came out.
//   - Carillon counts where it was measured as the peers were: as many runs, over as long.
func besideSystems(own string, wanted func(*Result) bool, peer func(system string) bool, value func(*Result) float64, highest bool) func([]*Result) []float64 {
	return func(all []*Result) []float64 {
		type load struct {
			n    int
			span float64
		}
		peers, bySystem := map[load]bool{}, map[string][]float64{}
		for _, r := range all {
			if wanted(r) && peer(r.System) && r.Error == "" {
				peers[load{r.N, r.Span}] = true
				bySystem[r.System] = append(bySystem[r.System], value(r))
			}
		}
		for _, r := range all {
			if wanted(r) && r.System == own && peers[load{r.N, r.Span}] {
				bySystem[r.System] = append(bySystem[r.System], value(r))
			}
		}
		ours, ok := figureOf(bySystem[own], highest)
		delete(bySystem, own)
		var theirs []float64
		for _, values := range bySystem {
			f, _ := figureOf(values, highest)
			theirs = append(theirs, f.value)
		}
		// nothing to be held against
		theirs = slices.DeleteFunc(theirs, func(x float64) bool { return x == 0 || math.IsInf(x, 0) })
		if !ok || len(theirs) == 0 {
			return nil
		}
		if highest {
			return []float64{ours.value / slices.Max(theirs)}
		}
		return []float64{ours.value / slices.Min(theirs)}
	}
}

// broken returns, of each result that ran something, how many promises it broke.
func broken(all []*Result) []float64 {
	var counts []float64
	for _, r := range all {
		if !isPeer(r.System) && slices.Contains([]string{"A", "B", "C", "D", "E", "F", "H", "R", "W", consolesProtocol}, r.Protocol) {
			counts = append(counts, float64(r.Early+r.Missed+r.Unexpected+r.Unended+r.DuplicateOutcomes))
		}
	}
	return counts
}

// spans says over how long the rates of C were kept up.
func spans(all []*Result) string {
	return "over " + strings.Join(each(all, is("C", "carillon", "http"), func(r *Result) string { return amount(r.Span, "s") }), ", ")
}

// each returns what the wanted results say, each text once, in order.
func each(all []*Result, wanted func(*Result) bool, says func(*Result) string) []string {
	var texts []string
	for _, r := range all {
		if !wanted(r) {
			continue
		}
		if text := says(r); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// comparison is the command that measures the goals against peers, and workflowComparison that against
// Temporal.
const (
	comparison         = "make peers"
	workflowComparison = "make peers-workflows"
)

// workflowRate is the rate of the goal of pace, in steps a second, and workflowItems the size of those
// of fanout and subscribers.
const (
	workflowRate  = 200
	workflowItems = 10_000
)

// isPace reports whether a result is of pace, at the rate of the goal, on whatever system.
func isPace(r *Result) bool {
	return r.Protocol == "W" && r.Variant == pacePart && r.Rate == workflowRate
}

// isChains reports whether a result is of chains, on whatever system.
func isChains(r *Result) bool { return r.Protocol == "W" && r.Variant == chainsPart }

// workflowGoals are the goals of W on one system of Carillon.
func workflowGoals(system, prefix string, bar, aim float64) []goal {
	sized := func(part string, items int) func(*Result) bool {
		return func(r *Result) bool { return is("W", system, part)(r) && r.N >= items }
	}
	return []goal{
		{what: prefix + "W: steps a second, chains of 5", unit: "steps/s", bar: bar, aim: aim, highest: true, of: pick(is("W", system, chainsPart), runsPerS)},
		{what: prefix + "W: fan-out of 10,000, then join: the call of the join", unit: "s", bar: 3, aim: 1.5, of: pick(sized(fanOutPart, workflowItems+1), lastStartS)},
		{what: prefix + "W: 10,000 subscribers of one event: the last start", unit: "s", bar: 3, aim: 1, of: pick(sized(followersPart, workflowItems), lastStartS)},
	}
}

// goals is the table.
var goals = slices.Concat(clusterGoals, workflowGoals("carillon", "", 1500, 6000), devGoals, workflowGoals("carillon-dev", "carillon dev: ", 5000, 15_000), temporalGoals,
	pageGoals("carillon", ""), wholeGoals, pageGoals("carillon-dev", "carillon dev: "))

// temporalGoals hold carillon dev against Temporal's dev server.
var temporalGoals = []goal{
	{
		what: "carillon dev: W: steps a second, chains of 5, against Temporal's dev server", unit: "×", bar: 1, aim: 5, highest: true, by: workflowComparison,
		of: besideSystems("carillon-dev", isChains, isTemporal, runsPerS, true),
	},
	{
		what: "carillon dev: W: from the end of a step to the next, p99 at 200 steps/s, against Temporal's dev server", unit: "×", bar: 1, aim: 0.2, by: workflowComparison,
		of: besideSystems("carillon-dev", isPace, isTemporal, p99, false),
	},
}

// clusterGoals are those of a cluster.
var clusterGoals = []goal{
	{what: "A: burn-down, in-process handler", unit: "runs/s", bar: 15_000, aim: 25_000, highest: true, of: pick(is("A", "carillon", "noop"), runsPerS)},
	{what: "A: after an outage, where each row is looked at", unit: "runs/s", bar: math.NaN(), aim: 15_000, highest: true, of: pick(is("A", "carillon", "outage-noop"), runsPerS)},
	{what: "C: highest rate with missed 0 and p99 ≤ 1 s", unit: "runs/s", bar: 6000, aim: 10_000, highest: true, of: sustained, under: spans},
	{what: "C at 2,000/s: lateness p99", unit: "ms", bar: 50, aim: 20, of: pick(func(r *Result) bool { return is("C", "carillon", "http")(r) && r.Rate == 2000 }, p99)},
	{
		what: "C at 2,000/s: lateness p99 against the best peer's", unit: "×", bar: 1, aim: 1, by: comparison,
		of: besidePeers(func(r *Result) bool { return r.Protocol == "C" && r.Variant == "http" && r.Rate == 2000 }, isPeer, p99, false),
	},
	{
		what: "A: burn-down against River's", unit: "×", bar: math.NaN(), aim: 1, highest: true, by: comparison,
		of: besidePeers(func(r *Result) bool { return r.Protocol == "A" && r.Variant == "noop" }, isRiver, runsPerS, true),
	},
	{what: "B: 100,000 at one instant, HTTP sink: last start", unit: "s", bar: 10, aim: 5, of: pick(func(r *Result) bool { return is("B", "carillon", "http")(r) && r.N >= 100_000 }, lastStartS)},
	{what: "B: the same, in-process handler", unit: "s", bar: 10, aim: 5, of: pick(func(r *Result) bool { return is("B", "carillon", "noop")(r) && r.N >= 100_000 }, lastStartS)},
	{what: "D: lateness p99 of C, rows resident against none", unit: "×", bar: 1.2, aim: 1, of: growth("carillon", "C"), under: resident("carillon", "C")},
	{what: "D: lateness p99 of B, rows resident against none", unit: "×", bar: 1.2, aim: 1, of: growth("carillon", "B"), under: resident("carillon", "B")},
	{what: "import, unkeyed, due within 10 min", unit: "jobs/s", bar: 25_000, aim: 50_000, highest: true, of: pick(is("import", "carillon", "unkeyed 10m"), loadPerS)},
	{what: "import, unkeyed, due within 24 h", unit: "jobs/s", bar: 25_000, aim: 50_000, highest: true, of: pick(is("import", "carillon", "unkeyed 24h"), loadPerS)},
	{what: "import, keyed, due within 10 min", unit: "jobs/s", bar: 25_000, aim: 50_000, highest: true, of: pick(is("import", "carillon", "keyed"), loadPerS)},
	{what: "early starts, missed runs and duplicate outcomes, anywhere", of: broken},
	{what: "E: worst lateness, dispatcher of its own killed", unit: "s", bar: 5, aim: 3, of: pick(is("E", "carillon", "dispatcher"), worstLate)},
	{what: "E: worst lateness, node of all roles killed", unit: "s", bar: 9, aim: 7, of: pick(is("E", "carillon", "node"), worstLate)},
	{
		what: "R: CPU of a recurring run against a one-off run, 5,000/s", unit: "×", bar: 3, aim: 2,
		of: pick(func(r *Result) bool {
			return is("R", "carillon", "recurring")(r) && r.Rate == 5000 && r.AgainstOneOff > 0
		}, cpuAgainst),
	},
	{what: "R: the same, lateness p99", unit: "ms", bar: 1000, aim: 50, of: pick(func(r *Result) bool { return is("R", "carillon", "recurring")(r) && r.Rate == 5000 }, p99)},
	{what: "API: create one job, 500/s, p99", unit: "ms", bar: 25, aim: 10, of: pick(is("api", "carillon", "create"), p99)},
	{
		what: "W: from the end of a step to the next, chains of 5, p99 at 200 steps/s", unit: "ms", bar: 50, aim: 10,
		of: pick(func(r *Result) bool { return isPace(r) && r.System == "carillon" }, p99),
	},
	{
		what: "regions: CPU of a run of the serving region's processes, against a single region", unit: "×", bar: 1 + withinRegions, aim: 1,
		of: dearerShared, by: "carillon-load bench regions --nodes 2 --rounds 5",
	},
}

// devGoals are those of carillon dev.
var devGoals = []goal{
	{what: "carillon dev: burn-down", unit: "runs/s", bar: 30_000, aim: 60_000, highest: true, of: pick(is("B", "carillon-dev", "noop"), runsPerS)},
	{what: "carillon dev: D, lateness p99 of C, rows resident against none", unit: "×", bar: 1.2, aim: 1, of: growth("carillon-dev", "C"), under: resident("carillon-dev", "C")},
	{what: "carillon dev: D, lateness p99 of B, rows resident against none", unit: "×", bar: 1.2, aim: 1, of: growth("carillon-dev", "B"), under: resident("carillon-dev", "B")},
}

// always is the goal that every round must meet: its worst round counts, not the median.
const always = "early starts, missed runs and duplicate outcomes, anywhere"

// WriteGoals writes the table of goals, and the tables of growth, F, H, consoles and pages. The median of several
// rounds is judged, and the worst stands beside it.
func WriteGoals(w io.Writer, all []*Result) error {
	var b strings.Builder
	b.WriteString("| what | bar | aim | seen (median; worst) | verdict |\n|---|---|---|---|---|\n")
	for _, g := range goals {
		f, ok := figureOf(g.of(all), g.highest)
		verdict, seen := NotSeen, "–"
		if ok {
			if g.what == always {
				f.value = f.worst
			}
			verdict = g.verdict(f)
			seen = amount(f.value, g.unit)
			if f.count > 1 {
				seen += fmt.Sprintf("; %s of %d", amount(f.worst, g.unit), f.count)
			}
			if g.under != nil {
				seen += " (" + g.under(all) + ")"
			}
		} else if g.by != "" {
			verdict += Verdict(": `" + g.by + "` does")
		}
		sign := "≤ "
		if g.highest {
			sign = "≥ "
		}
		fmt.Fprintf(&b, "| %s | %s%s | %s | %s | %s |\n", g.what, sign, amount(g.bar, g.unit), amount(g.aim, g.unit), seen, verdict)
	}
	for _, d := range each(all, func(*Result) bool { return true }, func(r *Result) string { return r.System + ": " + r.Settings.Durability }) {
		b.WriteString("\nDurability: " + d + ".\n")
	}
	if of := each(all, func(r *Result) bool { return !isPeer(r.System) }, func(r *Result) string { return r.Commit }); len(of) > 1 {
		slices.Sort(of)
		b.WriteString("\nMeasured at several commits: " + strings.Join(of, ", ") + ".\n")
	}
	if len(stages(all)) > 0 {
		b.WriteString("\n")
		if err := WriteGrowth(&b, all); err != nil {
			return err
		}
	}
	writeFlights(&b, all)
	writeInterferences(&b, all)
	writeConsoles(&b, all)
	writeRegions(&b, all)
	writePages(&b, all)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write goals: %w", err)
	}
	return nil
}

// amount writes a number as people do.
func amount(x float64, unit string) string {
	var text string
	switch {
	case math.IsNaN(x):
		return "–"
	case math.IsInf(x, 1):
		return "never"
	case x >= 100:
		text = grouped(int64(math.Round(x)))
	case x == math.Trunc(x):
		text = fmt.Sprintf("%.0f", x)
	default:
		text = fmt.Sprintf("%.3g", x)
	}
	return strings.TrimSpace(text + " " + unit)
}

func grouped(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

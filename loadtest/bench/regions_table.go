package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// withinRegions is by which part CPU a run of the serving region's own processes may be more where
// there are regions.
const withinRegions = 0.10

// ownKinds are the processes of the serving region.
var ownKinds = []string{nodeKind, "cassandra", "nats"}

// A regionRound is both halves of a round.
type regionRound struct{ single, shared *Result }

// regionRounds returns the rounds of which both halves were measured.
func regionRounds(all []*Result) []regionRound {
	byRound := map[int]regionRound{}
	for _, r := range all {
		if r.Protocol != regionsProtocol || r.Regions == nil {
			continue
		}
		pair := byRound[r.Round]
		if r.Variant == singleRegion {
			pair.single = r
		} else {
			pair.shared = r
		}
		byRound[r.Round] = pair
	}
	var whole []regionRound
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		if pair := byRound[round]; pair.single != nil && pair.shared != nil {
			whole = append(whole, pair)
		}
	}
	return whole
}

// ownCPU is the CPU of a run of the serving region's processes, without its import.
func ownCPU(r *Result) float64 {
	sum := 0.0
	for _, kind := range ownKinds {
		sum += r.CPU[kind]
	}
	return sum
}

// ownWhole is the same with the import, over what is used at rest.
func ownWhole(r *Result) float64 {
	sum := 0.0
	for _, kind := range ownKinds {
		sum += r.Regions.Whole[kind]
	}
	return sum
}

// regionFigures are what the halves are compared by.
var regionFigures = []costFigure{
	{"CPU µs a run of the serving region's processes", true, func(r *Result) (float64, bool) { return ownCPU(r), true }},
	{"of these Carillon", true, func(r *Result) (float64, bool) { return r.CPU[nodeKind], true }},
	{"Cassandra", true, func(r *Result) (float64, bool) { return r.CPU["cassandra"], true }},
	{"NATS", true, func(r *Result) (float64, bool) { return r.CPU["nats"], true }},
	{"the same by the sink's CPU a call", true, func(r *Result) (float64, bool) {
		if r.CPU["sink"] <= 0 {
			return 0, false
		}
		return ownCPU(r) / r.CPU["sink"], true
	}},
	{"CPU µs a run with its import, without rest", true, func(r *Result) (float64, bool) { return ownWhole(r), true }},
	{"lateness p99, ms", true, func(r *Result) (float64, bool) { return p99(r), r.Lateness != nil }},
}

// regionsPairs compares the halves.
func regionsPairs(all []*Result) []Pairs {
	var pairs []Pairs
	for _, f := range regionFigures {
		p := Pairs{What: f.name, Lower: f.lower, Within: withinRegions}
		if strings.HasPrefix(f.name, "lateness") {
			p.Within = 0 // its spread alone
		}
		for _, round := range regionRounds(all) {
			single, has := f.of(round.single)
			shared, had := f.of(round.shared)
			if has && had {
				p.Before, p.After = append(p.Before, single), append(p.After, shared)
			}
		}
		if len(p.Before) > 0 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// dearerShared returns of each round the CPU of a run of the serving region where there are
// regions, as a multiple of that of a single one.
func dearerShared(all []*Result) []float64 {
	var ratios []float64
	for _, round := range regionRounds(all) {
		if was := ownCPU(round.single); was > 0 {
			ratios = append(ratios, ownCPU(round.shared)/was)
		}
	}
	return ratios
}

// writeRegions writes the tables of the protocol; nothing if it was not measured.
func writeRegions(b *strings.Builder, all []*Result) {
	pairs, rounds := regionsPairs(all), regionRounds(all)
	if len(pairs) == 0 {
		return
	}
	b.WriteString("\n" + pairsTable("| regions | a single region: each round, median | with regions: each round, median | difference; spread of a single one | |", pairs))
	median := func(of func(c *RegionCost) map[string]float64) map[string]float64 {
		values := map[string][]float64{}
		for _, round := range rounds {
			for key, v := range of(round.shared.Regions) {
				values[key] = append(values[key], v)
			}
		}
		medians := map[string]float64{}
		for key, of := range values {
			medians[key] = middle(of)
		}
		return medians
	}
	b.WriteString("\n| of a run, with its import, without rest; medians | | at rest |\n|---|---|---|\n")
	cpu, cores := median(func(c *RegionCost) map[string]float64 { return c.Whole }), median(func(c *RegionCost) map[string]float64 { return c.IdleCores })
	for _, kind := range slices.Sorted(maps.Keys(cpu)) {
		if strings.Contains(kind, "/") {
			fmt.Fprintf(b, "| CPU of %s | %s µs | %s cores |\n", kind, threeDigits(cpu[kind]), threeDigits(cores[kind]))
		}
	}
	bytes, rest := median(func(c *RegionCost) map[string]float64 { return c.Bytes }), median(func(c *RegionCost) map[string]float64 { return c.IdleBytes })
	for _, link := range slices.Sorted(maps.Keys(bytes)) {
		fmt.Fprintf(b, "| link %s | %s bytes | %s bytes/s |\n", link, threeDigits(bytes[link]), threeDigits(rest[link]))
	}
	statements := median(func(c *RegionCost) map[string]float64 { return c.Statements })
	for _, kind := range slices.Sorted(maps.Keys(statements)) {
		fmt.Fprintf(b, "| statements, %s | %s | |\n", kind, threeDigits(statements[kind]))
	}
}

// String returns a cost in a line.
func (c *RegionCost) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.Whole)) {
		if strings.Contains(kind, "/") {
			parts = append(parts, fmt.Sprintf("%s %.0f µs", kind, c.Whole[kind]))
		}
	}
	for _, link := range slices.Sorted(maps.Keys(c.Bytes)) {
		parts = append(parts, fmt.Sprintf("%s %.0f bytes", link, c.Bytes[link]))
	}
	return "of a run with its import, over what rest takes: " + strings.Join(parts, ", ")
}

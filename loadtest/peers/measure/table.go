package measure

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Table writes results as Markdown: a table for each protocol, target and rate, a row for each system. Figures are medians
// over rounds, with the worst maximum; counts of what should not have happened are sums. w takes everything.
func Table(w io.Writer, results []*Result) {
	type heading struct {
		protocol, target string
		n                int
		rate             float64
	}
	tables := map[heading]map[string][]*Result{}
	durability := map[string]string{}
	for _, r := range results {
		h := heading{r.Protocol, r.Variant, r.N, r.Rate}
		if tables[h] == nil {
			tables[h] = map[string][]*Result{}
		}
		tables[h][r.System] = append(tables[h][r.System], r)
		if r.Settings.Durability != "" {
			durability[r.System] = r.Settings.Durability
		}
	}
	headings := slices.SortedFunc(maps.Keys(tables), func(a, b heading) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.rate, b.rate), cmp.Compare(a.target, b.target), cmp.Compare(a.n, b.n))
	})
	for _, h := range headings {
		title := fmt.Sprintf("%s: %d runs, %s", h.protocol, h.n, h.target)
		if h.protocol == Workflows {
			title = fmt.Sprintf("%s: %d steps of chains, %s (runs = steps, ms = from the end of a step to the next)", h.protocol, h.n, h.target)
		}
		if h.rate > 0 {
			title += fmt.Sprintf(", %.0f due a second", h.rate)
		}
		_, _ = fmt.Fprintf(w, "### %s\n\n| system | rounds | runs/s | p50 ms | p99 ms | p99.9 ms | max ms | last start s | missed | early | doubled | CPU µs/run |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n", title)
		for _, system := range slices.Sorted(maps.Keys(tables[h])) {
			_, _ = fmt.Fprintln(w, row(system, tables[h][system]))
		}
		_, _ = fmt.Fprintln(w)
	}
	for _, system := range slices.Sorted(maps.Keys(durability)) {
		_, _ = fmt.Fprintf(w, "* %s: %s\n", system, durability[system])
	}
	notes(w, results)
}

// row is the line of a system.
func row(system string, rounds []*Result) string {
	good := slices.DeleteFunc(slices.Clone(rounds), func(r *Result) bool { return r.Error != "" })
	if len(good) == 0 {
		return fmt.Sprintf("| %s | 0 of %d | | | | | | | | | | failed: see notes |", system, len(rounds))
	}
	count := fmt.Sprint(len(good))
	if len(good) < len(rounds) {
		count += fmt.Sprintf(" of %d", len(rounds))
	}
	figure := func(format string, of func(*Result) float64) string { return fmt.Sprintf(format, median(good, of)) }
	late := func(of func(*Lateness) float64, over func([]*Result, func(*Result) float64) float64) string {
		seen := slices.DeleteFunc(slices.Clone(good), func(r *Result) bool { return r.Lateness == nil })
		if len(seen) == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f", over(seen, func(r *Result) float64 { return of(r.Lateness) }))
	}
	last := ""
	if median(good, func(r *Result) float64 { return r.LastStart }) > 0 {
		last = figure("%.2f", func(r *Result) float64 { return r.LastStart })
	}
	sum := func(of func(*Result) int) string {
		n := 0
		for _, r := range good {
			n += of(r)
		}
		return fmt.Sprint(n)
	}
	kinds := map[string]bool{}
	for _, r := range good {
		for kind := range r.CPU {
			kinds[kind] = true
		}
	}
	var cpu []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		cpu = append(cpu, kind+" "+figure("%.0f", func(r *Result) float64 { return r.CPU[kind] }))
	}
	cells := []string{
		system, count, figure("%.0f", func(r *Result) float64 { return r.RunsPerS }),
		late(func(l *Lateness) float64 { return l.P50 }, median), late(func(l *Lateness) float64 { return l.P99 }, median),
		late(func(l *Lateness) float64 { return l.P999 }, median), late(func(l *Lateness) float64 { return l.Max }, worst), last,
		sum(func(r *Result) int { return r.Missed }), sum(func(r *Result) int { return r.Early }), sum(func(r *Result) int { return r.Doubled }),
		strings.Join(cpu, ", "),
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// notes writes what there is to say of single measurements.
func notes(w io.Writer, results []*Result) {
	head := "\nNotes:\n\n"
	for _, r := range results {
		said := slices.Clone(r.Notes)
		if r.Error != "" {
			said = append(said, "failed: "+r.Error)
		}
		for _, note := range said {
			_, _ = fmt.Fprintf(w, "%s* %s %s %.0f/s, round %d: %s\n", head, r.System, r.Protocol, r.Rate, r.Round, note)
			head = ""
		}
	}
}

// median returns the middle of a figure over results; of an even number, the mean of the two in the middle.
func median(results []*Result, of func(*Result) float64) float64 {
	figures := make([]float64, len(results))
	for i, r := range results {
		figures[i] = of(r)
	}
	slices.Sort(figures)
	half := len(figures) / 2
	if len(figures)%2 == 1 {
		return figures[half]
	}
	return (figures[half-1] + figures[half]) / 2
}

// worst returns the highest of a figure over results.
func worst(results []*Result, of func(*Result) float64) float64 {
	highest := of(results[0])
	for _, r := range results {
		highest = max(highest, of(r))
	}
	return highest
}

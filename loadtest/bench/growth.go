package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// nodesOf are the processes whose memory growth is about: those that dispatch.
func nodesOf(r *Result) (Memory, bool) {
	m, ok := r.Memory[nodeKind]
	return m, ok
}

const mebibyte = 1 << 20

// The figures of growth; false where a result has none.
var (
	heapAtRest = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.Before.Heap / mebibyte, ok }
	heapAtEnd  = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.After.Heap / mebibyte, ok }
	rssAtRest  = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.Before.RSS / mebibyte, ok }
	rssAtEnd   = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.After.RSS / mebibyte, ok }
	freeAtRest = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.Before.Free / mebibyte, ok }
	freeAtEnd  = func(r *Result) (float64, bool) { m, ok := nodesOf(r); return m.After.Free / mebibyte, ok }
	lateP99    = func(r *Result) (float64, bool) { return p99(r), true }
	scanMean   = func(r *Result) (float64, bool) {
		if r.Scans == nil {
			return 0, false
		}
		return r.Scans.Mean, true
	}
	scanCount = func(r *Result) (float64, bool) {
		if r.Scans == nil {
			return 0, false
		}
		return float64(r.Scans.Count), true
	}
)

// A stage is all rounds of a part of D with the same number of rows resident.
type stage struct {
	system, part string
	resident     int
	of           []*Result
}

// stages sorts the results of D by system, part and rows resident.
func stages(all []*Result) []stage {
	var list []stage
	for _, r := range all {
		if r.Protocol != "D" {
			continue
		}
		i := slices.IndexFunc(list, func(s stage) bool {
			return s.system == r.System && s.part == r.Variant && s.resident == r.Resident
		})
		if i < 0 {
			i = len(list)
			list = append(list, stage{system: r.System, part: r.Variant, resident: r.Resident})
		}
		list[i].of = append(list[i].of, r)
	}
	slices.SortFunc(list, func(a, b stage) int {
		// C before B
		return cmp.Or(cmp.Compare(a.system, b.system), -cmp.Compare(a.part, b.part), cmp.Compare(a.resident, b.resident))
	})
	return list
}

// median returns that of a figure over the rounds in which it was measured.
func median(of []*Result, value func(*Result) (float64, bool)) (float64, bool) {
	var values []float64
	for _, r := range of {
		if x, ok := value(r); ok {
			values = append(values, x)
		}
	}
	f, ok := figureOf(values, false)
	return f.value, ok
}

// partName names a part of D.
func partName(r *Result) string {
	if r.Variant == "B" {
		return "B: " + grouped(int64(r.N)) + " runs at one instant"
	}
	return r.Variant + ": " + grouped(int64(r.Rate)) + " runs/s"
}

// rowsOf writes a number of rows: "0", "500 k", "10 M".
func rowsOf(n int) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%.3g M", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%.3g k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// WriteGrowth writes a table of what dispatching nodes cost by rows resident: medians of all rounds
// of D. Without such results it writes nothing.
func WriteGrowth(w io.Writer, all []*Result) error {
	list := stages(all)
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("| cost growth (D) | rows resident | heap at rest, at the end, MiB | RSS at rest, at the end, MiB | free heap in it, MiB | scans | a scan, mean ms | lateness p99, ms |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, s := range list {
		cell := func(value func(*Result) (float64, bool)) string {
			x, ok := median(s.of, value)
			if !ok {
				return "–"
			}
			return amount(x, "")
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %s, %s | %s, %s | %s, %s | %s | %s | %s |\n", s.system, partName(s.of[0]), rowsOf(s.resident),
			cell(heapAtRest), cell(heapAtEnd), cell(rssAtRest), cell(rssAtEnd), cell(freeAtRest), cell(freeAtEnd), cell(scanCount), cell(scanMean), cell(lateP99))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write growth: %w", err)
	}
	return nil
}

package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"carillon.dev/carillon/loadtest/plot"
)

const (
	panelWidth, panelHeight = 600, 300
	// panelHead is the height of the title above each panel, plotHead that of the head above all.
	panelHead, plotHead = 22, 64
)

// A panel is one of the four charts of growth; all have the same x axis.
type panel struct {
	title, unit string
	lines       []trend
}

// A trend is a figure by rows resident: a line through the medians, and a dot for each round.
type trend struct {
	name  string
	color string
	part  string // of D; "" = all of them
	value func(*Result) (float64, bool)
}

// PlotGrowth draws how memory, scans and lateness depend on the rows resident into an SVG file,
// from the results of D on one system.
func PlotGrowth(path string, all []*Result) error {
	svg, err := growthPlot(all)
	if err != nil {
		return fmt.Errorf("plot growth: %w", err)
	}
	return writeFile(path, svg)
}

// Grew returns the systems with results of D for several numbers of rows resident, in order of
// name.
func Grew(all []*Result) []string {
	var systems []string
	for _, s := range stages(all) {
		if len(residentCounts(onSystem(all, s.system))) > 1 && !slices.Contains(systems, s.system) {
			systems = append(systems, s.system)
		}
	}
	return systems
}

// onSystem returns the results of D on a system.
func onSystem(all []*Result, system string) []*Result {
	return slices.DeleteFunc(slices.Clone(all), func(r *Result) bool { return r.Protocol != "D" || r.System != system })
}

// residentCounts returns the numbers of rows resident that there are, ascending.
func residentCounts(all []*Result) []int {
	var counts []int
	for _, r := range all {
		counts = append(counts, r.Resident)
	}
	slices.Sort(counts)
	return slices.Compact(counts)
}

// growthPlot returns the drawing.
func growthPlot(all []*Result) ([]byte, error) {
	switch systems := Grew(all); len(systems) {
	case 0:
		return nil, errors.New("there are no results of D with different numbers of rows resident")
	case 1:
		all = onSystem(all, systems[0])
	default:
		return nil, fmt.Errorf("results are of several systems: %s", strings.Join(systems, ", "))
	}
	panels := []panel{{"Memory of the processes that dispatch, after a collection (RSS has free heap in it)", "MiB", []trend{
		{"RSS at rest", "8e44ad", "", rssAtRest},
		{"RSS at the end", "c39bd3", "", rssAtEnd},
		{"heap at rest", "1e8449", "", heapAtRest},
		{"heap at the end", "7dcea0", "", heapAtEnd},
	}}, {"Time of a scan (one shard, what falls due next), mean", "ms", nil}}
	colors := map[string]string{"C": "2f80ed", "B": "d35400"}
	seen := map[string]bool{}
	for _, s := range stages(all) {
		if seen[s.part] {
			continue
		}
		seen[s.part] = true
		name, color := partName(s.of[0]), colors[s.part]
		panels[1].lines = append(panels[1].lines, trend{name, color, s.part, scanMean})
		panels = append(panels, panel{"Lateness p99, " + name, "ms", []trend{{name, color, s.part, lateP99}}})
	}

	var b bytes.Buffer
	height := plotHead + (len(panels)+1)/2*(panelHead+panelHeight)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif">`+"\n", 2*panelWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", 2*panelWidth, height)
	first := all[0]
	write(&b, 16, 24, 16, fmt.Sprintf("Cost growth of %s: lines are medians, dots are rounds", first.System))
	write(&b, 16, 42, 11, fmt.Sprintf("%s; %d shards; %s; commit %s", first.Settings.Nodes, first.Settings.Shards, first.Machine, first.Commit))
	write(&b, 16, 56, 11, first.Settings.Durability)
	for i, p := range panels {
		x, y := i%2*panelWidth, plotHead+i/2*(panelHead+panelHeight)
		write(&b, x+16, y+16, 13, p.title)
		if err := p.draw(&b, all, x, y+panelHead); err != nil {
			return nil, fmt.Errorf("%s: %w", p.title, err)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

// write writes a line of text.
func write(b *bytes.Buffer, x, y, size int, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="%d" fill="#333">`, x, y, size)
	_ = xml.EscapeText(b, []byte(text)) // a buffer takes everything
	b.WriteString("</text>\n")
}

// place returns the position of a number of rows on a logarithmic axis that shows 0. least, the
// smallest number above 0, stands one decade from it.
func place(rows, least int) float64 {
	if least == 0 {
		return 0
	}
	return math.Log10(1 + 9*float64(rows)/float64(least))
}

// draw draws the panel at x, y.
func (p panel) draw(b *bytes.Buffer, all []*Result, x, y int) error {
	counts := residentCounts(all)
	least := counts[0]
	if least == 0 {
		least = counts[1]
	}
	own := plot.Plot{X: "rows resident (logarithmic, with 0)", Right: p.unit, Width: panelWidth, Height: panelHeight}
	for _, n := range counts {
		own.Ticks = append(own.Ticks, plot.Tick{Value: place(n, least), Label: rowsOf(n)})
	}
	for _, t := range p.lines {
		if line, dots := t.points(all, counts, least); len(line.X) >= 2 {
			own.Curves = append(own.Curves,
				plot.Curve{Name: t.name, Color: t.color, Width: 2, Points: line},
				plot.Curve{Color: t.color, Width: 2.5, Dots: true, Points: dots})
		}
	}
	svg, err := own.SVG()
	if errors.Is(err, plot.ErrNoCurve) {
		write(b, x+16, y+40, 11, "not measured")
		return nil
	}
	if err != nil {
		return err
	}
	text, ok := bytes.CutPrefix(svg, []byte("<svg "))
	if !ok {
		return errors.New("the chart does not begin as expected")
	}
	// Without a size a nested chart would be as large as the whole.
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d" `, x, y, panelWidth, panelHeight)
	_, _ = b.Write(append(text, '\n')) // a buffer takes everything
	return nil
}

// points returns the medians and the rounds. It leaves out runs that never came.
func (t trend) points(all []*Result, counts []int, least int) (line, dots plot.Points) {
	for _, n := range counts {
		var these []*Result
		for _, r := range all {
			if r.Resident != n || t.part != "" && r.Variant != t.part {
				continue
			}
			if y, ok := t.value(r); ok && !math.IsInf(y, 0) {
				these = append(these, r)
				dots.Add(place(n, least), y)
			}
		}
		if y, ok := median(these, t.value); ok {
			line.Add(place(n, least), y)
		}
	}
	return line, dots
}

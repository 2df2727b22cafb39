package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

const (
	plotWidth, plotHeight = 960, 460
	// plotMargin leaves room for the axes' names, plotTop for the title and the legend below it.
	plotMargin, plotTop = 56, 96
)

// A curve is a line with a name, or dots without one.
type curve struct {
	name  string // "" = not in the legend
	color string // six hexadecimal digits
	width float64
	dots  bool
	left  bool // it belongs to the left axis
	points
}

type points struct{ x, y []float64 }

func (p *points) add(x, y float64) { p.x, p.y = append(p.x, x), append(p.y, y) }

// A plot is curves over one x axis. The right axis is the usual one.
type plot struct {
	title          string
	x, right, left string // names of the axes; left "" = there is none
	ticks          []chart.Tick
	curves         []curve
	width, height  int // 0 = plotWidth and plotHeight
}

// errNoCurve says that no curve has two points.
var errNoCurve = errors.New("a curve needs two points")

// highest returns the highest value of the curves of an axis, and at least least.
func (p plot) highest(left bool, least float64) float64 {
	for _, c := range p.curves {
		if c.left == left && len(c.y) > 0 {
			least = max(least, slices.Max(c.y))
		}
	}
	return least
}

// svg draws p.
func (p plot) svg() ([]byte, error) {
	longest := 0
	g := chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background: chart.Style{Padding: chart.Box{Top: plotTop, Left: plotMargin, Right: plotMargin, Bottom: plotMargin / 2}},
		XAxis:      chart.XAxis{Name: p.x, ValueFormatter: short},
		// go-chart draws its first axis on the right.
		YAxis: axis(p.right, p.highest(false, 1)), YAxisSecondary: noAxis,
	}
	if p.width > 0 {
		g.Width, g.Height = p.width, p.height
		g.Background.Padding = chart.Box{Top: 36, Left: 16, Right: 28, Bottom: 8}
		g.YAxis = axis(p.right, p.highest(false, 1e-3))
	}
	if p.left != "" {
		g.YAxisSecondary = axis(p.left, p.highest(true, 1))
		// With ticks of its own this axis gets the range of the other one.
		g.YAxisSecondary.Ticks, g.YAxisSecondary.ValueFormatter = nil, short
	}
	if n := len(p.ticks); n > 0 {
		g.XAxis.Ticks = p.ticks
		g.XAxis.Range = &chart.ContinuousRange{Min: p.ticks[0].Value, Max: p.ticks[n-1].Value}
	}
	for _, c := range p.curves {
		if longest = max(longest, len(c.x)); len(c.x) == 0 {
			continue
		}
		color := drawing.ColorFromHex(c.color)
		s := chart.ContinuousSeries{Name: c.name, XValues: c.x, YValues: c.y, Style: chart.Style{StrokeColor: color, StrokeWidth: c.width}}
		if c.dots {
			s.Style = chart.Style{StrokeWidth: chart.Disabled, DotColor: color, DotWidth: c.width}
		}
		if c.left {
			s.YAxis = chart.YAxisSecondary
		}
		if len(c.x) == 1 { // go-chart wants two
			s.XValues, s.YValues = append(c.x, c.x...), append(c.y, c.y...)
		}
		g.Series = append(g.Series, s)
	}
	if longest < 2 {
		return nil, errNoCurve
	}
	g.Elements = []chart.Renderable{heading(p.title), chart.LegendThin(&g)}
	var svg bytes.Buffer
	if err := g.Render(chart.SVG, &svg); err != nil {
		return nil, fmt.Errorf("plot %s: %w", p.title, err)
	}
	return svg.Bytes(), nil
}

// write draws p into an SVG file. Without a curve of two points it writes no file.
func (p plot) write(path string) error {
	svg, err := p.svg()
	if errors.Is(err, errNoCurve) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeFile(path, svg)
}

// writeFile writes a result for everybody to read.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path, text, 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("keep result: %w", err)
	}
	return nil
}

// plot shows lateness and rate over time. Lateness is 0 where nothing began.
func (r *Result) plot() plot {
	rate := curve{name: "starts a second (left)", color: "9aa5b1", width: 2, left: true}
	p50 := curve{name: "lateness p50 (right)", color: "2f80ed", width: 1.5}
	p99 := curve{name: "lateness p99 (right)", color: "c0392b", width: 1.5}
	for _, p := range r.Series {
		rate.add(p.At, p.Rate)
		p50.add(p.At, p.P50)
		p99.add(p.At, p.P99)
	}
	all := plot{title: r.title(), x: "seconds", right: "ms", left: "runs/s", curves: []curve{rate, p50, p99}}
	if l := r.Lateness; l != nil && l.From == "histogram" { // counters tell no quantiles over time
		p99.name = "mean lateness (right)"
		all.curves = []curve{rate, p99}
	}
	return all
}

// heading writes text above a chart. It also ends the rotation that the name of the last axis
// leaves behind in an SVG: without that go-chart turns its own titles and blows up its legends.
func heading(text string) chart.Renderable {
	const size, base = 14, 28
	return func(r chart.Renderer, canvas chart.Box, defaults chart.Style) {
		r.ClearTextRotation()
		if text == "" {
			return
		}
		r.SetFont(defaults.GetFont())
		r.SetFontSize(size)
		r.SetFontColor(chart.DefaultTextColor)
		r.Text(text, canvas.Left, base)
	}
}

// axis returns an axis from 0 to highest or a little more, with about four round numbers at it.
// highest is above 0.
func axis(name string, highest float64) chart.YAxis {
	step := roundStep(highest / 4)
	steps := int(math.Ceil(highest/step - 1e-9))
	a := chart.YAxis{Name: name, Range: &chart.ContinuousRange{Min: 0, Max: float64(steps) * step}}
	for i := range steps + 1 {
		x := float64(i) * step
		a.Ticks = append(a.Ticks, chart.Tick{Value: x, Label: short(x)})
	}
	return a
}

// noAxis is the second axis of a chart without series for it: go-chart would label it with 0.00.
var noAxis = chart.YAxis{Style: chart.Hidden()}

// roundStep returns the smallest of 1, 2, 2.5, 5 times a power of ten that is at least x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// short writes a number of an axis.
func short(v any) string {
	x, ok := v.(float64)
	if !ok {
		return fmt.Sprint(v)
	}
	return amount(x, "")
}

// Package plot draws curves over one axis into SVG files, as the pages of results show them.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// Width and Height are those of a plot that states none, in pixels.
const (
	Width  = 960
	Height = 460
)

const (
	// margin leaves room for the axes' names, top for the title and the legend below it.
	margin, top = 56, 96
)

// A Curve is a line with a name, or dots without one.
type Curve struct {
	Name  string // "" = not in the legend
	Color string // six hexadecimal digits
	Width float64
	Dots  bool
	Left  bool // it belongs to the left axis
	Points
}

// Points are the points of a curve.
type Points struct{ X, Y []float64 }

// Add adds a point.
func (p *Points) Add(x, y float64) { p.X, p.Y = append(p.X, x), append(p.Y, y) }

// A Tick is a place of the x axis with a text.
type Tick = chart.Tick

// A Mark is a dashed line at a place of the x axis, with a text beside it.
type Mark struct {
	X     float64
	Text  string
	Color string // six hexadecimal digits
}

// A Plot is curves over one x axis. The right axis is the usual one.
type Plot struct {
	Title          string
	X, Right, Left string // names of the axes; Left "" = there is none
	Ticks          []Tick
	Curves         []Curve
	Marks          []Mark
	Width, Height  int // in pixels; 0 = those of the package
}

// ErrNoCurve says that no curve has two points.
var ErrNoCurve = errors.New("a curve needs two points")

// highest returns the highest value of the curves of an axis, and at least least.
func (p Plot) highest(left bool, least float64) float64 {
	for _, c := range p.Curves {
		if c.Left == left && len(c.Y) > 0 {
			least = max(least, slices.Max(c.Y))
		}
	}
	return least
}

// span returns the first and the last tick, or the least and the greatest x of all curves.
func (p Plot) span() (from, to float64) {
	if n := len(p.Ticks); n > 0 {
		return p.Ticks[0].Value, p.Ticks[n-1].Value
	}
	from, to = math.Inf(1), math.Inf(-1)
	for _, c := range p.Curves {
		for _, x := range c.X {
			from, to = min(from, x), max(to, x)
		}
	}
	return from, to
}

// SVG draws p. The error is ErrNoCurve, or one of drawing.
func (p Plot) SVG() ([]byte, error) {
	longest := 0
	g := chart.Chart{
		Width: Width, Height: Height,
		Background: chart.Style{Padding: chart.Box{Top: top, Left: margin, Right: margin, Bottom: margin / 2}},
		XAxis:      chart.XAxis{Name: p.X, ValueFormatter: short},
		// go-chart draws its first axis on the right.
		YAxis: axis(p.Right, p.highest(false, 1)), YAxisSecondary: noAxis,
	}
	if p.Width > 0 {
		g.Width, g.Height = p.Width, p.Height
		g.Background.Padding = chart.Box{Top: 36, Left: 16, Right: 28, Bottom: 8}
		g.YAxis = axis(p.Right, p.highest(false, 1e-3))
	}
	if p.Left != "" {
		g.YAxisSecondary = axis(p.Left, p.highest(true, 1))
		// With ticks of its own this axis gets the range of the other one.
		g.YAxisSecondary.Ticks, g.YAxisSecondary.ValueFormatter = nil, short
	}
	if n := len(p.Ticks); n > 0 {
		g.XAxis.Ticks = p.Ticks
		g.XAxis.Range = &chart.ContinuousRange{Min: p.Ticks[0].Value, Max: p.Ticks[n-1].Value}
	}
	for _, c := range p.Curves {
		if longest = max(longest, len(c.X)); len(c.X) == 0 {
			continue
		}
		color := drawing.ColorFromHex(c.Color)
		s := chart.ContinuousSeries{Name: c.Name, XValues: c.X, YValues: c.Y, Style: chart.Style{StrokeColor: color, StrokeWidth: c.Width}}
		if c.Dots {
			s.Style = chart.Style{StrokeWidth: chart.Disabled, DotColor: color, DotWidth: c.Width}
		}
		if c.Left {
			s.YAxis = chart.YAxisSecondary
		}
		if len(c.X) == 1 { // go-chart wants two
			s.XValues, s.YValues = append(c.X, c.X...), append(c.Y, c.Y...)
		}
		g.Series = append(g.Series, s)
	}
	if longest < 2 {
		return nil, ErrNoCurve
	}
	g.Elements = []chart.Renderable{heading(p.Title), chart.LegendThin(&g)}
	if len(p.Marks) > 0 {
		from, to := p.span()
		g.XAxis.Range = &chart.ContinuousRange{Min: from, Max: to}
		g.Elements = append(g.Elements, marks(p.Marks, from, to))
	}
	var svg bytes.Buffer
	if err := g.Render(chart.SVG, &svg); err != nil {
		return nil, fmt.Errorf("plot %s: %w", p.Title, err)
	}
	return svg.Bytes(), nil
}

// Write draws p into an SVG file. Without a curve of two points it writes no file.
func (p Plot) Write(path string) error {
	svg, err := p.SVG()
	if errors.Is(err, ErrNoCurve) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, svg, 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("keep plot: %w", err)
	}
	return nil
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

// marks draws dashed lines over a chart whose x axis goes from from to to, each with its text
// beside its upper end, turned.
func marks(all []Mark, from, to float64) chart.Renderable {
	const size, width, dash, gap, below = 8, 1, 4, 3, 6
	return func(r chart.Renderer, canvas chart.Box, defaults chart.Style) {
		for _, m := range all {
			if m.X < from || m.X > to || to <= from {
				continue
			}
			x := canvas.Left + int((m.X-from)/(to-from)*float64(canvas.Width()))
			color := drawing.ColorFromHex(m.Color)
			r.SetStrokeColor(color)
			r.SetStrokeWidth(width)
			r.SetStrokeDashArray([]float64{dash, dash})
			r.MoveTo(x, canvas.Top)
			r.LineTo(x, canvas.Bottom)
			r.Stroke()
			r.SetStrokeDashArray(nil)
			r.SetFont(defaults.GetFont())
			r.SetFontSize(size)
			r.SetFontColor(color)
			r.SetTextRotation(math.Pi / 2)
			r.Text(html.EscapeString(m.Text), x+gap, canvas.Top+below)
			r.ClearTextRotation()
		}
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
		a.Ticks = append(a.Ticks, Tick{Value: x, Label: short(x)})
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
	switch {
	case !ok:
		return fmt.Sprint(v)
	case x >= 100:
		return grouped(strconv.FormatInt(int64(math.Round(x)), 10))
	case x == math.Trunc(x):
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// grouped puts commas between groups of three digits.
func grouped(digits string) string {
	var parts []string
	for len(digits) > 3 {
		parts, digits = append(parts, digits[len(digits)-3:]), digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

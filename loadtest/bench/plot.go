package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

const (
	plotWidth, plotHeight = 960, 460
	// plotMargin leaves room for the axes' names, plotTop for the title and, halfway down, the legend.
	plotMargin, plotTop = 56, 96
)

// curves are what a plot shows, over the same instants.
type curves struct {
	at             []float64
	rate, p50, p99 []float64
}

// curvesOf takes a series apart. Lateness stays at 0 where nothing began.
func curvesOf(series []Point) curves {
	var c curves
	for _, p := range series {
		c.at, c.rate = append(c.at, p.At), append(c.rate, p.Rate)
		c.p50, c.p99 = append(c.p50, p.P50), append(c.p99, p.P99)
	}
	return c
}

// plot draws lateness and rate over time into an SVG file.
func (r *Result) plot(path string) error {
	var svg bytes.Buffer
	if err := r.draw(&svg); err != nil {
		return fmt.Errorf("plot %s: %w", r.title(), err)
	}
	if err := os.WriteFile(path, svg.Bytes(), 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

func (r *Result) draw(to *bytes.Buffer) error {
	if len(r.Series) < 2 {
		return errors.New("a curve needs two points")
	}
	c := curvesOf(r.Series)
	line := func(color string, width float64) chart.Style {
		return chart.Style{StrokeColor: drawing.ColorFromHex(color), StrokeWidth: width}
	}
	late := "lateness p99"
	series := []chart.Series{
		chart.ContinuousSeries{Name: "starts a second (left)", YAxis: chart.YAxisSecondary, XValues: c.at, YValues: c.rate, Style: line("9aa5b1", 2)},
	}
	if l := r.Lateness; l != nil && l.From == "histogram" { // of counters there are no quantiles over time
		late = "mean lateness"
	} else {
		series = append(series, chart.ContinuousSeries{Name: "lateness p50 (right)", XValues: c.at, YValues: c.p50, Style: line("2f80ed", 1.5)})
	}
	series = append(series, chart.ContinuousSeries{Name: late + " (right)", XValues: c.at, YValues: c.p99, Style: line("c0392b", 1.5)})
	highest := 0.0
	for _, x := range c.p99 {
		highest = max(highest, x)
	}
	fastest := 0.0
	for _, x := range c.rate {
		fastest = max(fastest, x)
	}
	rates := axis("runs/s", max(fastest, 1))
	rates.Ticks, rates.ValueFormatter = nil, short // with ticks of its own, go-chart gives it the range of the first
	g := chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background:     chart.Style{Padding: chart.Box{Top: plotTop, Left: plotMargin, Right: plotMargin, Bottom: plotMargin / 2}},
		XAxis:          chart.XAxis{Name: "seconds", ValueFormatter: short},
		YAxis:          axis("ms", max(highest, 1)), // go-chart has the first on the right
		YAxisSecondary: rates,
		Series:         series,
	}
	g.Elements = []chart.Renderable{heading(r.title()), chart.LegendThin(&g)}
	return g.Render(chart.SVG, to)
}

// heading writes text above a chart. It also ends the rotation that the name of the last axis leaves behind in an SVG, which turns go-chart's
// own titles and blows up its legends.
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

// axis returns an axis from 0 to highest, which is not 0, or a little more, with some four round numbers at it.
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

// noAxis is the second axis of a chart without series of it: go-chart would write 0.00 outside of it, many times.
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

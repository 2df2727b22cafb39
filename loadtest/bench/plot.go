package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

const (
	plotWidth, plotHeight = 960, 420
	// plotMargin leaves room for the axes' names.
	plotMargin = 56
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
		chart.ContinuousSeries{Name: "starts a second (right)", YAxis: chart.YAxisSecondary, XValues: c.at, YValues: c.rate, Style: line("9aa5b1", 2)},
	}
	if l := r.Lateness; l != nil && l.From == "histogram" { // of counters there are no quantiles over time
		late = "mean lateness"
	} else {
		series = append(series, chart.ContinuousSeries{Name: "lateness p50 (left)", XValues: c.at, YValues: c.p50, Style: line("2f80ed", 1.5)})
	}
	series = append(series, chart.ContinuousSeries{Name: late + " (left)", XValues: c.at, YValues: c.p99, Style: line("c0392b", 1.5)})
	highest := 0.0
	for _, x := range c.p99 {
		highest = max(highest, x)
	}
	fastest := 0.0
	for _, x := range c.rate {
		fastest = max(fastest, x)
	}
	g := chart.Chart{
		Title: r.title(), Width: plotWidth, Height: plotHeight,
		Background: chart.Style{Padding: chart.Box{Top: plotMargin, Left: plotMargin, Right: plotMargin, Bottom: plotMargin / 2}},
		XAxis:      chart.XAxis{Name: "seconds", ValueFormatter: short},
		YAxis:      chart.YAxis{Name: "ms", ValueFormatter: short, Range: &chart.ContinuousRange{Min: 0, Max: max(highest, 1)}},
		YAxisSecondary: chart.YAxis{
			Name: "runs/s", ValueFormatter: short, Range: &chart.ContinuousRange{Min: 0, Max: max(fastest, 1)},
		},
		Series: series,
	}
	g.Elements = []chart.Renderable{chart.LegendThin(&g)}
	return g.Render(chart.SVG, to)
}

// short writes a number of an axis.
func short(v any) string {
	x, ok := v.(float64)
	if !ok {
		return fmt.Sprint(v)
	}
	return amount(x, "")
}

package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/plot"
)

const (
	markColor, startColor = "c0392b", "27ae60"
	curveWidth            = 2
	tickEvery             = 30 // seconds
)

// curveColors are those of starts, one for each home and region in order.
var curveColors = []string{"2f80ed", "d35400", "8e44ad", "1e8449", "9aa5b1", "7f6000", "c39bd3", "7dcea0", "444444"}

// WritePlot draws, for a scenario of regions, how many runs of each home each region started in
// each second, with what was done and the first start after each fail-over, as SVG. ok is false,
// and nothing was written, where a report has nothing of that.
func WritePlot(w io.Writer, r *Report) (ok bool, err error) {
	if r.Regions == nil {
		return false, nil
	}
	svg, err := r.startsPlot().SVG()
	if errors.Is(err, plot.ErrNoCurve) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := w.Write(svg); err != nil {
		return false, fmt.Errorf("write plot: %w", err)
	}
	return true, nil
}

// startsPlot is the plot of WritePlot.
func (r *Report) startsPlot() plot.Plot {
	p := plot.Plot{
		Title: fmt.Sprintf("%s: starts a second, by home and region (%s)", r.Scenario, r.Commit),
		X:     "seconds after the first due instant", Right: "starts/s",
	}
	for i, s := range r.Regions.PerSecond {
		c := plot.Curve{Name: "home " + s.Home + " in " + s.Region, Color: curveColors[i%len(curveColors)], Width: curveWidth}
		for second, n := range s.Starts {
			c.Add(float64(second), float64(n))
		}
		p.Curves = append(p.Curves, c)
	}
	for at := 0; ; at += tickEvery {
		p.Ticks = append(p.Ticks, plot.Tick{Value: float64(at), Label: strconv.Itoa(at)})
		if len(r.Regions.PerSecond) == 0 || at >= len(r.Regions.PerSecond[0].Starts) {
			break
		}
	}
	since := func(t time.Time) float64 { return t.Sub(r.FirstDue).Seconds() }
	for _, e := range r.Events {
		p.Marks = append(p.Marks, plot.Mark{X: since(e.Began), Color: markColor, Text: fmt.Sprintf("%.1f s %s", since(e.Began), strings.TrimSpace(string(e.Act)+" "+e.Member))})
	}
	for _, f := range r.Regions.FailOvers {
		if !f.First.IsZero() {
			p.Marks = append(p.Marks, plot.Mark{X: since(f.First), Color: startColor, Text: fmt.Sprintf("%.1f s first start in %s", since(f.First), f.To)})
		}
	}
	slices.SortStableFunc(p.Marks, func(a, b plot.Mark) int { return cmp.Compare(a.X, b.X) })
	return p
}

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// keep writes r, and a plot of each part that has a curve, into a folder.
func (r *FairResult) keep(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("keep result: %w", err)
	}
	if err := os.WriteFile(r.base(folder)+".json", append(text, '\n'), 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("keep result: %w", err)
	}
	if len(r.Pairs) > 1 {
		alone, beside := trace{name: "alone"}, trace{name: "beside"}
		for i, p := range r.Pairs {
			alone.x, alone.y = append(alone.x, float64(i+1)), append(alone.y, p.Alone.P99)
			beside.x, beside.y = append(beside.x, float64(i+1)), append(beside.y, p.Beside.P99)
		}
		if err := plotTraces(r.base(folder)+"-beside.svg", "p99 lateness of a tenant alone, and beside one with 100 times the load", "pair", "ms", []trace{alone, beside}); err != nil {
			return err
		}
	}
	if w := r.Weights; w != nil {
		if err := plotTraces(r.base(folder)+"-weights.svg", "runs that began, of tenants of weights 1, 2 and 4", "seconds", "runs/s", rates(w.starts)); err != nil {
			return err
		}
	}
	if c := r.Critical; c != nil {
		if err := plotTraces(r.base(folder)+"-critical.svg", "critical runs that fall due while low ones wait", "seconds", "runs/s", rates(c.starts)); err != nil {
			return err
		}
	}
	if o := r.Backlog; o != nil {
		if err := plotTraces(r.base(folder)+"-backlog.svg", "heap in use of all nodes while a backlog is worked off", "seconds", "MiB", []trace{o.heap}); err != nil {
			return err
		}
	}
	return nil
}

// trace is a curve with a name.
type trace struct {
	name string
	x, y []float64
}

// rates makes curves of starts a second, over the seconds since the first of all.
func rates(starts map[string][]start) []trace {
	var from time.Time
	for _, of := range starts {
		if len(of) > 0 && (from.IsZero() || of[0].at.Before(from)) {
			from = of[0].at
		}
	}
	var all []trace
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		t := trace{name: name}
		for _, p := range binned(starts[name], from) {
			t.x, t.y = append(t.x, p.At), append(t.y, p.Rate)
		}
		all = append(all, t)
	}
	return all
}

// plotTraces draws curves into an SVG file. Where none has two points there is nothing to be drawn, and no file.
func plotTraces(path, title, x, y string, traces []trace) error {
	colors := []string{"2f80ed", "c0392b", "27ae60", "9aa5b1"}
	highest, points := 0.0, 0
	var series []chart.Series
	for i, t := range traces {
		if points = max(points, len(t.x)); len(t.x) < 2 {
			t.x, t.y = append(t.x, t.x...), append(t.y, t.y...)
		}
		if len(t.x) == 0 {
			continue
		}
		highest = max(highest, slices.Max(t.y))
		style := chart.Style{StrokeColor: drawing.ColorFromHex(colors[i%len(colors)]), StrokeWidth: 2}
		series = append(series, chart.ContinuousSeries{Name: t.name, XValues: t.x, YValues: t.y, Style: style})
	}
	if points < 2 {
		return nil
	}
	g := chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background: chart.Style{Padding: chart.Box{Top: plotTop, Left: plotMargin, Right: plotMargin, Bottom: plotMargin / 2}},
		XAxis:      chart.XAxis{Name: x, ValueFormatter: short},
		YAxis:      axis(y, max(highest, 1)), YAxisSecondary: noAxis,
		Series: series,
	}
	g.Elements = []chart.Renderable{heading(title), chart.LegendThin(&g)}
	var svg bytes.Buffer
	if err := g.Render(chart.SVG, &svg); err != nil {
		return fmt.Errorf("plot %s: %w", title, err)
	}
	if err := os.WriteFile(path, svg.Bytes(), 0o644); err != nil { // #nosec G306 -- for everybody
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

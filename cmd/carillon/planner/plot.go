package planner

import (
	"bytes"
	"fmt"
	"time"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// Plot draws what waits and runs, and how long those that started had waited, over time, as an SVG.
func Plot(r *Result, slots int) ([]byte, error) {
	var x, waiting, running, p50, p99 []float64
	for i := range r.Steps {
		s := &r.Steps[i]
		x = append(x, s.At.Seconds())
		waiting, running = append(waiting, float64(s.Waiting)), append(running, float64(s.Running))
		p50, p99 = append(p50, s.WaitP50.Seconds()), append(p99, s.WaitP99.Seconds())
	}
	if len(x) == 1 { // a line needs two points
		x = append(x, x[0]+1)
		for _, ys := range []*[]float64{&waiting, &running, &p50, &p99} {
			*ys = append(*ys, (*ys)[0])
		}
	}
	line := func(name, color string, ys []float64, second bool) chart.Series {
		s := chart.ContinuousSeries{Name: name, XValues: x, YValues: ys, Style: chart.Style{StrokeColor: drawing.ColorFromHex(color), StrokeWidth: 2}}
		if second {
			s.YAxis, s.Style.StrokeDashArray = chart.YAxisSecondary, []float64{5, 3}
		}
		return s
	}
	axis := func(name string, of ...[]float64) chart.YAxis {
		most := 1.0
		for _, ys := range of {
			for _, y := range ys {
				most = max(most, y)
			}
		}
		return chart.YAxis{Name: name, Range: &chart.ContinuousRange{Min: 0, Max: most * 1.05}}
	}
	graph := chart.Chart{
		Title: fmt.Sprintf("%d runs, %d slots, %.0f %% used", r.All.Runs, slots, 100*r.Use), Width: 960, Height: 420,
		Background: chart.Style{Padding: chart.Box{Top: 40, Left: 20, Right: 20, Bottom: 20}},
		XAxis: chart.XAxis{Name: "time", ValueFormatter: func(v any) string {
			seconds, _ := v.(float64)
			return (time.Duration(seconds) * time.Second).String()
		}},
		YAxis:          axis("runs", waiting, running),
		YAxisSecondary: axis("wait, s", p50, p99),
		Series: []chart.Series{
			line("waiting", "d62728", waiting, false), line("running", "1f77b4", running, false),
			line("wait p50, s", "ff9896", p50, true), line("wait p99, s", "9467bd", p99, true),
		},
	}
	graph.Elements = []chart.Renderable{chart.LegendThin(&graph)}
	var svg bytes.Buffer
	if err := graph.Render(chart.SVG, &svg); err != nil {
		return nil, fmt.Errorf("plot: %w", err)
	}
	return svg.Bytes(), nil
}

package bench

import (
	"maps"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/plot"
)

// keep writes r, and a plot of each part that has a curve, into a folder.
func (r *FairResult) keep(folder string) error {
	base := r.base(folder)
	if err := writeJSON(base+".json", r); err != nil {
		return err
	}
	for name, p := range r.plots() {
		if err := p.Write(base + "-" + name + ".svg"); err != nil {
			return err
		}
	}
	return nil
}

// plots returns a plot of each part that was measured.
func (r *FairResult) plots() map[string]plot.Plot {
	all := map[string]plot.Plot{}
	if len(r.Pairs) > 1 {
		alone, beside := plot.Curve{Name: "alone"}, plot.Curve{Name: "beside"}
		for i, p := range r.Pairs {
			alone.Add(float64(i+1), p.Alone.P99)
			beside.Add(float64(i+1), p.Beside.P99)
		}
		all[PartBeside] = plot.Plot{
			Title: "p99 lateness of a tenant alone, and beside one with 100 times the load",
			X:     "pair", Right: "ms", Curves: coloured(alone, beside),
		}
	}
	if w := r.Weights; w != nil {
		all[PartWeights] = plot.Plot{
			Title: "runs that began, of tenants of weights 1, 2 and 4",
			X:     "seconds", Right: "runs/s", Curves: rates(w.starts),
		}
	}
	if c := r.Critical; c != nil {
		all[PartCritical] = plot.Plot{
			Title: "critical runs that fall due while low ones wait",
			X:     "seconds", Right: "runs/s", Curves: rates(c.starts),
		}
	}
	if o := r.Backlog; o != nil {
		all[PartBacklog] = plot.Plot{
			Title: "heap in use of all nodes while a backlog is worked off",
			X:     "seconds", Right: "MiB", Curves: coloured(o.heap),
		}
	}
	return all
}

// coloured gives each curve a colour.
func coloured(curves ...plot.Curve) []plot.Curve {
	for i := range curves {
		curves[i].Color, curves[i].Width = []string{"2f80ed", "c0392b", "27ae60", "9aa5b1"}[i%4], 2
	}
	return curves
}

// rates makes curves of starts a second, over the seconds since the first of all.
func rates(starts map[string][]start) []plot.Curve {
	var from time.Time
	for _, of := range starts {
		if len(of) > 0 && (from.IsZero() || of[0].at.Before(from)) {
			from = of[0].at
		}
	}
	var all []plot.Curve
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		c := plot.Curve{Name: name}
		for _, p := range binned(starts[name], from) {
			c.Add(p.At, p.Rate)
		}
		all = append(all, c)
	}
	return coloured(all...)
}

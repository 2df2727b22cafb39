package bench

import (
	"maps"
	"slices"
	"time"
)

// keep writes r, and a plot of each part that has a curve, into a folder.
func (r *FairResult) keep(folder string) error {
	base := r.base(folder)
	if err := writeJSON(base+".json", r); err != nil {
		return err
	}
	for name, p := range r.plots() {
		if err := p.write(base + "-" + name + ".svg"); err != nil {
			return err
		}
	}
	return nil
}

// plots returns a plot of each part that was measured.
func (r *FairResult) plots() map[string]plot {
	all := map[string]plot{}
	if len(r.Pairs) > 1 {
		alone, beside := curve{name: "alone"}, curve{name: "beside"}
		for i, p := range r.Pairs {
			alone.add(float64(i+1), p.Alone.P99)
			beside.add(float64(i+1), p.Beside.P99)
		}
		all[PartBeside] = plot{
			title: "p99 lateness of a tenant alone, and beside one with 100 times the load",
			x:     "pair", right: "ms", curves: coloured(alone, beside),
		}
	}
	if w := r.Weights; w != nil {
		all[PartWeights] = plot{
			title: "runs that began, of tenants of weights 1, 2 and 4",
			x:     "seconds", right: "runs/s", curves: rates(w.starts),
		}
	}
	if c := r.Critical; c != nil {
		all[PartCritical] = plot{
			title: "critical runs that fall due while low ones wait",
			x:     "seconds", right: "runs/s", curves: rates(c.starts),
		}
	}
	if o := r.Backlog; o != nil {
		all[PartBacklog] = plot{
			title: "heap in use of all nodes while a backlog is worked off",
			x:     "seconds", right: "MiB", curves: coloured(o.heap),
		}
	}
	return all
}

// coloured gives each curve a colour.
func coloured(curves ...curve) []curve {
	for i := range curves {
		curves[i].color, curves[i].width = []string{"2f80ed", "c0392b", "27ae60", "9aa5b1"}[i%4], 2
	}
	return curves
}

// rates makes curves of starts a second, over the seconds since the first of all.
func rates(starts map[string][]start) []curve {
	var from time.Time
	for _, of := range starts {
		if len(of) > 0 && (from.IsZero() || of[0].at.Before(from)) {
			from = of[0].at
		}
	}
	var all []curve
	for _, name := range slices.Sorted(maps.Keys(starts)) {
		c := curve{name: name}
		for _, p := range binned(starts[name], from) {
			c.add(p.At, p.Rate)
		}
		all = append(all, c)
	}
	return coloured(all...)
}

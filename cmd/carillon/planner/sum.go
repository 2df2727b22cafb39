package planner

import (
	"slices"
	"time"
)

// sum makes percentiles of what was noted.
func (p *play) sum() {
	for i := range p.result.Steps {
		s := &p.result.Steps[i]
		s.WaitP50, s.WaitP99, _ = percentiles(s.waits)
		width := p.c.Step
		if s.At < p.c.Span && p.result.Ended < p.c.Span {
			width = min(width, p.c.Span-s.At)
		}
		s.Use = s.busyTime / float64(width) / float64(p.c.Slots)
		s.waits = nil
	}
	p.result.Use = p.busyTime / float64(p.c.Span) / float64(p.c.Slots)
	var all []time.Duration
	for i := range p.result.Loads {
		s := &p.result.Loads[i]
		all = append(all, s.waits...)
		s.WaitMean = meanOf(s.waits)
		s.WaitP50, s.WaitP99, s.WaitMost = percentiles(s.waits)
		s.waits = nil
	}
	a := &p.result.All
	a.Name = "all"
	a.WaitMean = meanOf(all)
	a.WaitP50, a.WaitP99, a.WaitMost = percentiles(all)
}

// percentiles returns the median, the 99th percentile and the greatest, by nearest rank; it sorts.
func percentiles(waits []time.Duration) (p50, p99, most time.Duration) {
	if len(waits) == 0 {
		return 0, 0, 0
	}
	slices.Sort(waits)
	rank := func(q float64) time.Duration {
		return waits[min(int(q*float64(len(waits))), len(waits)-1)]
	}
	return rank(0.5), rank(0.99), waits[len(waits)-1]
}

// meanOf returns the mean; 0 of none.
func meanOf(waits []time.Duration) time.Duration {
	sum := 0.0
	for _, w := range waits {
		sum += float64(w)
	}
	return time.Duration(sum / float64(max(len(waits), 1)))
}

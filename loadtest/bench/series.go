package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"carillon.dev/carillon/loadtest/check"
)

// A Point is half a second of a run.
type Point struct {
	At   float64 // seconds after the first due instant (A: after the first start), of its end
	Rate float64 // starts a second
	P50  float64 // lateness in ms; of counters: the mean
	P99  float64 // of counters: the mean as well
}

// pointSpan is the span of a Point.
const pointSpan = 500 * time.Millisecond

// A start is one run's.
type start struct {
	at   time.Time
	late time.Duration
}

// binned sums up starts by pointSpan, from the first to the last.
func binned(starts []start, from time.Time) []Point {
	bins := map[int][]time.Duration{}
	last := 0
	for _, s := range starts {
		bin := int(math.Floor(float64(s.at.Sub(from)) / float64(pointSpan)))
		bins[bin] = append(bins[bin], max(s.late, 0))
		last = max(last, bin)
	}
	points := make([]Point, 0, last+1)
	for bin := range last + 1 {
		p := Point{At: (time.Duration(bin+1) * pointSpan).Seconds()}
		if late := bins[bin]; len(late) > 0 {
			slices.Sort(late)
			p.Rate = float64(len(late)) / pointSpan.Seconds()
			p.P50, p.P99 = float64(at(late, 0.5).Microseconds())/1000, float64(at(late, 0.99).Microseconds())/1000
		}
		points = append(points, p)
	}
	return points
}

// seriesOf makes points of counters.
func seriesOf(readings []reading, from time.Time) []Point {
	var points []Point
	var was reading
	for i, r := range readings {
		if i == 0 || r.at.Before(from) {
			was = r
			continue
		}
		span := r.at.Sub(was.at)
		if span < pointSpan {
			continue
		}
		p := Point{At: r.at.Sub(from).Seconds()}
		if n := r.started - was.started; n > 0 {
			p.Rate = n / span.Seconds()
			p.P50 = 1000 * (r.late - was.late) / n
			p.P99 = p.P50
		}
		points = append(points, p)
		was = r
	}
	return points
}

// shape returns the highest rate over two points, and for how many seconds nothing began between
// the first and the last start.
func shape(series []Point) (peak, pause float64) {
	since, began := 0.0, false
	for i, p := range series {
		if i > 0 {
			peak = max(peak, (series[i-1].Rate+p.Rate)/2)
		}
		switch {
		case p.Rate == 0:
			continue
		case began && i > 0:
			pause += max(0, series[i-1].At-since)
		}
		since, began = p.At, true
	}
	return peak, pause
}

// fromSink fills in what the sink saw of the runs of src, the first of them due at from. Promises
// are counted of all runs; speed and lateness only of those due before until, unless that is zero.
func (r *Result) fromSink(src source, from, until time.Time, seen []check.Sighting) {
	first := make([]time.Time, src.count()) // by run
	foreign := 0
	for i := range seen {
		if seen[i].Ref.Source != src.name() {
			foreign++
			continue
		}
		run, ok := src.runOf(&seen[i])
		if !ok {
			r.Unexpected++
			continue
		}
		if !first[run].IsZero() {
			r.Doubled++
		}
		if first[run].IsZero() || seen[i].At.Before(first[run]) {
			first[run] = seen[i].At
		}
	}
	if foreign > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d calls of the sink were of runs of another source", foreign))
	}
	late := make([]time.Duration, 0, len(first))
	starts := make([]start, 0, len(first))
	last, missedAfter := from, 0
	for run, at := range first {
		due := src.dueOf(run)
		after := !until.IsZero() && !due.Before(until)
		if at.IsZero() {
			r.Missed++
			if after {
				missedAfter++
			}
			continue
		}
		d := at.Sub(due)
		if d < 0 {
			r.Early++
		}
		if after {
			continue
		}
		late = append(late, max(d, 0))
		starts = append(starts, start{at, d})
		if at.After(last) {
			last = at
		}
	}
	if missedAfter > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of the missed runs were due after the span that is measured, in which the jobs come to their ends", missedAfter))
	}
	r.Lateness = exact(late, "sink")
	r.LastStart = last.Sub(from).Seconds()
	r.RunsPerS = float64(len(late)) / max(r.LastStart, 1e-3)
	r.Series = binned(starts, from)
}

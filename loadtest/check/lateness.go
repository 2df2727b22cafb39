package check

import (
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Lateness sums up the start of the first attempt − max(due time, time of acceptance), in
// milliseconds.
//
//	as reported  lateness_ms of the run or, without it, its first start − the asked instant
//	as seen      first arrival at the sink − the asked instant
//
// The time of acceptance is when the asker had read the acknowledgement; a job that started before
// counts as 0. Early starts count as early, not here.
type Lateness struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p99_9_ms"`
	Max   float64 `json:"max_ms"`
}

// LatenessBound bounds how late runs may start, by the sink and by the API. A zero field bounds
// nothing.
type LatenessBound struct {
	Max time.Duration `json:"max_ns,omitempty"` // no run starts later
	P99 time.Duration `json:"p99_ns,omitempty"` // 99 of 100 runs start no later
}

// tooLate judges the lateness of one run: the larger of what was seen and what was reported.
func (j *judge) tooLate(r *run, late time.Duration) {
	if j.bound.Max <= 0 || late <= j.bound.Max {
		return
	}
	j.rep.TooLate++
	j.fault(FaultTooLate, r, "it started %s late, of %s that it may be", late, j.bound.Max)
}

// quantiles judges the lateness of all runs together.
func (j *judge) quantiles() {
	for _, of := range []struct {
		name string
		lateness
	}{{"as seen by the sink", j.seen}, {"as reported", j.reported}} {
		p99 := time.Duration(of.sum().P99 * float64(time.Millisecond))
		if j.bound.P99 <= 0 || p99 <= j.bound.P99 {
			continue
		}
		j.rep.TooLate++
		j.fault(FaultTooLate, &run{}, "one run in a hundred started %s late or later, %s, of %s that it may be", p99, of.name, j.bound.P99)
	}
}

// String tells the bound: "30s at most, p99 2s"; "none" for one that bounds nothing.
func (b LatenessBound) String() string {
	var parts []string
	if b.Max > 0 {
		parts = append(parts, b.Max.String()+" at most")
	}
	if b.P99 > 0 {
		parts = append(parts, "p99 "+b.P99.String())
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// lateness collects in µs, from 1 µs to maxLateness, to three digits.
type lateness struct{ h *hdrhistogram.Histogram }

const maxLateness = 24 * time.Hour

func newLateness() lateness {
	return lateness{hdrhistogram.New(1, maxLateness.Microseconds(), 3)}
}

func (l lateness) record(d time.Duration) {
	// In range by the clamp, so RecordValue cannot fail.
	_ = l.h.RecordValue(min(max(d, 0), maxLateness).Microseconds())
}

// SumLateness sums up spans, none of them negative.
func SumLateness(spans []time.Duration) Lateness {
	l := newLateness()
	for _, d := range spans {
		l.record(d)
	}
	return l.sum()
}

func (l lateness) sum() Lateness {
	at := func(q float64) float64 { return float64(l.h.ValueAtQuantile(q)) / 1000 }
	if l.h.TotalCount() == 0 {
		return Lateness{}
	}
	return Lateness{
		Count: l.h.TotalCount(),
		P50:   at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: float64(l.h.Max()) / 1000,
	}
}

// term is an instant at which a run may start, and the span of time in which that is so.
type term struct {
	due      time.Time // zero: at once
	from     time.Time // in force from here
	until    time.Time // in force up to here; zero: for ever
	accepted time.Time // when it was acknowledged; zero: not known
}

// terms lists the instants that were ever in force for a run. changes must be in order of request; clocks may be off by so much.
func terms(asked time.Time, acked time.Time, changes []Change, off time.Duration) []term {
	ts := []term{{due: asked, accepted: acked}}
	for _, c := range changes {
		if c.Kind != Reschedule {
			continue
		}
		if !c.Acked.IsZero() {
			end := c.Acked.Add(ChangeGrace + off)
			for i := range ts {
				if ts[i].until.IsZero() || ts[i].until.After(end) {
					ts[i].until = end
				}
			}
		}
		ts = append(ts, term{due: c.Due, from: c.Requested, accepted: c.Acked})
	}
	return ts
}

// base returns the instant from which a start at s is measured: the latest of ts that was in force
// and had come, or its acceptance if that was later. Due times are cut to milliseconds, as the API
// cuts s. false: none had come, so the start was early.
func base(ts []term, s time.Time) (time.Time, bool) {
	var best *term
	for i := range ts {
		t := &ts[i]
		due := t.due.Truncate(time.Millisecond)
		inForce := !s.Before(t.from.Truncate(time.Millisecond)) && (t.until.IsZero() || !s.After(t.until))
		if inForce && !due.After(s) && (best == nil || t.due.After(best.due)) {
			best = t
		}
	}
	switch {
	case best == nil:
		return time.Time{}, false
	case best.accepted.After(best.due):
		return best.accepted, true
	default:
		return best.due, true
	}
}

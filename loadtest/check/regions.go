package check

import (
	"fmt"
	"slices"
	"time"
)

// LeaseLife is how long a region may go on for a home after another was named for it: it has not
// asked for so long at most (DESIGN, Regions).
const LeaseLife = 10 * time.Second

// An Epoch is a span in which one region serves a home: from At to that of the next.
type Epoch struct {
	Home   string    `json:"home"`
	Number int64     `json:"epoch"`
	Region string    `json:"region"`
	At     time.Time `json:"at"`
}

// Regions counts starts by the wrong region, of one home or several.
type Regions struct {
	// Starts are the calls whose home and region are known, Unknown the others.
	Starts  int `json:"starts"`
	Unknown int `json:"unknown"`
	// Foreign starts were by a region that did not serve the home: it was not named for it yet, or
	// another one had been for LeaseLife.
	Foreign int `json:"foreign_starts"`
	// Overlapping starts were by the region of an older epoch, after one by that of a newer epoch.
	Overlapping int `json:"overlapping_starts"`
	// Examples are some of them, in words.
	Examples []string `json:"examples,omitempty"`
}

// Broken is how many starts broke the promise that a home is served by one region at a time.
func (r Regions) Broken() int { return r.Foreign + r.Overlapping }

// mostExamples bounds Examples.
const mostExamples = 10

// JudgeRegions judges who started what, by the record of the sink. homeOf and regionOf return the
// home of a run and the region of an address; "" = not known. Epochs may be in any order. The times
// of epochs are believed: they are those of the machine of the sink.
func JudgeRegions(seen []Sighting, epochs []Epoch, homeOf, regionOf func(string) string) Regions {
	of := map[string][]Epoch{}
	for _, e := range epochs {
		of[e.Home] = append(of[e.Home], e)
	}
	for _, log := range of {
		slices.SortFunc(log, func(a, b Epoch) int { return a.At.Compare(b.At) })
	}
	calls := slices.Clone(seen)
	slices.SortStableFunc(calls, func(a, b Sighting) int { return a.At.Compare(b.At) })

	var rep Regions
	newest := map[string]int{} // of each home, the epoch that a start belonged to, by its index
	for i := range calls {
		s := &calls[i]
		home, region := homeOf(s.Run), regionOf(s.From)
		if home == "" || region == "" || len(of[home]) == 0 {
			rep.Unknown++
			continue
		}
		rep.Starts++
		fault := func(count *int, format string, args ...any) {
			*count++
			if len(rep.Examples) < mostExamples {
				rep.Examples = append(rep.Examples, fmt.Sprintf("run %s of home %s started in region %s at %s: ", s.Run, home, region, s.At.Format(time.RFC3339Nano))+fmt.Sprintf(format, args...))
			}
		}
		at := serving(of[home], region, s.At)
		switch {
		case at < 0:
			fault(&rep.Foreign, "it did not serve the home")
		case at < newest[home]:
			e := of[home][newest[home]]
			fault(&rep.Overlapping, "a run had started in region %s before, in epoch %d", e.Region, e.Number)
		default:
			newest[home] = at
		}
	}
	return rep
}

// serving returns the newest epoch of a log, by its index, in which a region may start work at t; −1
// if there is none.
func serving(log []Epoch, region string, t time.Time) int {
	for i := len(log) - 1; i >= 0; i-- {
		e := log[i]
		ended := i+1 < len(log) && !t.Before(log[i+1].At.Add(LeaseLife))
		if e.Region == region && !t.Before(e.At) && !ended {
			return i
		}
	}
	return -1
}

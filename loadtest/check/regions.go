package check

import (
	"fmt"
	"slices"
	"strings"
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

// Away is a span in which a region did not serve its home, and another did.
type Away struct {
	Region   string
	From, To time.Time
}

const (
	// awayKnownWithin is how long after From a run may be due and not say that it waits: until
	// then the next region may not have begun. DESIGN, Regions: a fail-over takes 30 s.
	awayKnownWithin = 40 * time.Second
	// deferredWithin is how long after its due time it may not: it is published, and deferred.
	deferredWithin = 15 * time.Second
	// waitsForRegion is how the API says what it waits for.
	waitsForRegion = "region"
)

// required judges a run that one region alone may run. No attempt of it, by the API, is another's;
// while that region does not serve its home, it is seen to wait for it.
func (j *judge) required(r *run) {
	if r.job == nil || r.job.Region == "" {
		return
	}
	want := r.job.Region
	for _, a := range r.attempts() {
		if a.Region != "" && a.Region != want && !a.StartedAt.IsZero() {
			j.rep.Elsewhere++
			j.fault(FaultElsewhere, r, "attempt %d started %s in region %s, it requires %s", a.Number, stamp(a.StartedAt), a.Region, want)
			break
		}
	}
	silent, waits := false, false
	for _, w := range r.watched {
		word, _, _ := strings.Cut(w.Waits, ":")
		isAway := slices.ContainsFunc(j.h.Away, func(a Away) bool {
			return a.Region == want && w.At.After(a.From.Add(awayKnownWithin)) && w.At.Before(a.To)
		})
		switch {
		case w.State != Pending || !isAway:
		case word == waitsForRegion:
			waits = true
		case !silent && !w.Due.IsZero() && w.At.After(w.Due.Add(deferredWithin)):
			silent = true
			j.rep.WaitedSilently++
			j.fault(FaultWaitsSilently, r, "pending %s, due %s, it says that it waits for %q, and region %s does not serve its home", stamp(w.At), stamp(w.Due), w.Waits, want)
		}
	}
	if waits {
		j.rep.WaitedForRegion++
	}
}

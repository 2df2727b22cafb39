package chaos

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

// A FailOver is a fail-over or a move of a home, as it was seen at the sinks.
type FailOver struct {
	What string `json:"what"` // the act, and the home and the region to which
	To   string `json:"to"`
	// At is when the command was given, or the loss that nobody gave a command about.
	At time.Time `json:"at"`
	// Last is the last start of a run of the home before First, the first one in region To; zero:
	// there was none.
	Last  time.Time `json:"last_start,omitzero"`
	First time.Time `json:"first_start,omitzero"`
	// Within bounds the time from At to First; 0 = nothing does.
	Within time.Duration `json:"within_ns,omitempty"`
}

// failOvers returns the fail-overs and moves among events, in order of time. starts are those of
// runs of the home, in order of time. byItself: a kill of the region is one too.
func failOvers(events []Event, starts []check.Sighting, regionOf func(addr string) string, byItself bool) []FailOver {
	var all []FailOver
	for _, e := range events {
		f := FailOver{What: strings.TrimSpace(string(e.Act) + " " + e.Member), At: e.Began}
		switch {
		case e.Act == ActRegionKill && byItself:
			f.To, f.Within = otherHome, byItselfWithin
		case e.Act == ActFailOver:
			f.Within = byHandWithin
			fallthrough
		case e.Act == ActMove:
			_, f.To, _ = strings.Cut(e.Member, toWord)
		default:
			continue
		}
		i := slices.IndexFunc(starts, func(s check.Sighting) bool { return s.At.After(e.Began) && regionOf(s.From) == f.To })
		if i >= 0 {
			f.First = starts[i].At
		}
		if i > 0 {
			f.Last = starts[i-1].At
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b FailOver) int { return a.At.Compare(b.At) })
	return all
}

// startsOf returns the calls of a home's runs, in order of time.
func startsOf(calls []check.Sighting, home string, homeOf func(run string) string) []check.Sighting {
	starts := slices.DeleteFunc(slices.Clone(calls), func(s check.Sighting) bool { return homeOf(s.Run) != home })
	slices.SortFunc(starts, func(a, b check.Sighting) int { return a.At.Compare(b.At) })
	return starts
}

// A StartsSeries is how many runs of a home a region started in each second from T0 on.
type StartsSeries struct {
	Home   string `json:"home"`
	Region string `json:"region"`
	Starts []int  `json:"starts"`
}

// startsBySecond counts calls by home, region and second from t0 on, in order of home and region.
// All series are of one length. What is not known is left out, and so is what came before t0.
func startsBySecond(calls []check.Sighting, t0 time.Time, homeOf, regionOf func(string) string) []StartsSeries {
	type place struct{ home, region string }
	seconds := map[place]map[int]int{}
	most := 0
	for i := range calls {
		at := place{homeOf(calls[i].Run), regionOf(calls[i].From)}
		if at.home == "" || at.region == "" || calls[i].At.Before(t0) {
			continue
		}
		if seconds[at] == nil {
			seconds[at] = map[int]int{}
		}
		n := int(calls[i].At.Sub(t0) / time.Second)
		most = max(most, n)
		seconds[at][n]++
	}
	var all []StartsSeries
	for at, of := range seconds {
		s := StartsSeries{at.home, at.region, make([]int, most+1)}
		for n, count := range of {
			s.Starts[n] = count
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b StartsSeries) int {
		return cmp.Or(cmp.Compare(a.Home, b.Home), cmp.Compare(a.Region, b.Region))
	})
	return all
}

// measure notes what fail-overs and moves cost, and what the homes without a fault noticed.
func (r regionsCourse) measure(calls []check.Sighting) {
	res := r.report.Regions
	starts := startsOf(calls, lostHome, homeOfRun(r.cfg.Cluster.Shards, r.homeNames()))
	res.FailOvers = failOvers(r.report.Events, starts, r.regionOf, r.cfg.Scenario == RegionAuto)
	for _, f := range res.FailOvers {
		if f.First.IsZero() {
			r.broken("%s: nothing started in region %s", f.What, f.To)
			continue
		}
		took, gap := f.First.Sub(f.At), time.Duration(0)
		if !f.Last.IsZero() {
			gap = f.First.Sub(f.Last)
		}
		r.figure(f.What, "first start in "+f.To+" after %.1f s, %.1f s after the last one elsewhere", took.Seconds(), gap.Seconds())
		if f.Within > 0 && took > f.Within {
			r.broken("%s: the first start in %s came after %.1f s, of %s", f.What, f.To, took.Seconds(), f.Within)
		}
	}
	for _, h := range res.Homes {
		r.figure("home "+h.Home, "p99 lateness %s ms before the first fault, %s ms from then on (greatest %s ms); %d and %d runs",
			number(h.Before.P99), number(h.After.P99), number(h.After.Max), h.Before.Count, h.After.Count)
		if late := untouchedLate.Seconds() * 1000; h.Home != lostHome && h.After.Max > late {
			r.broken("home %s, which had no fault: a run was %s ms late, of %s ms", h.Home, number(h.After.Max), number(late))
		}
		if h.Home != lostHome && h.After.P99 > untouchedTimes*h.Before.P99 {
			r.broken("home %s, which had no fault: p99 lateness %s ms, of %d times the %s ms of before", h.Home, number(h.After.P99), untouchedTimes, number(h.Before.P99))
		}
	}
	for _, home := range slices.Sorted(maps.Keys(res.Keyed)) {
		k := res.Keyed[home]
		r.figure("keys of home "+home, "of %d jobs that were asked for again at the other region: the same id %d, another one %d, no answer %d, not asked for %d",
			k.Created, k.Same, k.Different, k.Silent, k.Unsent)
	}
	for _, link := range slices.Sorted(maps.Keys(res.Bytes)) {
		r.figure("link "+link, "%.1f MB", float64(res.Bytes[link])/1e6)
	}
}

func number(ms float64) string { return strconv.FormatFloat(ms, 'f', 1, 64) }

// lateBySpan sums up how late the runs of a home started: of those due before the first fault, and
// of the others. What was acknowledged after it was due counts from then.
func (r regionsCourse) lateBySpan(name string, sources []string, seen []check.Sighting) (res HomeResult, err error) {
	due := map[check.Ref]time.Time{}
	for _, source := range sources {
		asks, err := r.readAsked(source)
		if err != nil {
			return res, err
		}
		acks, err := journal.ReadFile(r.acksFile(source), journal.ReadAcks)
		if err != nil {
			return res, err
		}
		acked := map[check.Ref]time.Time{} // first: keys are sent again
		for _, a := range acks {
			if at, ok := acked[a.Ref]; a.ID != "" && (!ok || a.At.Before(at)) {
				acked[a.Ref] = a.At
			}
		}
		for _, a := range asks {
			due[a.Ref] = latest(a.At, acked[a.Ref])
		}
	}
	first := map[check.Ref]time.Time{}
	for i := range seen {
		if at, ok := first[seen[i].Ref]; !ok || seen[i].At.Before(at) {
			first[seen[i].Ref] = seen[i].At
		}
	}
	warm, fault := r.report.FirstDue.Add(regionsWarm), r.report.FirstDue.Add(regionsFault)
	var before, after []time.Duration
	for ref, at := range first {
		switch d := due[ref]; {
		case d.Before(warm):
		case d.Before(fault):
			before = append(before, max(0, at.Sub(d)))
		default:
			after = append(after, max(0, at.Sub(d)))
		}
	}
	return HomeResult{name, check.SumLateness(before), check.SumLateness(after)}, nil
}

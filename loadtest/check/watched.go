package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Watched is one look at the state of a run while others ran.
type Watched struct {
	Run   string    `json:"run"`
	State State     `json:"state"`
	At    time.Time `json:"at"`
	// Due is the due time of the run, and Waits what it waits for, by the API: a word, and what it
	// means. Zero and "" = it was not noted, or waits for nothing.
	Due   time.Time `json:"due,omitzero"`
	Waits string    `json:"waits,omitempty"`
}

// ended judges the states of a run in the order of reading, the two readings last. A run that has
// ended stays so, except that failed, missed or cancelled may become succeeded under at_least_once
// (DESIGN section 4).
func (p policy) ended(seen []Watched) (reason string) {
	for i := 1; i < len(seen); i++ {
		was, is := seen[i-1], seen[i]
		late := is.State == Succeeded && p.guarantee == AtLeastOnce
		if was.State.Terminal() && was.State != is.State && !late {
			return fmt.Sprintf("was %s at %s and %s at %s", was.State, stamp(was.At), is.State, stamp(is.At))
		}
	}
	return ""
}

// watch judges all states that were read of a run.
func (j *judge) watch(r *run) {
	if len(r.watched) == 0 {
		return
	}
	seen := slices.Clone(r.watched)
	slices.SortStableFunc(seen, func(a, b Watched) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	j.rep.Watched++
	var reads []Watched
	for _, reading := range r.found() {
		reads = append(reads, Watched{Run: r.id, State: reading.Run.State, At: reading.At})
	}
	p := policyOf(r.asked())
	reason := p.ended(seen)
	for _, read := range reads { // looks go on beside the readings
		i, _ := slices.BinarySearchFunc(seen, read.At, func(w Watched, at time.Time) int { return w.At.Compare(at) })
		if reason == "" && i > 0 {
			reason = p.ended([]Watched{seen[i-1], read})
		}
	}
	if reason != "" {
		j.rep.Reversed++
		j.fault(FaultReversed, r, "%s", reason)
	}
}

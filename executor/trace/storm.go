package trace

import (
	"sync/atomic"
	"time"

	"carillon.dev/carillon/schema"
)

// oddRuns is how many runs a second are sent whatever the ratio, about. Twice as many verdicts are
// asked for: one of an attempt and one of its run.
const oddRuns, oddVerdicts = 100, 2 * oddRuns

// A Storm bounds what is sent besides the sampled runs. After an outage every run is late: to send
// all of them would cost as much as to sample all, just when there is most to do.
//
// Of the verdicts of one second
//
//	ratio = oddVerdicts / max(those asked for so far, those of the second before, oddVerdicts)
//
// are positive, by the id of the run as in [Sampler.Samples]. So a run is sent as a whole, unless
// the ratio passed it meanwhile; and of two nodes the one with the lower ratio sends no run that
// the other does not.
//
// The nil Storm sends all. A Storm is safe for concurrent use.
type Storm struct {
	// Spared is called for each verdict that is negative; nil: nothing is.
	Spared func()

	second        atomic.Int64 // unix time of the verdicts of now
	asked, asked1 atomic.Int64 // verdicts of this second and of the one before
}

// sends reports whether what is odd about the run that e starts is sent.
func (s *Storm) sends(e *schema.Entry) bool {
	if s == nil {
		return true
	}
	now := time.Now().Unix()
	if was := s.second.Load(); was != now && s.second.CompareAndSwap(was, now) {
		asked := s.asked.Swap(0)
		if now != was+1 {
			asked = 0 // nobody asked in the second before
		}
		s.asked1.Store(asked)
	}
	asked := max(s.asked.Add(1), s.asked1.Load(), oddVerdicts)
	if (Sampler{odds: (1 << randomBits) / uint64(asked) * oddVerdicts}).SamplesRun(e) || asked == oddVerdicts {
		return true
	}
	if s.Spared != nil {
		s.Spared()
	}
	return false
}

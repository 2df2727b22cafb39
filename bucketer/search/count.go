package search

import (
	"context"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// SoonSpan how far ahead a run is due soon.
const SoonSpan = 5 * time.Minute

// Phase says where a run is on its way.
type Phase string

// The phases, each run in one of them.
const (
	Ready   Phase = "ready"    // due, and not started
	DueSoon Phase = "due_soon" // due within SoonSpan
	Delayed Phase = "delayed"  // due later, or it waits for a later attempt or for other jobs
	Running Phase = "running"
	Done    Phase = "done" // it has ended, however
)

// Counts are numbers of runs.
type Counts struct {
	Phases map[Phase]int64        // those that have runs
	States map[schema.State]int64 // as they are shown (runs.Run.Shown)
	Waits  map[string]int64       // those that may not start yet, by what they wait for (runs.Run.WaitsFor)
}

// CountRuns counts runs that q selects, from pos on: each of those that this answer looked at. It
// returns how far it came, and where to go on; nil: all were counted. The sums over all answers are
// the numbers of the window, each run in the state that it had when it was counted.
func (s *Searcher) CountRuns(ctx context.Context, q *Query, pos Position) (Counts, Searched, *Position, error) {
	a := s.answer(q, maxCounted)
	now := s.core.Now()
	c := Counts{Phases: make(map[Phase]int64), States: make(map[schema.State]int64), Waits: make(map[string]int64)}
	a.take = func(page []runs.Run) {
		for i := range page {
			c.Phases[phaseOf(&page[i], now)]++
			c.States[page[i].Shown()]++
			if what := page[i].WaitsFor(now); what != "" {
				c.Waits[what]++
			}
		}
	}
	next, err := a.walk(ctx, pos)
	if err != nil {
		return Counts{}, Searched{}, nil, err
	}
	return c, a.searched, next, nil
}

// phaseOf returns the phase of a run at now.
func phaseOf(r *runs.Run, now time.Time) Phase {
	switch shown := r.Shown(); {
	case r.State.Terminal():
		return Done
	case r.State == schema.StateRunning:
		return Running
	case r.State == schema.StateRetrying, shown == schema.StateWaiting, shown == schema.StateStuck:
		return Delayed
	}
	switch ahead := r.Due().Sub(now); {
	case ahead <= 0:
		return Ready
	case ahead <= SoonSpan:
		return DueSoon
	}
	return Delayed
}

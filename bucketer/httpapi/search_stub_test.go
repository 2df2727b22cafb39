package httpapi

import (
	"context"
	"slices"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/bucketer/search"
	"carillon.dev/carillon/schema"
)

// SearchRuns finds runs in the order of their ids, from the last one on unless the oldest come
// first. Where it goes on is a number of runs.
func (s *stub) SearchRuns(_ context.Context, q *search.Query, pos search.Position, limit int) ([]runs.Run, search.Searched, *search.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	searched := search.Searched{By: search.ByScan, Until: q.From}
	if s.err != nil {
		return nil, searched, nil, s.err
	}
	ids := slices.Clone(s.order)
	slices.SortFunc(ids, schema.EntryID.Compare)
	if !q.Oldest {
		slices.Reverse(ids)
	}
	var out []runs.Run
	for n := int(pos.Minute); n < len(ids); n++ {
		r := s.runs[ids[n]]
		if len(out) == limit {
			searched.Until = r.Due()
			return out, searched, &search.Position{Minute: schema.Bucket(n)}, nil
		}
		s.mu.Unlock() // a filter may read tasks
		holds := q.Holds(r, testNow)
		s.mu.Lock()
		if holds {
			out = append(out, *r)
		}
	}
	return out, searched, nil, nil
}

// CountRuns counts two runs at a time.
func (s *stub) CountRuns(ctx context.Context, q *search.Query, pos search.Position) (search.Counts, search.Searched, *search.Position, error) {
	page, searched, next, err := s.SearchRuns(ctx, q, pos, 2)
	c := search.Counts{Phases: map[search.Phase]int64{}, States: map[schema.State]int64{}, Waits: map[string]int64{}}
	for i := range page {
		c.Phases[search.Done]++
		c.States[page[i].Shown()]++
		if what := page[i].WaitsFor(testNow); what != "" {
			c.Waits[what]++
		}
	}
	return c, searched, next, err
}

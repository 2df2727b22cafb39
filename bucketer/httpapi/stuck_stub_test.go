package httpapi

import (
	"context"
	"slices"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// Stuck returns the runs of the stub that wait for other jobs, by their ids.
func (s *stub) Stuck(_ context.Context, tenant string, after schema.RunID, limit int) ([]runs.Run, schema.RunID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []runs.Run
	for _, r := range s.runs {
		if r.Entry.Spec.Tenant == tenant && r.Entry.Spec.Kind == schema.KindJoin && r.ID.Compare(after) > 0 {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b runs.Run) int { return a.ID.Compare(b.ID) })
	if len(list) > limit {
		return list[:limit], list[limit-1].ID, s.err
	}
	return list, schema.RunID{}, s.err
}

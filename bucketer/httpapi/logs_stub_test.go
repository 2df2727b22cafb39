package httpapi

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer/logs"
	"carillon.dev/carillon/schema"
)

// SearchLogs finds one line of every run of the tenant. Where it goes on is a number of runs.
func (s *stub) SearchLogs(_ context.Context, q *logs.Query, pos logs.Position, limit int) (logs.Page, *logs.Position, error) {
	page, n, err := s.findLines(q, int(pos.Minute), limit)
	if err != nil || n == 0 {
		return page, nil, err
	}
	return page, &logs.Position{Minute: schema.Bucket(n)}, nil
}

// FollowLogs finds the same, and goes on for ever unless it is one run.
func (s *stub) FollowLogs(_ context.Context, q *logs.Query, pos logs.FollowPosition, limit int) (logs.Page, *logs.FollowPosition, error) {
	page, n, err := s.findLines(q, int(pos.Seen.Sub(q.From)), limit)
	if err != nil || n == 0 && !q.Run.IsZero() {
		return page, nil, err
	}
	page.Looked.Behind = n > 0
	return page, &logs.FollowPosition{Seen: q.From.Add(time.Duration(n))}, nil
}

func (s *stub) findLines(q *logs.Query, from, limit int) (page logs.Page, next int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return page, 0, s.err
	}
	if r := s.runs[q.Run]; !q.Run.IsZero() && (r == nil || r.Entry.Spec.Tenant != q.Tenant) {
		return page, 0, schema.ErrNotFound
	}
	if j, known := s.jobs.byID[q.Job]; !q.Job.IsZero() && (!known || j.Current.Spec.Tenant != q.Tenant) {
		return page, 0, schema.ErrNotFound
	}
	ids := slices.Clone(s.order)
	for n := from; n < len(ids); n++ {
		r := s.runs[ids[n]]
		if r.Entry.Spec.Tenant != q.Tenant || !q.Run.IsZero() && q.Run != r.ID {
			continue
		}
		if page.Looked.Runs == limit {
			return page, n, nil
		}
		page.Looked.Runs++
		copied := *r
		page.Items = append(page.Items, logs.Item{Run: &copied, Kind: logs.LineKind, Attempt: 1, At: testNow, Text: "a line"})
	}
	page.Looked.Reached = q.From
	return page, 0, nil
}

package deadletters

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// source is a partition that is read from the newest row on, some rows at a time.
type source struct {
	at    Partition
	rows  []Row        // that were read and not taken
	last  schema.RunID // the last that was read; zero: none was
	ended bool         // there are none after it
}

// read reads the next n rows.
func (s *source) read(ctx context.Context, t Table, n int, whole bool) error {
	rows, err := t.Newest(ctx, s.at, s.last, n, whole)
	if err != nil {
		return err
	}
	s.ended = len(rows) < n
	if k := len(rows); k > 0 && isMark(rows[k-1]) { // its id is the lowest
		rows, s.ended = rows[:k-1], true
	}
	if s.rows = rows; len(rows) > 0 {
		s.last = rows[len(rows)-1].Run
	}
	return nil
}

// newest returns the letters of a day before `before`, newest first, at most limit of them. Rows of
// one run are merged, and those without a letter left out.
func (s *Store) newest(ctx context.Context, at schema.TenantDay, before schema.RunID, limit int, whole bool) ([]Row, error) {
	if limit <= 0 {
		return nil, nil
	}
	first := &source{at: firstOf(at), last: before}
	var spread bool
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error { return first.read(both, s.table, limit, whole) })
	g.Go(func() (err error) {
		spread, err = s.marked(both, at)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	sources, some := []*source{first}, limit
	if spread {
		some = min(limit, 8+2*limit/Parts) // parts have about as many each
		for i := range Parts {
			sources = append(sources, &source{at: part(at, i), last: before})
		}
	}
	return merge(ctx, s.table, sources, some, limit, whole)
}

// merge takes the newest rows of all sources until it has limit letters. It reads so many rows of a
// source at a time.
func merge(ctx context.Context, t Table, sources []*source, some, limit int, whole bool) ([]Row, error) {
	var out []Row
	for len(out) < limit {
		if err := refill(ctx, t, sources, some, whole); err != nil {
			return nil, err
		}
		var newest Row
		found := false
		for _, src := range sources {
			if len(src.rows) > 0 && (!found || src.rows[0].Run.Compare(newest.Run) > 0) {
				newest, found = src.rows[0], true
			}
		}
		if !found {
			break
		}
		merged := Row{Run: newest.Run}
		for _, src := range sources {
			if len(src.rows) > 0 && src.rows[0].Run == newest.Run {
				merged.add(&src.rows[0])
				src.rows = src.rows[1:]
			}
		}
		if merged.Written != 0 {
			out = append(out, merged)
		}
	}
	return out, nil
}

// refill reads on wherever everything that was read is taken.
func refill(ctx context.Context, t Table, sources []*source, some int, whole bool) error {
	empty := func(src *source) bool { return len(src.rows) == 0 && !src.ended }
	if !slices.ContainsFunc(sources, empty) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readsAtOnce)
	for _, src := range sources {
		if empty(src) {
			g.Go(func() error { return src.read(ctx, t, some, whole) })
		}
	}
	return g.Wait()
}

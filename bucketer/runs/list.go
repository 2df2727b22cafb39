package runs

import (
	"context"
	"slices"

	"carillon.dev/carillon/schema"
)

const (
	// A page of runs ends after about pageReads reads (of entries and of attempts) or pageRows
	// rows.
	pageReads = 500
	pageRows  = 100_000
	// walkRows is how many rows of a listing are looked at together at least.
	walkRows = 128
)

// Runs returns the tenant's runs in w, in order of due time, at most limit of them, from pos on. A
// page reads a bounded number of rows. So it may hold fewer than limit, even none, and still name
// the next position. A moved run stands at its new time.
func (r *Reader) Runs(ctx context.Context, w Window, pos Position, limit int) ([]Run, *Position, error) {
	s, err := r.core.ShardsEver()
	if err != nil {
		return nil, nil, err
	}
	m := merge{store: r.store, window: w, shards: s, after: pos.After, page: max(min(limit, pageRows/s), 16)}
	var runs []Run
	for len(runs) < limit {
		rows, err := m.next(ctx, max(limit-len(runs), walkRows))
		if err != nil {
			return nil, nil, err
		}
		own, err := r.firstRows(ctx, w, rows)
		if err != nil {
			return nil, nil, err
		}
		room := limit - len(runs)
		cut := false
		if w.State == "" && len(own) > room {
			own, cut = own[:room], true // before their attempts are read
		}
		m.reads += partitions(own)
		some, err := r.Fold(ctx, own)
		if err != nil {
			return nil, nil, err
		}
		if w.State != "" {
			some = slices.DeleteFunc(some, func(r Run) bool { return r.State != w.State })
		}
		if len(some) > room {
			some, cut = some[:room], true
		}
		runs = append(runs, some...)
		switch {
		case cut:
			return runs, &Position{After: runs[len(runs)-1].place()}, nil
		case m.done:
			return runs, nil, nil
		case m.reads >= pageReads || m.rows >= pageRows:
			return runs, &Position{After: m.after}, nil
		}
	}
	return runs, &Position{After: m.after}, nil
}

// Entries returns the entries of the tenant in w that keep takes, in order of due time, at most limit
// of them, from pos on. About the size of a page see Runs. State and task of w mean nothing here.
func (r *Reader) Entries(ctx context.Context, w Window, pos Position, limit int, keep func(e *schema.Entry) bool) ([]schema.Entry, *Position, error) {
	s, err := r.core.ShardsEver()
	if err != nil {
		return nil, nil, err
	}
	m := merge{store: r.store, window: w, shards: s, after: pos.After, page: max(min(limit, pageRows/s), 16)}
	var kept []schema.Entry
	for {
		rows, err := m.next(ctx, walkRows)
		if err != nil {
			return nil, nil, err
		}
		for i := range rows {
			if e := &rows[i]; e.Spec.Tenant != w.Tenant || !keep(e) {
				continue
			}
			if kept = append(kept, rows[i]); len(kept) == limit {
				return kept, &Position{After: rows[i].ID}, nil
			}
		}
		switch {
		case m.done:
			return kept, nil, nil
		case m.reads >= pageReads || m.rows >= pageRows:
			return kept, &Position{After: m.after}, nil
		}
	}
}

// place returns the id of the entry at which the run is listed: the one that starts it.
func (r *Run) place() schema.EntryID {
	if to := r.Entry.Marks.MovedTo; !to.IsZero() {
		return to
	}
	return r.ID
}

// partitions counts the partitions of the entries.
func partitions(entries []schema.Entry) int {
	seen := make(map[schema.Partition]struct{})
	for i := range entries {
		seen[entries[i].ID.Partition()] = struct{}{}
	}
	return len(seen)
}

// firstRows returns the first rows of the runs that are listed at rows, in the order of rows.
func (r *Reader) firstRows(ctx context.Context, w Window, rows []schema.Entry) ([]schema.Entry, error) {
	var births []schema.RunID // of runs that were moved here
	for i := range rows {
		if e := &rows[i]; e.Spec.Tenant == w.Tenant && e.Spec.Kind == schema.KindReschedule {
			births = append(births, e.Run())
		}
	}
	born, err := r.core.Stored(ctx, births)
	if err != nil {
		return nil, err
	}
	var own []schema.Entry
	for i := range rows {
		e := rows[i]
		if e.Spec.Tenant != w.Tenant || w.Task != "" && e.Spec.Task != w.Task {
			continue
		}
		switch {
		case isFirst(&e):
			if e.Marks.MovedTo.IsZero() {
				own = append(own, e)
			}
		case e.Spec.Kind == schema.KindReschedule:
			if birth, ok := born[e.Run()]; ok && birth.Marks.MovedTo == e.ID {
				own = append(own, birth)
			}
		}
	}
	return own, nil
}

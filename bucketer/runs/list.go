package runs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/schema"
)

const (
	// A page of runs ends after about pageReads reads (of entries and of attempts) or pageRows
	// rows.
	pageReads = 500
	pageRows  = 100_000
	// walkRows is how many rows of a listing are looked at together at least. While a filter leaves
	// the page unfilled, they become twice as many each time, up to walkMost.
	walkRows = 128
	walkMost = 2048
	// readAhead is how many rows of a shard a filtered listing reads at a time.
	readAhead = 128
)

// Runs returns the tenant's runs in w, in order of due time, at most limit of them, from pos on. A
// page reads a bounded number of rows. So it may hold fewer than limit, even none, and still name
// the next position. A moved run stands at its new time.
func (r *Reader) Runs(ctx context.Context, w Window, pos Position, limit int) ([]Run, *Position, error) {
	s, err := r.core.ShardsEver()
	if err != nil {
		return nil, nil, err
	}
	now := r.now()
	if last := now.Add(schema.MaxClockDifference); w.AsksDue() && w.To.After(last) {
		w.To = last // what is due later is not late, and has not failed
	}
	if !w.To.After(w.From) {
		return nil, nil, nil
	}
	filters := w.asksAttempts()
	m := merge{store: r.store, window: w, shards: s, after: pos.After, page: max(min(limit, pageRows/s), 16)}
	if !w.isAny() {
		m.page = max(m.page, min(readAhead, pageRows/s))
	}
	var runs []Run
	for walk := walkRows; len(runs) < limit; {
		rows, err := m.next(ctx, max(limit-len(runs), walk))
		if err != nil {
			return nil, nil, err
		}
		own, err := r.firstRows(ctx, w, rows)
		if err != nil {
			return nil, nil, err
		}
		room := limit - len(runs)
		cut := false
		if !filters && len(own) > room {
			own, cut = own[:room], true // before their attempts are read
		}
		m.reads += partitions(own)
		some, reads, err := r.matching(ctx, &w.Filter, own, now)
		if err != nil {
			return nil, nil, err
		}
		m.reads += reads
		if len(some) > room {
			some, cut = some[:room], true
		}
		runs = append(runs, some...)
		switch {
		case cut:
			return runs, &Position{After: runs[len(runs)-1].Place()}, nil
		case m.done:
			return runs, nil, nil
		case m.reads >= pageReads || m.rows >= pageRows:
			return runs, &Position{After: m.after}, nil
		}
		if filters {
			walk = min(2*walk, walkMost)
		}
	}
	return runs, &Position{After: m.after}, nil
}

// matching makes runs of their first rows, and returns those that match, and about how many reads it
// took to know which wait.
func (r *Reader) matching(ctx context.Context, f *Filter, rows []schema.Entry, now time.Time) ([]Run, int, error) {
	runs, err := r.Fold(ctx, rows)
	if err != nil {
		return nil, 0, err
	}
	matches := func() {
		if f.asksAttempts() {
			runs = slices.DeleteFunc(runs, func(r Run) bool { return !f.Matches(&r, now) })
		}
	}
	for i := range runs { // what does not match even if it waits need not be asked about
		runs[i].Waits = runs[i].mayWait()
	}
	matches()
	reads, err := r.NoteWaits(ctx, runs)
	if err != nil {
		return nil, 0, err
	}
	matches()
	return runs, reads, nil
}

// NoteWaits notes which of the workflow runs among these are under way with nothing but waits, and
// returns about how many reads that took.
func (r *Reader) NoteWaits(ctx context.Context, runs []Run) (reads int, err error) {
	var open []*Run
	for i := range runs {
		runs[i].Waits = false
		if runs[i].mayWait() {
			open = append(open, &runs[i])
		}
	}
	if len(open) == 0 || r.workflows.waits == nil {
		return 0, nil
	}
	if reads, err = r.workflows.waits(ctx, open); err != nil {
		return reads, fmt.Errorf("which workflow runs wait: %w", err)
	}
	return reads, nil
}

// RunByKey returns the run that an idempotency key of the tenant stands for, as lists show it, or
// schema.ErrNotFound. About the instant see bucketer.KeyedRun.
func (r *Reader) RunByKey(ctx context.Context, tenant, key string, at time.Time) (Run, error) {
	id, err := r.core.KeyedRun(ctx, tenant, key, at)
	if err != nil {
		return Run{}, err
	}
	run, err := r.Run(ctx, tenant, id)
	if err != nil {
		return Run{}, err
	}
	list := []Run{run}
	_, err = r.NoteWaits(ctx, list)
	return list[0], err
}

// Entries returns the entries of the tenant in w that keep takes, in order of due time, at most limit
// of them, from pos on. About the size of a page see Runs. The filter of w means nothing here.
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

// Place returns the id of the entry at which the run is listed: the one that starts it.
func (r *Run) Place() schema.EntryID {
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
		if e.Spec.Tenant != w.Tenant {
			continue
		}
		switch {
		case isFirst(&e):
			if e.Marks.MovedTo.IsZero() && w.MayMatch(&e, &e) {
				own = append(own, e)
			}
		case e.Spec.Kind == schema.KindReschedule:
			if birth, ok := born[e.Run()]; ok && birth.Marks.MovedTo == e.ID && w.MayMatch(&e, &birth) {
				own = append(own, birth)
			}
		}
	}
	return own, nil
}

package bucketer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// Run returns a run of the tenant, or schema.ErrNotFound.
func (b *Bucketer) Run(ctx context.Context, tenant string, id schema.RunID) (Run, error) {
	rows, err := b.store.EntriesByID(ctx, id.Partition(), []schema.EntryID{id})
	if err != nil {
		return Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	if len(rows) == 0 || rows[0].Spec.Tenant != tenant || rows[0].Spec.Kind != schema.KindRun {
		return Run{}, fmt.Errorf("run %s: %w", id, schema.ErrNotFound)
	}
	runs, err := b.Fold(ctx, rows)
	if err != nil {
		return Run{}, err
	}
	run := &runs[0]
	if run.State == schema.StateRunning {
		if run.Progress, err = b.progress(ctx, run); err != nil {
			return Run{}, err
		}
	}
	return *run, nil
}

// Fold makes runs of their rows: reads the entries they were moved to, their attempts and sessions.
func (b *Bucketer) Fold(ctx context.Context, rows []schema.Entry) ([]Run, error) {
	runs := make([]Run, len(rows))
	var moved []schema.EntryID
	for i, row := range rows {
		runs[i] = Run{ID: row.ID, Entry: row, Current: row}
		if to := row.Marks.MovedTo; !to.IsZero() {
			moved = append(moved, to)
		}
	}
	current, err := b.Stored(ctx, moved)
	if err != nil {
		return nil, err
	}
	attempts, err := b.AttemptsOf(ctx, IDsOf(rows))
	if err != nil {
		return nil, err
	}
	for i := range runs {
		r := &runs[i]
		if e, ok := current[r.Entry.Marks.MovedTo]; ok {
			r.Current = e
		}
		r.Attempts = attempts[r.ID]
		live, err := b.live.Of(ctx, r.Attempts)
		if err != nil {
			return nil, err
		}
		r.State = schema.Fold(r.Entry.Marks, r.Attempts, live)
	}
	return runs, nil
}

// Stored reads entries of many partitions by id. One that does not exist is absent; if a partition could not be read, nothing is known of any.
func (b *Bucketer) Stored(ctx context.Context, ids []schema.EntryID) (map[schema.EntryID]schema.Entry, error) {
	found, failed := b.rows(ctx, byPartition(ids, itself))
	for p, err := range failed {
		return nil, fmt.Errorf("entries in %s: %w", p, err)
	}
	return found, nil
}

func IDsOf(rows []schema.Entry) []schema.EntryID {
	ids := make([]schema.EntryID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// byPartition groups things by the partition of their id. Those of one partition keep their order.
func byPartition[T any](all []T, id func(T) schema.EntryID) map[schema.Partition][]T {
	lists := make(map[schema.Partition][]T)
	for _, one := range all {
		p := id(one).Partition()
		lists[p] = append(lists[p], one)
	}
	return lists
}

// itself is the id of an id, for byPartition.
func itself(id schema.EntryID) schema.EntryID { return id }

// AttemptsOf reads the attempts of runs of many partitions, several at a time.
func (b *Bucketer) AttemptsOf(ctx context.Context, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error) {
	var mu sync.Mutex
	all := make(map[schema.RunID][]schema.Attempt)
	var g errgroup.Group
	g.SetLimit(mergeReads)
	for p, ids := range byPartition(runs, itself) {
		g.Go(func() error {
			some, err := b.Attempts(ctx, p, ids)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, some)
			return err
		})
	}
	return all, g.Wait()
}

// Payload returns the payload of the entry that starts the run; nil = none.
func (b *Bucketer) Payload(ctx context.Context, run Run) ([]byte, error) {
	return b.EntryPayload(ctx, &run.Current)
}

// EntryPayload returns the payload of an entry, wherever it lies; nil = none.
func (b *Bucketer) EntryPayload(ctx context.Context, e *schema.Entry) ([]byte, error) {
	at, large := e.LargePayload()
	if !large || len(e.Payload) > schema.InlinePayload {
		return e.Payload, nil
	}
	payload, err := b.store.Payload(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("payload of %s: %w", e.ID, err)
	}
	return payload, nil
}

const (
	// A page of runs reads about pageReads slices (of entries and of attempts) or pageRows rows, and then ends.
	pageReads = 500
	pageRows  = 100_000
	// walkRows is how many rows of a listing are looked at together, at least.
	walkRows = 128
)

// Runs returns the tenant's runs in w, in order of due time, at most limit of them, from pos on. A page
// walks a bounded number of rows, so it may hold fewer than limit, even none, and still name the next position.
// A run that was moved stands at its new time.
func (b *Bucketer) Runs(ctx context.Context, w Window, pos Position, limit int) ([]Run, *Position, error) {
	s, err := b.shards()
	if err != nil {
		return nil, nil, err
	}
	m := merge{b: b, window: w, shards: s, after: pos.After, page: max(min(limit, pageRows/s), 16)}
	var runs []Run
	for len(runs) < limit {
		rows, err := m.next(ctx, max(limit-len(runs), walkRows))
		if err != nil {
			return nil, nil, err
		}
		own, err := b.standing(ctx, w, rows)
		if err != nil {
			return nil, nil, err
		}
		room := limit - len(runs)
		cut := false
		if w.State == "" && len(own) > room {
			own, cut = own[:room], true // before their attempts are read
		}
		m.reads += partitions(own)
		some, err := b.Fold(ctx, own)
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

// place returns the id of the row at which the run is listed: the one that starts it.
func (r *Run) place() schema.EntryID {
	if to := r.Entry.Marks.MovedTo; !to.IsZero() {
		return to
	}
	return r.ID
}

// partitions counts the partitions in which the entries lie.
func partitions(entries []schema.Entry) int {
	seen := make(map[schema.Partition]struct{})
	for i := range entries {
		seen[entries[i].ID.Partition()] = struct{}{}
	}
	return len(seen)
}

// shards returns the highest number of shards that ids may have been given.
func (b *Bucketer) shards() (int, error) {
	s := b.settings.Load()
	if s == nil {
		return 0, ErrNotReady
	}
	n := s.Shards
	for _, h := range s.History {
		n = max(n, h.Shards)
	}
	return n, nil
}

// standing keeps the rows that stand for a run of the window, and returns the rows with which those runs were born, in
// the order of rows.
func (b *Bucketer) standing(ctx context.Context, w Window, rows []schema.Entry) ([]schema.Entry, error) {
	var births []schema.RunID // of runs that were moved here
	for i := range rows {
		if e := &rows[i]; e.Spec.Tenant == w.Tenant && e.Spec.Kind == schema.KindReschedule {
			births = append(births, e.Run())
		}
	}
	born, err := b.Stored(ctx, births)
	if err != nil {
		return nil, err
	}
	var own []schema.Entry
	for i := range rows {
		e := rows[i]
		if e.Spec.Tenant != w.Tenant || w.Task != "" && e.Spec.Task != w.Task {
			continue
		}
		switch e.Spec.Kind {
		case schema.KindRun:
			if e.Marks.MovedTo.IsZero() {
				own = append(own, e)
			}
		case schema.KindReschedule:
			if birth, ok := born[e.Run()]; ok && birth.Marks.MovedTo == e.ID {
				own = append(own, birth)
			}
		}
	}
	return own, nil
}

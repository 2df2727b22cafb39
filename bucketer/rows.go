package bucketer

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

// lookupsAtOnce bounds the partitions whose attempts are read at once.
const lookupsAtOnce = 16

// Rows reads entries and attempts by id, of many partitions at once.
type Rows struct {
	store Store
	calls chan struct{} // a token for each call in flight, shared with the Writer
}

// Stored reads entries of many partitions by id. One that does not exist is absent. After an error
// nothing is known of any.
func (r *Rows) Stored(ctx context.Context, ids []schema.EntryID) (map[schema.EntryID]schema.Entry, error) {
	found, failed := r.find(ctx, ByPartition(ids, itself))
	for p, err := range failed {
		return nil, fmt.Errorf("entries in %s: %w", p, err)
	}
	return found, nil
}

// find reads entries by id. Partitions that could not be read are in failed.
func (r *Rows) find(ctx context.Context, ids map[schema.Partition][]schema.EntryID) (map[schema.EntryID]schema.Entry, map[schema.Partition]error) {
	var mu sync.Mutex
	found := make(map[schema.EntryID]schema.Entry)
	failed := make(map[schema.Partition]error)
	var wg sync.WaitGroup
	for p, list := range ids {
		for len(list) > 0 {
			part := list[:min(len(list), ReadIDs)]
			list = list[len(part):]
			r.calls <- struct{}{}
			wg.Go(func() {
				defer func() { <-r.calls }()
				entries, err := r.store.EntriesByID(ctx, p, part)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed[p] = err
					return
				}
				for _, e := range entries {
					found[e.ID] = e
				}
			})
		}
	}
	wg.Wait()
	return found, failed
}

// HaveAttempts tells which of the entries' runs have attempts.
func (r *Rows) HaveAttempts(ctx context.Context, entries []schema.Entry) (map[schema.RunID]bool, error) {
	runs := make([]schema.RunID, len(entries))
	for i := range entries {
		runs[i] = entries[i].Run()
	}
	attempts, err := r.AttemptsOf(ctx, runs)
	if err != nil {
		return nil, err
	}
	touched := make(map[schema.RunID]bool, len(attempts))
	for run := range attempts {
		touched[run] = true
	}
	return touched, nil
}

// AttemptsOf reads the attempts of runs of many partitions, several at a time.
func (r *Rows) AttemptsOf(ctx context.Context, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error) {
	var mu sync.Mutex
	all := make(map[schema.RunID][]schema.Attempt)
	var g errgroup.Group
	g.SetLimit(lookupsAtOnce)
	for p, ids := range ByPartition(runs, itself) {
		g.Go(func() error {
			some, err := r.Attempts(ctx, p, ids)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, some)
			return err
		})
	}
	return all, g.Wait()
}

// Attempts reads the attempts of any number of runs of one partition.
func (r *Rows) Attempts(ctx context.Context, p schema.Partition, runs []schema.RunID) (map[schema.RunID][]schema.Attempt, error) {
	byRun := make(map[schema.RunID][]schema.Attempt)
	for len(runs) > 0 {
		part := runs[:min(len(runs), ReadIDs)]
		runs = runs[len(part):]
		attempts, err := r.store.Attempts(ctx, p, part)
		if err != nil {
			return nil, fmt.Errorf("attempts in %s: %w", p, err)
		}
		for _, a := range attempts {
			byRun[a.Run] = append(byRun[a.Run], a)
		}
	}
	return byRun, nil
}

// IDsOf returns the ids of rows.
func IDsOf(rows []schema.Entry) []schema.EntryID {
	ids := make([]schema.EntryID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// ByPartition groups things by the partition of their id. Those of one partition keep their order.
func ByPartition[T any](all []T, id func(T) schema.EntryID) map[schema.Partition][]T {
	lists := make(map[schema.Partition][]T)
	for _, one := range all {
		p := id(one).Partition()
		lists[p] = append(lists[p], one)
	}
	return lists
}

// itself is the id of an id, for ByPartition.
func itself(id schema.EntryID) schema.EntryID { return id }

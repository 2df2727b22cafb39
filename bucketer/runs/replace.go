package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// Replace writes the entries `to`, each instead of the one of `from` with the same index, and then
// says so in an attempt 0 of each run. Both go in batches by partition. What a later entry needs is
// kept before it is written. Replace returns the ids of those of `from` that were replaced, and
// what went wrong with the others.
//
// If we crash in between, the entry is still open, and is replaced again by the same entry.
func (r *Recorder) Replace(ctx context.Context, from, to []schema.Entry) ([]schema.EntryID, error) {
	return r.DeferTo(ctx, from, to, "")
}

// DeferTo is Replace for deferrals, which names their cause.
func (r *Recorder) DeferTo(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error) {
	var ready, slow []int
	for i := range to {
		if r.core.NeedsKeeping(&to[i], from[i].Due(), to[i].Due()) {
			slow = append(slow, i)
		} else {
			ready = append(ready, i)
		}
	}
	if len(slow) == 0 {
		return r.replaceKept(ctx, from, to, cause)
	}
	replaced, err := r.replaceKept(ctx, bucketer.Pick(from, ready), bucketer.Pick(to, ready), cause)
	errs := []error{err}
	for part := range slices.Chunk(slow, bucketer.KeepAtOnce) {
		faults := make([]error, len(part))
		var wg sync.WaitGroup
		for k, i := range part {
			wg.Go(func() { faults[k] = r.core.KeepFor(ctx, from[i].Due(), &to[i]) })
		}
		wg.Wait()
		var kept []int
		for k, i := range part {
			if faults[k] != nil {
				errs = append(errs, fmt.Errorf("replace %s by %s: %w", from[i].ID, to[i].ID, faults[k]))
				continue
			}
			kept = append(kept, i)
		}
		ids, err := r.replaceKept(ctx, bucketer.Pick(from, kept), bucketer.Pick(to, kept), cause)
		replaced, errs = append(replaced, ids...), append(errs, err)
	}
	return replaced, errors.Join(errs...)
}

// replaceKept is DeferTo for entries that have kept what they need.
func (r *Recorder) replaceKept(ctx context.Context, from, to []schema.Entry, cause schema.Cause) ([]schema.EntryID, error) {
	var mu sync.Mutex
	var errs []error
	var replaced []schema.EntryID
	var rows []schema.Attempt
	var deferred []schema.Entry
	now := r.now()
	r.core.Write(ctx, to, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, fmt.Errorf("replace %s by %s: %w", from[i].ID, to[i].ID, err))
			return
		}
		replaced = append(replaced, from[i].ID)
		rec := schema.Record{Outcome: schema.Replaced, To: to[i].ID}
		if to[i].Spec.Kind == schema.KindDeferral {
			rec.Reason, rec.Cause = schema.Deferred, cause
			deferred = append(deferred, to[i])
		}
		rows = append(rows, r.NotStarted(from[i], rec, now))
	})
	if err := r.Record(ctx, rows); err != nil {
		return nil, err
	}
	r.core.Waits().Deferred(deferred, cause)
	return replaced, errors.Join(errs...)
}

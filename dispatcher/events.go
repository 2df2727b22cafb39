package dispatcher

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"carillon.dev/carillon/schema"
)

const (
	// eventBatch bounds the events of one step, eventsAtOnce those that are planned at once.
	eventBatch   = 64
	eventsAtOnce = 8
)

// eventPlanner has what events start planned, and runs looked after that wait for other jobs. The entry
// stays open until all of it is done.
type eventPlanner struct {
	*shard
	ids  []schema.EntryID
	busy bool
	next time.Time // nothing is planned before
}

// start plans a batch of events.
func (w *eventPlanner) start(ctx context.Context, now time.Time) {
	if w.busy || len(w.ids) == 0 || now.Before(w.next) {
		return
	}
	n := min(len(w.ids), eventBatch)
	ids := slices.Clone(w.ids[:n])
	w.ids = slices.Delete(w.ids, 0, n)
	w.busy = true
	var found []inspected
	var mu sync.Mutex
	var done []schema.EntryID
	w.work(ctx, func(ctx context.Context) (err error) {
		if found, err = w.inspect.ids(ctx, ids); err != nil {
			found = nil
			return err
		}
		var g errgroup.Group
		g.SetLimit(eventsAtOnce)
		for i := range found {
			m := &found[i]
			g.Go(func() error {
				if !m.standing.Over {
					if err := w.d.writer.PlanEvent(ctx, &m.entry); err != nil {
						return err
					}
				}
				mu.Lock()
				defer mu.Unlock()
				done = append(done, m.entry.ID)
				return nil
			})
		}
		return g.Wait()
	}, func(now time.Time, err error) {
		w.busy = false
		if err != nil {
			w.failed(ctx, "event", err)
			w.next = now.Add(retryStep)
		}
		if found != nil {
			w.settle.vanished(ids, found)
		}
		for _, id := range done {
			w.state.Done(id)
		}
		for _, id := range ids {
			if _, open := w.state.Pending(id); open {
				w.ids = append(w.ids, id)
			}
		}
	})
}

package dispatcher

import (
	"context"
	"time"

	"carillon.dev/carillon/schema"
)

// wakeEvery is how often the wait lists of a shard's limits are looked through. Whoever releases a
// slot wakes the next run itself, unless it crashed.
const wakeEvery = 5 * time.Second

// limits looks through the wait lists of limits for runs that could start.
type limits struct {
	*shard
	woken    schema.LimitKey // how far they are looked through
	busy     bool
	nextWake time.Time
}

// upkeep looks through a page of the shard's wait lists.
func (w *limits) upkeep(ctx context.Context, now time.Time) {
	if w.busy || now.Before(w.nextWake) {
		return
	}
	w.busy = true
	var after schema.LimitKey
	w.work(ctx, func(ctx context.Context) (err error) {
		after, err = w.d.writer.WakeShard(ctx, w.id, w.woken, w.d.live)
		return err
	}, func(now time.Time, err error) {
		w.busy = false
		if err != nil {
			w.failed(ctx, "wake", err)
		}
		if w.woken = after; after == "" || err != nil {
			w.nextWake = now.Add(wakeEvery)
		}
	})
}

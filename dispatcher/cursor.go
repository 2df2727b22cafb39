package dispatcher

import (
	"context"
	"errors"
	"time"

	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/schema"
)

// cursors reads the shard's cursor at the take-over, and moves it.
type cursors struct {
	*shard
	stored schema.Cursor
	known  bool // stored was read
	busy   bool
	next   time.Time // it is not moved before
}

// read finds out how far the shard had come: from there the sweep starts.
func (w *cursors) read(ctx context.Context) {
	var c schema.Cursor
	w.work(ctx, func(ctx context.Context) error {
		stored, err := w.d.store.Cursor(ctx, w.id)
		if err != nil {
			return err
		}
		if taken, new := progress.TakenOver(stored, w.epoch); new {
			w.log.Info("the shard is taken over in another epoch of its home", "epoch", w.epoch, "swept_from", taken.Settled.End())
			if err := w.d.store.AdvanceCursor(ctx, taken); err != nil {
				return err
			}
			stored = taken
		}
		if c = stored; progress.IsAhead(stored, w.d.now()) {
			c = progress.Restored(stored, w.d.now())
			w.d.metrics.ahead.Inc()
			w.log.Error("the cursor lay in the future: it goes back, and what was due since is swept again; for what is older there is \"carillon cursor rewind --since SPAN\"",
				"dispatched", stored.Dispatched.End(), "settled", stored.Settled.End(), "swept_from", c.Settled.End())
			return w.d.store.AdvanceCursor(ctx, c)
		}
		return nil
	}, func(now time.Time, err error) {
		if err != nil {
			w.failed(ctx, "read cursor", err)
			w.retry(ctx, func() { w.read(ctx) })
			return
		}
		w.stored, w.known = c, true
		// Whatever the cursor says, nothing due after now - Grace counts as swept.
		first := min(c.Settled, progress.Sweepable(now)) + 1
		w.sweep.to = first.Start()
		w.late.Start(first)
	})
}

// errReplaced: the shard has a cursor of another epoch than ours, or one that lies in the future.
var errReplaced = errors.New("the cursor is another one than ours")

// upkeep moves dispatched to the last bucket that is swept whole and of which nothing waits for
// publication, and settled to the last one up to which nothing is open, unless late reads lag. If
// somebody replaced the cursor, or moved it into the future, the shard starts anew.
func (w *cursors) upkeep(ctx context.Context, now time.Time) {
	if !w.known || w.busy || now.Before(w.next) {
		return
	}
	w.next = now.Add(sliceSpan)
	to := w.stored
	swept := schema.BucketOf(w.sweep.to) - 1
	to.Dispatched = max(to.Dispatched, w.state.Dispatched(swept))
	to.Settled = max(to.Settled, min(w.state.Settled(swept), w.late.MaySettle()))
	w.d.metrics.settledLag.WithLabelValues(w.label()).Set(now.Sub(to.Settled.End()).Seconds())
	if to == w.stored {
		return
	}
	w.busy = true
	w.work(ctx, func(ctx context.Context) error {
		stored, err := w.d.store.Cursor(ctx, w.id)
		switch {
		case err != nil:
			return err
		case stored.Epoch != to.Epoch, progress.IsAhead(stored, w.d.now()):
			return errReplaced
		}
		return w.d.store.AdvanceCursor(ctx, to)
	}, func(_ time.Time, err error) {
		w.busy = false
		if errors.Is(err, errReplaced) {
			w.log.Info("the cursor is another one than ours: everything is read again")
			w.replaced = true
			return
		}
		if err != nil {
			w.failed(ctx, "advance cursor", err)
			return
		}
		w.stored = to
	})
}

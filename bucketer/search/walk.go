package search

import (
	"context"
	"fmt"
	"time"

	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
)

// walk goes from minute to minute of the window, from pos on, and takes the runs that match. It
// returns where to go on; nil: all was looked at.
func (a *answer) walk(ctx context.Context, pos Position) (*Position, error) {
	shards, err := a.core.ShardsEver()
	if err != nil {
		return nil, fmt.Errorf("search runs: %w", err)
	}
	from, to := a.q.From, a.q.To
	if last := a.core.Now().Add(schema.MaxClockDifference); a.q.AsksDue() && to.After(last) {
		to = last // what is due later has not started
	}
	a.searched = Searched{By: ByScan, Until: to}
	if a.q.Oldest {
		a.searched.Until = from
	}
	if !to.After(from) {
		a.reached(from, to)
		return nil, nil
	}
	first, last, step := schema.BucketOf(to.Add(-1)), schema.BucketOf(from), schema.Bucket(-1)
	if a.q.Oldest {
		first, last, step = last, first, 1
	}
	switch {
	case pos.Minute == 0:
		pos.Minute = first
	case pos.Minute == first:
	case a.q.Oldest:
		a.searched.Until = pos.Minute.Start()
	default:
		a.searched.Until = pos.Minute.End()
	}
	for a.room() > 0 {
		cost := shards
		if pos.After != (runs.Position{}) {
			cost *= furtherCost
		}
		if ok, err := a.affords(ctx, cost); err != nil || !ok {
			return &pos, err
		}
		w := a.q.Window
		w.From, w.To = later(from, pos.Minute.Start()), sooner(to, pos.Minute.End())
		page, next, err := a.runs.Runs(ctx, w, pos.After, min(a.room(), pageRuns))
		if err != nil {
			return nil, fmt.Errorf("search runs: %w", err)
		}
		a.add(page)
		a.moved = true
		if next != nil {
			pos.After = *next
			continue
		}
		a.reached(w.From, w.To)
		if pos.Minute == last {
			return nil, nil
		}
		pos = Position{Minute: pos.Minute + step}
	}
	return &pos, nil
}

// reached notes that all runs were looked at that are due from `from` up to `to`.
func (a *answer) reached(from, to time.Time) {
	if a.searched.Until = from; a.q.Oldest {
		a.searched.Until = to
	}
}

// affords waits until n more partitions may be read, and reports whether the answer may read them:
// the first time it may in any case.
func (a *answer) affords(ctx context.Context, n int) (bool, error) {
	if a.searched.Partitions > 0 && a.searched.Partitions+n > maxPartitions || a.moved && !a.core.Now().Before(a.until) {
		return false, nil
	}
	turn := a.pace.ReserveN(time.Now(), min(n, a.pace.Burst()))
	wait := turn.Delay()
	if a.moved && a.core.Now().Add(wait).After(a.until) {
		turn.Cancel()
		return false, nil
	}
	a.searched.Partitions += n
	if wait == 0 {
		return true, nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		turn.Cancel()
		return false, fmt.Errorf("search runs: %w: %w", schema.ErrUnavailable, ctx.Err())
	case <-t.C:
		return true, nil
	}
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

func sooner(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// latePace is the distance of two steps of a late read: of sweepPage ids, or of inspectBatch rows.
const latePace = 250 * time.Millisecond

// lateReader finds rows that came to lie behind the sweep. Nobody was told that they were accepted,
// but they are there to be seen and must not wait for ever. What it finds open is replaced by a
// watch entry, due within two minutes: so it does not depend on this owner's life.
type lateReader struct {
	*shard
	progress.LateReads
	busy bool
	next time.Time // nothing is read before
}

// upkeep takes the next step of reading buckets again, unless the sweep has not come so far.
func (l *lateReader) upkeep(ctx context.Context, now time.Time) {
	if !l.cursor.known || !l.sweep.recentDone || l.busy || now.Before(l.next) {
		return
	}
	l.next = now.Add(sliceSpan)
	bucket, ok := l.Next(schema.BucketOf(l.sweep.to), now)
	if !ok {
		return
	}
	// After a take-over of many shards that were away for long, all of them have much to read.
	wait := l.d.lateRate.ReserveN(now, 1).DelayFrom(now)
	l.busy, l.next = true, now.Add(max(latePace, wait))
	p := schema.Partition{Bucket: bucket, Shard: l.id}
	if ids := l.ToInspect(inspectBatch); len(ids) > 0 {
		l.inspectRows(ctx, p, ids)
		return
	}
	r := schema.IDRange{After: l.After()}
	var ids []schema.EntryID
	l.work(ctx, func(ctx context.Context) (err error) {
		ids, err = l.d.store.EntryIDs(ctx, p, r, sweepPage)
		return err
	}, func(now time.Time, err error) {
		if l.stepFailed(ctx, err, now) {
			return
		}
		l.Add(ids, len(ids) < sweepPage)
	})
}

// inspectRows inspects ids of a bucket that has changed, or that another owner swept. What nobody
// has begun is watched.
func (l *lateReader) inspectRows(ctx context.Context, p schema.Partition, all []schema.EntryID) {
	ids := slices.DeleteFunc(slices.Clone(all), l.state.Has)
	var found []inspected
	l.work(ctx, func(ctx context.Context) error {
		// Of most there are attempts: their rows need not be read.
		begun, err := l.d.writer.Attempts(ctx, p, ids)
		if err != nil {
			return err
		}
		found, err = l.inspect.ids(ctx, slices.DeleteFunc(ids, func(id schema.EntryID) bool { return len(begun[id]) > 0 }))
		return err
	}, func(now time.Time, err error) {
		if l.stepFailed(ctx, err, now) {
			return
		}
		for i := range found {
			m := &found[i]
			id := m.entry.ID
			spilled := l.state.Flows.Of(&m.entry, shardstate.OnTime).Spilled(id) || l.state.Flows.Of(&m.entry, shardstate.Overdue).Spilled(id)
			if m.standing.Over || m.verdict == bucketer.Dropped || spilled || l.state.Has(id) {
				continue
			}
			l.d.metrics.late.Inc()
			l.log.Warn("a row came to lie behind the sweep: it is started late", "run", m.entry.Run(), "entry", id, "due", m.entry.Due())
			l.state.Watch(&m.entry, now) // it is replaced by a watch entry, or inspected again
		}
		l.Inspected(len(all))
	})
}

// stepFailed ends a step, and has it taken again after a pause if it failed.
func (l *lateReader) stepFailed(ctx context.Context, err error, now time.Time) bool {
	l.busy = false
	if err != nil {
		l.failed(ctx, "late", err)
		l.next = now.Add(retryStep)
	}
	return err != nil
}

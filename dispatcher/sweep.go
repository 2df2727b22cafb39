package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// sweepPage bounds the ids of one step of a sweep.
const sweepPage = 1000

// readCursor finds out how far the shard had come: from there the sweep starts.
func (s *shard) readCursor(ctx context.Context) {
	var c schema.Cursor
	s.work(ctx, func(ctx context.Context) (err error) {
		c, err = s.d.store.Cursor(ctx, s.id)
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			s.failed(ctx, "read cursor", err)
			s.retry(ctx, func() { s.readCursor(ctx) })
			return
		}
		s.cursor, s.haveCursor = c, true
		s.sweptTo = (c.Settled + 1).Start()
	})
}

// retry runs f on the shard's goroutine after a pause.
func (s *shard) retry(ctx context.Context, f func()) {
	s.workers.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(scanEvery):
		}
		select {
		case s.events <- func(time.Time) { f() }:
		case <-ctx.Done():
		}
	})
}

// sweepRecent looks through the slice before a take-over at once: what is in it may have been on its way.
func (s *shard) sweepRecent(ctx context.Context, start time.Time) {
	from := start.Add(-recent)
	var unmet []met
	s.work(ctx, func(ctx context.Context) (err error) {
		for b := schema.BucketOf(from); b <= schema.BucketOf(start) && err == nil; b++ {
			var part []met
			part, err = s.meetRange(ctx, b, schema.IDRange{After: below(schema.FirstID(from, s.id)), Before: schema.FirstID(start, s.id)}, maxHeld, nil)
			unmet = append(unmet, part...)
		}
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			s.failed(ctx, "take over", err)
			s.retry(ctx, func() { s.sweepRecent(ctx, start) })
			return
		}
		s.settleMet(ctx, unmet, now)
		s.recentDone = true
	})
}

// upkeep starts what is due of the slow work: sweep, settle, hand on, move the cursors.
func (s *shard) upkeep(ctx context.Context, now time.Time) {
	if s.haveCursor && s.recentDone && !s.sweeping && !now.Before(s.nextSweep) {
		s.startSweep(ctx, now)
	}
	if !now.Before(s.nextSettle) {
		s.nextSettle = now.Add(settleEvery)
		s.settle(now)
		s.startHandOn(ctx, now)
	}
	if len(s.lookNow) > 0 && !s.looking {
		s.startLook(ctx)
	}
	if s.haveCursor && !s.advancing && !now.Before(s.nextAdvance) {
		s.startAdvance(ctx, now)
	}
}

// startSweep meets the next stretch of due time whose grace has passed: one slice in steady state, a
// page of what lies behind after a take-over. What was not met before (late rows, lost hints, what a former owner left) is
// published as a redispatch, unless its rows say that it is done.
func (s *shard) startSweep(ctx context.Context, now time.Time) {
	bucket := schema.BucketOf(s.sweptTo)
	end := s.sweptTo.Truncate(sliceSpan).Add(sliceSpan)
	if ready := end.Add(bucketer.Grace); now.Before(ready) {
		s.nextSweep = ready
		return
	}
	// Far behind, whole buckets are read at a time.
	if past := bucket.End(); past.Add(bucketer.Grace).Before(now) {
		end = past
	}
	if s.scan.until.Before(end) || !s.flushed(end) || s.book.behindRoom() == 0 {
		s.nextSweep = now.Add(scanEvery) // what is held below end must be published first
		return
	}
	s.sweeping = true
	known := s.book.below(end)
	after, limit := s.sweepAfter, min(sweepPage, s.book.behindRoom())
	if after.IsZero() {
		after = below(schema.FirstID(s.sweptTo, s.id))
	}
	var unmet []met
	var last schema.EntryID // where the next page starts; zero = the stretch has been met whole
	s.work(ctx, func(ctx context.Context) (err error) {
		r := schema.IDRange{After: after}
		if end.Before(bucket.End()) {
			r.Before = schema.FirstID(end, s.id)
		}
		ids, err := s.d.store.EntryIDs(ctx, schema.Partition{Bucket: bucket, Shard: s.id}, r, sweepPage)
		if err != nil {
			return err
		}
		if len(ids) == sweepPage {
			last = ids[len(ids)-1]
		}
		ids = slices.DeleteFunc(ids, func(id schema.EntryID) bool { _, ok := known[id]; return ok })
		if len(ids) > limit {
			ids = ids[:limit]
			last = ids[limit-1]
		}
		unmet, err = s.meetIDs(ctx, ids)
		return err
	}, func(now time.Time, err error) {
		s.sweeping = false
		if err != nil {
			s.failed(ctx, "sweep", err)
			s.nextSweep = now.Add(scanEvery)
			return
		}
		s.settleMet(ctx, unmet, now)
		s.sweepAfter = last
		if last.IsZero() {
			s.sweptTo = end
			s.book.swept(end)
		}
		s.d.metrics.sweeps.Inc()
	})
}

// flushed reports whether everything held that is due before t was handed to the queue.
func (s *shard) flushed(t time.Time) bool {
	for _, o := range s.book.held {
		if o.env != nil && o.id.Time().Before(t) {
			return false
		}
	}
	return true
}

// startAdvance moves the cursors: dispatched to the last bucket that is swept whole and whose end is past by the
// store's clock too, settled to the last one up to which nothing is open.
func (s *shard) startAdvance(ctx context.Context, now time.Time) {
	s.nextAdvance = now.Add(sliceSpan)
	to := s.cursor
	swept := schema.BucketOf(s.sweptTo) - 1
	to.Dispatched = max(to.Dispatched, swept)
	to.Settled = max(to.Settled, s.book.settled(swept))
	s.d.metrics.settledLag.WithLabelValues(s.label()).Set(now.Sub(to.Settled.End()).Seconds())
	if to == s.cursor {
		return
	}
	s.advancing = true
	s.work(ctx, func(ctx context.Context) error {
		clock, err := s.d.store.Time(ctx)
		if err != nil {
			return err
		}
		if clock.Before(to.Dispatched.End().Add(bucketer.Grace)) {
			return errClock
		}
		return s.d.store.AdvanceCursor(ctx, to)
	}, func(now time.Time, err error) {
		s.advancing = false
		if err != nil {
			s.failed(ctx, "advance cursor", err)
			return
		}
		s.cursor = to
	})
}

// errClock: the store's clock says that a bucket which we have swept is not over.
var errClock = errors.New("the store's clock is behind ours: the bucket stays open")

// below returns the ids due before t that need no look.
func (b *book) below(t time.Time) map[schema.EntryID]struct{} {
	ids := make(map[schema.EntryID]struct{}, len(b.known))
	for id := range b.known {
		if id.Time().Before(t) {
			ids[id] = struct{}{}
		}
	}
	for id := range b.open {
		if id.Time().Before(t) {
			ids[id] = struct{}{}
		}
	}
	return ids
}

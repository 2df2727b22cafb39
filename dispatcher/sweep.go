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
	s.work(ctx, func(ctx context.Context) error {
		stored, err := s.d.store.Cursor(ctx, s.id)
		if err != nil {
			return err
		}
		if c = stored; isAhead(stored, s.d.now()) {
			c = restored(stored, s.d.now())
			s.d.metrics.ahead.Inc()
			s.log.Error("the cursor lay in the future: it goes back, and what was due since is swept again; for what is older there is \"carillon cursor rewind --since SPAN\"",
				"dispatched", stored.Dispatched.End(), "settled", stored.Settled.End(), "swept_from", c.Settled.End())
			return s.d.store.AdvanceCursor(ctx, c)
		}
		return nil
	}, func(now time.Time, err error) {
		if err != nil {
			s.failed(ctx, "read cursor", err)
			s.retry(ctx, func() { s.readCursor(ctx) })
			return
		}
		s.cursor, s.haveCursor = c, true
		// Whatever the cursor says, nothing is taken for swept that is due after now - Grace.
		first := min(c.Settled, sweepable(now)) + 1
		s.sweptTo = first.Start()
		s.late.from(first, now)
	})
}

// doubtSpan is how far back an owner sweeps whose cursor lay in the future, and so said nothing. A cluster that
// runs leaves nothing open for longer than some minutes, so this covers an outage of an hour as well. For what
// is older there is "carillon cursor rewind".
const doubtSpan = schema.Bucket(time.Hour / time.Minute)

// sweepable is the last bucket that can have been swept by a clock that says now: everything due in it has been
// due for longer than Grace.
func sweepable(now time.Time) schema.Bucket { return schema.BucketOf(now.Add(-bucketer.Grace)) - 1 }

// isAhead reports that a cursor lies in the future: no clock that is off by no more than it may be can have moved
// it there. An owner whose clock is ahead of ours, both within what is allowed, may be one bucket further.
func isAhead(c schema.Cursor, now time.Time) bool {
	return max(c.Dispatched, c.Settled) > sweepable(now)+1
}

// restored returns what takes the place of a cursor that lies in the future. Its registers only grow, so this is
// the first of another epoch. A register that lags by more stays where it is: something is open there. That is harmless
// even if it is our clock that is wrong: a cursor that stands too low has its owner look at more than it must.
func restored(c schema.Cursor, now time.Time) schema.Cursor {
	from := sweepable(now) - doubtSpan
	return schema.Cursor{Shard: c.Shard, Epoch: c.Epoch + 1, Dispatched: min(c.Dispatched, from), Settled: min(c.Settled, from)}
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

// sweepRecent looks at once through what was due between floor and end, which is before a take-over: what is in it may have been on its way. It
// goes slice by slice, the latest first: that is what nobody has dispatched since the owner before us died.
func (s *shard) sweepRecent(ctx context.Context, floor, end time.Time) {
	from := end.Add(-recentSlice)
	if from.Before(floor) {
		from = floor
	}
	var unmet []met
	// What there is no room for comes with the sweep, 10 to 20 s later, so appetites do not count: what waits behind its time is looked at by an executor in
	// any case, however old it is.
	room := s.book.admission(true, maxHeld, s.d.now()).eager()
	s.work(ctx, func(ctx context.Context) (err error) {
		for b := schema.BucketOf(from); b <= schema.BucketOf(end) && err == nil; b++ {
			var part []met
			part, err = s.meetRange(ctx, b, schema.IDRange{After: below(schema.FirstID(from, s.id)), Before: schema.FirstID(end, s.id)}, maxHeld, room)
			unmet = append(unmet, part...)
		}
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			s.failed(ctx, "take over", err)
			s.retry(ctx, func() { s.sweepRecent(ctx, floor, end) })
			return
		}
		s.settleMet(ctx, unmet, now)
		if from.After(floor) && s.book.waiting[1] < maxHeld {
			s.sweepRecent(ctx, floor, from)
			return
		}
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
		s.tellUnread()
	}
	if !s.asking && !now.Before(s.nextSessions) {
		s.nextSessions = now.Add(sessionsEvery)
		s.startSessions(ctx)
	}
	if len(s.lookNow) > 0 && !s.looking {
		s.startLook(ctx, now)
	}
	if s.haveCursor && !s.advancing && !now.Before(s.nextAdvance) {
		s.startAdvance(ctx, now)
	}
	if len(s.toDecide) > 0 && !s.deciding && !now.Before(s.nextDecide) {
		s.startDecide(ctx, now)
	}
	if len(s.catchUps) > 0 && !s.catching && !now.Before(s.nextCatchUp) {
		s.startCatchUp(ctx, now)
	}
	if s.haveCursor && s.recentDone && !s.late.busy && !now.Before(s.late.at) {
		s.startLate(ctx, now)
	}
	if !s.waking && !now.Before(s.nextWake) {
		s.startWake(ctx)
	}
	if !s.mending && !now.Before(s.nextMend) {
		s.startMend(ctx)
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
	if s.scan.read.Before(end) || s.scan.gap.open(end) {
		s.nextSweep = now.Add(scanEvery) // what is due before end must be met on time first, or passed over
		return
	}
	if now.Before(s.passUntil) {
		s.nextSweep = s.passUntil
		return
	}
	s.sweeping = true
	r := schema.IDRange{After: s.sweepAfter}
	if r.After.IsZero() {
		r.After = below(schema.FirstID(s.sweptTo, s.id))
	}
	if end.Before(bucket.End()) {
		r.Before = schema.FirstID(end, s.id)
	}
	var ids []schema.EntryID
	s.work(ctx, func(ctx context.Context) (err error) {
		ids, err = s.d.store.EntryIDs(ctx, schema.Partition{Bucket: bucket, Shard: s.id}, r, sweepPage)
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			s.sweepFailed(ctx, err, now)
			return
		}
		var last schema.EntryID // where the next page starts; zero = the stretch was read to its end
		if len(ids) == sweepPage {
			last = ids[len(ids)-1]
		}
		var part digest
		part.add(ids)
		s.sweepUnmet(ctx, slices.DeleteFunc(ids, s.book.has), part, end, last)
	})
}

// sweepUnmet looks at the ids of a page that were not met, and notes that the stretch up to end is swept up to last.
func (s *shard) sweepUnmet(ctx context.Context, ids []schema.EntryID, part digest, end time.Time, last schema.EntryID) {
	swept := func() {
		s.sweeping = false
		bucket := schema.BucketOf(s.sweptTo)
		s.late.sweptPart(part, bucket, last.IsZero() && end.Equal(bucket.End()))
		s.sweepAfter = last
		if last.IsZero() {
			s.sweptTo = end
			s.book.swept(end)
		}
		s.d.metrics.sweeps.Inc()
	}
	if len(ids) == 0 {
		swept()
		return
	}
	var unmet []met
	var refused, left []schema.Entry
	room, scan := s.book.admission(true, maxHeld, s.d.now()), s.book.admission(false, 0, s.d.now())
	s.work(ctx, func(ctx context.Context) error {
		checked := s.d.now()
		entries, err := s.readIDs(ctx, ids)
		if err != nil {
			return err
		}
		var taken []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil:
				taken = append(taken, *e)
			case scan.owns(e):
				left = append(left, *e) // the scan passed it over, and has it read again
			case room.admit(e):
				taken = append(taken, *e)
			default:
				refused = append(refused, *e)
			}
		}
		unmet, err = s.look(ctx, taken, checked)
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			s.sweepFailed(ctx, err, now)
			return
		}
		// What a hint brought meanwhile is on its way.
		s.settleMet(ctx, s.unmet(unmet), now)
		for i := range refused {
			if e := &refused[i]; !s.book.has(e.ID) {
				s.book.pass(s.book.flowOf(e, true), e.ID)
			}
		}
		// A page that is being read may have missed them, or has ended before them since.
		for i := range left {
			if e := &left[i]; !s.book.has(e.ID) {
				s.book.pass(s.book.flowOf(e, false), e.ID)
			}
		}
		s.over(len(ids)-len(unmet), now)
		swept()
	})
}

// sweepFailed has the same page swept again after a pause.
func (s *shard) sweepFailed(ctx context.Context, err error, now time.Time) {
	s.sweeping = false
	s.failed(ctx, "sweep", err)
	s.nextSweep = now.Add(scanEvery)
}

// startAdvance moves the cursors: dispatched to the last bucket that is swept whole and of which nothing waits
// for publication, settled to the last one up to which nothing is open. Where somebody has put another cursor in
// its place (a new epoch), or moved it into the future, the shard starts anew.
func (s *shard) startAdvance(ctx context.Context, now time.Time) {
	s.nextAdvance = now.Add(sliceSpan)
	to := s.cursor
	swept := schema.BucketOf(s.sweptTo) - 1
	to.Dispatched = max(to.Dispatched, s.book.dispatched(swept))
	to.Settled = max(to.Settled, s.book.settled(swept))
	s.d.metrics.settledLag.WithLabelValues(s.label()).Set(now.Sub(to.Settled.End()).Seconds())
	if to == s.cursor {
		return
	}
	s.advancing = true
	s.work(ctx, func(ctx context.Context) error {
		stored, err := s.d.store.Cursor(ctx, s.id)
		switch {
		case err != nil:
			return err
		case stored.Epoch != to.Epoch, isAhead(stored, s.d.now()):
			return errReplaced
		}
		return s.d.store.AdvanceCursor(ctx, to)
	}, func(now time.Time, err error) {
		s.advancing = false
		if errors.Is(err, errReplaced) {
			s.log.Info("the cursor is another one than ours: everything is read again")
			s.anew = true
			return
		}
		if err != nil {
			s.failed(ctx, "advance cursor", err)
			return
		}
		s.cursor = to
	})
}

// errReplaced: the shard has a cursor of another epoch than ours, or one that lies in the future.
var errReplaced = errors.New("the cursor is another one than ours")

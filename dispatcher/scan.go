package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// scanner is how far a shard's scan has come. In steady state every row is read once.
type scanner struct {
	bucket schema.Bucket  // the open bucket
	seen   schema.EntryID // what lies after it in the bucket is still to be read; zero = all of it
	until  time.Time      // what is due before it was, or is being, read: a read under way or failed may miss what comes now
	read   time.Time      // what is due before it was read, without an error
	busy   bool
	more   bool // the last page was full: there is more to read before until

	every time.Duration // until the next scan
	rows  int           // read since the pace was set …
	span  time.Duration // … of so much due time
}

// pace sets how soon the next scan comes, from what has been read: busyRows at a time, between scanBusy and scanEvery.
func (c *scanner) pace() {
	if c.span <= 0 {
		return // what the scans before had read ahead is still enough
	}
	rate := float64(c.rows) / c.span.Seconds()
	c.every, c.rows, c.span = scanEvery, 0, 0
	if rate > busyRows {
		c.every = max(time.Duration(float64(scanEvery)*busyRows/rate), scanBusy).Truncate(time.Millisecond)
	}
}

// ahead is how far beyond now a scan reads.
func (c *scanner) ahead() time.Duration { return c.every + scanSlack + Lead }

// back has everything from id on read again.
func (c *scanner) back(id schema.EntryID) {
	c.bucket, c.seen, c.read, c.more = id.Bucket(), before(id), id.Time(), true
}

// from starts the scan at t.
func (c *scanner) from(t time.Time, shard schema.Shard) {
	c.bucket, c.seen = schema.BucketOf(t), below(schema.FirstID(t, shard))
	c.until, c.read = t, t
	c.every = scanEvery
}

// passed reports that the scan will not find id any more, or not for certain.
func (c *scanner) passed(id schema.EntryID) bool { return id.Time().Before(c.until) }

// limit is how many entries the shard may hold for their time: its share of what the dispatcher may, and no more than it has published
// lately while it waits for the budget, since more would be too old before its turn.
func (s *shard) limit(now time.Time) int {
	n := min(max(maxHeldAll/max(s.d.Owned(), 1), minHeld), maxHeld)
	if now.Sub(s.starved) < appetiteSpan {
		n = min(n, max(s.sent.recent(now), minHeld))
	}
	return n
}

// reread has what is held for its time read again: it waited for so long that executors would have to look at each.
func (s *shard) reread() {
	if first := s.book.forget(); !first.IsZero() {
		s.scan.back(first)
		s.d.metrics.rereads.Inc()
	}
}

// stale reports that o is late, and was read so long ago that an executor would have to look at it. One that an executor looks at in any case
// gains nothing by being read again.
func (o *opened) stale(now time.Time) bool {
	return !o.env.Redispatch && !o.env.CheckedAt.IsZero() &&
		now.Sub(o.publishAt()) > rereadLate && now.Sub(o.env.CheckedAt) > rereadAfter
}

// startScan reads on as far as the scan reads ahead, unless a read is under way or there is no room.
func (s *shard) startScan(ctx context.Context, now time.Time) {
	c := &s.scan
	room := min(scanPage, s.book.room(s.limit(now)))
	if c.busy || room == 0 {
		return
	}
	horizon := now.Add(c.ahead()).Truncate(time.Millisecond)
	if horizon.Before(c.until) {
		horizon = c.until
		if c.read.Equal(c.until) {
			return // a scan that looked further ahead has read it
		}
	}
	p := schema.Partition{Bucket: c.bucket, Shard: s.id}
	r := schema.IDRange{After: c.seen}
	end := horizon
	if p.Bucket.End().After(horizon) {
		r.Before = schema.FirstID(horizon, s.id)
	} else {
		end = p.Bucket.End()
	}
	c.busy = true
	c.span += max(end.Sub(c.until), 0)
	// Hints for what lies before end are taken from now on: this read may miss them.
	c.until = end
	s.d.metrics.scans.Inc()
	var entries []schema.Entry
	var verdicts []bucketer.Verdict
	var planned error
	s.work(ctx, func(ctx context.Context) (err error) {
		began := time.Now() // a monotonic clock: how long it takes is no matter of what time it is
		entries, err = s.d.store.Entries(ctx, p, r, room)
		s.d.metrics.scanTime.Observe(time.Since(began).Seconds())
		if err == nil {
			verdicts, planned = s.planOn(ctx, entries)
		}
		return err
	}, func(at time.Time, err error) {
		c.busy = false
		if err != nil {
			s.failed(ctx, "scan", err)
			return // the next scan reads the same range again: seen did not move
		}
		if planned != nil {
			s.failed(ctx, "plan on", planned)
			// The same range is read again; one-off jobs do not wait for it.
			entries = slices.DeleteFunc(entries, func(e schema.Entry) bool { return e.FirstOfJob() })
			s.found(ctx, entries, nil, now, at)
			return
		}
		s.found(ctx, entries, verdicts, now, at)
		c.rows += len(entries)
		if len(entries) > 0 {
			c.seen = entries[len(entries)-1].ID
		}
		c.more = len(entries) == room
		switch {
		case c.more:
			c.read = c.seen.Time()
			s.startScan(ctx, at)
		case end.Equal(p.Bucket.End()):
			c.bucket, c.seen, c.read = p.Bucket+1, schema.EntryID{}, end
			if c.bucket.Start().Before(at.Add(c.ahead())) {
				s.startScan(ctx, at)
			}
		default:
			c.read = end
		}
	})
}

// below returns the id right below a FirstID.
func below(id schema.EntryID) schema.EntryID {
	id[8] = 0
	return id
}

// before returns an id between id and the one that sorts before it.
func before(id schema.EntryID) schema.EntryID {
	if hash := id.Hash(); hash > 0 {
		return schema.MakeEntryID(id.Time(), id.Shard(), hash-1)
	}
	return below(id)
}

// found takes entries that the scan read at checked, and what their jobs say; no verdicts: there are no such jobs.
func (s *shard) found(ctx context.Context, entries []schema.Entry, verdicts []bucketer.Verdict, checked, now time.Time) {
	var faulty []schema.Entry
	for i := range entries {
		e := &entries[i]
		v := bucketer.Publish
		if verdicts != nil {
			v = verdicts[i]
		}
		switch {
		case e.Due().Before(s.sweptTo):
			// The sweep has met it, and may have forgotten it since.
		case !s.book.meet(e.ID):
		case e.Fault != nil:
			s.book.watch(e, now)
			faulty = append(faulty, *e)
		case v == bucketer.Later:
			s.undecided(e, true, now)
		case v == bucketer.Dropped:
			// Its rows say why.
		case e.Spec.Kind == schema.KindRun && (e.Marks.Cancelled != nil || !e.Marks.MovedTo.IsZero()):
			// Nothing starts from it any more.
		default:
			s.book.add(&queue.Envelope{Entry: *e, CheckedAt: checkedAt(v, checked)})
		}
	}
	if len(faulty) > 0 {
		s.condemn(ctx, faulty, now)
	}
}

// condemn records rows whose spec cannot be understood as missed: never silently dropped.
func (s *shard) condemn(ctx context.Context, faulty []schema.Entry, now time.Time) {
	attempts := make([]schema.Attempt, len(faulty))
	for i := range faulty {
		s.log.Error("row cannot be understood", "entry", faulty[i].ID, "err", faulty[i].Fault)
		attempts[i] = s.d.writer.NotStarted(faulty[i], schema.Record{Outcome: schema.Missed, Reason: "unreadable: " + faulty[i].Fault.Error()}, now)
	}
	s.work(ctx, func(ctx context.Context) error { return s.d.writer.Record(ctx, attempts) },
		func(now time.Time, err error) {
			if err != nil {
				s.failed(ctx, "condemn", err) // stays open: the next look tries again
				return
			}
			for i := range faulty {
				s.book.done(faulty[i].ID)
			}
		})
}

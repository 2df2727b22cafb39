package dispatcher

import (
	"context"
	"time"

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
}

// from starts the scan at t.
func (c *scanner) from(t time.Time, shard schema.Shard) {
	c.bucket, c.seen = schema.BucketOf(t), below(schema.FirstID(t, shard))
	c.until, c.read = t, t
}

// passed reports that the scan will not find id any more, or not for certain.
func (c *scanner) passed(id schema.EntryID) bool { return id.Time().Before(c.until) }

// startScan reads on to now + scanAhead, unless a read is under way or there is no room.
func (s *shard) startScan(ctx context.Context, now time.Time) {
	c := &s.scan
	room := min(scanPage, s.book.room())
	if c.busy || room == 0 {
		return
	}
	horizon := now.Add(scanAhead).Truncate(time.Millisecond)
	if horizon.Before(c.until) {
		horizon = c.until
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
	// Hints for what lies before end are taken from now on: this read may miss them.
	c.until = end
	s.d.metrics.scans.Inc()
	var entries []schema.Entry
	s.work(ctx, func(ctx context.Context) (err error) {
		entries, err = s.d.store.Entries(ctx, p, r, room)
		return err
	}, func(at time.Time, err error) {
		c.busy = false
		if err != nil {
			s.failed(ctx, "scan", err)
			return // the next scan reads the same range again: seen did not move
		}
		s.found(ctx, entries, now, at)
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
			if c.bucket.Start().Before(at.Add(scanAhead)) {
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

// found takes entries that the scan read at checked.
func (s *shard) found(ctx context.Context, entries []schema.Entry, checked, now time.Time) {
	var faulty []schema.Entry
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Due().Before(s.sweptTo):
			// The sweep has met it, and may have forgotten it since.
		case !s.book.meet(e.ID):
		case e.Fault != nil:
			s.book.watch(e, now)
			faulty = append(faulty, *e)
		case e.Spec.Kind == schema.KindRun && (e.Marks.Cancelled != nil || !e.Marks.MovedTo.IsZero()):
			// Nothing starts from it any more.
		default:
			s.book.add(&queue.Envelope{Entry: *e, CheckedAt: checked})
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

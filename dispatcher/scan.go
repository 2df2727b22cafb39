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
	ahead  time.Time      // up to where the last scan read ahead, in this bucket and the next one
	busy   bool
	more   bool      // the last page was full, or cut: there is more to read before until
	cut    time.Time // when what comes next is due, for which there was no room and no haste; zero = there was
	retry  time.Time // it is not looked for room before
	gap    gap       // what it left out

	every time.Duration // until the next scan
	rows  int           // read since the pace was set …
	span  time.Duration // … of so much due time
}

// gap is a stretch of due time that the scan left out: rows were being passed over there, and what comes after it is on time. It is read besides, for
// everybody but the flows that are passed over, which have their rows read again from before it.
type gap struct {
	after schema.EntryID // what lies after it is to be read …
	to    time.Time      // … up to what is due now; zero = there is no gap
}

// open reports whether there is something to be read that is due before t.
func (g gap) open(t time.Time) bool { return !g.to.IsZero() && g.after.Time().Before(t) }

// leave leaves out what lies after the last row read and is due before t: it becomes the gap, or the rest of it.
func (c *scanner) leave(last schema.EntryID, t time.Time, shard schema.Shard) {
	if c.gap.to.IsZero() {
		c.gap.after = last
	}
	c.gap.to = t
	c.seen = below(schema.FirstID(t, shard))
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

// reach is how far beyond now a scan reads.
func (c *scanner) reach() time.Duration { return c.every + scanSlack + Lead }

// from starts the scan at t.
func (c *scanner) from(t time.Time, shard schema.Shard) {
	c.bucket, c.seen = schema.BucketOf(t), below(schema.FirstID(t, shard))
	c.until, c.read = t, t
	c.every, c.gap = scanEvery, gap{}
}

// passed reports that the scan will not find id any more, or not for certain.
func (c *scanner) passed(id schema.EntryID) bool { return id.Time().Before(c.until) }

// front returns an id up to which everything was read, but for the gap.
func (c *scanner) front(shard schema.Shard) schema.EntryID {
	if read := below(schema.FirstID(c.read, shard)); read.Compare(c.seen) > 0 {
		return read
	}
	return c.seen
}

// limit is how many entries the shard may hold for their time: its share of what the dispatcher may.
func (s *shard) limit() int { return min(max(maxHeldAll/max(s.d.Owned(), 1), minHeld), maxHeld) }

// rereadable reports whether o may be read again with what waits of its flow. Each row is once: where turns come more rarely than rows become too old, it would
// never be published else. And not where the sweep has been, unless the row was passed over when it came by: others that were published and are done may be forgotten
// there, and would be taken for new.
func (s *shard) rereadable(o *opened) bool {
	return o.id.Compare(o.flow.reread) > 0 && (!o.id.Time().Before(s.sweptTo) || o.flow.passes(o.id))
}

// reread has o, whose turn it is, and what waits of its flow read again: it waited for so long that executors would have to look at each.
func (s *shard) reread(o *opened) {
	f := o.flow
	for _, c := range s.book.forget(o, s.rereadable) {
		s.d.budget.withdraw(s.subject(f.priority), f.tenant, c)
	}
	s.nextResume = time.Time{}
	s.d.metrics.rereads.Inc()
}

// stale reports that o is late, and was read so long ago that an executor would have to look at it. One that an executor looks at in any case
// gains nothing by being read again.
func (o *opened) stale(now time.Time) bool {
	return !o.env.Redispatch && !o.env.CheckedAt.IsZero() && o.run == o.id &&
		now.Sub(o.publishAt(Lead)) > rereadLate && now.Sub(o.env.CheckedAt) > rereadAfter
}

// ready reports whether the scan should read on at once. Where there was no room for all that it found it waits for room, or until what comes
// next is about to be due: then rows are passed over.
func (s *shard) ready(now time.Time) bool {
	c := &s.scan
	return c.more && !c.busy && !now.Before(s.scanPass) &&
		(!c.cut.After(now.Add(Lead+passAhead)) || !now.Before(c.retry) && 2*s.book.waiting[0] <= s.limit())
}

// over takes rows that were passed over out of what may be passed over in a second. What is read again, or left out, is read on when there is some left.
func (s *shard) over(rows int, now time.Time) {
	if rows == 0 {
		return
	}
	s.d.metrics.passed.Add(float64(rows))
	if wait := s.d.passing.ReserveN(now, rows).DelayFrom(now); wait > 0 {
		s.passUntil = now.Add(wait)
	}
}

// startScan reads on as far as the scan reads ahead, unless a read is under way.
func (s *shard) startScan(ctx context.Context, now time.Time) {
	c := &s.scan
	if c.busy || c.more && !s.ready(now) {
		return
	}
	horizon := now.Add(c.reach()).Truncate(time.Millisecond)
	if horizon.Before(c.until) {
		horizon = c.until
		if c.read.Equal(c.until) {
			return // a scan that looked further ahead has read it
		}
	}
	c.ahead = horizon
	p := schema.Partition{Bucket: c.bucket, Shard: s.id}
	r := schema.IDRange{After: c.seen}
	end, known := horizon, c.read
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
	var page page
	a := s.book.admission(false, s.limit(), now)
	s.work(ctx, func(ctx context.Context) (err error) {
		began := time.Now() // a monotonic clock: how long it takes is no matter of what time it is
		entries, err := s.d.store.Entries(ctx, p, r, scanPage)
		s.d.metrics.scanTime.Observe(time.Since(began).Seconds())
		if err == nil {
			page = s.read(ctx, entries, a.admit)
		}
		return err
	}, func(at time.Time, err error) {
		c.busy = false
		s.d.noted(ctx, scanning, now, err)
		if err != nil {
			s.failed(ctx, "scan", err)
			return // the next scan reads the same range again: seen did not move
		}
		c.cut, c.retry = s.cutPage(&page, at), at.Add(cutRetry)
		if page.planned != nil {
			s.failed(ctx, "plan on", page.planned)
			// The same range is read again; one-off jobs do not wait for it.
			entries := slices.DeleteFunc(page.taken, func(e schema.Entry) bool { return e.FirstOfJob() })
			s.found(ctx, entries, nil, known, now, at)
			return
		}
		s.found(ctx, page.taken, page.verdicts, known, now, at)
		// The scan waits for what it passed over itself, but not for all that others did before: it would be late.
		if s.scanPass = (time.Time{}); len(page.refused) > 0 {
			s.passOver(&page, at)
			if s.scanPass = at.Add(Lead); s.passUntil.Before(s.scanPass) {
				s.scanPass = s.passUntil
			}
		}
		c.rows += page.rows
		if !page.last.IsZero() {
			c.seen = page.last
		}
		c.more = !c.cut.IsZero() || page.rows == scanPage
		// Where rows are passed over that should be published by now, what comes after them is about to be late as well.
		if c.more && len(page.refused) > 0 && !c.seen.Time().After(at.Add(Lead)) {
			present := at.Add(Lead + time.Millisecond).Truncate(time.Millisecond)
			if c.more = present.Before(end); !c.more {
				present = end
			}
			c.leave(c.seen, present, s.id)
			s.d.metrics.gaps.Inc()
		}
		switch {
		case c.more:
			c.read = later(c.read, c.seen.Time())
			if s.ready(at) {
				s.startScan(ctx, at)
			}
		case end.Equal(p.Bucket.End()):
			c.bucket, c.seen, c.read = p.Bucket+1, schema.EntryID{}, end
			if c.bucket.Start().Before(at.Add(c.reach())) {
				s.startScan(ctx, at)
			}
		default:
			c.read = end
		}
	})
}

// page is what a read ahead has brought.
type page struct {
	rows     int
	last     schema.EntryID // zero: there was none
	taken    []schema.Entry // those for which there is room …
	verdicts []bucketer.Verdict
	planned  error // … whose jobs could not be planned on
	refused  []schema.Entry
}

// read sorts what was read by whether there is room for it, and has the jobs go on of what there is room for: the others are
// met later, as if they had not been read.
func (s *shard) read(ctx context.Context, entries []schema.Entry, admit func(*schema.Entry) bool) (p page) {
	p.rows = len(entries)
	if p.rows > 0 {
		p.last = entries[p.rows-1].ID
	}
	p.taken = entries
	for i := range entries {
		if entries[i].Fault == nil && !admit(&entries[i]) {
			if p.refused == nil {
				p.taken = append(make([]schema.Entry, 0, len(entries)), entries[:i]...)
			}
			p.refused = append(p.refused, entries[i])
		} else if p.refused != nil {
			p.taken = append(p.taken, entries[i])
		}
	}
	p.verdicts, p.planned = s.planOn(ctx, p.taken)
	return p
}

// cutPage cuts a page at the first row for which there is no room, if that has time: there may be room by then. It returns when that row is due,
// zero if it left the page as it was.
func (s *shard) cutPage(p *page, now time.Time) time.Time {
	if len(p.refused) == 0 {
		return time.Time{}
	}
	first := p.refused[0].ID
	if f := s.book.flowOf(&p.refused[0], false); f.passes(first) || !first.Time().After(now.Add(Lead+passAhead)) {
		return time.Time{}
	}
	n := 0
	for n < len(p.taken) && p.taken[n].ID.Compare(first) < 0 {
		n++
	}
	p.rows, p.refused, p.taken = n, nil, p.taken[:n]
	if p.verdicts != nil {
		p.verdicts = p.verdicts[:n]
	}
	if p.last = (schema.EntryID{}); n > 0 {
		p.last = p.taken[n-1].ID
	}
	return first.Time()
}

// passOver notes which rows of a page there was no room for.
func (s *shard) passOver(p *page, now time.Time) {
	for i := range p.refused {
		if e := &p.refused[i]; !s.book.has(e.ID) && !e.Due().Before(s.sweptTo) {
			s.book.pass(s.book.flowOf(e, false), e.ID)
		}
	}
	s.over(len(p.refused), now)
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

// standsIn is how long after the due time of a row another entry may start its run: by the late rule, and by a writer
// whose clock is ahead of ours.
const standsIn = bucketer.LateAfter - schema.MaxClockDifference

// heldLate reports whether a row may have been held so late that another entry starts its run as well: it was not there
// when what is due before known was read.
func heldLate(e *schema.Entry, known, checked time.Time) bool {
	return e.Spec.Kind == schema.KindRun && e.Due().Before(known) && checked.Sub(e.Due()) > standsIn
}

// standIn sees to it that a run is not started twice where e is its late entry and its row is met as well. The executor of
// a late entry looks, but that of a row which is published as new does not, and has left no trace for a while. It reports
// whether e is watched instead of published, since the row is on its way.
func (s *shard) standIn(e *schema.Entry, now time.Time) (watched bool) {
	if e.Spec.Kind != schema.KindLate {
		return false
	}
	row, ok := e.First()
	if !ok || row != e.Run() {
		return false
	}
	o, open := s.book.open[row]
	switch {
	case !open && !s.book.has(row):
		s.book.known[row] = s.book.flowOf(e, false) // a page that brings the row leaves it to e
	case !open:
	case o.phase == publishing, o.phase == published:
		s.book.watch(e, now)
		return true
	case o.env != nil && !o.env.Redispatch:
		env := *o.env
		env.Redispatch = true
		o.env = &env
	}
	return false
}

// found takes entries that were read at checked, and what their jobs say; no verdicts: there are no such jobs. What is
// due before known was read before.
func (s *shard) found(ctx context.Context, entries []schema.Entry, verdicts []bucketer.Verdict, known, checked, now time.Time) {
	var faulty []schema.Entry
	for i := range entries {
		e := &entries[i]
		v := bucketer.Publish
		if verdicts != nil {
			v = verdicts[i]
		}
		switch {
		case e.Due().Before(s.sweptTo) && !s.book.flowOf(e, false).passes(e.ID):
			// The sweep has met it, and may have forgotten it since.
		case !s.book.meet(e.ID):
		case s.standIn(e, now):
		case e.Fault != nil:
			s.book.watch(e, now)
			faulty = append(faulty, *e)
		case v == bucketer.Undecided:
			s.undecided(e, true, now)
		case v == bucketer.Dropped:
			// Its rows say why.
		case e.Spec.Kind == schema.KindRun && (e.Marks.Cancelled != nil || !e.Marks.MovedTo.IsZero()):
			// Nothing starts from it any more.
		case heldLate(e, known, checked):
			s.redispatch(*e, checkedAt(v, checked), now)
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

package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// scanner reads rows ahead of their time, and takes hints of rows that the scan may miss.
type scanner struct {
	*shard
	progress.Scan
	busy       bool
	pauseUntil time.Time // nothing is read before, since the last page spilled rows
}

// ready reports whether the scan should read on at once. Where there was no room for all that it
// found it waits for room, or until the next row is about to be due: then rows are spilled.
func (c *scanner) ready(now time.Time) bool {
	return c.More && !c.busy && !now.Before(c.pauseUntil) &&
		(!c.Cut.After(now.Add(depth.Lead+spillAhead)) ||
			!now.Before(c.Retry) && 2*c.state.Flows.Waiting(shardstate.OnTime) <= c.limit(shardstate.OnTime))
}

// start reads on as far as the scan reads ahead, unless a read is under way.
func (c *scanner) start(ctx context.Context, now time.Time) {
	if c.busy || c.More && !c.ready(now) {
		return
	}
	st, ok := c.Begin(c.id, now)
	if !ok {
		return
	}
	c.busy = true
	c.d.metrics.scans.Inc()
	var pg page
	room := c.state.Flows.Room(shardstate.OnTime, c.limit(shardstate.OnTime), now)
	c.work(ctx, func(ctx context.Context) (err error) {
		began := time.Now() // a monotonic clock: how long it takes does not depend on the time of day
		entries, err := c.d.store.Entries(ctx, st.Partition, st.Range, scanPage)
		c.d.metrics.scanTime.Observe(time.Since(began).Seconds())
		if err == nil {
			pg = c.sort(ctx, entries, room)
		}
		return err
	}, func(at time.Time, err error) {
		c.busy = false
		c.d.noted(ctx, scanning, now, err)
		if err != nil {
			c.failed(ctx, "scan", err)
			return // the next scan reads the same range again: Seen did not move
		}
		c.Cut, c.Retry = c.cut(&pg, at), at.Add(cutRetry)
		if pg.planErr != nil {
			c.failed(ctx, "plan on", pg.planErr)
			// The same range is read again; one-off jobs do not wait for it.
			c.found(ctx, oneOff(pg.taken), nil, st.Known, now, at)
			return
		}
		c.found(ctx, pg.taken, pg.verdicts, st.Known, now, at)
		// The scan waits for what it spilled itself, but not for all that others did: it would be
		// late.
		if c.pauseUntil = (time.Time{}); len(pg.refused) > 0 {
			c.spill(&pg, at)
			if c.pauseUntil = at.Add(depth.Lead); c.spillPause.Before(c.pauseUntil) {
				c.pauseUntil = c.spillPause
			}
		}
		full := !c.Cut.IsZero() || pg.rows == scanPage
		leftOut, again := c.Advance(st, pg.rows, pg.last, full, len(pg.refused) > 0, at)
		if leftOut {
			c.d.metrics.unreadRanges.Inc()
		}
		if again {
			c.start(ctx, at)
		}
	})
}

// oneOff returns those entries whose jobs have no next run.
func oneOff(entries []schema.Entry) []schema.Entry {
	return slices.DeleteFunc(entries, func(e schema.Entry) bool { return e.FirstOfJob() })
}

// page is what a scan has read.
type page struct {
	rows     int
	last     schema.EntryID // zero = there was no row
	taken    []schema.Entry // those for which there is room …
	verdicts []bucketer.Verdict
	planErr  error // … whose jobs could not be planned on
	refused  []schema.Entry
}

// sort sorts rows by whether there is room for them, and has the jobs planned on of those with
// room. The others are found later, as if they had not been read.
func (c *scanner) sort(ctx context.Context, entries []schema.Entry, room *shardstate.Room) (pg page) {
	pg.rows = len(entries)
	if pg.rows > 0 {
		pg.last = entries[pg.rows-1].ID
	}
	pg.taken = entries
	for i := range entries {
		if entries[i].Fault == nil && !room.Admit(&entries[i]) {
			if pg.refused == nil {
				pg.taken = append(make([]schema.Entry, 0, len(entries)), entries[:i]...)
			}
			pg.refused = append(pg.refused, entries[i])
		} else if pg.refused != nil {
			pg.taken = append(pg.taken, entries[i])
		}
	}
	pg.verdicts, pg.planErr = c.inspect.planOn(ctx, pg.taken)
	return pg
}

// cut cuts a page before the first row for which there is no room, if that row has time: there may
// be room by then. It returns when the row is due; zero if the page was left as it is.
func (c *scanner) cut(pg *page, now time.Time) time.Time {
	if len(pg.refused) == 0 {
		return time.Time{}
	}
	first := pg.refused[0].ID
	if f := c.state.Flows.Of(&pg.refused[0], shardstate.OnTime); f.Spilled(first) || !first.Time().After(now.Add(depth.Lead+spillAhead)) {
		return time.Time{}
	}
	n := 0
	for n < len(pg.taken) && pg.taken[n].ID.Compare(first) < 0 {
		n++
	}
	pg.rows, pg.refused, pg.taken = n, nil, pg.taken[:n]
	if pg.verdicts != nil {
		pg.verdicts = pg.verdicts[:n]
	}
	if pg.last = (schema.EntryID{}); n > 0 {
		pg.last = pg.taken[n-1].ID
	}
	return first.Time()
}

// spill leaves the rows of a page for a later read for which there was no room.
func (c *scanner) spill(pg *page, now time.Time) {
	for i := range pg.refused {
		if e := &pg.refused[i]; !c.state.Has(e.ID) && !e.Due().Before(c.sweep.to) {
			c.state.Flows.Spill(c.state.Flows.Of(e, shardstate.OnTime), e.ID)
		}
	}
	c.countSpilled(len(pg.refused), now)
}

// found takes in entries that were read at checked, and what planOn said of their jobs; nil
// verdicts: no entry has a job with a next run. What is due before known had been read before.
func (c *scanner) found(ctx context.Context, entries []schema.Entry, verdicts []bucketer.Verdict, known, checked, now time.Time) {
	var unreadable []schema.Entry
	for i := range entries {
		e := &entries[i]
		v := bucketer.Publish
		if verdicts != nil {
			v = verdicts[i]
		}
		switch {
		case e.Due().Before(c.sweep.to) && !c.state.Flows.Of(e, shardstate.OnTime).Spilled(e.ID):
			// The sweep has found it, and may have forgotten it since.
		case !c.state.Find(e.ID):
		case c.watchLate(e, now):
		case e.Fault != nil:
			c.state.Watch(e, now)
			unreadable = append(unreadable, *e)
		case v == bucketer.Undecided:
			c.recurring.undecided(e, true, now)
		case v == bucketer.Dropped:
			// Its rows say why.
		case e.Spec.Kind == schema.KindRun && (e.Marks.Cancelled != nil || !e.Marks.MovedTo.IsZero()):
			// Nothing starts from it any more.
		case mayHaveLateEntry(e, known, checked):
			c.publish.redispatch(*e, checkedAt(v, checked), now)
		default:
			c.state.Add(&queue.Envelope{Entry: *e, CheckedAt: checkedAt(v, checked)})
		}
	}
	if len(unreadable) > 0 {
		c.settle.condemn(ctx, unreadable, now)
	}
}

// lateEntryAfter is how long after the due time of a row a late entry may start its run: the late
// rule, by a writer whose clock is ahead of ours.
const lateEntryAfter = bucketer.LateAfter - schema.MaxClockDifference

// mayHaveLateEntry reports whether a row was written so late that a late entry may start its run as
// well: the row was not there when what is due before known was read.
func mayHaveLateEntry(e *schema.Entry, known, checked time.Time) bool {
	return e.Spec.Kind == schema.KindRun && e.Due().Before(known) && checked.Sub(e.Due()) > lateEntryAfter
}

// watchLate sees to it that a run does not start twice where both its row and its late entry e are
// found. The executor of a late entry looks at the rows; that of a row published as new does not,
// and leaves no trace for a while. It reports whether e is watched instead of published, since the
// row is on its way.
func (c *scanner) watchLate(e *schema.Entry, now time.Time) (watched bool) {
	if e.Spec.Kind != schema.KindLate {
		return false
	}
	row, ok := e.First()
	if !ok || row != e.Run() {
		return false
	}
	p, open := c.state.Pending(row)
	switch {
	case !open && !c.state.Has(row):
		// A page that brings the row leaves it to e.
		c.state.Note(row, c.state.Flows.Of(e, shardstate.OnTime))
	case !open:
	case p.Phase == shardstate.Publishing, p.Phase == shardstate.Published:
		c.state.Watch(e, now)
		return true
	case p.Env != nil && !p.Env.Redispatch:
		env := *p.Env
		env.Redispatch = true
		p.Env = &env
	}
	return false
}

// namedDispatch is the Dispatch of a reschedule entry that is published since a mark names it.
const namedDispatch = "named"

// hinted takes in a row of which its writer says that the scan may miss it.
func (c *scanner) hinted(e *schema.Entry, now time.Time) {
	switch {
	case e.ID.Shard() != c.id || e.Fault != nil:
		return
	case e.Spec.Kind == schema.KindReschedule:
		// A mark names it only now: what was published of it before may have been left aside.
		c.state.Note(e.ID, nil)
		if p, ok := c.state.Pending(e.ID); ok && p.Phase != shardstate.Published && p.Phase != shardstate.Watching {
			return
		}
		c.publish.redispatch(*e, now, now)
		// Two owners hear of it while a shard is handed over: the stream keeps one of their messages.
		if p, ok := c.state.Pending(e.ID); ok {
			p.Env.Dispatch = namedDispatch
		}
		return
	case c.recurring.decidable(e.ID):
		c.recurring.decideNow(e.ID, now) // its job was made, or changed, only now
		return
	case !c.Passed(e.ID):
		return // the scan will find it
	case e.Due().Before(c.sweep.to):
		return // the sweep has found it, or it came too late to count
	case !c.resume.busy && c.state.Flows.Of(e, shardstate.OnTime).Spilled(e.ID) && e.ID.Compare(c.Front(c.id)) <= 0:
		return // it is read with the spilled rows; beyond the front a scan under way may miss it
	case c.state.Flows.Waiting(shardstate.OnTime)+len(c.recurring.hints) >= shardstate.MaxHeld:
		return // the sweep will find it
	case !c.state.Find(e.ID):
		return
	}
	c.d.metrics.hinted.Inc()
	if c.watchLate(e, now) {
		return
	}
	if e.FirstOfJob() && (e.IsOccurrence() || e.Spec.Workflow == nil) { // a workflow run's beginning looks by itself
		c.recurring.hinted(e, now)
		return
	}
	// Nothing can have been said about the run before it was accepted: that is how
	// fresh the row is.
	c.state.Add(&queue.Envelope{Entry: *e, CheckedAt: time.UnixMicro(e.Spec.Accepted).UTC()})
}

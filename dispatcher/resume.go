package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// readOn reads on where more is to be read at once: ahead, in the gap, and where rows were passed over for which there is room by now; of these two in turn. It
// returns when to call it again, zero = nothing is to be read before the next scan.
func (s *shard) readOn(ctx context.Context, now time.Time) (again time.Time) {
	if s.ready(now) {
		s.startScan(ctx, now)
	} else if s.scan.more && !s.scan.busy {
		again = later(now.Add(resumeEvery), s.scanPass)
	}
	gap := !s.scan.gap.to.IsZero()
	if len(s.book.passed) == 0 && !gap || s.resuming {
		return again
	}
	sooner := func(at time.Time) time.Time {
		if again.IsZero() || at.Before(again) {
			return at
		}
		return again
	}
	if s.passUntil.After(now) {
		return sooner(s.passUntil)
	}
	var f *flow
	if len(s.book.passed) > 0 && !s.nextResume.After(now) {
		if f = s.hungry(now); f == nil {
			s.nextResume = now.Add(resumeEvery)
		}
	}
	switch {
	case gap && (f == nil || s.gapNext):
		s.gapNext = false
		s.startGap(ctx, now)
	case f != nil:
		s.gapNext = true
		s.startResume(ctx, f, now)
	default:
		return sooner(s.nextResume)
	}
	return again
}

// hungry returns the flow with rows that were passed over, and with room for half of what it may hold, whose rows are the oldest; nil if there is none.
func (s *shard) hungry(now time.Time) (hungriest *flow) {
	for f := range s.book.passed {
		free := max(s.heldLimit(f.behind)-s.book.waiting[side(f.behind)], 0)
		if room := min(f.appetite(now), flowShare*free); room == 0 || 2*f.waiting > room {
			continue
		}
		if f.after.Compare(s.met(f.behind)) >= 0 {
			continue // whoever meets rows first has not come there yet
		}
		if hungriest == nil || f.after.Compare(hungriest.after) < 0 {
			hungriest = f
		}
	}
	return hungriest
}

// heldLimit is how many entries may wait in memory, on time or behind.
func (s *shard) heldLimit(behind bool) int {
	if behind {
		return maxHeld
	}
	return s.limit()
}

// met returns an id up to which everything was met: by the scan, or by the sweep.
func (s *shard) met(behind bool) schema.EntryID {
	if !behind {
		return s.scan.front(s.id)
	}
	if front := below(schema.FirstID(s.sweptTo, s.id)); front.Compare(s.sweepAfter) > 0 {
		return front
	}
	return s.sweepAfter
}

// startResume reads a page from where the rows of f were passed over, for f and all others who have room. Whose
// rows lie between those of others has those read too: with k flows that are passed over and drained at different speeds, a row may be read
// k times before it is published, at passRows a second in all.
func (s *shard) startResume(ctx context.Context, f *flow, now time.Time) {
	bucket := f.after.Bucket()
	p := schema.Partition{Bucket: bucket, Shard: s.id}
	start, behind := f.after, f.behind
	for other := range s.book.passed {
		other.missed = nil
	}
	r := schema.IDRange{After: start}
	end := below(schema.FirstID(bucket.End(), s.id))
	if met := s.met(behind); met.Bucket() == bucket {
		to := met.Time().Add(time.Millisecond)
		r.Before, end = schema.FirstID(to, s.id), below(schema.FirstID(to, s.id))
	}
	s.book.reading = pageRange{start, end}
	s.startPage(ctx, p, r, now, func(entries []schema.Entry, last schema.EntryID, rows int) {
		if !last.IsZero() {
			end, s.book.reading.to = last, last
		}
		a := s.book.admission(behind, s.heldLimit(behind), now)
		scan := s.book.admission(false, 0, now) // what is the scan's to meet
		var sure, doubtful []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil, behind && scan.owns(e), !a.resume(e):
				continue
			case behind, s.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
		}
		s.takePage(ctx, sure, doubtful, now, func(at time.Time) {
			s.over(rows-len(sure)-len(doubtful), at)
			s.resumed(a, start, end)
		})
	})
}

// startPage reads a page of rows that were passed over, or left out, and has sort called with those that were not met yet: nothing is said of the job of one
// that was. Last is the last row of a full page, else zero; rows counts all.
func (s *shard) startPage(ctx context.Context, p schema.Partition, r schema.IDRange, now time.Time, sort func(entries []schema.Entry, last schema.EntryID, rows int)) {
	s.resuming = true
	var entries []schema.Entry
	s.work(ctx, func(ctx context.Context) (err error) {
		entries, err = s.d.store.Entries(ctx, p, r, scanPage)
		return err
	}, func(at time.Time, err error) {
		if err != nil {
			s.pageFailed(ctx, err, at)
			return
		}
		var last schema.EntryID
		rows := len(entries)
		if rows == scanPage {
			last = entries[rows-1].ID
		}
		sort(slices.DeleteFunc(entries, func(e schema.Entry) bool { return s.book.has(e.ID) }), last, rows)
	})
}

// takePage takes rows of a page read at checked: those that are surely not published, and those of which a look must tell. Then then is called, unless that
// fails: the same page is read again.
func (s *shard) takePage(ctx context.Context, sure, doubtful []schema.Entry, checked time.Time, then func(at time.Time)) {
	var verdicts []bucketer.Verdict
	var planned error
	var mets []met // of what a former owner may have published: what became of it
	s.work(ctx, func(ctx context.Context) (err error) {
		verdicts, planned = s.planOn(ctx, sure)
		mets, err = s.look(ctx, doubtful, checked)
		return err
	}, func(at time.Time, err error) {
		if planned != nil { // one-off jobs do not wait for it
			s.found(ctx, slices.DeleteFunc(sure, func(e schema.Entry) bool { return e.FirstOfJob() }), nil, time.Time{}, checked, at)
		}
		if err = errors.Join(err, planned); err != nil {
			s.pageFailed(ctx, err, at)
			return
		}
		s.resuming = false
		s.found(ctx, sure, verdicts, time.Time{}, checked, at)
		s.settleMet(ctx, s.unmet(mets), at)
		then(at)
	})
}

// pageFailed has the same page read again after a pause.
func (s *shard) pageFailed(ctx context.Context, err error, now time.Time) {
	s.resuming, s.book.reading = false, pageRange{}
	s.failed(ctx, "resume", err)
	s.passUntil = later(s.passUntil, now.Add(retryPublish))
}

// inDoubt reports whether a row that is on time may have been published by who had the shard before.
func (s *shard) inDoubt(e *schema.Entry) bool {
	return e.Due().Before(s.took.Add(handover + Lead + leadMost))
}

// startGap reads a page of what the scan left out, as it would have done.
func (s *shard) startGap(ctx context.Context, now time.Time) {
	after, to := s.scan.gap.after, s.scan.gap.to
	bucket := after.Bucket()
	p := schema.Partition{Bucket: bucket, Shard: s.id}
	r := schema.IDRange{After: after}
	end := below(schema.FirstID(bucket.End(), s.id))
	if to.Before(bucket.End()) {
		r.Before, end = schema.FirstID(to, s.id), below(schema.FirstID(to, s.id))
	}
	s.startPage(ctx, p, r, now, func(entries []schema.Entry, last schema.EntryID, _ int) {
		if !last.IsZero() {
			end = last
		}
		a := s.book.admission(false, s.limit(), now)
		var sure, doubtful, refused []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil:
				sure = append(sure, *e)
			case !a.admit(e):
				refused = append(refused, *e)
			case s.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
		}
		s.takePage(ctx, sure, doubtful, now, func(at time.Time) {
			s.passOver(&page{refused: refused}, at)
			g := &s.scan.gap
			if g.after = end; !g.open(g.to) { // it may have become longer meanwhile
				*g = gap{}
			}
		})
	})
}

// resumed notes how far each flow has come that wanted rows of a page from start to end.
func (s *shard) resumed(a *admission, start, end schema.EntryID) {
	s.book.reading = pageRange{}
	for f := range s.book.passed {
		g := a.flows[f.flowKey]
		if g == nil || f.behind != a.behind || !g.over || f.after != g.after || f.after.Compare(start) < 0 || f.after.Compare(end) > 0 {
			continue // it was not asked for, or is to be read again from before
		}
		f.missed = slices.DeleteFunc(f.missed, s.book.has)
		switch {
		case g.full:
			f.after = before(g.first)
		case end.Compare(s.met(f.behind)) >= 0 && len(f.missed) == 0:
			s.book.caughtUp(f)
		default:
			f.after = end
		}
		for _, id := range f.missed {
			s.book.pass(f, id)
		}
		f.missed = nil
	}
}

// owns reports whether the row is one that was passed over on time: the scan's flows have it read again.
func (a *admission) owns(e *schema.Entry) bool {
	g := a.gate(e)
	return g.over && e.ID.Compare(g.after) > 0
}

// unmet leaves out what was met since it was read.
func (s *shard) unmet(mets []met) []met {
	kept := mets[:0]
	for _, m := range mets {
		if !s.book.has(m.entry.ID) {
			kept = append(kept, m)
		}
	}
	return kept
}

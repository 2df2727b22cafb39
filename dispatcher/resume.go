package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

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
	start := f.after
	r := schema.IDRange{After: start}
	end := below(schema.FirstID(bucket.End(), s.id))
	if met := s.met(f.behind); met.Bucket() == bucket {
		to := met.Time().Add(time.Millisecond)
		r.Before, end = schema.FirstID(to, s.id), below(schema.FirstID(to, s.id))
	}
	a := s.book.admission(f.behind, s.heldLimit(f.behind), now)
	scan := s.book.admission(false, 0, now) // what is the scan's to meet
	s.resuming = true
	var pg page
	var doubtful []schema.Entry // what a former owner may have published …
	var mets []met              // … and what became of it
	s.work(ctx, func(ctx context.Context) error {
		entries, err := s.d.store.Entries(ctx, p, r, scanPage)
		if err != nil {
			return err
		}
		sure := make([]schema.Entry, 0, len(entries))
		mine := 0
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil, f.behind && scan.owns(e), !a.resume(e):
				continue
			case f.behind, s.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
			mine++
		}
		pg = page{rows: len(entries), taken: sure}
		if len(entries) > 0 {
			pg.last = entries[len(entries)-1].ID
		}
		if len(entries) == scanPage {
			end = pg.last
		}
		pg.rows -= mine
		pg.verdicts, pg.planned = s.planOn(ctx, sure)
		mets, err = s.look(ctx, doubtful, now)
		return err
	}, func(at time.Time, err error) {
		s.resuming = false
		if err = errors.Join(err, pg.planned); err != nil {
			s.failed(ctx, "resume", err)
			s.nextResume = at.Add(retryPublish)
			// The same range is read again; one-off jobs do not wait for it.
			s.found(ctx, slices.DeleteFunc(pg.taken, func(e schema.Entry) bool { return pg.planned == nil || e.FirstOfJob() }), nil, now, at)
			return
		}
		s.found(ctx, pg.taken, pg.verdicts, now, at)
		s.settleMet(ctx, s.unmet(mets), at)
		s.over(pg.rows, at)
		s.resumed(a, start, end)
	})
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
	a := s.book.admission(false, s.limit(), now)
	s.resuming = true
	var pg page
	var mets []met // of what a former owner may have published: what became of it
	s.work(ctx, func(ctx context.Context) error {
		entries, err := s.d.store.Entries(ctx, p, r, scanPage)
		if err != nil {
			return err
		}
		if len(entries) == scanPage {
			end = entries[len(entries)-1].ID
		}
		var sure, doubtful []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil:
				sure = append(sure, *e)
			case !a.admit(e):
				pg.refused = append(pg.refused, *e)
			case s.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
		}
		pg.taken = sure
		pg.verdicts, pg.planned = s.planOn(ctx, sure)
		mets, err = s.look(ctx, doubtful, now)
		return err
	}, func(at time.Time, err error) {
		s.resuming = false
		if err = errors.Join(err, pg.planned); err != nil {
			s.failed(ctx, "resume", err)
			s.passUntil = later(s.passUntil, at.Add(retryPublish))
			s.found(ctx, slices.DeleteFunc(pg.taken, func(e schema.Entry) bool { return pg.planned == nil || e.FirstOfJob() }), nil, now, at)
			return
		}
		s.found(ctx, pg.taken, pg.verdicts, now, at)
		s.settleMet(ctx, s.unmet(mets), at)
		s.passOver(&pg, at)
		g := &s.scan.gap
		if g.after = end; !g.open(g.to) { // it may have become longer meanwhile
			*g = gap{}
		}
	})
}

// resumed notes how far each flow has come that wanted rows of a page from start to end.
func (s *shard) resumed(a *admission, start, end schema.EntryID) {
	for f := range s.book.passed {
		g := a.flows[f.flowKey]
		if g == nil || f.behind != a.behind || !g.over || f.after != g.after || f.after.Compare(start) < 0 || f.after.Compare(end) > 0 {
			continue // it was not asked for, or is to be read again from before
		}
		switch {
		case g.full:
			f.after = before(g.first)
		case end.Compare(s.met(f.behind)) >= 0:
			s.book.caughtUp(f)
		default:
			f.after = end
		}
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

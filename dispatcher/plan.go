package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/schema"
)

// planOn has the jobs of entries that were read go on before they are published. The verdicts are nil if no entry is of a job that can have
// many runs: one-off jobs cost nothing.
func (s *shard) planOn(ctx context.Context, entries []schema.Entry) ([]bucketer.Verdict, error) {
	if !slices.ContainsFunc(entries, func(e schema.Entry) bool { return e.FirstOfJob() }) {
		return nil, nil
	}
	return s.d.writer.PlanOn(ctx, entries, s.d.now())
}

// planMet does the same for entries that were looked at. Of a run that an executor had in hand the job went on before: it was published.
func (s *shard) planMet(ctx context.Context, mets []met) error {
	var entries []schema.Entry
	var whose []int
	for i := range mets {
		if m := &mets[i]; m.entry.FirstOfJob() && m.untouched {
			e := m.entry
			e.Marks = m.marks
			entries, whose = append(entries, e), append(whose, i)
		}
	}
	verdicts, err := s.planOn(ctx, entries)
	for k, v := range verdicts {
		mets[whose[k]].verdict = v
	}
	return err
}

// checkedAt returns since when an entry is known to have been as it was read. Zero has the executor look: it must learn until when
// it may start.
func checkedAt(v bucketer.Verdict, read time.Time) time.Time {
	if v == bucketer.Doubtful {
		return time.Time{}
	}
	return read
}

// undecided keeps an entry open of which PlanOn cannot say yet what becomes of it; it is asked again soon. first says that it was never
// published.
func (s *shard) undecided(e *schema.Entry, first bool, now time.Time) {
	s.book.watch(e, now)
	o := s.book.open[e.ID]
	o.phase, o.parked, o.first = watching, true, first
	s.toDecide = append(s.toDecide, o.id)
}

// startDecide looks again at what was undecided.
func (s *shard) startDecide(ctx context.Context, now time.Time) {
	s.nextDecide = now.Add(decideEvery)
	n := min(len(s.toDecide), lookBatch)
	ids := slices.DeleteFunc(slices.Clone(s.toDecide[:n]), func(id schema.EntryID) bool { return !s.decidable(id) })
	s.toDecide = s.toDecide[n:]
	if len(ids) == 0 {
		return
	}
	s.deciding = true
	var mets []met
	s.work(ctx, func(ctx context.Context) (err error) {
		mets, err = s.meetIDs(ctx, ids)
		return err
	}, func(now time.Time, err error) {
		s.deciding = false
		if err != nil {
			s.failed(ctx, "plan on", err)
			s.toDecide = append(s.toDecide, ids...)
			return
		}
		s.vanished(ids, mets)
		s.settleMet(ctx, slices.DeleteFunc(mets, func(m met) bool { return !s.decidable(m.entry.ID) }), now)
	})
}

// vanished closes those of the entries that were looked for and not met: they have left the store.
func (s *shard) vanished(ids []schema.EntryID, mets []met) {
	for _, id := range ids {
		if !slices.ContainsFunc(mets, func(m met) bool { return m.entry.ID == id }) && s.book.done(id) {
			s.log.Warn("entry has left the store unfinished: nothing starts from it any more", "entry", id)
		}
	}
}

// publishFirst queues an entry that was undecided and never published.
func (s *shard) publishFirst(o *opened, m *met) {
	o.parked, o.first = false, false
	o.env = &queue.Envelope{Entry: m.entry, CheckedAt: checkedAt(m.verdict, m.checked)}
	s.book.queue(o)
}

// startCatchUp takes the next steps of catch-up entries: a few at a time, and none of a priority of which much waits already.
func (s *shard) startCatchUp(ctx context.Context, now time.Time) {
	s.nextCatchUp = now.Add(catchUpEvery)
	if now.Sub(s.starved) < catchUpEvery {
		return
	}
	most := max(catchUpRuns/max(s.d.Owned(), 1), 1)
	var ids, others []schema.EntryID
	for _, id := range s.catchUps {
		switch o, open := s.book.open[id]; {
		case !open:
		case len(ids) < most && !s.d.budget.crowded(s.lane, o.priority, now):
			ids = append(ids, id)
		default:
			others = append(others, id)
		}
	}
	if s.catchUps = others; len(ids) == 0 {
		return
	}
	s.catching = true
	var mets []met
	var done []schema.EntryID
	s.work(ctx, func(ctx context.Context) (err error) {
		if mets, err = s.meetIDs(ctx, ids); err != nil {
			mets = nil
			return err
		}
		var entries []schema.Entry
		for i := range mets {
			if mets[i].standing.Over {
				done = append(done, mets[i].entry.ID)
				continue
			}
			entries = append(entries, mets[i].entry)
		}
		k, err := s.d.writer.CatchUp(ctx, entries, most, s.d.now())
		for i := range entries[:k] {
			done = append(done, entries[i].ID)
		}
		return err
	}, func(_ time.Time, err error) {
		s.catching = false
		if err != nil {
			s.failed(ctx, "catch up", err)
		}
		if mets != nil {
			s.vanished(ids, mets)
		}
		for _, id := range done {
			s.book.done(id)
		}
		for _, id := range ids {
			if _, open := s.book.open[id]; open {
				s.catchUps = append(s.catchUps, id)
			}
		}
	})
}

// startMend has a few more jobs of the shard looked at, whether they go on.
func (s *shard) startMend(ctx context.Context) {
	s.mending = true
	after := s.mended
	s.work(ctx, func(ctx context.Context) (err error) {
		after, err = s.d.writer.Mend(ctx, s.id, after, mendPage, s.d.now())
		return err
	}, func(now time.Time, err error) {
		s.mending = false
		s.nextMend = now.Add(mendPace)
		if err != nil {
			s.failed(ctx, "mend", err)
			return
		}
		if s.mended = after; after.IsZero() {
			s.nextMend = now.Add(mendEvery)
		}
	})
}

package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// met is an entry that was read and looked at.
type met struct {
	entry    schema.Entry
	checked  time.Time // the start of the look
	standing schema.Standing
	session  schema.SessionRef // of the attempt under way, if there is one

	marks     schema.Marks     // of the run
	untouched bool             // nothing is known of the run but its row: nobody had it in hand
	begun     bool             // an executor had it in hand
	verdict   bucketer.Verdict // of its job
}

// meetIDs reads entries by id and looks at them. Those that have left the store are left out.
func (s *shard) meetIDs(ctx context.Context, ids []schema.EntryID) ([]met, error) {
	checked := s.d.now()
	entries, err := s.readIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	return s.look(ctx, entries, checked)
}

// readIDs reads entries by id, in the order of their ids.
func (s *shard) readIDs(ctx context.Context, ids []schema.EntryID) (entries []schema.Entry, err error) {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, schema.EntryID.Compare) // by partition
	ids = slices.Compact(ids)
	for len(ids) > 0 {
		p := ids[0].Partition()
		n := 1
		for n < len(ids) && n < 100 && ids[n].Partition() == p {
			n++
		}
		rows, err := s.d.store.EntriesByID(ctx, p, ids[:n])
		if err != nil {
			return nil, err
		}
		entries, ids = append(entries, rows...), ids[n:]
	}
	slices.SortFunc(entries, func(a, b schema.Entry) int { return a.ID.Compare(b.ID) })
	return entries, nil
}

// meetRange reads the entries of r and looks at those for which there is room. It gives up beyond limit of them, since the sweep will
// come to them anyway.
func (s *shard) meetRange(ctx context.Context, b schema.Bucket, r schema.IDRange, limit int, room *admission) ([]met, error) {
	var entries []schema.Entry
	checked := s.d.now()
	for len(entries) < limit {
		page, err := s.d.store.Entries(ctx, schema.Partition{Bucket: b, Shard: s.id}, r, scanPage)
		if err != nil {
			return nil, err
		}
		entries = append(entries, page...)
		if len(page) < scanPage {
			break
		}
		r.After = page[len(page)-1].ID
	}
	entries = slices.DeleteFunc(entries, func(e schema.Entry) bool { return e.Fault == nil && !room.admit(&e) })
	return s.look(ctx, entries, checked)
}

// look finds out where entries stand: the attempts and marks of their runs, who is alive, and what their jobs say, which go on before.
func (s *shard) look(ctx context.Context, entries []schema.Entry, checked time.Time) ([]met, error) {
	runs := make(map[schema.Partition][]schema.RunID)
	births := make(map[schema.Partition][]schema.RunID) // of later starts: their marks lie with the run
	for i := range entries {
		e := &entries[i]
		run := e.Run()
		runs[run.Partition()] = append(runs[run.Partition()], run)
		if run != e.ID {
			births[run.Partition()] = append(births[run.Partition()], run)
		}
	}
	attempts := make(map[schema.RunID][]schema.Attempt)
	for p, ids := range runs {
		some, err := s.d.writer.Attempts(ctx, p, ids)
		if err != nil {
			return nil, err
		}
		for run, a := range some {
			attempts[run] = a
		}
	}
	marks := make(map[schema.RunID]schema.Marks)
	for p, ids := range births {
		for len(ids) > 0 {
			n := min(len(ids), 100)
			rows, err := s.d.store.EntriesByID(ctx, p, ids[:n])
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				marks[row.ID] = row.Marks
			}
			ids = ids[n:]
		}
	}
	mets := make([]met, len(entries))
	for i := range entries {
		e := &entries[i]
		of := attempts[e.Run()]
		live, err := s.d.live.Of(ctx, of)
		if err != nil {
			return nil, err
		}
		m := e.Marks
		if e.Run() != e.ID {
			m = marks[e.Run()]
		}
		mets[i] = met{entry: *e, checked: checked, standing: schema.Judge(e, m, of, live), marks: m, untouched: len(of) == 0}
		for _, a := range of {
			if a.Record == nil && a.Session != nil && live(*a.Session) {
				mets[i].session = *a.Session
			}
			mets[i].begun = mets[i].begun || a.Number > 0
		}
	}
	return mets, s.planMet(ctx, mets)
}

// settleMet acts on entries that were looked at: done, under way, or to be published (again).
func (s *shard) settleMet(ctx context.Context, mets []met, now time.Time) {
	var repeat []bucketer.Finished
	var faulty []schema.Entry
	for i := range mets {
		m := &mets[i]
		id := m.entry.ID
		s.book.note(id)
		o, open := s.book.open[id]
		if open && (o.phase == waiting || o.phase == lined || o.phase == pacing || o.phase == publishing) {
			continue // on its way by now
		}
		if open && o.phase == published && !o.published.Before(m.checked) {
			continue // published while it was looked at
		}
		switch st := &m.standing; {
		case m.verdict == bucketer.Undecided:
			s.undecided(&m.entry, open && o.first, now)
			continue
		case m.verdict == bucketer.Dropped:
			s.book.done(id)
			continue
		case open && o.first && !m.begun && !st.Over:
			s.publishFirst(o, m)
			continue
		}
		if open && o.kind != schema.KindCatchUp {
			o.parked = false // it is decided: should what follows fail, a later look does it again
		}
		switch st := &m.standing; {
		case m.entry.Fault != nil && !st.Over:
			s.book.watch(&m.entry, now)
			faulty = append(faulty, m.entry)
		case st.Repeat != nil:
			s.book.watch(&m.entry, now)
			repeat = append(repeat, bucketer.Finished{Entry: m.entry, Attempt: *st.Repeat})
		case st.Over:
			s.book.done(id)
		case st.Live, st.Unnamed:
			s.book.watch(&m.entry, now)
			o := s.book.open[id]
			o.phase, o.looked, o.parked, o.session = watching, now, false, holderOf(&m.session)
		case m.entry.Due().After(now.Add(Lead)):
			// Its time has not come: the scan will meet it, or the look that comes with its time.
			s.book.watch(&m.entry, now)
			if o := s.book.open[id]; o.phase == watching {
				o.looked = m.entry.Due().Add(-Lead - lookAgain)
			}
		default:
			s.dispatchAgain(m, now)
		}
	}
	if len(faulty) > 0 {
		s.condemn(ctx, faulty, now)
	}
	if len(repeat) > 0 {
		s.repeat(ctx, repeat)
	}
}

// repeat repeats the follow-ups of records that came without a notice, and closes their entries.
func (s *shard) repeat(ctx context.Context, finished []bucketer.Finished) {
	var mu sync.Mutex
	var ok []schema.EntryID
	s.work(ctx, func(ctx context.Context) error {
		var errs error
		s.d.writer.FollowUp(ctx, finished, func(i int, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = errors.Join(errs, err)
				return
			}
			ok = append(ok, finished[i].Entry.ID)
		})
		return errs
	}, func(_ time.Time, err error) {
		if err != nil {
			s.failed(ctx, "follow up", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ok {
			s.book.done(id)
		}
	})
}

// settle picks the published entries without a notice that their stream no longer holds: they are lost, or done, or
// under way. Their rows will tell.
func (s *shard) settle(now time.Time) {
	for id, o := range s.book.open {
		switch {
		case o.parked, now.Sub(o.looked) < lookAgain:
		case !o.unsure(now):
			continue
		case o.phase == watching:
			s.lookNow = append(s.lookNow, id)
		default:
			front, ok := s.d.gauge.front(s.lane, o.priority, o.published, now)
			if ok && (front.Stream != o.receipt.Stream || front.Empty || front.Sequence > o.receipt.Sequence) {
				s.lookNow = append(s.lookNow, id)
			}
		}
		if len(s.lookNow) >= 10*lookBatch {
			return
		}
	}
}

// startLook looks at what was picked. An id may have been picked twice, as its session fell and as its next look came: once it is published again nothing
// more can be said of it for a while.
func (s *shard) startLook(ctx context.Context, now time.Time) {
	n := min(len(s.lookNow), lookBatch)
	ids := make([]schema.EntryID, 0, n)
	for _, id := range s.lookNow[:n] {
		if o, ok := s.book.open[id]; ok && o.unsure(now) {
			ids = append(ids, id)
		}
	}
	s.lookNow = s.lookNow[n:]
	if len(ids) == 0 {
		return
	}
	s.looking = true
	s.d.metrics.looked.Add(float64(len(ids)))
	var mets []met
	s.work(ctx, func(ctx context.Context) (err error) {
		mets, err = s.meetIDs(ctx, ids)
		return err
	}, func(now time.Time, err error) {
		s.looking = false
		for _, id := range ids {
			if o, ok := s.book.open[id]; ok {
				o.looked = now
			}
		}
		if err != nil {
			s.failed(ctx, "look", err)
			return
		}
		found := make(map[schema.EntryID]bool, len(mets))
		var open []met
		for i := range mets {
			id := mets[i].entry.ID
			found[id] = true
			if _, ok := s.book.open[id]; ok { // no notice came meanwhile
				open = append(open, mets[i])
			}
		}
		for _, id := range ids {
			if !found[id] && s.book.done(id) {
				s.log.Warn("entry has left the store unfinished: nothing starts from it any more", "entry", id)
			}
		}
		s.settleMet(ctx, open, now)
	})
}

// startHandOn puts watch entries in the place of what is still open long after its bucket's end, so that
// settled lags by minutes however long runs last.
func (s *shard) startHandOn(ctx context.Context, now time.Time) {
	if s.handing {
		return
	}
	// What its stream still holds is left to an executor: handed on, it would be passed over, and a backlog would only grow. But
	// its rows leave, and to hand it on keeps them (bucketer.Replace, which does so once in half a retention).
	aging := s.d.writer.Expiry(now, now).Sub(now) / 4
	var ids []schema.EntryID
	for id, o := range s.book.open {
		if len(ids) >= handOnBatch {
			break
		}
		switch {
		case o.phase == watching && !o.parked && now.After(id.Bucket().End().Add(handOnAfter)):
			ids = append(ids, id)
		case o.phase == published && now.Sub(id.Time()) > aging && now.Sub(o.looked) > lookAgain:
			o.looked = now
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	s.handing = true
	var handed, looks []schema.EntryID // looks are left to a look, which closes them or does what is to be done
	s.work(ctx, func(ctx context.Context) error {
		mets, err := s.meetIDs(ctx, ids)
		if err != nil {
			return err
		}
		var from, to []schema.Entry
		for i := range mets {
			m := &mets[i]
			if m.standing.Over || m.verdict > bucketer.Doubtful || !watchable(&m.entry) {
				looks = append(looks, m.entry.ID)
				continue
			}
			w, err := s.watchEntry(&m.entry, m.standing.Unnamed, now)
			if err != nil {
				return err
			}
			from, to = append(from, m.entry), append(to, w)
		}
		handed, err = s.d.writer.Replace(ctx, from, to)
		return err
	}, func(_ time.Time, err error) {
		s.handing = false
		for _, id := range looks {
			if o, ok := s.book.open[id]; ok && o.phase == published {
				s.lookNow = append(s.lookNow, id) // of others the next one is near
			}
		}
		for _, id := range handed {
			s.book.done(id)
		}
		s.d.metrics.handedOn.Add(float64(len(handed)))
		if err != nil {
			s.failed(ctx, "hand on", err)
		}
	})
}

// watchable reports whether a watch entry can take e's place. It starts e's run when nobody has: a catch-up entry is to start
// others, and of a row that cannot be understood nothing can be started.
func watchable(e *schema.Entry) bool { return e.Fault == nil && e.Spec.Kind != schema.KindCatchUp }

// watchEntry makes the watch entry that takes e's place, under an id that is a function of what it stands for and of its due time: the
// smallest multiple of watchStep after e that lies ahead. One that waits to be named may wait for as long as the run
// does, so its watch entries come at twice the distance each time.
func (s *shard) watchEntry(e *schema.Entry, unnamed bool, now time.Time) (schema.Entry, error) {
	due := e.Due()
	first, _ := e.First() // zero for a later attempt's
	if unnamed {
		due = first.Time()
		step := watchStep
		for !due.Add(step).After(now) {
			step *= 2
		}
		due = due.Add(step)
	} else {
		due = due.Add(now.Sub(due).Truncate(watchStep) + watchStep)
	}
	hash := schema.HashOf("watch", e.Run().String(), first.String(), strconv.FormatInt(due.UnixMilli(), 10))
	id := schema.MakeEntryID(due, e.ID.Shard(), hash)
	w, err := s.d.writer.LaterStart(e, schema.KindWatch, id, e.Spec.AttemptNumber(), due)
	if err != nil {
		return schema.Entry{}, fmt.Errorf("watch entry of %s: %w", e.Run(), err)
	}
	return w, nil
}

func (s *shard) label() string { return strconv.Itoa(int(s.id)) }

package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/queue"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// recurring is the shard's work for recurring jobs: entries whose job could not be planned on yet,
// catch-up entries whose time has come, and jobs that have lost their next run.
type recurring struct {
	*shard
	hints      []schema.Entry   // undecided ones that were only hinted: what they say is fresh
	toDecide   []schema.EntryID // of the others
	deciding   bool
	nextDecide time.Time

	catchUps    []schema.EntryID
	catching    bool
	nextCatchUp time.Time

	mended   schema.JobID // how far the jobs are looked through
	mending  bool
	nextMend time.Time
}

func (w *recurring) upkeep(ctx context.Context, now time.Time) {
	switch {
	case w.deciding:
	case len(w.hints) > 0:
		w.decideHints(ctx)
	case len(w.toDecide) > 0 && !now.Before(w.nextDecide):
		w.decide(ctx, now)
	}
	if len(w.catchUps) > 0 && !w.catching && !now.Before(w.nextCatchUp) {
		w.catchUp(ctx, now)
	}
	if !w.mending && !now.Before(w.nextMend) {
		w.mend(ctx)
	}
}

// undecided keeps an entry open of which PlanOn cannot say yet what becomes of it: it is asked
// again soon.
func (w *recurring) undecided(e *schema.Entry, neverPublished bool, now time.Time) {
	p := w.state.Watch(e, now)
	p.Phase, p.Parked, p.NeverPublished = shardstate.Watching, true, neverPublished
	w.toDecide = append(w.toDecide, p.ID)
}

// hinted keeps an entry open that was hinted, until its job was looked up.
func (w *recurring) hinted(e *schema.Entry, now time.Time) {
	p := w.state.Watch(e, now)
	p.Phase, p.Parked, p.NeverPublished = shardstate.Watching, true, true
	w.hints = append(w.hints, *e)
}

// decideNow has an undecided entry inspected at once.
func (w *recurring) decideNow(id schema.EntryID, now time.Time) {
	w.toDecide, w.nextDecide = append(w.toDecide, id), now
}

// decidable reports whether an entry is undecided.
func (w *recurring) decidable(id schema.EntryID) bool {
	p, ok := w.state.Pending(id)
	return ok && p.Parked && !p.Kind.Plans()
}

// decide inspects undecided entries again.
func (w *recurring) decide(ctx context.Context, now time.Time) {
	w.nextDecide = now.Add(decideEvery)
	n := min(len(w.toDecide), inspectBatch)
	ids := slices.DeleteFunc(slices.Clone(w.toDecide[:n]), func(id schema.EntryID) bool { return !w.decidable(id) })
	w.toDecide = w.toDecide[n:]
	if len(ids) == 0 {
		return
	}
	w.deciding = true
	var found []inspected
	w.work(ctx, func(ctx context.Context) (err error) {
		found, err = w.inspect.ids(ctx, ids)
		return err
	}, func(now time.Time, err error) {
		w.deciding = false
		if err != nil {
			w.failed(ctx, "plan on", err)
			w.toDecide = append(w.toDecide, ids...)
			return
		}
		w.settle.vanished(ids, found)
		w.settle.actOn(ctx, slices.DeleteFunc(found, func(m inspected) bool { return !w.decidable(m.entry.ID) }), now)
	})
}

// decideHints has the jobs of entries planned on that were hinted. Nothing can have been said about such
// a run before it was accepted: that is how fresh its row is, which is not read again.
func (w *recurring) decideHints(ctx context.Context) {
	n := min(len(w.hints), inspectBatch)
	entries := slices.Clone(w.hints[:n])
	if w.hints = w.hints[n:]; len(w.hints) == 0 {
		w.hints = nil
	}
	entries = slices.DeleteFunc(entries, func(e schema.Entry) bool { return !w.decidable(e.ID) })
	if len(entries) == 0 {
		return
	}
	w.deciding = true
	var verdicts []bucketer.Verdict
	w.work(ctx, func(ctx context.Context) (err error) {
		verdicts, err = w.inspect.planOn(ctx, entries)
		return err
	}, func(now time.Time, err error) {
		w.deciding = false
		if err != nil {
			w.failed(ctx, "plan on", err)
			for i := range entries {
				w.toDecide = append(w.toDecide, entries[i].ID)
			}
			return
		}
		var found []inspected
		for i := range entries {
			e := &entries[i]
			if !w.decidable(e.ID) {
				continue
			}
			found = append(found, inspected{
				entry: *e, checked: time.UnixMicro(e.Spec.Accepted).UTC(), verdict: verdicts[i], marks: e.Marks, untouched: true,
				standing: schema.Judge(e, e.Marks, nil, nobodyLives),
			})
		}
		w.settle.actOn(ctx, found, now)
	})
}

// nobodyLives is for runs without attempts.
func nobodyLives(schema.SessionRef) bool { return false }

// publishFirst has an entry published that was undecided and never published.
func (w *recurring) publishFirst(p *shardstate.Pending, m *inspected) {
	p.Parked, p.NeverPublished = false, false
	p.Env = &queue.Envelope{Entry: m.entry, CheckedAt: checkedAt(m.verdict, m.checked)}
	w.state.Hold(p)
}

// catchUp takes the next steps of a few catch-up entries, of priorities of which little waits.
func (w *recurring) catchUp(ctx context.Context, now time.Time) {
	w.nextCatchUp = now.Add(catchUpEvery)
	if now.Sub(w.publish.starved) < catchUpEvery {
		return
	}
	most := max(catchUpRuns/max(w.d.Owned(), 1), 1)
	var ids, others []schema.EntryID
	for _, id := range w.catchUps {
		switch p, open := w.state.Pending(id); {
		case !open:
		case len(ids) < most && !w.d.depth.Crowded(w.subject(p), now):
			ids = append(ids, id)
		default:
			others = append(others, id)
		}
	}
	if w.catchUps = others; len(ids) == 0 {
		return
	}
	w.catching = true
	var found []inspected
	var done []schema.EntryID
	w.work(ctx, func(ctx context.Context) (err error) {
		if found, err = w.inspect.ids(ctx, ids); err != nil {
			found = nil
			return err
		}
		var entries []schema.Entry
		for i := range found {
			if found[i].standing.Over {
				done = append(done, found[i].entry.ID)
				continue
			}
			entries = append(entries, found[i].entry)
		}
		k, err := w.d.writer.CatchUp(ctx, entries, most, w.d.now())
		for i := range entries[:k] {
			done = append(done, entries[i].ID)
		}
		return err
	}, func(_ time.Time, err error) {
		w.catching = false
		if err != nil {
			w.failed(ctx, "catch up", err)
		}
		if found != nil {
			w.settle.vanished(ids, found)
		}
		for _, id := range done {
			w.state.Done(id)
		}
		for _, id := range ids {
			if _, open := w.state.Pending(id); open {
				w.catchUps = append(w.catchUps, id)
			}
		}
	})
}

// mend has a few more jobs of the shard looked through for some without a next run.
func (w *recurring) mend(ctx context.Context) {
	w.mending = true
	after := w.mended
	w.work(ctx, func(ctx context.Context) (err error) {
		after, err = w.d.writer.Mend(ctx, w.id, after, mendPage, w.d.now())
		return err
	}, func(now time.Time, err error) {
		w.mending = false
		w.nextMend = now.Add(mendPace)
		if err != nil {
			w.failed(ctx, "mend", err)
			return
		}
		if w.mended = after; after.IsZero() {
			w.nextMend = now.Add(mendEvery)
		}
	})
}

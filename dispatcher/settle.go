package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// settler inspects published and watched entries of which no notice came, and acts on what it
// finds.
type settler struct {
	*shard
	next     []schema.EntryID // to be inspected as soon as possible
	busy     bool
	nextPick time.Time

	asking       bool // the sessions of watched attempts are being read
	nextSessions time.Time
}

// upkeep starts what is due: pick entries, replace long open ones, read sessions, inspect.
func (w *settler) upkeep(ctx context.Context, now time.Time) {
	if !now.Before(w.nextPick) {
		w.nextPick = now.Add(settleEvery)
		w.pick(now)
		w.replace.start(ctx, now)
		w.reportUnread()
	}
	if !w.asking && !now.Before(w.nextSessions) {
		w.nextSessions = now.Add(sessionsEvery)
		w.askSessions(ctx)
	}
	if len(w.next) > 0 && !w.busy {
		w.start(ctx, now)
	}
}

// isUnsure reports whether only its rows tell how an entry stands: it is watched, or no notice came
// for a while after it was published.
func isUnsure(p *shardstate.Pending, now time.Time) bool {
	return p.Phase == shardstate.Watching || p.Phase == shardstate.Published && now.Sub(p.PublishedAt) > settleAfter
}

// pick picks the entries to be inspected: watched ones, and published ones without a notice that
// their stream no longer holds, or whose pool has no executor any more.
func (w *settler) pick(now time.Time) {
	for p := range w.state.All() {
		switch {
		case p.Parked, now.Sub(p.Inspected) < inspectAgain:
		case !isUnsure(p, now):
			continue
		case p.Phase == shardstate.Watching:
			w.next = append(w.next, p.ID)
		case w.d.pools.Gone(p.Pool): // it is published for another; who comes back finds by the rows what it is
			w.next = append(w.next, p.ID)
		default:
			front, ok := w.d.fronts.get(w.subject(p), p.PublishedAt, now)
			if ok && (front.Stream != p.Receipt.Stream || front.Empty || front.Sequence > p.Receipt.Sequence) {
				w.next = append(w.next, p.ID)
			}
		}
		if len(w.next) >= 10*inspectBatch {
			return
		}
	}
}

// start inspects a batch of what was picked. An id may have been picked twice, when its session
// died and by its time: once it is published again nothing more can be said of it for a while.
func (w *settler) start(ctx context.Context, now time.Time) {
	n := min(len(w.next), inspectBatch)
	ids := make([]schema.EntryID, 0, n)
	for _, id := range w.next[:n] {
		if p, ok := w.state.Pending(id); ok && isUnsure(p, now) {
			ids = append(ids, id)
		}
	}
	w.next = w.next[n:]
	if len(ids) == 0 {
		return
	}
	w.busy = true
	w.d.metrics.inspected.Add(float64(len(ids)))
	var found []inspected
	w.work(ctx, func(ctx context.Context) (err error) {
		found, err = w.inspect.ids(ctx, ids)
		return err
	}, func(now time.Time, err error) {
		w.busy = false
		for _, id := range ids {
			if p, ok := w.state.Pending(id); ok {
				p.Inspected = now
			}
		}
		if err != nil {
			w.failed(ctx, "inspect", err)
			return
		}
		open := make([]inspected, 0, len(found))
		for i := range found {
			if _, ok := w.state.Pending(found[i].entry.ID); ok { // no notice came meanwhile
				open = append(open, found[i])
			}
		}
		w.vanished(ids, found)
		w.actOn(ctx, open, now)
	})
}

// vanished closes those of ids that were not found: they have left the store. found is in the order
// of ids.
func (w *settler) vanished(ids []schema.EntryID, found []inspected) {
	for _, id := range ids {
		_, ok := slices.BinarySearchFunc(found, id, func(m inspected, id schema.EntryID) int { return m.entry.ID.Compare(id) })
		if !ok && w.state.Done(id) {
			w.log.Warn("entry has left the store unfinished: nothing starts from it any more", "entry", id)
		}
	}
}

// unknown leaves out what was found since it was read.
func (w *settler) unknown(all []inspected) []inspected {
	return slices.DeleteFunc(all, func(m inspected) bool { return w.state.Has(m.entry.ID) })
}

// actOn does what follows from an inspection of entries.
func (w *settler) actOn(ctx context.Context, all []inspected, now time.Time) {
	var repeat []bucketer.Finished
	var unreadable []schema.Entry
	for i := range all {
		m := &all[i]
		e := &m.entry
		w.state.Note(e.ID, nil)
		p, open := w.state.Pending(e.ID)
		next := nextAction(m, p, now)
		if open && next >= closeEntry && !p.Kind.Plans() {
			p.Parked = false // it is decided; if what follows fails, a later inspection does it again
		}
		switch next {
		case leave:
		case askAgain:
			w.recurring.undecided(e, open && p.NeverPublished, now)
		case publishNew:
			w.recurring.publishFirst(p, m)
		case closeEntry:
			w.workflows.close(e)
		case condemn:
			w.state.Watch(e, now)
			unreadable = append(unreadable, *e)
		case repeatFollowUp:
			w.state.Watch(e, now)
			repeat = append(repeat, bucketer.Finished{Entry: *e, Attempt: *m.standing.Repeat})
		case watch:
			p := w.state.Watch(e, now)
			p.Phase, p.Inspected, p.Parked, p.Session = shardstate.Watching, now, false, shardstate.SessionOf(&m.session)
			if p.Workflow {
				w.workflows.due(p, m.marks.Cancelled != nil)
			}
		case watchUntilDue:
			if p := w.state.Watch(e, now); p.Phase == shardstate.Watching {
				p.Inspected = e.Due().Add(-depth.Lead - inspectAgain)
			}
		case publishAgain:
			w.publish.publishAgain(m, now)
		}
	}
	if len(unreadable) > 0 {
		w.condemn(ctx, unreadable, now)
	}
	if len(repeat) > 0 {
		w.repeat(ctx, repeat)
	}
}

// condemn records rows whose spec cannot be understood as missed: they are never dropped silently.
func (w *settler) condemn(ctx context.Context, unreadable []schema.Entry, now time.Time) {
	attempts := make([]schema.Attempt, len(unreadable))
	for i := range unreadable {
		w.log.Error("row cannot be understood", "entry", unreadable[i].ID, "err", unreadable[i].Fault)
		attempts[i] = w.d.writer.NotStarted(unreadable[i], schema.Record{Outcome: schema.Missed, Reason: "unreadable: " + unreadable[i].Fault.Error()}, now)
	}
	w.work(ctx, func(ctx context.Context) error { return w.d.writer.Record(ctx, attempts) },
		func(_ time.Time, err error) {
			if err != nil {
				w.failed(ctx, "condemn", err) // stays open: the next inspection tries again
				return
			}
			for i := range unreadable {
				w.workflows.close(&unreadable[i])
			}
		})
}

// repeat repeats the follow-ups of records that came without a notice, and closes their entries.
func (w *settler) repeat(ctx context.Context, finished []bucketer.Finished) {
	var mu sync.Mutex
	var ok []*schema.Entry
	w.work(ctx, func(ctx context.Context) error {
		var errs error
		w.d.writer.FollowUp(ctx, finished, func(i int, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = errors.Join(errs, err)
				return
			}
			ok = append(ok, &finished[i].Entry)
		})
		return errs
	}, func(_ time.Time, err error) {
		if err != nil {
			w.failed(ctx, "follow up", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, e := range ok {
			w.workflows.close(e)
		}
	})
}

// askSessions finds out whether the sessions of watched attempts live, and has the entries of dead
// ones inspected at once, not only by their time. It costs a read for each executor.
func (w *settler) askSessions(ctx context.Context) {
	of := w.state.Watched()
	if len(of) == 0 {
		return
	}
	w.asking = true
	var dead []schema.EntryID
	w.work(ctx, func(ctx context.Context) error {
		for s, ids := range of {
			ref := schema.SessionRef{Executor: s.Executor, ID: s.ID, Guarded: s.Guarded}
			lives, err := w.d.live.Of(ctx, []schema.Attempt{{Session: &ref}})
			if err != nil {
				return err
			}
			if !lives(ref) {
				dead = append(dead, ids...)
			}
		}
		return nil
	}, func(_ time.Time, err error) {
		w.asking = false
		if err != nil {
			w.failed(ctx, "sessions", err)
		}
		for _, id := range dead {
			if p, ok := w.state.Pending(id); ok && p.Phase == shardstate.Watching {
				p.Session = shardstate.Session{} // once
				w.next = append(w.next, id)
			}
		}
	})
}

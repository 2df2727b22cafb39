package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/depth"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// resumer reads again what was spilled, and the unread range of the scan: a page at a time.
type resumer struct {
	*shard
	busy       bool
	nextTry    time.Time // no flow is resumed before
	unreadNext bool      // the unread range is next, of the two
}

// readOn reads on where there is room by now: ahead, and either the unread range or spilled rows,
// in turns. It returns when to call it again; zero = nothing is to be read before the next scan.
func (w *resumer) readOn(ctx context.Context, now time.Time) (again time.Time) {
	if w.scan.ready(now) {
		w.scan.start(ctx, now)
	} else if w.scan.More && !w.scan.busy {
		again = later(now.Add(resumeEvery), w.scan.pauseUntil)
	}
	left := w.scan.Unread.Any()
	if !w.state.Flows.AnySpilled() && !left || w.busy {
		return again
	}
	sooner := func(at time.Time) time.Time {
		if again.IsZero() || at.Before(again) {
			return at
		}
		return again
	}
	if w.spillPause.After(now) {
		return sooner(w.spillPause)
	}
	var f *shardstate.Flow
	if w.state.Flows.AnySpilled() && !w.nextTry.After(now) {
		limit := [2]int{w.limit(shardstate.OnTime), w.limit(shardstate.Overdue)}
		front := [2]schema.EntryID{w.front(shardstate.OnTime), w.front(shardstate.Overdue)}
		if f = w.state.Flows.NextToResume(limit, front, now); f == nil {
			w.nextTry = now.Add(resumeEvery)
		}
	}
	switch {
	case left && (f == nil || w.unreadNext):
		w.unreadNext = false
		w.readUnread(ctx, now)
	case f != nil:
		w.unreadNext = true
		w.readSpilled(ctx, f, now)
	default:
		return sooner(w.nextTry)
	}
	return again
}

// front returns an id up to which all rows were found once: by the scan, or by the sweep.
func (w *resumer) front(side shardstate.Side) schema.EntryID {
	if side == shardstate.OnTime {
		return w.scan.Front(w.id)
	}
	return w.sweep.front()
}

// readSpilled reads a page from where the rows of f were spilled, for f and all other flows with
// room. With k flows whose rows lie between one another, and that are published at different
// speeds, a row may be read k times before it is published.
func (w *resumer) readSpilled(ctx context.Context, f *shardstate.Flow, now time.Time) {
	start, side := f.After(), f.Side
	bucket := start.Bucket()
	p := schema.Partition{Bucket: bucket, Shard: w.id}
	r := schema.IDRange{After: start}
	end := progress.Below(schema.FirstID(bucket.End(), w.id))
	if front := w.front(side); front.Bucket() == bucket {
		to := front.Time().Add(time.Millisecond)
		r.Before, end = schema.FirstID(to, w.id), progress.Below(schema.FirstID(to, w.id))
	}
	w.state.Flows.BeginPage(start, end)
	w.read(ctx, p, r, now, func(entries []schema.Entry, last schema.EntryID, rows int) {
		if !last.IsZero() {
			end = last
			w.state.Flows.CutPage(last)
		}
		room := w.state.Flows.Room(side, w.limit(side), now)
		scan := w.state.Flows.Room(shardstate.OnTime, 0, now) // what is the scan's to find
		var sure, doubtful []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil, side == shardstate.Overdue && scan.Spilled(e), !room.AdmitSpilled(e):
				continue
			case side == shardstate.Overdue, w.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
		}
		w.take(ctx, sure, doubtful, now, func(at time.Time) {
			w.countSpilled(rows-len(sure)-len(doubtful), at)
			w.state.Flows.EndPage(room, start, end, w.front(side), w.state.Has)
		})
	})
}

// readUnread reads a page of the unread range, as the scan would have done.
func (w *resumer) readUnread(ctx context.Context, now time.Time) {
	after, to := w.scan.Unread.After, w.scan.Unread.To
	bucket := after.Bucket()
	p := schema.Partition{Bucket: bucket, Shard: w.id}
	r := schema.IDRange{After: after}
	end := progress.Below(schema.FirstID(bucket.End(), w.id))
	if to.Before(bucket.End()) {
		r.Before, end = schema.FirstID(to, w.id), progress.Below(schema.FirstID(to, w.id))
	}
	w.read(ctx, p, r, now, func(entries []schema.Entry, last schema.EntryID, _ int) {
		if !last.IsZero() {
			end = last
		}
		room := w.state.Flows.Room(shardstate.OnTime, w.limit(shardstate.OnTime), now)
		var sure, doubtful, refused []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil:
				sure = append(sure, *e)
			case !room.Admit(e):
				refused = append(refused, *e)
			case w.inDoubt(e):
				doubtful = append(doubtful, *e)
			default:
				sure = append(sure, *e)
			}
		}
		w.take(ctx, sure, doubtful, now, func(at time.Time) {
			w.scan.spill(&page{refused: refused}, at)
			u := &w.scan.Unread
			if u.After = end; !u.Open(u.To) { // it may have grown meanwhile
				*u = progress.Unread{}
			}
		})
	})
}

// inDoubt reports whether the owner before us may have published a row that is on time.
func (w *resumer) inDoubt(e *schema.Entry) bool {
	return e.Due().Before(w.tookOver.Add(handover + depth.Lead + depth.LeadMost))
}

// read reads a page, and calls sort with the rows that are not known yet: nothing may be decided
// about the job of a known one. last is the last row of a full page, else zero; rows counts all of
// them.
func (w *resumer) read(ctx context.Context, p schema.Partition, r schema.IDRange, now time.Time, sort func(entries []schema.Entry, last schema.EntryID, rows int)) {
	w.busy = true
	var entries []schema.Entry
	w.work(ctx, func(ctx context.Context) (err error) {
		entries, err = w.d.store.Entries(ctx, p, r, scanPage)
		return err
	}, func(at time.Time, err error) {
		if err != nil {
			w.pageFailed(ctx, err, at)
			return
		}
		var last schema.EntryID
		rows := len(entries)
		if rows == scanPage {
			last = entries[rows-1].ID
		}
		sort(slices.DeleteFunc(entries, func(e schema.Entry) bool { return w.state.Has(e.ID) }), last, rows)
	})
}

// take takes in rows of a page that was read at checked: sure ones were not published, doubtful
// ones are inspected. Then it calls then. If it fails, the same page is read again.
func (w *resumer) take(ctx context.Context, sure, doubtful []schema.Entry, checked time.Time, then func(at time.Time)) {
	var verdicts []bucketer.Verdict
	var planErr error
	var found []inspected
	w.work(ctx, func(ctx context.Context) (err error) {
		verdicts, planErr = w.inspect.planOn(ctx, sure)
		found, err = w.inspect.entries(ctx, doubtful, checked)
		return err
	}, func(at time.Time, err error) {
		if planErr != nil { // one-off jobs do not wait for it
			w.scan.found(ctx, oneOff(sure), nil, time.Time{}, checked, at)
		}
		if err = errors.Join(err, planErr); err != nil {
			w.pageFailed(ctx, err, at)
			return
		}
		w.busy = false
		w.scan.found(ctx, sure, verdicts, time.Time{}, checked, at)
		w.settle.actOn(ctx, w.settle.unknown(found), at)
		then(at)
	})
}

// pageFailed has the same page read again after a pause.
func (w *resumer) pageFailed(ctx context.Context, err error, now time.Time) {
	w.busy = false
	w.state.Flows.AbortPage()
	w.failed(ctx, "resume", err)
	w.spillPause = later(w.spillPause, now.Add(retryPublish))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

package dispatcher

import (
	"context"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/dispatcher/progress"
	"carillon.dev/carillon/dispatcher/shardstate"
	"carillon.dev/carillon/schema"
)

// sweeper reads the ids behind their time, and inspects those that are not known: late rows, lost
// hints, and what a former owner left.
type sweeper struct {
	*shard
	to         time.Time      // everything due before it was swept, and may be forgotten …
	after      schema.EntryID // … and of the slice after it what lies up to here
	recentDone bool           // what was due just before the take-over was looked through
	busy       bool
	next       time.Time // no slice is swept before
}

// front returns an id up to which everything was swept.
func (w *sweeper) front() schema.EntryID {
	if front := progress.Below(schema.FirstID(w.to, w.id)); front.Compare(w.after) > 0 {
		return front
	}
	return w.after
}

// recent looks through what was due between floor and end, just before a take-over: it may have
// been on its way. It goes slice by slice and begins with the latest, which nobody has published
// since the owner before us died.
func (w *sweeper) recent(ctx context.Context, floor, end time.Time) {
	from := end.Add(-recentSlice)
	if from.Before(floor) {
		from = floor
	}
	var unknown []inspected
	// Read-ahead does not count: an executor looks at overdue entries anyway, however old they are.
	// What there is no room for comes with the sweep, 10 to 20 s later.
	room := w.state.Flows.Room(shardstate.Overdue, shardstate.MaxHeld, w.d.now()).IgnoreReadAhead()
	w.work(ctx, func(ctx context.Context) (err error) {
		for b := schema.BucketOf(from); b <= schema.BucketOf(end) && err == nil; b++ {
			r := schema.IDRange{After: progress.Below(schema.FirstID(from, w.id)), Before: schema.FirstID(end, w.id)}
			var part []inspected
			part, err = w.inspect.stretch(ctx, b, r, shardstate.MaxHeld, room)
			unknown = append(unknown, part...)
		}
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			w.failed(ctx, "take over", err)
			w.retry(ctx, func() { w.recent(ctx, floor, end) })
			return
		}
		w.settle.actOn(ctx, unknown, now)
		if from.After(floor) && w.state.Flows.Waiting(shardstate.Overdue) < shardstate.MaxHeld {
			w.recent(ctx, floor, from)
			return
		}
		w.recentDone = true
	})
}

// upkeep starts a page of the sweep if its time has come.
func (w *sweeper) upkeep(ctx context.Context, now time.Time) {
	if w.cursor.known && w.recentDone && !w.busy && !now.Before(w.next) {
		w.start(ctx, now)
	}
}

// start sweeps the next slice of due time whose grace has passed. After a take-over, far behind, it
// sweeps whole buckets.
func (w *sweeper) start(ctx context.Context, now time.Time) {
	bucket := schema.BucketOf(w.to)
	end := w.to.Truncate(sliceSpan).Add(sliceSpan)
	if ready := end.Add(bucketer.Grace); now.Before(ready) {
		w.next = ready
		return
	}
	if past := bucket.End(); past.Add(bucketer.Grace).Before(now) {
		end = past
	}
	if w.scan.Read.Before(end) || w.scan.Unread.Open(end) {
		w.next = now.Add(retryStep) // what is due before end must be found on time first, or be spilled
		return
	}
	if now.Before(w.spillPause) {
		w.next = w.spillPause
		return
	}
	w.busy = true
	r := schema.IDRange{After: w.after}
	if r.After.IsZero() {
		r.After = progress.Below(schema.FirstID(w.to, w.id))
	}
	if end.Before(bucket.End()) {
		r.Before = schema.FirstID(end, w.id)
	}
	var ids []schema.EntryID
	w.work(ctx, func(ctx context.Context) (err error) {
		ids, err = w.d.store.EntryIDs(ctx, schema.Partition{Bucket: bucket, Shard: w.id}, r, sweepPage)
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			w.pageFailed(ctx, err, now)
			return
		}
		var last schema.EntryID // where the next page starts; zero = the slice was read to its end
		if len(ids) == sweepPage {
			last = ids[len(ids)-1]
		}
		var part progress.Digest
		part.Add(ids)
		w.inspectUnknown(ctx, slices.DeleteFunc(ids, w.state.Has), part, end, last)
	})
}

// swept notes that the slice up to end is swept up to last, or to its end if last is zero.
func (w *sweeper) swept(part progress.Digest, end time.Time, last schema.EntryID) {
	w.busy = false
	bucket := schema.BucketOf(w.to)
	w.late.Swept(part, bucket, last.IsZero() && end.Equal(bucket.End()))
	w.after = last
	if last.IsZero() {
		w.to = end
		w.state.Swept(end)
	}
	w.d.metrics.sweeps.Inc()
}

// inspectUnknown inspects the ids of a page that are not known, as far as there is room for them.
func (w *sweeper) inspectUnknown(ctx context.Context, ids []schema.EntryID, part progress.Digest, end time.Time, last schema.EntryID) {
	if len(ids) == 0 {
		w.swept(part, end, last)
		return
	}
	var unknown []inspected
	var refused, spilled []schema.Entry
	room := w.state.Flows.Room(shardstate.Overdue, shardstate.MaxHeld, w.d.now())
	scan := w.state.Flows.Room(shardstate.OnTime, 0, w.d.now())
	w.work(ctx, func(ctx context.Context) error {
		checked := w.d.now()
		entries, err := w.inspect.read(ctx, ids)
		if err != nil {
			return err
		}
		var taken []schema.Entry
		for i := range entries {
			switch e := &entries[i]; {
			case e.Fault != nil:
				taken = append(taken, *e)
			case scan.Spilled(e):
				spilled = append(spilled, *e) // by the scan: its flow has it read again
			case room.Admit(e):
				taken = append(taken, *e)
			default:
				refused = append(refused, *e)
			}
		}
		unknown, err = w.inspect.entries(ctx, taken, checked)
		return err
	}, func(now time.Time, err error) {
		if err != nil {
			w.pageFailed(ctx, err, now)
			return
		}
		// What a hint brought meanwhile is on its way.
		w.settle.actOn(ctx, w.settle.unknown(unknown), now)
		w.spill(refused, shardstate.Overdue)
		w.spill(spilled, shardstate.OnTime) // again: a page under way may miss them, or has ended since
		w.countSpilled(len(ids)-len(unknown), now)
		w.swept(part, end, last)
	})
}

func (w *sweeper) spill(entries []schema.Entry, side shardstate.Side) {
	for i := range entries {
		if e := &entries[i]; !w.state.Has(e.ID) {
			w.state.Flows.Spill(w.state.Flows.Of(e, side), e.ID)
		}
	}
}

// pageFailed has the same page swept again after a pause.
func (w *sweeper) pageFailed(ctx context.Context, err error, now time.Time) {
	w.busy = false
	w.failed(ctx, "sweep", err)
	w.next = now.Add(retryStep)
}

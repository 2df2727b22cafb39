package concurrency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

const (
	// keptFor is how long a slot is kept for a woken run. As a rule the run takes it within a few
	// tenths of a second. If there is a backlog, another run may get the slot.
	keptFor = 10 * time.Second
	// wakePage bounds the runs that are looked at when there is room for some.
	wakePage = 100
	// marksPage bounds the limits that are looked after in one step.
	marksPage = 50
	// unmarkAfter is how long a limit is looked after that nothing waits for any more. It is longer
	// than any write is under way.
	unmarkAfter = time.Minute
)

// AddToWaitList notes that e waits for a limit. The caller then says so in an attempt 0 of e. If it
// crashes in between, e is still open, is found again, and waits in the same place.
func (l *WaitLists) AddToWaitList(ctx context.Context, key schema.LimitKey, e *schema.Entry) error {
	now := l.now()
	if l.core.NeedsKeeping(e, e.Due(), now) {
		if err := l.core.KeepRows(ctx, e.Run(), []schema.EntryID{e.ID}, now); err != nil {
			return err
		}
	}
	return l.store.PutWaiter(ctx, schema.Waiter{
		Limit: key, Shard: limitShard(key), Run: e.Run(), Entry: e.ID,
		Noted: now.UTC().Truncate(time.Microsecond), Expires: l.core.ExpiryOf(&e.Spec, bucketer.Latest(e.Run().Time(), e.Due()), now),
	})
}

// limitShard returns the shard whose owner looks after a limit.
func limitShard(key schema.LimitKey) schema.Shard {
	id, _ := key.Job()
	return id.Shard()
}

// WakeWaiters starts runs that wait for a limit, the one that was due first before the others, as
// far as there are slots. For each run it:
//
//  1. keeps a slot, so that no other run takes it
//  2. writes an entry, due now, that takes the place of the waiting one
//  3. takes the run out of the list
//
// It returns how many runs it found waiting, 0 if all were woken. live tells which holders of slots
// are dead. If we crash after 1, the slot is free again after keptFor. If we crash after 2, the
// next call finds the entry and does 3.
func (l *WaitLists) WakeWaiters(ctx context.Context, key schema.LimitKey, live *bucketer.Liveness) (waiting int, err error) {
	if serves(l.core.Regions(), limitShard(key)) != nil {
		return 0, nil // the region that serves it wakes them
	}
	found, _, err := l.wake(ctx, key, live)
	return found, err
}

// wake does what WakeWaiters does. It returns how many runs it found, and those of them that go on
// waiting, in their order.
func (l *WaitLists) wake(ctx context.Context, key schema.LimitKey, live *bucketer.Liveness) (found int, left []waiter, err error) {
	rows, err := l.firstWaiting(ctx, key)
	if err != nil || len(rows) == 0 {
		return 0, nil, err
	}
	c, job, err := l.concurrencyOf(ctx, key)
	if err != nil {
		return len(rows), nil, err
	}
	open, err := l.stillWaiting(ctx, rows, live)
	if err != nil || len(open) == 0 {
		return len(rows), nil, err
	}
	now := l.now()
	var turns, wants []waiter
	for _, w := range open {
		if c == nil || w.begun || !l.mayStart(job, &w, now) {
			turns = append(turns, w) // the entry that takes its place says so, without a slot
		} else {
			wants = append(wants, w)
		}
	}
	if len(wants) > 0 {
		given, err := l.keepSlots(ctx, key, wants, c.Limit, live)
		if err != nil {
			return len(rows), nil, err
		}
		if turns = append(turns, given...); len(given) == 0 && c.OnLimit == schema.OnLimitCancelOldest {
			// The executor that held the last of them back may have crashed before it cancelled any
			// run.
			if _, err := l.CancelOldest(ctx, key, &wants[len(wants)-1].entry, c.Limit); err != nil {
				return len(rows), nil, err
			}
		}
		left = slices.DeleteFunc(wants, func(w waiter) bool {
			return slices.ContainsFunc(given, func(g waiter) bool { return g.row.Run == w.row.Run })
		})
	}
	return len(rows), left, l.giveTurns(ctx, turns)
}

// mayStart reports whether the job lets a waiting run start at now. It must not be stricter than
// the executor that starts the run, which would make it wait again.
func (l *WaitLists) mayStart(job *schema.Job, w *waiter, now time.Time) bool {
	if w.next > 1 || w.preempted {
		return job.Current.State != schema.JobCancelled
	}
	e := &w.entry
	if right := job.DecideStart(e, now); right.Outcome != "" {
		return right.Unknown
	}
	_, missed := l.jobs.Misfired(job, e, now)
	return !missed
}

// concurrencyOf returns the limit as its job states it, nil if the job has none any more.
func (l *WaitLists) concurrencyOf(ctx context.Context, key schema.LimitKey) (*schema.Concurrency, *schema.Job, error) {
	id, ok := key.Job()
	if !ok {
		return nil, nil, fmt.Errorf("limit %s: of no job", key)
	}
	jobs, err := l.jobs.Jobs(ctx, []schema.JobID{id})
	if err != nil {
		return nil, nil, err
	}
	job := jobs[id]
	if job == nil {
		return nil, nil, nil // without its job there is no limit
	}
	if err := job.Current.Fault; err != nil {
		return nil, nil, fmt.Errorf("limit %s: %w", key, err)
	}
	return job.Current.Spec.Concurrency, job, nil
}

// waiter is a run that waits, and the entry that would have started it.
type waiter struct {
	row   schema.Waiter
	entry schema.Entry
	next  int // the number of the attempt that would start
	// preempted: it has started, and was stopped to let a critical run start.
	preempted bool
	// begun: a workflow run that one owner has begun and another one has put into the list. The
	// entry by which it began may be over; it needs another one.
	begun bool
	last  *schema.Record // of the attempt with the highest number; nil if there is none
}

// stillWaiting looks at waiting runs, takes those out of the list that have nothing to wait for any
// more, and returns the rest, in their order.
func (l *WaitLists) stillWaiting(ctx context.Context, rows []schema.Waiter, live *bucketer.Liveness) (open []waiter, err error) {
	var entries, runs []schema.EntryID
	for _, w := range rows {
		entries, runs = append(entries, w.Entry), append(runs, w.Run)
		if w.Run != w.Entry {
			entries = append(entries, w.Run) // its marks
		}
	}
	found, err := l.core.Stored(ctx, entries)
	if err != nil {
		return nil, err
	}
	attempts, err := l.core.AttemptsOf(ctx, runs)
	if err != nil {
		return nil, err
	}
	var done []schema.Waiter
	var lines []schema.JobRun
	for _, w := range rows {
		e, ok := found[w.Entry]
		st := schema.Standing{Over: true}
		switch {
		case !ok && l.absent.mayCome(w.Entry, l.regions, l.now()):
			continue // another region wrote it, and it comes after its place in the list
		case !ok:
			l.log.Error("a run that waits has left the store: it will never start", "limit", w.Limit, "run", w.Run, "entry", w.Entry)
		default:
			l.absent.forget(w.Entry)
			// An attempt 0 that says that the run waits does not end it.
			said := false
			of := slices.DeleteFunc(slices.Clone(attempts[w.Run]), func(a schema.Attempt) bool {
				waits := a.HeldByLimit() && a.Record.Entry == w.Entry
				said = said || waits
				e.Spec.MayHaveStarted = e.Spec.MayHaveStarted || waits && a.Record.Redispatched
				return waits
			})
			// Who held it back may not have said it yet, or have died.
			e.Spec.MayHaveStarted = e.Spec.MayHaveStarted || !said
			stands, err := live.Of(ctx, of)
			if err != nil {
				return nil, err
			}
			st = schema.Judge(&e, found[w.Run].Marks, of, stands)
		}
		switch {
		case st.Over, st.Unnamed:
			done = append(done, w)
			if mark := found[w.Run].Marks.Cancelled; ok && mark != nil {
				// The node that cancelled it may have crashed before it wrote the job's line of
				// history, and no other node looks at the run again.
				if line, of := l.runs.CancelLine(&e, *mark); of {
					lines = append(lines, line)
				}
			}
		case st.Live && e.Spec.Workflow == nil: // it got a slot after all, or an earlier attempt of it has one
		default:
			open = append(open, waiter{row: w, entry: e, next: st.Next, preempted: st.Preempted > 0, begun: st.Live, last: lastRecord(attempts[w.Run])})
		}
	}
	if err := l.core.PutHistory(ctx, lines); err != nil {
		return nil, err
	}
	return open, l.endWaiting(ctx, done)
}

// lastRecord returns the record of the attempt with the highest number, nil if it has none.
func lastRecord(attempts []schema.Attempt) (r *schema.Record) {
	last := 0
	for i := range attempts {
		if a := &attempts[i]; a.Number > last {
			last, r = a.Number, a.Record
		}
	}
	return r
}

func (l *WaitLists) endWaiting(ctx context.Context, rows []schema.Waiter) error {
	for _, w := range rows {
		if err := l.store.DeleteWaiter(ctx, w); err != nil {
			return err
		}
		l.fronts.ended(w)
		l.absent.forget(w.Entry)
	}
	return nil
}

// keepSlots keeps slots for the runs that want one, in their order, while there are any, and
// returns the runs that have one. A workflow run may have one already: the owner that took it for
// the run has not begun it, and may be dead.
func (l *WaitLists) keepSlots(ctx context.Context, key schema.LimitKey, wants []waiter, limit int, live *bucketer.Liveness) ([]waiter, error) {
	var given []waiter
	err := l.updateSlots(ctx, key, live, func(slots *schema.Slots, again bool) (changed, refused bool) {
		if !again {
			given = nil
		}
		until := l.now().Add(keptFor)
		for _, w := range wants {
			changed = l.regions && w.dropOwn(slots, l.now()) || changed
			kept := slots.Keep(w.row.Run, until, limit)
			changed = changed || kept
			has, _ := slots.Of(w.row.Run)
			known := slices.ContainsFunc(given, func(g waiter) bool { return g.row.Run == w.row.Run })
			if (kept || has.OfWorkflow()) && !known {
				given = append(given, w)
			}
		}
		return changed, len(given) < len(wants)
	})
	if err != nil { // the slots may be kept all the same: then the runs are woken after keptFor
		return nil, fmt.Errorf("keep slots of %s: %w", key, err)
	}
	return given, nil
}

// giveTurns writes entries that are due now in the place of those that waited, and takes these out
// of the list.
func (l *WaitLists) giveTurns(ctx context.Context, turns []waiter) error {
	if len(turns) == 0 {
		return nil
	}
	now := l.now()
	from, to := make([]schema.Entry, len(turns)), make([]schema.Entry, len(turns))
	for i := range turns {
		e := &turns[i].entry
		due := bucketer.Latest(now, e.Due().Add(time.Millisecond)) // see schema.Waiter.Written
		next, err := l.core.LaterStart(e, schema.KindFromWaitList, schema.MakeEntryID(due, e.ID.Shard(), schema.RandomHash()), e.Spec.AttemptNumber(), now)
		if err != nil {
			return err
		}
		from[i], to[i] = *e, next
	}
	handed, err := l.runs.Replace(ctx, from, to)
	var done []schema.Waiter
	for i := range turns {
		if slices.Contains(handed, turns[i].entry.ID) {
			done = append(done, turns[i].row)
		}
	}
	l.metrics.turns.Add(float64(len(done)))
	return errors.Join(err, l.endWaiting(ctx, done))
}

// WakeShard looks after a page of a shard's limits that something waits for, those after `after`.
// It does what WakeWaiters does, for slots of holders that crashed, and keeps the rows of runs that
// wait for long. It returns the limit after which to go on; "" means that there are no more.
func (l *WaitLists) WakeShard(ctx context.Context, shard schema.Shard, after schema.LimitKey, live *bucketer.Liveness) (next schema.LimitKey, err error) {
	if err := serves(l.core.Regions(), shard); err != nil {
		return after, err
	}
	marks, err := l.store.LimitsWithWaiters(ctx, shard, after, marksPage)
	if err != nil {
		return after, err
	}
	var faults []error
	for _, m := range marks {
		err := l.lookBehind(ctx, m.Limit)
		waiting := 0
		if err == nil {
			var left []waiter
			if waiting, left, err = l.wake(ctx, m.Limit, live); err == nil {
				l.noteHeld(m.Limit, left, waiting)
			}
		}
		err = errors.Join(err, l.keepWaiting(ctx, m.Limit))
		if err == nil && waiting == 0 && l.fronts.low(m.Limit) == 0 && l.now().Sub(m.Noted) > unmarkAfter {
			err = l.store.DeleteLimitMark(ctx, m)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("what waits for %s: %w", m.Limit, err))
		}
	}
	if len(marks) == marksPage {
		next = marks[len(marks)-1].Limit
	}
	return next, errors.Join(faults...)
}

// noteHeld tells which runs wait for a limit, of so many that were found.
func (l *WaitLists) noteHeld(key schema.LimitKey, left []waiter, found int) {
	if len(left) == 0 {
		l.core.Waits().Held(key, nil, 0, false, time.Time{})
		return
	}
	l.core.Waits().Held(key, &left[0].entry.Spec, len(left), found >= wakePage, left[0].row.Run.Time())
}

// CancelOldest cancels runs that have or want a slot of a limit, those that were due first, until
// no more are left than there are slots. It returns whether the run of e, which wants a slot, is
// itself to be cancelled: its caller does that.
func (l *WaitLists) CancelOldest(ctx context.Context, key schema.LimitKey, e *schema.Entry, limit int) (over bool, err error) {
	held, err := lease.Read(ctx, l.store, key.Lease())
	if err != nil {
		return false, err
	}
	slots, err := held.Slots()
	if err != nil {
		return false, err
	}
	rows, err := l.firstWaiting(ctx, key)
	if err != nil {
		return false, err
	}
	runs := []schema.RunID{e.Run()}
	for i := range slots.Taken {
		runs = append(runs, slots.Taken[i].Run)
	}
	for i := range rows {
		runs = append(runs, rows[i].Run)
	}
	slices.SortFunc(runs, schema.RunID.Compare)
	runs = slices.Compact(runs)
	for _, run := range runs[:max(len(runs)-limit, 0)] {
		if run == e.Run() {
			over = true
			continue
		}
		_, err := l.runs.Cancel(ctx, e.Spec.Tenant, run, bucketer.CancelledByLimit)
		if err != nil && !errors.Is(err, bucketer.ErrFinished) && !errors.Is(err, schema.ErrNotFound) {
			return false, fmt.Errorf("make room for %s: %w", e.Run(), err)
		}
	}
	return over, nil
}

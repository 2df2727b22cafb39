package concurrency

import (
	"context"
	"fmt"
	"slices"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
)

// Acquire gives a workflow run a slot of the limit of its workflow, if fewer than limit are held or
// one is kept for the run. It changes nothing if the run has one. After an error the run may have a
// slot.
func (l *WaitLists) Acquire(ctx context.Context, key schema.LimitKey, run schema.RunID, limit int, live *bucketer.Liveness) (has bool, err error) {
	err = l.updateSlots(ctx, key, live, func(s *schema.Slots, _ bool) (changed, refused bool) {
		was, there := s.Of(run)
		has = s.Acquire(run, "", schema.WorkflowSession, limit)
		return has && (!there || was.Kept()), !has
	})
	if err != nil {
		return false, fmt.Errorf("slot of %s: %w", key, err)
	}
	return has, nil
}

// Release takes the slot of a workflow run back, held or kept, and wakes the runs that wait for one.
// If it is not called, or fails, whoever finds no slot free sees that the run has ended.
func (l *WaitLists) Release(ctx context.Context, key schema.LimitKey, run schema.RunID, live *bucketer.Liveness) error {
	if err := l.updateSlots(ctx, key, live, func(s *schema.Slots, _ bool) (changed, refused bool) {
		return s.Release(run, schema.WorkflowSession) || s.Release(run, ""), false
	}); err != nil {
		return fmt.Errorf("give back a slot of %s: %w", key, err)
	}
	_, err := l.WakeWaiters(ctx, key, live)
	return err
}

// updateSlots changes who has the slots of a limit. change reports whether it did, and whether it
// found too few slots free: then it is called once more (again), without the slots of workflow runs
// that have ended.
func (l *WaitLists) updateSlots(ctx context.Context, key schema.LimitKey, live *bucketer.Liveness, change func(s *schema.Slots, again bool) (changed, refused bool)) error {
	_, err := lease.Update(ctx, l.store, key.Lease(), schema.Lease{}, func(was schema.Lease, _ bool) (is schema.Lease, expires time.Time, err error) {
		slots, err := was.Slots()
		if err != nil {
			return is, expires, err
		}
		stands, err := live.Of(ctx, slots.Sessions())
		if err != nil {
			return is, expires, err
		}
		now := l.now()
		slots.Prune(now, stands)
		changed, refused := change(&slots, false)
		if refused {
			dropped, err := l.dropEnded(ctx, &slots)
			if err != nil {
				return is, expires, err
			}
			if dropped {
				_, _ = change(&slots, true)
				changed = true
			}
		}
		if !changed {
			return is, expires, lease.ErrUnchanged
		}
		slots.Low = l.fronts.low(key)
		is, err = was.WithSlots(slots, now)
		return is, bucketer.SlotsExpire(&slots, now), err
	})
	return err
}

// dropEnded takes the slots of runs that have ended out of s, and reports whether there were any.
// Workflow runs that have left the store have ended, too. Runs of jobs give their slots back
// themselves, while the session stands that has them. But where there are regions, an executor
// whose region has lost the home meanwhile cannot, and its session stands.
func (l *WaitLists) dropEnded(ctx context.Context, s *schema.Slots) (dropped bool, err error) {
	var ids []schema.RunID
	now, left := l.now(), 0
	if l.regions {
		left = wakePage
	}
	for i := range s.Taken {
		t := &s.Taken[i]
		stays := left > 0 && !t.Kept() && !t.OfWorkflow() && now.Sub(t.Run.Time()) > keptFor
		if stays {
			left--
		}
		if stays || t.OfWorkflow() {
			ids = append(ids, t.Run)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	// In this order: a run that begins meanwhile is there, and has not ended.
	attempts, err := l.core.AttemptsOf(ctx, ids)
	if err != nil {
		return false, err
	}
	found, err := l.core.Stored(ctx, ids)
	if err != nil {
		return false, err
	}
	before := len(s.Taken)
	s.Taken = slices.DeleteFunc(slices.Clone(s.Taken), func(t schema.Slot) bool {
		row, there := found[t.Run]
		if !t.OfWorkflow() {
			return there && hasEnded(&t, row.Marks, attempts[t.Run], now)
		}
		return !there || schema.Fold(row.Marks, attempts[t.Run], noSession).Terminal()
	})
	return len(s.Taken) < before, nil
}

// dropOwn takes out of s the slot that a waiting run has itself: of an attempt that is over, whose
// executor could not give it back (see dropEnded).
func (w *waiter) dropOwn(s *schema.Slots, now time.Time) bool {
	t, has := s.Of(w.row.Run)
	if !has || t.Kept() || t.OfWorkflow() || w.last == nil || w.last.Executor != t.Executor || now.Sub(w.last.Finished) < keptFor {
		return false
	}
	return s.Release(t.Run, t.Session)
}

// hasEnded reports whether what an executor had a slot for is over by what it recorded: its run has
// ended, or goes on later.
func hasEnded(t *schema.Slot, marks schema.Marks, attempts []schema.Attempt, now time.Time) bool {
	last := 0
	for i := range attempts {
		last = max(last, attempts[i].Number)
	}
	ended := schema.Fold(marks, attempts, noSession).Terminal()
	return slices.ContainsFunc(attempts, func(a schema.Attempt) bool {
		r := a.Record
		return r != nil && r.Executor == t.Executor && a.Number > 0 && !r.Unstarted &&
			(ended || a.Number == last && r.Next.Time().After(now))
	})
}

// noSession is for workflow runs, which no session holds.
func noSession(schema.SessionRef) bool { return false }

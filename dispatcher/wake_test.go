package dispatcher

import (
	"context"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/schema"
)

// slots says who has the slots of a job.
func (r *rig) slots(job schema.JobID, s schema.Slots) {
	r.t.Helper()
	key := schema.JobLimit(job).Lease()
	is, err := schema.Lease{Key: key}.WithSlots(s, time.Now())
	if err == nil {
		_, err = r.inner.SwapLease(context.Background(), schema.Lease{Key: key}, is, time.Time{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// limited creates a job of which one run at a time may be under way.
func (r *rig) limited(b *engine.Engine) schema.Job {
	r.t.Helper()
	s := spec(time.Hour, nil)
	s.Concurrency = &schema.Concurrency{Limit: 1}
	return r.job(b, s)
}

// holdBack writes a run of the job that was due at that time, and waits for a slot.
func (r *rig) holdBack(b *engine.Engine, job schema.Job, due time.Time) schema.Entry {
	r.t.Helper()
	e := r.entry(due.Truncate(time.Millisecond), job.ID.Shard(), schema.Spec{Job: job.ID, Generation: job.Current.Number, Trigger: schema.TriggerManual})
	r.put(e)
	if err := b.AddToWaitList(context.Background(), schema.JobLimit(job.ID), &e); err != nil {
		r.t.Fatalf("HoldBack = %v", err)
	}
	r.ended(&e, 0, schema.Record{Outcome: schema.Replaced, Reason: "concurrency: a run of the job was under way"})
	return e
}

// TestWhoWaitsIsWokenOnceASlotIsFree: by whoever owns the shard, should the holder have died,
// within seconds; and a limit for which nothing waits any more is forgotten.
func TestWhoWaitsIsWokenOnceASlotIsFree(t *testing.T) {
	inBubble(t, 2, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(n.conn)
		job := r.limited(b)
		shard, key := job.ID.Shard(), schema.JobLimit(job.ID)
		die := r.live()
		holder := schema.MakeEntryID(time.Now(), shard, 1)
		var slots schema.Slots
		slots.Acquire(holder, executor, "s", 1)
		r.slots(job.ID, slots)

		var waiting []schema.Entry
		for i := range 2 {
			waiting = append(waiting, r.holdBack(b, job, time.Now().Add(time.Duration(i)*time.Millisecond-3*time.Minute)))
		}
		turns := func() []sight {
			var all []sight
			for _, s := range h.all() {
				if s.env.Entry.Spec.Kind == schema.KindFromWaitList {
					all = append(all, s)
				}
			}
			return all
		}
		marks := func() int {
			marks, err := r.inner.LimitsWithWaiters(t.Context(), shard, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(marks)
		}
		time.Sleep(30 * time.Second)
		if n := marks(); n != 1 {
			t.Errorf("%d limits are looked after, want 1", n)
		}
		if got := turns(); len(got) != 0 {
			t.Fatalf("published while the slot is taken: %s", describe(got))
		}
		for _, e := range waiting {
			if got := h.sights(e.ID); len(got) != 0 {
				t.Errorf("published although it waits: %s", describe(got))
			}
		}
		die()
		time.Sleep(10*time.Second + schema.SessionGrace + wakeEvery + 2*time.Second)
		got := turns()
		if len(got) != 1 || got[0].env.Entry.Run() != waiting[0].ID || got[0].env.Entry.Spec.AttemptNumber() != 1 {
			t.Fatalf("published %s, want the turn of the first that waits", describe(got))
		}
		// Nobody takes the slot that is kept: the hands start without.
		time.Sleep(10*time.Second + wakeEvery + 2*time.Second)
		if got = turns(); len(got) != 2 || got[1].env.Entry.Run() != waiting[1].ID {
			t.Fatalf("published %s, want the turns of both", describe(got))
		}
		time.Sleep(time.Minute)
		if n := marks(); n != 0 {
			t.Errorf("%d limits are looked after although nothing waits, want none", n)
		}
		if left, err := r.inner.Waiters(t.Context(), key, schema.IDRange{}, 10); err != nil || len(left) != 0 {
			t.Errorf("Waiting = %+v, %v; want none", left, err)
		}
	})
}

// TestAFailingLookAtLimitsIsRepeated: what the store could not tell is asked again, and one limit's
// trouble is not another's.
func TestAFailingLookAtLimitsIsRepeated(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, r *rig) {
		n := r.start("d1")
		h := r.hand(nil)
		time.Sleep(time.Second)
		b := r.writer(n.conn)
		job := r.limited(b)
		e := r.holdBack(b, job, time.Now().Add(-3*time.Minute))
		for _, op := range []string{"LimitsWithWaiters", "Waiters", "SwapLease", "DeleteWaiter"} {
			r.fail(op, true)
			time.Sleep(2 * wakeEvery)
			r.fail(op, false)
		}
		time.Sleep(2 * wakeEvery)
		turns := 0
		for _, s := range h.all() {
			if s.env.Entry.Spec.Kind == schema.KindFromWaitList && s.env.Entry.Run() == e.ID && !s.env.Redispatch {
				turns++
			}
		}
		if turns != 1 {
			t.Errorf("it was the run's turn %d times, want once", turns)
		}
		if left, err := r.inner.Waiters(t.Context(), schema.JobLimit(job.ID), schema.IDRange{}, 10); err != nil || len(left) != 0 {
			t.Errorf("Waiting = %+v, %v; want none", left, err)
		}
	})
}

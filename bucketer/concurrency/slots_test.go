package concurrency

import (
	"context"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/recurring"
	"carillon.dev/carillon/bucketer/runs"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/lease"
	"carillon.dev/carillon/schema/schematest"
)

// TestACancelIsCarriedOut: a run that waits for a slot was marked as cancelled, and whoever did
// that gave up, or crashed, before it was in its job's history.
func TestACancelIsCarriedOut(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel func(t *testing.T, w *world, e schema.Entry)
	}{
		{"its caller gave up", func(t *testing.T, w *world, e schema.Entry) {
			ctx, cancel := context.WithCancel(t.Context())
			w.Befall(func(_ context.Context, op string) schematest.Fault {
				if op == "PutJobRuns" {
					cancel()
				}
				return schematest.Fault{}
			})
			if _, err := w.Cancel(ctx, "t", e.ID, "me"); err != nil {
				t.Errorf("Cancel = %v", err)
			}
		}},
		{"its caller crashed", func(t *testing.T, w *world, e schema.Entry) {
			now := time.Now().UTC().Truncate(time.Millisecond)
			if _, err := w.Counts.CancelRun(t.Context(), e.ID, schema.EntryID{}, schema.Cancel{At: now, By: "me"}, now.Add(time.Hour)); err != nil {
				t.Fatalf("CancelRun = %v", err)
			}
			waiting, err := w.WakeWaiters(t.Context(), schema.JobLimit(e.Spec.Job), bucketer.NewLiveness(w.Store(), time.Now, nil))
			if err != nil || waiting != 1 {
				t.Errorf("Wake = %d, %v, want 1 that waited", waiting, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				spec := every(time.Hour)
				spec.Concurrency = &schema.Concurrency{Limit: 1, OnLimit: schema.OnLimitCancelOldest}
				job := w.job(spec)
				r, err := w.TriggerJob(t.Context(), "t", job.ID, nil, "", "")
				if err != nil {
					t.Fatal(err)
				}
				e, _ := w.Row(r.Run)
				if err := w.AddToWaitList(t.Context(), schema.JobLimit(job.ID), &e); err != nil {
					t.Fatal(err)
				}
				c.cancel(t, w, e)
				runs, _, err := w.JobRuns(context.WithoutCancel(t.Context()), "t", job.ID, recurring.JobRunFilter{To: e.Due().Add(time.Second)}, runs.Position{}, 10)
				if err != nil || len(runs) != 1 || runs[0].ID != r.Run || runs[0].State != schema.StateCancelled {
					t.Errorf("JobRuns = %+v, %v, want the run, cancelled", runs, err)
				}
			})
		})
	}
}

// A run that waits for a limit for longer than the retention vanished: its row left, then its place
// in the list.
func TestWhatWaitsForALimitOutlivesTheRetention(t *testing.T) {
	const retention = 7 * 24 * time.Hour
	retained(t, retention, func(t *testing.T, w *world) {
		ctx := t.Context()
		job := w.limited("j")
		key := schema.JobLimit(job.ID)
		busy := w.ask(job)
		w.Running(busy, 1)
		w.occupy(key, busy.ID)

		plain := w.ask(job)
		w.holdBack(plain)
		// One that has failed before, was moved before that, and waits for its second attempt by an
		// entry of its own.
		moved := w.ask(job)
		payload := []byte(`"` + strings.Repeat("p", schema.InlinePayload+1) + `"`)
		at := time.Now().Add(time.Minute)
		if _, err := w.Reschedule(ctx, "t", moved.ID, runs.Change{At: &at, Payload: &payload}); err != nil {
			t.Fatalf("Reschedule = %v", err)
		}
		run := w.wantRun(moved.ID, schema.StatePending, "moved")
		next := schema.MakeEntryID(at.Add(time.Minute), moved.ID.Shard(), 7)
		w.recordFor(run.Current, schema.Record{Outcome: schema.Failed, Error: "no", Next: next}, retention)
		retry, err := w.LaterStart(&run.Current, schema.KindRetry, next, 2, at)
		if err == nil {
			err = w.Counts.PutEntries(ctx, []schema.Entry{retry})
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(next.Time()))
		w.holdBack(retry)

		live := bucketer.NewLiveness(w.Counts, time.Now, nil)
		w.Counts.Reset()
		for range 4 * 20 {
			time.Sleep(6 * time.Hour)
			if _, err := w.WakeShard(ctx, plain.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeAll = %v", err)
			}
			when := "after " + time.Since(plain.Due()).String()
			if want := (toldWaits{key, "t", 2, false, plain.Due()}); w.told != want {
				t.Fatalf("%s: told was %+v, want %+v", when, w.told, want)
			}
			w.wantRun(plain.ID, schema.StatePending, when)
			got := w.wantRun(moved.ID, schema.StateRetrying, when)
			if schema.LimitHold(got.Attempts) == nil {
				t.Fatalf("%s: nothing says why the run waits: %+v", when, got.Attempts)
			}
			if text, err := w.Payload(ctx, got); err != nil || string(text) != string(payload) || got.Current.ID != run.Current.ID {
				t.Fatalf("%s: the run would start from %s with %d bytes, %v; want %s with its payload", when, got.Current.ID, len(text), err, run.Current.ID)
			}
		}
		// Twenty days are less than six times half of a retention, and each run is kept once in
		// that.
		if n := w.Counts.Tallies()["KeepAttempts"].Calls; n > 12 {
			t.Errorf("the rows of two runs were kept %d times in 20 days, want at most 12", n)
		}

		w.swapSlots(key, schema.Slots{})
		for range 2 {
			if _, err := w.WakeShard(ctx, plain.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeAll = %v", err)
			}
			w.swapSlots(key, schema.Slots{})
		}
		if w.told.limit != key || w.told.runs != 0 {
			t.Errorf("told was %+v, want that nothing waits", w.told)
		}
		turns := bucketertest.Kinds(w.Entries(time.Minute))[schema.KindFromWaitList]
		if left, err := w.Counts.Waiters(ctx, key, schema.IDRange{}, 10); turns != 2 || len(left) != 0 || err != nil {
			t.Errorf("the slot is free: %d turns, %d runs wait, %v; want both to have had their turn", turns, len(left), err)
		}
	})
}

// TestEachValueHasItsOwnLine: a run waits for the slot of its value alone, and what nobody waits
// for any more leaves nothing behind.
func TestEachValueHasItsOwnLine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		job := w.job(schema.JobSpec{Tenant: "t", Name: "j", Concurrency: &schema.Concurrency{Limit: 1, Key: "/customer"}, Work: work()})
		trigger := func(payload string) schema.Entry {
			r, err := w.TriggerJob(ctx, "t", job.ID, []byte(payload), "", "")
			if err != nil {
				t.Fatalf("TriggerJob = %v", err)
			}
			e, _ := w.Row(r.Run)
			return e
		}
		large := `{"customer":"b","pad":"` + strings.Repeat("p", schema.InlinePayload) + `"}`
		a, b, none := trigger(`{"customer":"a"}`), trigger(large), trigger(`{}`)
		busy := trigger(`{"customer":"a"}`)
		w.Running(busy, 1)
		w.occupy(busy.Spec.Limit(), busy.ID)
		for _, e := range []schema.Entry{a, b, none} {
			if err := w.AddToWaitList(ctx, e.Spec.Limit(), &e); err != nil {
				t.Fatal(err)
			}
		}
		live := bucketer.NewLiveness(w.Store(), time.Now, nil)
		if _, err := w.WakeShard(ctx, job.ID.Shard(), "", live); err != nil {
			t.Fatalf("WakeShard = %v", err)
		}
		if got := bucketertest.Kinds(w.Entries(time.Minute))[schema.KindFromWaitList]; got != 2 {
			t.Errorf("it is the turn of %d runs, want of the two whose values have a slot free", got)
		}
		for _, e := range w.Entries(time.Minute) {
			if run, _ := w.Row(e.Run()); e.Spec.Limit() != run.Spec.Limit() {
				t.Errorf("entry %s of run %s counts under %s, want %s as the run", e.ID, e.Run(), e.Spec.Limit(), run.Spec.Limit())
			}
		}
		w.swapSlots(busy.Spec.Limit(), schema.Slots{})
		for range 2 {
			time.Sleep(unmarkAfter + time.Second)
			if _, err := w.WakeShard(ctx, job.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeShard = %v", err)
			}
		}
		marks, err := w.Counts.LimitsWithWaiters(ctx, job.ID.Shard(), "", 10)
		if err != nil || len(marks) != 0 {
			t.Errorf("limits that are looked after = %v, %v; want none: nothing waits", marks, err)
		}
		for _, e := range []schema.Entry{a, b, none} {
			l, err := w.Counts.Lease(ctx, e.Spec.Limit().Lease())
			slots, fault := l.Slots()
			if err != nil || fault != nil || len(slots.Sessions()) != 0 || slots.Low != 0 {
				t.Errorf("the lease of %s = %+v, %v, %v; want no slot in it, so that it expires", e.Spec.Limit(), slots, err, fault)
			}
		}
	})
}

// Who holds a run back says in its attempt 0 whether the run may have been called before. Where it has
// not said it yet, the run may have been.
func TestTurnsSayWhetherTheAttemptMayHaveStarted(t *testing.T) {
	held := func(redispatched bool) func(w *world, e schema.Entry) {
		return func(w *world, e schema.Entry) {
			rec := schema.Record{Outcome: schema.Replaced, Reason: "concurrency", Redispatched: redispatched}
			if err := w.Record(context.Background(), []schema.Attempt{w.NotStarted(e, rec, time.Now())}); err != nil {
				w.T.Fatalf("Record = %v", err)
			}
		}
	}
	for name, c := range map[string]struct {
		say  func(w *world, e schema.Entry)
		want bool
	}{
		"it was not":        {held(false), false},
		"it may have been":  {held(true), true},
		"nothing says":      {func(*world, schema.Entry) {}, true},
		"two, one may have": {func(w *world, e schema.Entry) { held(true)(w, e); time.Sleep(time.Second); held(false)(w, e) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				job := w.limited("j")
				key := schema.JobLimit(job.ID)
				e := w.ask(job)
				if err := w.AddToWaitList(t.Context(), key, &e); err != nil {
					t.Fatal(err)
				}
				c.say(w, e)
				if _, err := w.WakeWaiters(t.Context(), key, bucketer.NewLiveness(w.Store(), time.Now, nil)); err != nil {
					t.Fatal(err)
				}
				var turns []schema.Entry
				for _, next := range w.Entries(time.Minute) {
					if next.Spec.Kind == schema.KindFromWaitList {
						turns = append(turns, next)
					}
				}
				if len(turns) != 1 || turns[0].Spec.MayHaveStarted != c.want {
					t.Errorf("turns = %+v, want one that may have started: %t", turns, c.want)
				}
			})
		})
	}
}

// holdBack has e wait for the limit of its job.
func (w *world) holdBack(e schema.Entry) {
	w.T.Helper()
	if err := w.AddToWaitList(context.Background(), schema.JobLimit(e.Spec.Job), &e); err != nil {
		w.T.Fatalf("HoldBack = %v", err)
	}
	held := w.NotStarted(e, schema.Record{Outcome: schema.Replaced, Reason: "concurrency"}, time.Now())
	if err := w.Record(context.Background(), []schema.Attempt{held}); err != nil {
		w.T.Fatalf("Record = %v", err)
	}
}

func (w *world) swapSlots(key schema.LimitKey, s schema.Slots) {
	w.T.Helper()
	was, err := lease.Read(context.Background(), w.store, key.Lease())
	if err != nil {
		w.T.Fatalf("lease = %v", err)
	}
	is, err := was.WithSlots(s, time.Now())
	is.Key = key.Lease()
	if err == nil {
		_, err = w.Counts.SwapLease(context.Background(), was, is, time.Time{})
	}
	if err != nil {
		w.T.Fatalf("SwapLease = %v", err)
	}
}

// TestWhatWasPreemptedMayStart: a run that was stopped to let a critical run start has begun. While
// it waits for a slot again, only a cancel of its job ends it, however late it is.
func TestWhatWasPreemptedMayStart(t *testing.T) {
	l, w := new(WaitLists), &waiter{next: 1, preempted: true}
	for state, want := range map[schema.JobState]bool{schema.JobActive: true, schema.JobPaused: true, schema.JobCancelled: false} {
		job := &schema.Job{Current: schema.Generation{State: state}}
		if got := l.mayStart(job, w, time.Now()); got != want {
			t.Errorf("of a job that is %s, it may start: %v, want %v", state, got, want)
		}
	}
}

// TestSlotsThatNobodyGivesBack: an executor whose region loses a home while it has a slot there
// cannot give it back, and its session stands. The slot is free once what it was for is over by the
// executor's own record. It was lost for as long as the executor lived.
func TestSlotsThatNobodyGivesBack(t *testing.T) {
	later := func() schema.EntryID { return schema.MakeEntryID(time.Now().Add(time.Hour), 0, 7) }
	for name, c := range map[string]struct {
		regions bool
		rec     func() schema.Record
		own     bool // the run that has the slot is the one that waits
		free    bool
	}{
		"its run has ended":         {true, func() schema.Record { return schema.Record{Outcome: schema.Succeeded, Executor: "x"} }, false, true},
		"its run goes on later":     {true, func() schema.Record { return schema.Record{Outcome: schema.Failed, Executor: "x", Next: later()} }, false, true},
		"its run waits for another": {true, func() schema.Record { return schema.Record{Outcome: schema.Failed, Executor: "x", Next: later()} }, true, true},
		"another made it end":       {true, func() schema.Record { return schema.Record{Outcome: schema.Succeeded, Executor: "y"} }, false, false},
		"there are no regions":      {false, func() schema.Record { return schema.Record{Outcome: schema.Succeeded, Executor: "x"} }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.regions = c.regions
				job := w.limited("j")
				key := schema.JobLimit(job.ID)
				busy := w.ask(job)
				other := w.ask(w.limited("other"))
				w.Running(other, 1) // under the session that has the slot
				w.occupy(key, busy.ID)
				waits := busy
				if !c.own {
					waits = w.ask(job)
				}
				rec, id := c.rec(), schema.MakeEntryID(time.Now().Add(time.Second), busy.ID.Shard(), 7)
				if c.own {
					rec.Next = id
				}
				w.recordFor(busy, rec, 24*time.Hour)
				if c.own { // its next attempt found no slot
					next, err := w.LaterStart(&busy, schema.KindRetry, id, 2, time.Now())
					if err == nil {
						err = w.Counts.PutEntries(t.Context(), []schema.Entry{next})
					}
					if err != nil {
						t.Fatal(err)
					}
					waits = next
				}
				w.holdBack(waits)
				time.Sleep(keptFor + time.Second)
				if _, err := w.WakeShard(t.Context(), waits.ID.Shard(), "", bucketer.NewLiveness(w.Counts, time.Now, nil)); err != nil {
					t.Fatal(err)
				}
				left, err := w.store.Waiters(t.Context(), key, schema.IDRange{}, 10)
				if err != nil || len(left) == 0 != c.free {
					t.Errorf("%d runs wait, %v; want that the slot is free: %t", len(left), err, c.free)
				}
			})
		})
	}
}

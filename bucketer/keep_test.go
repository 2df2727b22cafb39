package bucketer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
)

// bubble runs f in a synctest bubble, on a store whose rows stay for the retention.
func bubble(t *testing.T, retention time.Duration, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newWorld(t, schema.Settings{Shards: 1, Retention: retention}))
	})
}

// work is a call.
func work() *schema.Work { return &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/"}} }

// limited makes a job of which one run may be under way at once.
func (w *world) limited(name string) schema.Job {
	w.T.Helper()
	return w.job(schema.JobSpec{
		Tenant: "t", Name: name, Concurrency: &schema.Concurrency{Limit: 1},
		Work: work(),
	})
}

// ask asks for a run of the job by hand, and returns its row.
func (w *world) ask(job schema.Job) schema.Entry {
	w.T.Helper()
	r, err := w.TriggerJob(context.Background(), "t", job.ID, "", "")
	if err != nil {
		w.T.Fatalf("TriggerJob = %v", err)
	}
	row, _ := w.Row(r.Run)
	return row
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

// occupy takes the slot of a limit for a run that is under way.
func (w *world) occupy(key schema.LimitKey, run schema.RunID) {
	w.T.Helper()
	w.swapSlots(key, schema.Slots{Taken: []schema.Slot{{Run: run, Executor: "x", Session: "s1"}}})
}

func (w *world) swapSlots(key schema.LimitKey, s schema.Slots) {
	w.T.Helper()
	was, err := w.slotLease(context.Background(), key)
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

// wantRun checks that the run is there, in that state, and returns it.
func (w *world) wantRun(id schema.RunID, want schema.State, when string) Run {
	w.T.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil || run.State != want {
		w.T.Fatalf("%s: Run = %q, %v; want %q", when, run.State, err, want)
	}
	return run
}

// A run that waits for a limit for longer than the retention vanished: its row left, then its place in the list.
func TestWhatWaitsForALimitOutlivesTheRetention(t *testing.T) {
	const retention = 7 * 24 * time.Hour
	bubble(t, retention, func(t *testing.T, w *world) {
		ctx := t.Context()
		job := w.limited("j")
		key := schema.JobLimit(job.ID)
		busy := w.ask(job)
		w.Running(busy, 1)
		w.occupy(key, busy.ID)

		plain := w.ask(job)
		w.holdBack(plain)
		// One that has failed before, was moved before that, and waits for its second attempt by an entry of its own.
		moved := w.ask(job)
		payload := []byte(`"` + strings.Repeat("p", schema.InlinePayload+1) + `"`)
		at := time.Now().Add(time.Minute)
		if _, err := w.Reschedule(ctx, "t", moved.ID, Change{At: &at, Payload: &payload}); err != nil {
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

		live := NewLiveness(w.Counts, time.Now)
		w.Counts.Reset()
		for range 4 * 20 {
			time.Sleep(6 * time.Hour)
			if _, err := w.WakeShard(ctx, plain.ID.Shard(), "", live); err != nil {
				t.Fatalf("WakeAll = %v", err)
			}
			when := "after " + time.Since(plain.Due()).String()
			w.wantRun(plain.ID, schema.StatePending, when)
			got := w.wantRun(moved.ID, schema.StateRetrying, when)
			if schema.LimitHold(got.Attempts) == nil {
				t.Fatalf("%s: nothing says why the run waits: %+v", when, got.Attempts)
			}
			if text, err := w.Payload(ctx, got); err != nil || string(text) != string(payload) || got.Current.ID != run.Current.ID {
				t.Fatalf("%s: the run would start from %s with %d bytes, %v; want %s with its payload", when, got.Current.ID, len(text), err, run.Current.ID)
			}
		}
		// Twenty days are less than six times half of a retention, and each run is kept once in that.
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
		turns := bucketertest.Kinds(w.Entries(time.Minute))[schema.KindFromWaitList]
		if left, err := w.Counts.Waiters(ctx, key, schema.IDRange{}, 10); turns != 2 || len(left) != 0 || err != nil {
			t.Errorf("the slot is free: %d turns, %d runs wait, %v; want both to have had their turn", turns, len(left), err)
		}
	})
}

// recordFor stores attempt 1 of e with that record, to leave as an executor's would.
func (w *world) recordFor(e schema.Entry, rec schema.Record, retention time.Duration) {
	w.T.Helper()
	now := time.Now()
	rec.Entry, rec.Started, rec.Finished = e.ID, now.UTC(), now.UTC()
	a := schema.Attempt{Run: e.Run(), Number: 1, Fence: schema.MakeFence(now), Record: &rec, Written: now.UnixMicro(), Expires: now.Add(retention)}
	if err := w.Counts.PutAttempts(context.Background(), []schema.Attempt{a}); err != nil {
		w.T.Fatalf("record = %v", err)
	}
}

// A backlog under a rate is put off, ten minutes at a time, for weeks: nothing of its runs may leave, and the rows are not written again at each hop.
func TestWhatIsPutOffForWeeksOutlivesTheRetention(t *testing.T) {
	const retention = 7 * 24 * time.Hour
	bubble(t, retention, func(t *testing.T, w *world) {
		ctx := t.Context()
		payload := []byte(`"` + strings.Repeat("p", schema.InlinePayload+1) + `"`)
		id := w.submit(Job{Tenant: "t", Work: work(), Payload: payload})
		row, _ := w.Row(id)
		next := schema.MakeEntryID(time.Now().Add(time.Minute), id.Shard(), 7)
		w.recordFor(row, schema.Record{Outcome: schema.Failed, Error: "no", Next: next}, retention)
		e, err := w.LaterStart(&row, schema.KindRetry, next, 2, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Counts.PutEntries(ctx, []schema.Entry{e}); err != nil {
			t.Fatal(err)
		}
		w.Counts.Reset()
		for range 20 * 24 * 6 {
			time.Sleep(time.Until(e.Due()))
			to, err := w.Defer(&e, time.Now().Add(10*time.Minute), "", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if handed, err := w.Replace(ctx, []schema.Entry{e}, []schema.Entry{to}); err != nil || len(handed) != 1 {
				t.Fatalf("HandOn = %v, %v", handed, err)
			}
			e = to
			run := w.wantRun(id, schema.StateRetrying, "put off")
			if text, err := w.Payload(ctx, run); err != nil || string(text) != string(payload) {
				t.Fatalf("after %v: payload of %d bytes, %v", time.Since(id.Time()), len(text), err)
			}
		}
		if n := w.Counts.Tallies()["KeepAttempts"].Calls; n > 6 {
			t.Errorf("the rows were kept %d times in 20 days, want at most 6", n)
		}
	})
}

// The retry of a run may come a day later, where rows stay for an hour: until then the run is there, and what cancels it stays.
func TestARetryIsDueAfterTheRetention(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		bubble(t, time.Hour, func(t *testing.T, w *world) {
			ctx := t.Context()
			id := w.submit(Job{Tenant: "t", Work: work()})
			row, _ := w.Row(id)
			next := schema.MakeEntryID(time.Now().Add(24*time.Hour), id.Shard(), 7)
			w.recordFor(row, schema.Record{Outcome: schema.Failed, Error: "no", Next: next}, time.Hour)
			attempts, err := w.Counts.Attempts(ctx, id.Partition(), []schema.RunID{id})
			if err != nil || len(attempts) != 1 {
				t.Fatal(len(attempts), err)
			}
			w.FollowUp(ctx, []Finished{{row, attempts[0]}}, func(_ int, err error) {
				if err != nil {
					t.Errorf("FollowUp = %v", err)
				}
			})
			want := schema.StateRetrying
			if cancelled {
				if _, err := w.Cancel(ctx, "t", id, "me"); err != nil {
					t.Fatalf("Cancel = %v", err)
				}
				want = schema.StateCancelled
			}
			for range 24 {
				time.Sleep(time.Hour)
				w.wantRun(id, want, "after "+time.Since(id.Time()).String())
			}
			if e, ok := w.Row(next); !ok || e.Spec.AttemptNumber() != 2 {
				t.Errorf("row of the retry = %+v, %v", e, ok)
			}
		})
	}
}

// A run that was moved, and whose start is then put off for weeks, starts from where it was moved to: the mark lives as long as the row.
func TestAMovedRunIsPutOffForWeeks(t *testing.T) {
	bubble(t, 7*24*time.Hour, func(t *testing.T, w *world) {
		ctx := t.Context()
		for _, by := range []time.Duration{time.Hour, 40 * 24 * time.Hour, -20 * 24 * time.Hour} { // later, much later, earlier
			first := time.Now().Add(21 * 24 * time.Hour)
			id := w.submit(Job{Tenant: "t", Work: work(), At: first})
			at := first.Add(by)
			if _, err := w.Reschedule(ctx, "t", id, Change{At: &at}); err != nil {
				t.Fatalf("Reschedule = %v", err)
			}
			moved := w.wantRun(id, schema.StatePending, "moved").Current
			e := moved
			for range 50 {
				time.Sleep(time.Until(e.Due()))
				to, err := w.Defer(&e, e.Due().Add(24*time.Hour), "", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.Replace(ctx, []schema.Entry{e}, []schema.Entry{to}); err != nil {
					t.Fatalf("HandOn = %v", err)
				}
				e = to
				run := w.wantRun(id, schema.StatePending, "put off")
				if run.Current.ID != moved.ID {
					t.Fatalf("moved by %v, %v after its due time: the run would start from %s, want %s", by, time.Since(at), run.Current.ID, moved.ID)
				}
			}
		}
	})
}

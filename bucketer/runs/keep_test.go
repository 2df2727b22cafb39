package runs

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// bubble runs f in a synctest bubble, on a store whose rows stay for the retention.
func bubble(t *testing.T, retention time.Duration, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newWorld(t, schema.Settings{Shards: 1, Retention: retention}))
	})
}

// retained runs f where rows stay for a retention, which is the cluster's, and then that of the
// tenant t in a cluster that keeps rows for much longer.
func retained(t *testing.T, retention time.Duration, f func(t *testing.T, w *world)) {
	t.Helper()
	t.Run("the cluster's", func(t *testing.T) { bubble(t, retention, f) })
	t.Run("the tenant's", func(t *testing.T) {
		bubble(t, 10*retention, func(t *testing.T, w *world) {
			w.Retain("t", int(retention/(24*time.Hour)), w)
			f(t, w)
		})
	})
}

// work is a call.
func work() *schema.Work { return &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://sink/"}} }

// wantRun checks that the run is there, in that state, and returns it.
func (w *world) wantRun(id schema.RunID, want schema.State, when string) Run {
	w.T.Helper()
	run, err := w.Run(context.Background(), "t", id)
	if err != nil || run.State != want {
		w.T.Fatalf("%s: Run = %q, %v; want %q", when, run.State, err, want)
	}
	return run
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

// A backlog under a rate is put off, ten minutes at a time, for weeks: nothing of its runs may
// leave, and the rows are not written again at each hop.
func TestWhatIsPutOffForWeeksOutlivesTheRetention(t *testing.T) {
	const retention = 7 * 24 * time.Hour
	bubble(t, retention, func(t *testing.T, w *world) {
		ctx := t.Context()
		payload := []byte(`"` + strings.Repeat("p", schema.InlinePayload+1) + `"`)
		id := w.submit(bucketer.Job{Tenant: "t", Work: work(), Payload: payload})
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
			if replaced, err := w.Replace(ctx, []schema.Entry{e}, []schema.Entry{to}); err != nil || len(replaced) != 1 {
				t.Fatalf("Replace = %v, %v", replaced, err)
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

// The retry of a run may come a day later, where rows stay for an hour: until then the run is
// there, and what cancels it stays.
func TestARetryIsDueAfterTheRetention(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		bubble(t, time.Hour, func(t *testing.T, w *world) {
			ctx := t.Context()
			id := w.submit(bucketer.Job{Tenant: "t", Work: work()})
			row, _ := w.Row(id)
			next := schema.MakeEntryID(time.Now().Add(24*time.Hour), id.Shard(), 7)
			w.recordFor(row, schema.Record{Outcome: schema.Failed, Error: "no", Next: next}, time.Hour)
			attempts, err := w.Counts.Attempts(ctx, id.Partition(), []schema.RunID{id})
			if err != nil || len(attempts) != 1 {
				t.Fatal(len(attempts), err)
			}
			w.FollowUp(ctx, []bucketer.Finished{{Entry: row, Attempt: attempts[0]}}, func(_ int, err error) {
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

// A run that was moved, and whose start is then put off for weeks, starts from where it was moved
// to: the mark lives as long as the row.
func TestAMovedRunIsPutOffForWeeks(t *testing.T) {
	retained(t, 7*24*time.Hour, func(t *testing.T, w *world) {
		ctx := t.Context()
		for _, by := range []time.Duration{time.Hour, 40 * 24 * time.Hour, -20 * 24 * time.Hour} {
			// later, much later, earlier
			first := time.Now().Add(21 * 24 * time.Hour)
			id := w.submit(bucketer.Job{Tenant: "t", Work: work(), At: first})
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
					t.Fatalf("Replace = %v", err)
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
